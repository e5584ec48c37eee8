"""The valid records of a landing, and the replay of dead letters."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dedp_assets.components.landed.landed_loads import AHEAD, first_of, in_file
from dedp_assets.components.landed.landings import Landed
from dedp_assets.graph.declare import (
    Feed,
    Pinned,
    Target,
    Validation,
    by_event,
    rules_of_presence,
    rules_of_time,
    same,
    whole,
)
from dedp_assets.patterns.connectors.encoding.formats import Avro, Csv, Json, Parquet
from dedp_assets.patterns.connectors.encoding.record_texts import BROKEN, LAYOUT, RECORD, as_records
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.sql_options import truth
from dedp_assets.patterns.core.types.conversion import texts_of
from dedp_assets.patterns.core.types.instants import timestamp
from dedp_assets.patterns.error_management.dead_letter import Field

__all__ = ["LINES_READ", "Valid"]

_OTHER_LAYOUT = "the columns are not as declared"
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

    @cached_property
    def validation(self) -> Validation:
        """The validation that the declaration says."""
        landed, stated = self.landed, self.landed.stated
        raw = ["raw", "raw_bytes", *(["header"] if isinstance(landed.format, Csv) else [])]
        return Validation(
            fields={name: self._field(name) for name in landed.columns},
            rules={**self._rules(), **{why: self._of_read(rule) for why, rule in stated.rules.items()}},
            identity=landed.identity,
            payload=RECORD,
            raw=raw,
            carry=[*landed.event, BROKEN, LAYOUT],
            related=next(iter(landed.landed), ""),
            keys=tuple(stated.keys),
            order_by=tuple(stated.order_by),
            keep=stated.keep,
            compares=bool(stated.keys) and stated.partitions is not None,
            counts=landed.counts,
            measures={LINES_READ: f"sum({landed.lines})"} if landed.lines else {},
            framed=stated.topic is not None,
            parsed=self._records,
            reworded=_worded,
        )

    @in_file
    def compute(self, landed: Pinned, into: Target, dead: Target) -> WriteResult:
        """Type, validate and deduplicate the records of one partition over all deliveries."""
        return self.validation.compute(landed, into, dead)

    @in_file
    def replay(self, into: Target, dead: Target) -> WriteResult:
        """Replay the dead letters of one partition by the present declaration."""
        return self.validation.replay(into, dead)

    def _records(self, rows: Any) -> Any:  # noqa: ANN401 - frames
        return as_records(rows, self.landed.format, self.landed.naming)

    def _field(self, name: str) -> Field:
        column, stated = self.landed.columns[name], self.landed.stated
        is_time, special = name == stated.event_time, self.landed.has_types
        return Field(column.type, event_time=is_time, format=column.format, special=special)

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
        landed = self.landed
        required = {name: landed.columns[name].type for name in filter(landed.is_required, landed.columns)}
        what = "record" if isinstance(landed.format, Json | Parquet | Avro) else "line"
        return {
            **rules_of_presence(required, blank="value"),
            _OTHER_LAYOUT: f"{LAYOUT} IS NULL",
            f"the {what} is not valid UTF-8": "raw_bytes IS NULL",
            **(self._rules_of_time() if landed.event else {}),
        }

    def _rules_of_time(self) -> dict[str, str]:
        landed, name = self.landed, self.landed.stated.event_time
        (column,), (filed,) = landed.landed, landed.event
        begins, own = f"CAST({column} AS TIMESTAMP)", f"to_date({identifier(name)})"
        if landed.by_hour:
            begins = f"to_timestamp({column}, 'yyyy-MM-dd-HH')"
            own = f"date_format({identifier(name)}, 'yyyy-MM-dd-HH')"
        return rules_of_time(
            name,
            earliest=timestamp(first_of(landed)),
            too_early="before the first partition",
            latest=f"{begins} + INTERVAL {AHEAD.days} DAYS",
            own=own,
            filed=filed,
            misfiled="not in the partition it was filed under",
        )


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
