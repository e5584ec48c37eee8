"""The load of a landing: one delivery as rows, every record as landed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import dagster as dg

from dedp_assets.components.landed.landings import Landed
from dedp_assets.graph.catalogue.specs import IN_FILE
from dedp_assets.graph.declare import (
    About,
    Gates,
    Inputs,
    Job,
    LakeTable,
    OnDelivery,
    Reads,
    Request,
    Runs,
    Source,
    Step,
    Target,
    lake_table,
)
from dedp_assets.graph.inputs.history import watermark_of_landings
from dedp_assets.graph.inputs.landings import LANDING_FIGURES, measures_of_landing
from dedp_assets.graph.resources import landing as zone
from dedp_assets.patterns.connectors.encoding.formats import Csv, Json, JsonLines
from dedp_assets.patterns.connectors.encoding.record_texts import STATED, as_records
from dedp_assets.patterns.connectors.landing.file_columns import FILE_COLUMNS, judge_file_columns
from dedp_assets.patterns.connectors.landing.landed_files import LINES_OF_RECORD, read_landed
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.rows import quoted, tally
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.conversion import exact
from dedp_assets.patterns.delta import FilePath, Table
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.full_loader import load_full, volume_guard
from dedp_assets.patterns.ingestion.readiness_marker import plan_ready

__all__ = [
    "AHEAD",
    "ALLOWED_LATENESS_SECONDS",
    "GROWTH",
    "ON_TIME",
    "DeliveryLoad",
    "begin_of",
    "first_of",
    "in_file",
    "job_of",
    "stated_time",
]

ALLOWED_LATENESS_SECONDS = 15 * 60
"""Time behind the newest event up to which an event is on time."""
AHEAD = timedelta(days=2)
"""Longest time between the begin of a delivery's partition and an event in the delivery."""
# Any delivery may add rows; a loss of rows is more often a mistake.
GROWTH = 100.0
"""Largest factor by which the rows of a source without partitions may grow from one load to the next."""
_FILE_COLUMNS = "Warns of files with new, missing or reordered columns, by their headers and footers."
_LINES = Audit(
    name="lines_keep_their_numbers",
    of="numbers",
    sql=f"sum(line_number * ({LINES_OF_RECORD}) + (({LINES_OF_RECORD}) * (({LINES_OF_RECORD}) - 1)) DIV 2)",
    per="lines",
    fail_below=1,
    fail_above=1,
)
ON_TIME = Audit(name="most_records_are_on_time", of="late", where="timeliness = 'late'", per="written", warn_above=0.05)
"""Report of the records that belong to former partitions."""


def in_file(function: Any) -> Any:  # noqa: ANN401 - a function
    """Mark a function as that of a declaration in YAML, to which Dagster's link to the code leads."""
    vars(function)[IN_FILE] = True
    return function


@dataclass(frozen=True)
class DeliveryLoad:
    """The load of a delivery, with every record as landed."""

    landed: Landed
    spec: TableSpec

    @in_file
    def delivered(self, request: Request, table: Table, landing: zone.Landing) -> Inputs:
        """Find the delivery of a partition, and the watermark before the delivery."""
        folder, notes = self.landed.stated.folder, dict[str, Any]()
        delivery = landing.delivery(folder, request.key, ends=self.landed.ends, now=request.at).require_ready()
        content = landing.content(folder, delivery)
        if self.landed.event:
            watermark = self._watermark(table, request.key)
            notes["watermark"] = watermark.isoformat() if watermark else None
        name = f"landing/{self.landed.dataset}/{request.key}".rstrip("/")
        return Inputs({name: content}, notes={"delivery": delivery.identity, **notes}, found=delivery)

    @in_file
    def load(self, step: Step, into: Target, landing: zone.Landing) -> WriteResult:
        """Load one complete delivery in place of the partition's former rows."""
        landed, delivery = self.landed, step.inputs.found
        stated = landed.stated
        paths = landing.paths(stated.folder, delivery)
        lines = read_landed(into.table.session, paths, landed.format, columns=landed.header)
        written, seen = self._landed(lines.rows, step)
        into = into.noting({"files": dict(lines.count)}).reading(
            seen, figures={"lines": lines.checksum}, findings=self._columns(paths)
        )
        if stated.partitions is None:
            return load_full(written, into, max_growth=GROWTH)
        return overwrite_partition(written, into, allow_empty=not delivery.files)

    def _columns(self, paths: Sequence[FilePath]) -> list[Finding]:
        """Judge the columns of the files by headers and footers, where new columns are reported."""
        landed = self.landed
        csv = landed.format if isinstance(landed.format, Csv) else None
        # A record of JSON names its fields itself, and CSV without a header names none.
        if not landed.judges_files or isinstance(landed.format, JsonLines | Json) or (csv and not csv.header):
            return []
        called = {column.called or name: column for name, column in landed.columns.items()}
        # A time that has a format of its own is a text or a number in the files.
        types = {name: "STRING" if column.format else column.type for name, column in called.items()}
        lacking = [name for name, column in called.items() if column.may_lack]
        return [judge_file_columns(paths, columns=types, may_lack=lacking, csv=csv)]

    def declared(self, silver: TableSpec, dead: TableSpec) -> LakeTable[...]:
        """Declare the table of the records as landed.

        Args:
            silver: table of the valid records.
            dead: table of the others.
        """
        landed, spec = self.landed, self.spec
        stated, whole_folder = landed.stated, landed.stated.partitions is None
        sign = "rest" if stated.settled_minutes is not None else stated.marker
        source = Source(
            f"landing/{landed.dataset}",
            f"Files in {stated.folder}, which {sign} completes.",
            kinds=("file", type(landed.format).__name__.lower()),
            owner=stated.about.owner,
        )
        timed, guard = ((ON_TIME,) if landed.event else ()), (volume_guard(max_growth=GROWTH) if whole_folder else ())
        late = [detect_late_data] if landed.event else []
        return lake_table(
            spec,
            reads=Reads(sources=[source], inputs=self.delivered),
            runs=Runs(
                stated.partitions, OnDelivery(stated.folder, ends=landed.ends), job=job_of(landed, (spec, silver, dead))
            ),
            gates=Gates(
                (_LINES, *timed, *guard),
                if_empty="" if whole_folder else "A delivery without a record is refused, unless its marker says so.",
                reports={FILE_COLUMNS: _FILE_COLUMNS} if landed.judges_files else {},
            ),
            about=About(owner=stated.about.owner, figures=LANDING_FIGURES, expects=stated.bronze_expects),
            patterns=[load_full if whole_folder else overwrite_partition, plan_ready, *late],
            code_version=landed.landed_version,
        )(self.load)

    def _landed(self, rows: Any, step: Step) -> tuple[Any, Any]:  # noqa: ANN401 - frames
        """Return landed rows with the columns of the table, and the count of the rows."""
        landed, measures = self.landed, dict[str, str]()
        made = {name: f"CAST({quoted(step.key)} AS {column.type})" for name, column in landed.landed.items()}
        if landed.event:
            rows, measures = self._dated(rows, step), measures_of_landing(OUTCOME)
            filed = "date_format(event_time, 'yyyy-MM-dd-HH')" if landed.by_hour else "to_date(event_time)"
            made |= {"timeliness": OUTCOME, **dict.fromkeys(landed.event, filed)}
        counted, seen = tally(rows, identity=["source_file", "line_number"], measures=measures)
        written = counted.selectExpr(*[f"{made.get(name, name)} AS {identifier(name)}" for name in self.spec.columns])
        return written, seen

    def _dated(self, rows: Any, step: Step) -> Any:  # noqa: ANN401 - a frame and a split
        watermark = step.inputs.notes["watermark"]
        return detect_late_data(
            as_records(rows, self.landed.format, self.landed.naming),
            event_time=stated_time(self.landed),
            watermark=datetime.fromisoformat(watermark) if watermark else None,
            earliest=first_of(self.landed),
            latest=begin_of(step.key) + AHEAD,
        ).rows

    def _watermark(self, table: Table, key: str) -> datetime | None:
        if self.landed.by_hour:
            return begin_of(key)  # late is what belongs to an hour before that of the delivery
        lateness = ALLOWED_LATENESS_SECONDS
        return watermark_of_landings(table.ledger, key, column="landed_on", allowed_lateness_seconds=lateness)


def stated_time(landed: Landed) -> str:
    """Write SQL for the event time of a record, with the column that ``as_records`` adds."""
    column = landed.columns[landed.stated.event_time]
    return f"CAST({exact(STATED, column.type, pattern=column.format)} AS TIMESTAMP)"


def begin_of(key: str) -> datetime:
    """Return the begin of the day or hour of a partition key."""
    day, hour = key[:10], key[11:]
    return datetime.fromisoformat(day).replace(hour=int(hour or 0), tzinfo=timezone.utc)


def first_of(landed: Landed) -> datetime:
    """Return the begin of the first partition."""
    return cast("dg.TimeWindowPartitionsDefinition", landed.stated.partitions).start.astimezone(timezone.utc)


def job_of(landed: Landed, tables: Sequence[TableSpec]) -> Job:
    """Return the job of a delivery and of the tables that follow.

    Args:
        landed: the landing.
        tables: landed records, valid records and dead letters.
    """
    bronze, stated = tables[0], landed.stated
    return Job(
        f"land_{stated.table.replace('/', '_')}",
        f"A delivery of {landed.dataset} and what follows from it: {bronze.name}, and {stated.table} of the same "
        "partition. Records that landed with it and belong to other partitions are brought there by the reconciler.",
        selection=" or ".join(f'key:"{each.name}"' for each in tables),
        computes=tuple(each.name for each in tables),
    )
