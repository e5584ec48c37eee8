"""Reading a database table by several connections against reading it by one.

Ours: ``OperationalDatabase.rows`` with two and with four connections, which share the table by ``ingestion_time``.
Theirs: Spark's JDBC reader as it is, which opens one.

Fair, because both read all columns of the same rows of the same PostgreSQL in one warm session, with the same options
otherwise, and do the same with them: one order-free digest over every column, which must be equal in every round. The
database works on the same two cores as Spark, and its CPU is shown beside: on a machine of its own it would gain more.

``OperationalDatabase.rows`` fetches 10,000 rows at a time; the plain reader holds all rows of its connection in memory
before the first one is used. For orientation, a line shows two connections of either kind.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from benchmarks import database
from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.rows import digest, row_hash

__all__ = ["run"]

_SOURCE = "public.visits"
_COLUMNS = ("visit_id", "event_time", "user_id", "page", "ingestion_time")
_DAYS = 10


def run(*, quick: bool) -> list[Row]:
    """Measure two and four connections."""
    count, session = 1_000 if quick else 1_000_000, SparkEngine().session
    answers: dict[int, set[tuple[Any, ...]]] = {}

    def aggregated(number: int, rows: DataFrame) -> dict[str, float]:
        found = rows.selectExpr("count(1)", digest(row_hash(fields_of(rows, _COLUMNS)))).first()
        assert found is not None
        answers.setdefault(number, set()).add(tuple(found))
        return {"rows read": found[0]}

    with database.running() as operational:
        with operational.connect(autocommit=True) as connection:
            for day in range(_DAYS):
                database.land_visits(connection, day=day, first=day * count // _DAYS, count=count // _DAYS)

        def shared(connections: int, number: int) -> dict[str, float]:
            shares: dict[str, Any] = {"column": "ingestion_time", "window": database.days(0, _DAYS)}
            with operational.rows(session, _SOURCE, **shares, connections=connections) as rows:
                return aggregated(number, rows)

        def at_once(number: int) -> dict[str, float]:
            lower, upper = (f"{bound:%Y-%m-%d %H:%M:%S}" for bound in database.days(0, _DAYS))
            options: dict[str, Any] = {"partitionColumn": "ingestion_time", "lowerBound": lower, "upperBound": upper}
            reader = session.read.format("jdbc").options(**operational.jdbc(), dbtable=_SOURCE, **options)
            return aggregated(number, reader.options(numPartitions=2).load())

        def single(number: int) -> dict[str, float]:
            return aggregated(number, session.read.format("jdbc").options(**operational.jdbc(), dbtable=_SOURCE).load())

        sides = interleave(
            {
                "two connections": lambda number: database.with_server(lambda: shared(2, number)),
                "four connections": lambda number: database.with_server(lambda: shared(4, number)),
                "two connections, all at once": lambda number: database.with_server(lambda: at_once(number)),
                "one connection": lambda number: database.with_server(lambda: single(number)),
            },
            rounds=5,
            warm_up=2,
            counters=Counters(session),
        )
    assert all(len(found) == 1 for found in answers.values()), answers
    assert {found[0] for answer in answers.values() for found in answer} == {count}
    two, four, whole, one = sides
    pairs = ((two, one), (four, one), (two, whole))
    return [compare(f"{count:,} rows, {ours.name} against {theirs.name}", ours, theirs) for ours, theirs in pairs]
