"""What a pass over rows would observe, computed by SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from dedp_assets.patterns.delta.staging.metrics import OTHERS


class _CountIf:
    """Spark's count_if."""

    def __init__(self):
        self.count = 0

    def step(self, value):
        self.count += bool(value)

    def finalize(self):
        return self.count


def observed(accounting, rows, digests=None):
    """The numbers that ``accounting`` asks for, of rows that have all the columns; digests are given by their SQL."""
    columns = list(rows[0]) if rows else ["__dedp_outcome", "day", "id", "amount"]
    digests, measures = digests or {}, {**accounting.measures(), **accounting.asked()}
    asked = set(measures.values()) - digests.keys()
    with closing(sqlite3.connect(":memory:")) as database:
        database.create_aggregate("count_if", 1, _CountIf)
        database.create_function("if", 3, lambda condition, then, otherwise: then if condition else otherwise)
        database.execute(f"CREATE TABLE t ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        database.executemany(f"INSERT INTO t VALUES ({marks})", [[row[c] for c in columns] for row in rows])
        # SQLite asks an aggregate of no rows for nothing.
        measured = {sql: database.execute(f"SELECT {sql} FROM t").fetchone()[0] or 0 for sql in asked}
    return {**{name: {**measured, **digests}[sql] for name, sql in measures.items()}, OTHERS: 0}
