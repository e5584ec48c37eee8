"""A replay of one letter in a hundred against rebuilding its partition.

Ours: ``replay_letters`` over the open letters of a date, of which the new code saves each. Theirs: the run of the date,
``divert_unprocessable`` and ``deduplicate`` over every line of it and ``route`` into the same two tables.

Fair, because both go on from the same two tables, copied anew before each round, judge by the same rules in the same
session, and leave the same rows: that is asserted. The rows parsed are those of lines and letters; the replay reads
the keys of the partition beside them, and its marks.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.case_study.defs.silver.visits import DEAD_LETTER, RECORDS, RULES, VISITS
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.dead_letter import route
from dedp_assets.patterns.error_management.dead_letter_replay import open_letters, replay_letters
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate

__all__ = ["run"]

_DATE = "2026-01-05"
_DAY, _FILED = {"event_date": _DATE}, {"filed_under": _DATE}
_WRONG = {**RULES, "one in a hundred": "substring_index(visit_id, '-', 1) % 100 <> 0"}
_LINE = (
    """concat('{"visit_id": "', id, '-', id % 7, '", "event_time": "', """
    """date_format(timestamp_millis(1767571200000 + id * 86 % 86400000), "yyyy-MM-dd'T'HH:mm:ss'Z'"), """
    """'", "user_id": "user-', id % 9000, '", "page": "/posts/', id % 40, '", "referrer": null, """
    """"user_agent": "Mozilla/5.0 (X11; Linux x86_64)", "status": 200, "bytes": ', id % 60000, '}') AS raw"""
)
_SOURCE = (
    _LINE,
    "CAST(NULL AS BINARY) AS raw_bytes",
    "'visits.jsonl' AS source_file",
    "id + 1 AS line_number",
    f"DATE '{_DATE}' AS landed_on",
    f"DATE '{_DATE}' AS event_date",
)


def run(*, quick: bool) -> list[Row]:
    """Measure partitions of growing size."""
    session, home = SparkEngine().session, settings().home
    return [_measure(session, home, count) for count in ((200,) if quick else (200_000, 1_000_000))]


def _measure(session: SparkSession, home: Path, count: int) -> Row:
    source, before = home / f"lines-{count}", home / f"before-{count}"
    session.range(0, count, 1, 2).selectExpr(*_SOURCE).write.parquet(str(source))
    _rebuild(session, source, before, rules=_WRONG, code_version="1")
    places = {side: home / f"{side}-{count}" for side in ("replay", "rebuild")}

    def prepare(_: int) -> None:
        for place in places.values():
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(before, place)

    def replayed(_: int) -> dict[str, float]:
        result = _replay(session, places["replay"])
        assert result.rows.written == count // 100, result.reason
        return {"rows parsed": result.rows.read}

    def rebuilt(_: int) -> dict[str, float]:
        result = _rebuild(session, source, places["rebuild"], rules=RULES, code_version="2")
        return {"rows parsed": result.rows.read}

    sides = interleave(
        {"replay": replayed, "rebuild": rebuilt},
        rounds=5,
        warm_up=2,
        before=prepare,
        counters=Counters(session),
    )
    assert _held(session, places["replay"]) == _held(session, places["rebuild"])
    return compare(f"{count // 100:,} letters of {count:,} lines", *sides)


def _tables(session: SparkSession, home: Path) -> tuple[Table, Table]:
    return Table(VISITS, home / "visits", session), Table(DEAD_LETTER, home / "letters", session)


def _judged(lines: DataFrame, earlier: DataFrame | None, rules: Mapping[str, str]) -> Split:
    split = RECORDS.judge(lines, earlier, rules=rules)
    return deduplicate(split, keys=RECORDS.keys, order_by=RECORDS.identity)


def _rebuild(
    session: SparkSession, source: Path, home: Path, *, rules: Mapping[str, str], code_version: str
) -> WriteResult:
    valid, dead = _tables(session, home)
    lines, seen = tally(session.read.parquet(str(source)), identity=RECORDS.identity)
    earlier = dead.read(_FILED) if dead.ledger.exists() else None
    run = Provenance(asset=VISITS.name, run_id="benchmark", code_version=code_version, inputs={"bronze": 1}, sequence=1)
    split, rows_read = _judged(lines, earlier, rules), RowsRead(tally=seen)
    return route(split, valid.target(run, partition=_DAY, rows_read=rows_read), dead.target(run, partition=_FILED))


def _replay(session: SparkSession, home: Path) -> WriteResult:
    valid, dead = _tables(session, home)
    since = dead.ledger.version()
    run = Provenance(asset=VISITS.name, run_id="benchmark", code_version="2")
    split = _judged(open_letters(dead, filed_under=_FILED, version=since), None, RULES)
    return replay_letters(
        split, valid.target(run, partition=_DAY), dead.target(run, partition=_FILED), keys=RECORDS.keys, since=since
    )


def _held(session: SparkSession, home: Path) -> list[object]:
    """Fingerprint the rows of both tables, without what differs from run to run."""
    found: list[object] = []
    for table in _tables(session, home):
        columns = [name for name, column in table.spec.columns.items() if not column.technical]
        found += table.read().selectExpr("count(1)", f"bit_xor(xxhash64({', '.join(columns)}))").collect()
    return found
