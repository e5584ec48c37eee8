"""A lake of three layers written by hand: landed lines, valid events with letters, and counts by page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from dedp_assets.graph.declare import (
    About,
    Inputs,
    LakeTable,
    OnRequest,
    Pinned,
    Reads,
    Request,
    Runs,
    Source,
    Validation,
    by_event,
    lake_table,
    letters_of,
    same,
)
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.error_management.dead_letter import Field
from tests.hand_written import DAYS
from tests.helpers import a_record

LINES = TableSpec(
    "bronze/lines",
    {
        "raw": Column("STRING", classification="personal"),
        "source_file": Column("STRING"),
        "line_number": Column("BIGINT"),
        "landed_on": Column("DATE"),
        "day": Column("DATE"),
    },
    partition_by=("landed_on", "day"),
)
EVENTS = TableSpec(
    "silver/events",
    {
        "id": Column("STRING", classification="public"),
        "user_id": Column("STRING", classification="personal", subject="user"),
        "page": Column("STRING", classification="public"),
        "source_file": Column("STRING", classification="public"),
        "line_number": Column("BIGINT", classification="public"),
        "landed_on": Column("DATE", classification="public"),
        "day": Column("DATE", classification="public"),
    },
    partition_by=("day",),
)
PLACE = {name: EVENTS.columns[name] for name in ("source_file", "line_number", "landed_on")}
LETTERS = letters_of(EVENTS.name, {"raw": LINES.columns["raw"], **PLACE}, filed_under="day", comment="x")
PAGES = TableSpec(
    "gold/pages",
    {"page": Column("STRING"), "views": Column("BIGINT"), "day": Column("DATE")},
    partition_by=("day",),
    key=("page", "day"),
)
RECORDS = Validation(
    fields={name: Field("STRING") for name in ("id", "user_id", "page")},
    rules={},
    identity=("landed_on", "source_file", "line_number"),
    keys=("id",),
)
DAY, NEXT = "2026-01-05", "2026-01-06"


def _delivered(request: Request) -> Inputs:
    raise AssertionError("nobody lands anything")


def _lines(into: Target) -> WriteResult:
    raise AssertionError("nobody computes it")


def _events(lines: Pinned, into: Target, dead: Target) -> WriteResult:
    raise AssertionError("nobody computes it")


def _pages(events: Pinned, into: Target) -> WriteResult:
    raise AssertionError("nobody computes it")


def declared() -> list[LakeTable[...]]:
    """The graph: each table from the one before."""
    raw, about, patterns = dict.fromkeys(("id", "user_id", "page"), ("raw",)), About("team:x"), [Table.overwrite]
    landed = Reads(sources=[Source("landing/lines", "x", kinds=("file",), owner="team:x")], inputs=_delivered)
    lines = lake_table(LINES, reads=landed, runs=Runs(DAYS, OnRequest()), about=about, patterns=patterns)(_lines)
    events = lake_table(
        EVENTS,
        beside={LETTERS: patterns},
        reads=Reads({LINES: by_event("day", "landed_on")}),
        runs=Runs(DAYS, replay=RECORDS.replay),
        about=About("team:x", derived=raw),
        patterns=patterns,
    )(_events)
    reads = Reads({EVENTS: same("day")})
    return [lines, events, lake_table(PAGES, reads=reads, runs=Runs(DAYS), about=about, patterns=patterns)(_pages)]


class HandWritten:
    """Writes days of the three tables as runs would, each with the record of the run."""

    def __init__(self, root: Path) -> None:
        self.lake, self.runs = Lake(root=str(root), engine=None), 0

    def commit(
        self,
        spec: TableSpec,
        content: Sequence[Mapping[str, Any]],
        owned: Mapping[str, str],
        inputs: Mapping[str, Any],
        *,
        append: bool = False,
        **fields: Any,
    ) -> int:
        """Replace the owned partition by rows, or append them; return the version."""
        self.runs += 1
        record = a_record(spec.name, dict(owned), run_id=f"run-{self.runs}", inputs=dict(inputs), **fields)
        noted = CommitProperties(custom_metadata={"userMetadata": record.to_json()})
        where = " AND ".join(f"{column} = '{value}'" for column, value in owned.items())
        kept = {"mode": "append"} if append else {"mode": "overwrite", "predicate": where}
        ledger = self.lake.ledger(spec.name)
        table = pa.Table.from_pylist([*content], schema=_schema(spec))
        if not ledger.exists():
            kept = {"mode": "overwrite"}
        write_deltalake(ledger.store.address, table, partition_by=[*spec.partition_by], commit_properties=noted, **kept)
        return ledger.version()

    def land(self, day: str, *lines: str, file: str = "a.jsonl", of: str = "") -> int:
        """Load the lines of a landing day; by default they are events of that day."""
        place = {"source_file": file, "landed_on": date.fromisoformat(day), "day": date.fromisoformat(of or day)}
        rows = [{"raw": line, "line_number": number, **place} for number, line in enumerate(lines, start=1)]
        return self.commit(
            LINES, rows, {"landed_on": day}, {f"landing/lines/{day}": f"sha-{day}"}, notes={"files": {file: len(lines)}}
        )

    def validate(
        self, day: str, read: int, *events: tuple[str, str, str, int], landed_on: str = "", **fields: Any
    ) -> int:
        """Publish events of a day: id, user, page and line of each."""
        rows = [
            {
                **dict(zip(("id", "user_id", "page", "line_number"), event, strict=True)),
                "source_file": "a.jsonl",
                "landed_on": date.fromisoformat(landed_on or day),
                "day": date.fromisoformat(day),
            }
            for event in events
        ]
        return self.commit(EVENTS, rows, {"day": day}, {LINES.name: read}, **fields)

    def letter(self, day: str, read: int, raw: str, line: int, reason: str) -> int:
        """File a dead letter."""
        at = datetime(2026, 1, 7, tzinfo=timezone.utc)
        row = {
            "raw": raw, "source_file": "a.jsonl", "line_number": line, "landed_on": date.fromisoformat(day),
            "reason": reason, "error_class": reason, "error_stage": "parse", "status": "open",
            "dead_lettered_at": at, "filed_under": date.fromisoformat(day),
        }  # fmt: skip
        return self.commit(LETTERS, [row], {"filed_under": day}, {LINES.name: read}, figures={"open": 1})

    def count(self, day: str, read: int, views: Mapping[str, int], **fields: Any) -> int:
        """Publish the views by page of a day."""
        rows = [{"page": page, "views": n, "day": date.fromisoformat(day)} for page, n in views.items()]
        return self.commit(PAGES, rows, {"day": day}, {EVENTS.name: read}, **fields)


def line(id_: str, user: str = "u1", page: str = "/", **more: str) -> str:
    """A landed record."""
    return json.dumps({"id": id_, "user_id": user, "page": page, **more})


def _schema(spec: TableSpec) -> pa.Schema:
    kinds = {"STRING": pa.string(), "BIGINT": pa.int64(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us", "UTC")}
    return pa.schema([(name, kinds[column.type]) for name, column in spec.columns.items()])


__all__ = ["DAY", "EVENTS", "LETTERS", "LINES", "NEXT", "PAGES", "HandWritten", "declared", "line"]
