"""One read of a source for a table and a folder of CSV files against a read for each.

Ours: ``write_parallel``: the rows are parsed and staged once, the files are written from the stage, and the table's
commit takes the stage over. Theirs: the table by ``overwrite_partition``, and the files by a second pass over the
source, as a job does that writes twice without ``persist``.

Fair, because both parse the same JSON lines by the same expression in one session, write all columns to both sinks,
audit the table's rows alike, and every round writes a day of its own. ``source rows read`` is what the scans of the
source's files put out, by the plan's own metrics; ``read MB`` is all input of the engine's tasks: of ours the source
once and the columnar stage, of theirs the source twice. At 10,000 rows one pass does not pay: what the stage costs is
about as much as the second pass (CPU 0.91x to 1.05x in three runs); at 100,000 it does (0.78x to 0.87x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks import data
from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.connectors.delivery.csv_folder import Batch, CsvFolder
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.flow.parallel_split import write_parallel
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition

__all__ = ["run"]

_FIRST = date(2026, 1, 5)
_COLUMNS = {"visit_id": "STRING", "user_id": "STRING", "page": "STRING", "event_time": "TIMESTAMP"}
_SPEC = TableSpec(
    "silver/visits",
    {**{name: Column(kind) for name, kind in _COLUMNS.items()}, "day": Column("DATE")},
    partition_by=("day",),
)


def run(*, quick: bool) -> list[Row]:
    """Measure small and larger days."""
    session = SparkEngine().session
    return [_measure(session, rows) for rows in ((200,) if quick else (10_000, 100_000))]


def _measure(session: SparkSession, rows: int) -> Row:
    home, numbers = settings().home / f"split-{rows}", count()
    files = [str(path) for path in data.land(home, data.day(0), data.lines(rows, data.day(0)))]
    one_pass = _side(session, home / "one", files, numbers, _once)
    two_passes = _side(session, home / "two", files, numbers, _twice)
    counters = _Reads(session)
    ours, theirs = interleave({"one pass": one_pass, "two passes": two_passes}, rounds=3, warm_up=1, counters=counters)
    return compare(f"{rows:,} rows, parsed from JSON", ours, theirs, at_most=0.9 if rows > 10_000 else None)


def _side(
    session: SparkSession,
    home: Path,
    files: list[str],
    numbers: count[int],
    write: Callable[[DataFrame, Target, CsvFolder], None],
) -> Callable[[int], None]:
    """Return the work of a side: another day each time."""
    table, folder = Table(_SPEC, home / "visits", session), CsvFolder(str(home / "csv"))
    parsed = ", ".join(f"record.{name}" for name in _COLUMNS)
    schema = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())

    def work(_: int) -> None:
        day = (_FIRST + timedelta(days=next(numbers))).isoformat()
        lines = session.read.text(files).selectExpr(f"from_json(value, '{schema}') AS record")
        run = Provenance(asset=table.name, run_id=day, sequence=1)
        rows = lines.selectExpr(*parsed.split(", "), f"DATE '{day}' AS day")
        write(rows, table.target(run, partition={"day": day}), folder)

    return work


def _once(rows: DataFrame, into: Target, folder: CsvFolder) -> None:
    write_parallel(rows, into, folder)


def _twice(rows: DataFrame, into: Target, folder: CsvFolder) -> None:
    overwrite_partition(rows, into)
    folder.replace(rows, into.partition, Batch.of(into.run))


class _Reads(Counters):
    """Spark's counters, and what the engine read."""

    def __init__(self, session: SparkSession) -> None:
        super().__init__(session)
        self._executions = session._jsparkSession.sharedState().statusStore()
        self._before = max((each.executionId() for each in _each(self._executions.executionsList())), default=-1)
        self._rows: dict[int, int] = {}

    def read(self) -> dict[str, float]:
        """Totals since the first look; the rows are those that scans of text files put out."""
        totals = super().read()
        for execution in _each(self._executions.executionsList()):  # Spark forgets old ones
            if execution.executionId() > self._before:
                self._rows[execution.executionId()] = self._scanned(execution.executionId())
        read = self._context.statusStore().executorSummary("driver").totalInputBytes()
        return {**totals, "source rows read": sum(self._rows.values()), "read MB": read / 1e6}

    def _scanned(self, execution: int) -> int:
        values, rows = self._executions.executionMetrics(execution), 0
        for node in _each(self._executions.planGraph(execution).allNodes()):
            if node.name().strip() == "Scan text":
                counted = [metric for metric in _each(node.metrics()) if metric.name() == "number of output rows"]
                rows += sum(int(values.apply(metric.accumulatorId()).replace(",", "")) for metric in counted)
        return rows


def _each(found: Any) -> Iterator[Any]:  # noqa: ANN401 - a sequence of Scala
    return (found.apply(number) for number in range(found.size()))
