"""The valid records of a landing, and the replay of dead letters."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from dedp_assets.components.landed_loads import AHEAD, first_of, in_file
from dedp_assets.components.landings import Landed
from dedp_assets.graph.declare import (
    Feed,
    Pinned,
    Target,
    by_event,
    same,
    whole,
)
from dedp_assets.patterns.connectors.formats import Avro, Csv, Json, Parquet
from dedp_assets.patterns.connectors.framed_values import name_unread
from dedp_assets.patterns.connectors.record_texts import BROKEN, LAYOUT, RECORD, as_records
from dedp_assets.patterns.core.conversion import texts_of
from dedp_assets.patterns.core.field_changes import audits_of_fields
from dedp_assets.patterns.core.field_counting import tally_fields
from dedp_assets.patterns.core.instants import timestamp
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import quoted, tally
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql_options import truth
from dedp_assets.patterns.delta import Table, audits_of_usual, earlier_fields
from dedp_assets.patterns.error_management.dead_letter import Field, divert_unprocessable, route
from dedp_assets.patterns.error_management.dead_letter_replay import open_letters, replay_letters
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate

__all__ = ["AS_USUAL", "LINES_READ", "Valid"]

_TOLERANCE = 0.1
_OTHER_LAYOUT = "the columns are not as declared"
AS_USUAL = "duplicates_are_as_usual"
"""Report that compares the share of duplicates with the partitions before."""
LINES_READ = "lines_read"
"""Figure: the lines of the records read, where records may have several."""


@dataclass(frozen=True)
class Valid:
    """The typed, validated and deduplicated records of a partition, and the replay of dead letters."""

    landed: Landed
    spec: TableSpec

    @property
    def feed(self) -> Feed:
        """Partitions of the landed records that a partition is computed from."""
        if self.landed.stated.partitions is None:
            return whole()
        (column,) = self.landed.landed
        return by_event(*self.landed.event, column) if self.landed.event else same(column)

    @property
    def compares(self) -> bool:
        """``True`` if the share of duplicates is compared with the partitions before."""
        return bool(self.landed.stated.keys) and self.landed.stated.partitions is not None

    @in_file
    def compute(self, landed: Pinned, into: Target, dead: Target) -> WriteResult:
        """Type, validate and deduplicate the records of one partition over all deliveries."""
        rows, identity = as_records(landed.rows(), self.landed.format, self.landed.naming), self.landed.identity
        measures = {LINES_READ: f"sum({lines})"} if (lines := self.landed.lines) else {}
        if answer := self.landed.counts:
            types = {name: column.type for name, column in self.landed.columns.items()}
            rows, seen = tally_fields(rows, RECORD, types, identity=identity, measures=measures)
            into = into.with_audits(*audits_of_fields(answer, earlier_fields(into.table.ledger, into.partition)))
        else:
            rows, seen = tally(rows, identity=identity, measures=measures)
        if self.compares:
            usual = {AS_USUAL: "duplicates"}
            before = audits_of_usual(
                into.table.ledger, usual, partition=into.partition, tolerance=_TOLERANCE, severity="warn"
            )
            into = into.with_audits(*before)
        split = self._once(self._judged(rows, self._letters(landed, dead.table)))
        return route(split, into.reading(seen), dead, allow_empty=True)

    @in_file
    def replay(self, into: Target, dead: Target) -> WriteResult:
        """Replay the dead letters of one partition by the present declaration."""
        since = dead.table.ledger.version()
        letters = open_letters(dead.table, filed_under=dead.partition, version=since)
        letters = as_records(letters, self.landed.format, self.landed.naming)
        keys = self.landed.stated.keys or self.landed.identity
        return replay_letters(self._once(self._judged(letters)), into, dead, keys=list(keys), since=since)

    def _letters(self, landed: Pinned, dead: Table) -> Any:  # noqa: ANN401 - a frame or nothing
        """Read the letters that the records may have been, of all partitions that a fix may move."""
        if self.landed.landed:
            return landed.related(dead, *self.landed.landed)
        return dead.read({}, version=dead.ledger.version()) if dead.ledger.exists() else None

    def _judged(self, rows: Any, letters: Any = None) -> Split:  # noqa: ANN401 - frames
        landed, names = self.landed, list(self.landed.columns)
        fields = {name: self._field(name) for name in names}
        raw = ["raw", "raw_bytes", *(["header"] if isinstance(landed.format, Csv) else [])]
        found = divert_unprocessable(
            rows,
            letters,
            payload=RECORD,
            raw=raw,
            schema=fields,
            identity=landed.identity,
            carry=[*landed.event, BROKEN, LAYOUT],
            rules={**self._rules(), **{why: self._of_read(rule) for why, rule in landed.stated.rules.items()}},
        )
        worded = _worded(found)
        return name_unread(worded) if landed.stated.topic else worded

    def _field(self, name: str) -> Field:
        column, stated = self.landed.columns[name], self.landed.stated
        is_time, special = name == stated.event_time, self.landed.has_types
        return Field(column.type, event_time=is_time, format=column.format, special=special)

    def _once(self, split: Split) -> Split:
        stated = self.landed.stated
        if not stated.keys:
            return split
        order = [*stated.order_by, *(c for c in self.landed.identity if c not in stated.order_by)]
        return deduplicate(split, keys=list(stated.keys), order_by=order, keep=stated.keep)

    def _of_read(self, rule: str) -> str:
        """Write SQL of a stated rule, which is true for a record with an unread value of a named column."""
        texts = texts_of({name: column.type for name, column in self.landed.columns.items()})
        named = [
            text
            for name, text in texts.items()
            if text not in rule and re.search(rf"\b{re.escape(name)}\b", rule, re.IGNORECASE)
        ]
        return " OR ".join([*(f"{identifier(text)} IS NOT NULL" for text in named), truth(rule)])

    def _rules(self) -> dict[str, str]:
        landed, rules = self.landed, dict[str, str]()
        for name in filter(landed.is_required, landed.columns):
            there = f"{identifier(name)} IS NOT NULL"
            if landed.columns[name].type.upper() != "STRING":
                there += f" OR {identifier(f'{name} text')} IS NOT NULL"
            rules[f"{name} is missing"] = there
        rules[_OTHER_LAYOUT] = f"{LAYOUT} IS NULL"
        what = "record" if isinstance(landed.format, Json | Parquet | Avro) else "line"
        rules[f"the {what} is not valid UTF-8"] = "raw_bytes IS NULL"
        return {**rules, **self._rules_of_time()} if landed.event else rules

    def _rules_of_time(self) -> dict[str, str]:
        landed = self.landed
        name, time = landed.stated.event_time, identifier(landed.stated.event_time)
        (column,), (filed,) = landed.landed, landed.event
        first, begins = timestamp(first_of(landed)), f"CAST({column} AS TIMESTAMP)"
        own = f"to_date({time})"
        if landed.by_hour:
            begins, own = f"to_timestamp({column}, 'yyyy-MM-dd-HH')", f"date_format({time}, 'yyyy-MM-dd-HH')"
        latest = f"{begins} + INTERVAL {AHEAD.days} DAYS"
        return {
            f"{name} is before the first partition": f"{time} IS NULL OR {time} >= {first}",
            f"{name} is in the future of its landing": f"{time} IS NULL OR {time} <= {latest}",
            f"{name} is not in the partition it was filed under": (
                f"{time} IS NULL OR NOT {time} BETWEEN {first} AND {latest} OR coalesce({own} = {filed}, false)"
            ),
        }


def _worded(split: Split) -> Split:
    """Put the fault of a broken line, and the names of strange columns, into the reasons of letters."""
    reason = f"if({BROKEN} IS NULL, replace(reason, {quoted(_OTHER_LAYOUT)}, coalesce({LAYOUT}, '')), {BROKEN})"
    kind = f"if({BROKEN} IS NULL OR error_class IS NULL, error_class, 'broken line')"
    worded = {"reason": f"if(reason IS NULL, NULL, {reason})", "error_class": kind}
    rows = split.rows.selectExpr(*[f"{worded.get(c, identifier(c))} AS {identifier(c)}" for c in split.rows.columns])
    # The record goes along with a letter up to the stage: a refusal shows its values by the names of columns.
    ours = {"valid": (RECORD, BROKEN, LAYOUT), "dead": (BROKEN, LAYOUT)}
    parts = {part: tuple(c for c in columns if c not in ours[part]) for part, columns in split.parts.items()}
    return replace(split, rows=rows, parts=parts)
