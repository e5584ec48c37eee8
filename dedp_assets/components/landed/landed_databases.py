"""The load of a database table as a landing: the rows of a window, or all, as records."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import dagster as dg

from dedp_assets.components.landed.landed_loads import (
    GROWTH,
    ON_TIME,
    DeliveryLoad,
    begin_of,
    first_of,
    in_file,
    job_of,
)
from dedp_assets.components.landed.landings import Landed
from dedp_assets.graph.declare import (
    About,
    Every,
    Figure,
    Gates,
    Inputs,
    LakeTable,
    Reads,
    Request,
    Runs,
    Source,
    Step,
    Target,
    lake_table,
)
from dedp_assets.graph.inputs.history import last_code
from dedp_assets.graph.inputs.landings import LANDING_FIGURES
from dedp_assets.graph.outcomes.run_tags import range_request
from dedp_assets.graph.reconcile.backlogs import spans
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.databases import Database
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.full_loader import load_full, volume_guard
from dedp_assets.patterns.ingestion.incremental_loader import plan_windows

__all__ = ["TableLoad"]

_MOST_AT_ONCE = 31
_FIGURES = {
    **LANDING_FIGURES,
    "without_time": Figure("rows without a time, or at infinity"),
    "before_start": Figure("rows before the first window"),
}
_DATED = Audit(name="every_row_has_its_time", of="without_time", fail_above=0, approvable=True)


@dataclass(frozen=True)
class TableLoad(DeliveryLoad):
    """The load of a table's rows, with every row as a record."""

    @property
    def database(self) -> Database:
        """The table."""
        return cast("Database", self.landed.stated.database)

    @in_file
    def complete(self, request: Request, table: Table) -> Inputs:
        """Return the inputs of a window that is over; each run reads the window again."""
        source, notes = self.database, dict[str, Any]()
        if self.landed.stated.partitions is not None:
            end, delay = self._window(request.key)[1], timedelta(minutes=source.delay_minutes)
            if request.at < end + delay:
                raise NotReady(
                    f"{source.table}: the window of {request.key} is complete at {end + delay:%Y-%m-%d %H:%M} UTC"
                )
        if self.landed.event:
            watermark = self._watermark(table, request.key)
            notes["watermark"] = watermark.isoformat() if watermark else None
        return Inputs(
            {f"database/{self.landed.dataset}": request.at.isoformat()}, notes={"source": source.table, **notes}
        )

    @in_file
    def read(self, step: Step, into: Target) -> WriteResult:
        """Load the rows of one window, or of the whole table, in place of the partition's former rows."""
        source, landed = self.database, self.landed
        if landed.stated.partitions is None:
            with source.rows(into.table.session) as rows:
                written, seen = self._landed(rows, step)
                return load_full(written, into.reading(seen), max_growth=GROWTH)
        known = into.table.ensure().holds(dict.fromkeys(landed.landed, step.key))
        with source.rows(into.table.session, self._window(step.key)) as rows:
            written, seen = self._landed(rows, step)
            into = into.reading(seen, figures=source.left_out(first_of(landed)))
            # A quiet window has no rows; one that had rows was cleared at the source.
            return overwrite_partition(written, into, allow_empty=not known)

    def declared(self, silver: TableSpec, dead: TableSpec) -> LakeTable[...]:
        """Declare the table of the rows as records.

        Args:
            silver: table of the valid records.
            dead: table of the others.
        """
        landed, source, stated = self.landed, self.database, self.landed.stated
        in_windows = stated.partitions is not None
        audits = (_DATED, *((ON_TIME,) if landed.event else ())) if in_windows else volume_guard(max_growth=GROWTH)
        whence = f"Table {source.table} of the PostgreSQL database whose URL is in {source.url}."
        named = Source(f"database/{landed.dataset}", whence, kinds=("postgres", "table"), owner=stated.about.owner)
        late = [detect_late_data] if landed.event else []
        return lake_table(
            self.spec,
            reads=Reads(sources=[named], inputs=self.complete),
            runs=Runs(stated.partitions, self._start(), job=job_of(landed, (self.spec, silver, dead))),
            gates=Gates(
                audits,
                if_empty="Warns of a window without rows; refuses it if it had rows." if in_windows else "",
            ),
            about=About(owner=stated.about.owner, figures=_FIGURES, expects=stated.bronze_expects),
            patterns=[overwrite_partition, plan_windows, *late] if in_windows else [load_full],
            code_version=landed.landed_version,
        )(self.read)

    def _start(self) -> Every:
        table = self.landed.stated.table
        name = f"{table.replace('/', '_')}_from_its_database"
        if self.landed.stated.partitions is None:
            return Every("30 0 * * *", description=f"At 00:30 UTC, all rows of {self.database.table}.", name=name)
        return Every(
            "20 * * * *",
            ask=_asking(self.landed, self.spec.name, name),
            description=f"Each hour, the windows of {self.database.table} that are over and not loaded, and the one "
            "before each, for rows that became visible late; and those that another declaration loaded.",
            name=name,
        )

    def _window(self, key: str) -> tuple[datetime, datetime]:
        return begin_of(key), begin_of(key) + timedelta(seconds=_length(self.landed))


def _length(landed: Landed) -> int:
    return 3_600 if landed.by_hour else 86_400


def _asking(landed: Landed, bronze: str, name: str) -> Callable[..., Any]:
    """Return the function of a schedule that requests the windows that are due."""
    source = cast("Database", landed.stated.database)

    def due(context: dg.ScheduleEvaluationContext, lake: Lake) -> list[dg.RunRequest] | dg.SkipReason:
        if reason := source.lacks():
            return dg.SkipReason(reason)
        now = context.scheduled_execution_time.astimezone(timezone.utc)
        (column,) = landed.landed
        key_format = "%Y-%m-%d-%H" if landed.by_hour else "%Y-%m-%d"
        plan = plan_windows(
            lake.ledger(bronze),
            column=column,
            origin=first_of(landed),
            length=_length(landed),
            until=now - timedelta(minutes=source.delay_minutes),
            lookback=1,
            key_format=key_format,
        )
        loaded = last_code(lake.ledger(bronze), column)
        outdated = [key for key, code in sorted(loaded.items()) if code != landed.landed_version]
        keys = [*plan.partitions, *(key for key in outdated if key not in plan.partitions)]
        # A window that is refused is requested again once in the length of a window.
        at = f"@{now.strftime(key_format)}"
        partitions = cast("dg.TimeWindowPartitionsDefinition", landed.stated.partitions)
        return [
            range_request(bronze, span[0], span[-1], at, cause="windows")
            if len(span) > 1
            else dg.RunRequest(run_key=f"{bronze}:{span[0]}{at}", partition_key=span[0])
            for span in spans(sorted(keys[:_MOST_AT_ONCE]), partitions)
        ]

    due.__name__ = name
    return due
