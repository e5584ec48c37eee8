"""Reading a compacted table against reading the same table in many small files; and what compacting costs.

Ours: the table after ``compact``. Theirs: the table as many small writes leave it.

Fair, because both are the same rows in the same partitions, one a copy of the other before it was compacted, read by
``Table.read`` in one warm session, with an order-free digest over every column that must be equal in every round: no
statistics of the log can answer it, every byte is read. The small files come from one write with as many tasks, so the
log of both is short: that of many writes would be longer.

For orientation, a line shows ``compact`` (which lets Delta rewrite the files beside the table, compares the rows, and
swaps them in under the table's lock) against Delta's bare ``OPTIMIZE``, each on a fresh copy in every round.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.measure import Counters, Row, Side, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.ingestion.compactor import compact

__all__ = ["run"]

_SPEC = TableSpec(
    "silver/visits",
    {
        "visit_id": Column("STRING", required=True),
        "event_time": Column("TIMESTAMP", required=True),
        "user_id": Column("STRING", required=True, classification="personal"),
        "page": Column("STRING", required=True),
        "bytes": Column("BIGINT"),
        "event_date": Column("DATE", required=True),
    },
    partition_by=("event_date",),
)


def run(*, quick: bool) -> list[Row]:
    """Measure both: first the compaction, then reading what it left."""
    session, home = SparkEngine().session, settings().home
    rows, days, files_a_day = (240, 2, 12) if quick else (1_000_000, 10, 200)
    small = _scattered(session, home / "small", rows, days, files_a_day)
    case = f"{rows:,} rows, {days * files_a_day:,} files in {days} partitions"
    compactions = _compactions(small, rounds=2)
    large = Table(_SPEC, home / "compact-0", session)
    reads = interleave(
        {"compacted": lambda _: _read(large, rows), "in small files": lambda _: _read(small, rows)},
        rounds=5,
        warm_up=2,
        counters=Counters(session),
    )
    saved = {what: reads[1].middle(what) - reads[0].middle(what) for what in ("cpu", "wall")}
    paid = [f"{compactions[0].middle(what) / saved[what]:.1f} ({what})" for what in saved if saved[what] > 0]
    why = f"what it costs is saved after so many reads: {', '.join(paid) or 'never'}"
    return [compare(f"read {case}", *reads), compare(f"compact {case}", *compactions, why=why)]


def _compactions(small: Table, *, rounds: int) -> list[Side]:
    session, home = small.session, settings().home

    def prepare(number: int) -> None:
        for name in ("compact", "optimise"):
            shutil.copytree(small.location, home / f"{name}-{number}")

    def ours(number: int) -> dict[str, float]:
        table = Table(_SPEC, home / f"compact-{number}", session)
        assert compact(table.target(Provenance(asset=table.name, run_id="benchmark"))).applied
        return _active(table)

    def theirs(number: int) -> dict[str, float]:
        table = Table(_SPEC, home / f"optimise-{number}", session)
        session.sql(f"OPTIMIZE delta.`{table.location}`").collect()
        return _active(table)

    counters = Counters(session)
    found = interleave({"compact": ours, "OPTIMIZE": theirs}, rounds=rounds, before=prepare, counters=counters)
    assert found[0].counters()["files"] == found[1].counters()["files"] < len(small.ledger.state().files())
    return found


def _scattered(session: SparkSession, location: Path, rows: int, days: int, files_a_day: int) -> Table:
    """A table whose every task wrote a file into every partition."""
    table = Table(_SPEC, location, session)
    table.ensure()
    made = session.range(0, rows, 1, files_a_day).selectExpr(
        "concat(id, '-', id % 7) AS visit_id",
        "timestamp_millis(1767571200000 + id * 86) AS event_time",
        "concat('u', xxhash64(id) % 5000) AS user_id",
        "concat('/posts/', id % 40) AS page",
        "id % 60000 AS bytes",
        f"date_add(DATE '{data.day(0)}', CAST(id % {days} AS INT)) AS event_date",
    )
    made.write.format("delta").mode("append").save(str(location))
    assert len(table.ledger.state().files()) == days * files_a_day
    return table


def _read(table: Table, count: int) -> dict[str, float]:
    rows = table.read()
    found = rows.selectExpr("count(1)", digest(row_hash(rows.schema))).first()
    assert found is not None
    assert found[0] == count
    assert _ANSWERS.setdefault(count, found[1]) == found[1]
    return _active(table)


_ANSWERS: dict[int, str] = {}


def _active(table: Table) -> dict[str, float]:
    """Files and bytes that a full scan reads."""
    found = table.ledger.state().statistics().values()
    return {"files": sum(part.files for part in found), "MB": sum(part.bytes for part in found) / 1e6}
