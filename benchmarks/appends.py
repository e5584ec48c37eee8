"""An append to a long log against the same append to a short one.

Both sides are ``Table.append`` of the same rows: staged by Spark, measured, audited and published under the table's
lock. The long log has 10,000 commits, the short one ten; each commit added a file under the same cursor. The logs are
written by hand, with a checkpoint at their end, as the platform's commits leave one every 20; an append reads no data
file, so there are none. "The log alone" is the same without rows and without Spark: what is read and written around the
job, most of it under the lock.

Fair, because every execution begins with a new ``Table``, which knows nothing of the log. "Compacted" means ten active
files on both sides; "never compacted" is the worst case, one for each commit, and deltalake loads all with a version.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from itertools import count
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.measure import Row, compare, explain, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table, store_at, transaction_id
from dedp_assets.patterns.delta.commit import commits
from tests.helpers import NOW, a_record, write_log

__all__ = ["run"]

_SPEC = TableSpec(
    "bronze/events",
    {"id": Column("BIGINT", required=True), "raw": Column("STRING"), "day": Column("DATE", required=True)},
    partition_by=("day",),
)
_GOAL = 1.2
_FIRST_DAY = date(2000, 1, 1)
_ROWS = 1_000
_SHORT = 10


def run(*, quick: bool) -> list[Row]:
    """Measure the whole append, then what of it is reading and writing the log."""
    session, lengths, numbers = SparkEngine().session, (50 if quick else 10_000, _SHORT), count(20_000)
    rows = []
    for kind, compacted in (("compacted", True), ("never compacted", False)):
        home = settings().home / kind.replace(" ", "-")
        sides = {f"{n:,} commits": _log(home / f"log-{n}", n, compacted=compacted) for n in lengths}
        append, mark = partial(_append, session, numbers), partial(_mark, session, numbers)
        rows.append(_measure(f"append of {_ROWS:,} rows, {kind}", sides, append, repeats=3, goal=_GOAL))
        rows.append(_measure(f"the log alone, {kind}", sides, mark, repeats=10, goal=None))
    return rows


def _measure(
    case: str, sides: dict[str, Path], work: Callable[[Path], None], *, repeats: int, goal: float | None
) -> Row:
    timed = {name: partial(lambda location, _: work(location), location) for name, location in sides.items()}
    row = compare(case, *interleave(timed, rounds=5, warm_up=3, repeats=repeats), at_most=goal)
    row.why = explain(
        lambda: work(next(iter(sides.values()))),
        ["ensure", "state", "stage_rows", "publish", "decide", "exchange_files", "keep_readable"],
    )
    return row


def _log(location: Path, length: int, *, compacted: bool) -> Path:
    """A table into which as many appends went, of which few or all files are active."""
    app_id = transaction_id(_SPEC.name, {}, 0, "appends")
    Table(_SPEC, location, SparkEngine().session).ensure()
    appends = [
        {
            "changed": [{"day": (_FIRST_DAY + timedelta(days=number)).isoformat()}],
            "record": a_record(_SPEC.name, {}, sequence=number, run_id=f"run-{number}"),
            "txn": {app_id: number},
        }
        for number in range(1, length + 1)
    ]
    write_log(location, {}, [], appends)
    state = Ledger(location).state()
    gone = [file for file in state.files()[_SHORT:] if compacted]
    removed = [{"path": file["path"], "deletionTimestamp": 1, "dataChange": False} for file in gone]
    info = commits.info("compacted", "OPTIMIZE", state, {})
    commits.write(store_at(location), state.version + 1, [info, *({"remove": each} for each in removed)])
    DeltaTable(str(location)).create_checkpoint()
    return location


def _provenance(number: int) -> Provenance:
    return Provenance(asset=_SPEC.name, run_id=f"run-{number}", at=NOW, sequence=number)


def _append(session: SparkSession, numbers: count[int], location: Path) -> None:
    number = next(numbers)
    rows = session.range(_ROWS).selectExpr(
        "id", "CAST(id AS STRING) AS raw", f"DATE'2026-01-05' + {number % 20} AS day"
    )
    Table(_SPEC, location, session).append(rows, provenance=_provenance(number))


def _mark(session: SparkSession, numbers: count[int], location: Path) -> None:
    Table(_SPEC, location, session).mark(provenance=_provenance(next(numbers)))
