"""The load of a landing: one delivery as rows, every record as landed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import dagster as dg

from dedp_assets.components.landings import Landed
from dedp_assets.graph.catalogue.specs import IN_FILE
from dedp_assets.graph.declare import (
    Inputs,
    Request,
    Step,
    Target,
)
from dedp_assets.graph.run.history import watermark_of_landings
from dedp_assets.graph.run.landings import measures_of_landing
from dedp_assets.patterns.connectors.formats import Csv
from dedp_assets.patterns.connectors.landed_files import read_landed
from dedp_assets.patterns.connectors.record_texts import RECORD, as_records
from dedp_assets.patterns.core.conversion import exact
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import quoted, tally
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.resources import landing as zone

__all__ = ["AHEAD", "GROWTH", "Load", "first_of", "in_file"]

_ALLOWED_LATENESS_SECONDS = 15 * 60
AHEAD = timedelta(days=2)
"""Longest time between the begin of a delivery's partition and an event in the delivery."""
GROWTH = 100.0
"""A folder without partitions may grow by any delivery; what is gone is more often a mistake."""
_STATED = "stated_time"


def in_file(function: Any) -> Any:  # noqa: ANN401 - a function
    """Mark a function as that of a declaration in YAML, to which Dagster's link to the code leads."""
    vars(function)[IN_FILE] = True
    return function


@dataclass(frozen=True)
class Load:
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
        lines = read_landed(into.table.session, paths, stated.format, columns=landed.header)
        rows, measures = lines.rows, dict[str, str]()
        made = {name: f"CAST({quoted(step.key)} AS {column.type})" for name, column in landed.landed.items()}
        if landed.event:
            rows, measures = self._dated(rows, step), measures_of_landing(OUTCOME)
            filed = "date_format(event_time, 'yyyy-MM-dd-HH')" if landed.by_hour else "to_date(event_time)"
            made |= {"timeliness": OUTCOME, **dict.fromkeys(landed.event, filed)}
        counted, seen = tally(rows, identity=["source_file", "line_number"], measures=measures)
        written = counted.selectExpr(*[f"{made.get(name, name)} AS {identifier(name)}" for name in self.spec.columns])
        # The header of CSV is the first line of its file, and no record.
        headers = len(lines.count) if isinstance(stated.format, Csv) and stated.format.header else 0
        into = into.noting({"files": dict(lines.count)}).reading(seen, figures={"lines": lines.checksum - headers})
        if stated.partitions is None:
            return load_full(written, into, max_growth=GROWTH)
        return overwrite_partition(written, into, allow_empty=not delivery.files)

    def _dated(self, rows: Any, step: Step) -> Any:  # noqa: ANN401 - a frame and a split
        stated, begins = self.landed.stated, _begin(step.key)
        watermark = step.inputs.notes["watermark"]
        path = quoted(f"$['{stated.event_time}']")
        records = as_records(rows, stated.format, self.landed.naming)
        # In a column of its own, because the exact conversion names the text several times.
        records = records.selectExpr("*", f"get_json_object({RECORD}, {path}) AS {_STATED}")
        return detect_late_data(
            records,
            event_time=exact(_STATED, "TIMESTAMP"),
            watermark=datetime.fromisoformat(watermark) if watermark else None,
            earliest=first_of(self.landed),
            latest=begins + AHEAD,
        ).rows

    def _watermark(self, table: Table, key: str) -> datetime | None:
        if self.landed.by_hour:
            return _begin(key)  # late is what belongs to an hour before that of the delivery
        lateness = _ALLOWED_LATENESS_SECONDS
        return watermark_of_landings(table.ledger, key, column="landed_on", allowed_lateness_seconds=lateness)


def _begin(key: str) -> datetime:
    """Return the begin of the day or hour of a partition key."""
    day, hour = key[:10], key[11:]
    return datetime.fromisoformat(day).replace(hour=int(hour or 0), tzinfo=timezone.utc)


def first_of(landed: Landed) -> datetime:
    """Return the begin of the first partition."""
    return cast("dg.TimeWindowPartitionsDefinition", landed.stated.partitions).start.astimezone(timezone.utc)
