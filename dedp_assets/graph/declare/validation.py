"""Validation of landed records: types, rules, duplicates, dead letters and their replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dedp_assets.graph.declare.records import About, Gates
from dedp_assets.graph.inputs.feeds import Pinned
from dedp_assets.graph.inputs.landings import FIELD_CHECKS, FIELD_FIGURES, LETTER_FIGURES
from dedp_assets.patterns.connectors.kafka.framed_values import name_unread
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.parsing.field_changes import audits_of_fields
from dedp_assets.patterns.core.parsing.field_counting import tally_fields
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import quoted, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Target, audits_of_usual, earlier_fields
from dedp_assets.patterns.error_management.dead_letter import LETTER, Field, divert_unprocessable, route
from dedp_assets.patterns.error_management.dead_letter_replay import open_letters, replay_letters
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate

__all__ = ["FEW_DEAD", "FEW_TWICE", "LETTER_STATUSES", "Validation", "letters_of", "rules_of_presence", "rules_of_time"]

_TOLERANCE = 0.1
_USUAL_DUPLICATES = "duplicates_are_as_usual"
FEW_DEAD = Audit(name="dead_letters_are_few", of="dead", per="read", warn_above=0, fail_above=0.1, approvable=True)
"""Audit of the share of dead letters."""
FEW_TWICE = Audit(
    name="duplicates_are_few", of="duplicates", per="read", warn_above=0.1, fail_above=0.5, approvable=True
)
"""Audit of the share of duplicates."""
LETTER_STATUSES = ("open", "replayed", "given_up")
"""Statuses of a dead letter."""


def _unchanged(rows: Any) -> Any:  # noqa: ANN401 - a frame or a split
    return rows


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The declaration of how landed records become valid rows, and all others dead letters.

    Attributes:
        fields: column -> field of the record that it is read from.
        rules: reason -> SQL predicate that a valid record satisfies.
        identity: columns that tell where a record landed.
        payload: column with the record.
        raw: further columns of the record as it landed.
        carry: columns of the landed rows that valid rows and letters keep besides.
        related: column of the upstream table by whose values letters are found that the records may have been; empty
            for all letters.
        keys: columns that tell valid records apart; of equal ones in a partition one stays.
        order_by: columns that decide which of equal records comes first, before the order of landing.
        keep: the record of a key that stays.
        compares: whether the share of duplicates is compared with the partitions before.
        counts: policy for fields that no column declares; ``None``: fields are not counted.
        measures: further figures of the landed rows, name -> SQL aggregate.
        framed: whether records come from a topic, where they may name a schema that could not be read.
        parsed: conversion of landed rows to rows with the payload.
        reworded: conversion of a judged split, such as other reasons.
        written: conversion of the split that is written, such as other names of columns.
    """

    fields: Mapping[str, Field]
    rules: Mapping[str, str]
    identity: Sequence[str]
    payload: str = "raw"
    raw: Sequence[str] = ("raw_bytes",)
    carry: Sequence[str] = ()
    related: str = ""
    keys: Sequence[str] = ()
    order_by: Sequence[str] = ()
    keep: Literal["first", "last"] = "first"
    compares: bool = False
    counts: Literal["report", "refuse"] | None = None
    measures: Mapping[str, str] = field(default_factory=dict)
    framed: bool = False
    parsed: Callable[[Any], Any] = _unchanged
    reworded: Callable[[Split], Split] = _unchanged
    written: Callable[[Split], Split] = _unchanged

    def compute(self, landed: Pinned, into: Target, dead: Target, *, rows: Any = None) -> WriteResult:  # noqa: ANN401 - a frame
        """Type, validate and deduplicate the records of one partition over all deliveries.

        Args:
            landed: the landed records.
            into: target of the valid rows.
            dead: target of the letters.
            rows: those of the landed records that belong to the partition; all by default.
        """
        rows = self.parsed(landed.rows() if rows is None else rows)
        if self.counts:
            types = {name: each.type for name, each in self.fields.items()}
            rows, seen = tally_fields(rows, self.payload, types, identity=self.identity, measures=self.measures)
            into = into.with_audits(*audits_of_fields(self.counts, earlier_fields(into.table.ledger, into.partition)))
        else:
            rows, seen = tally(rows, identity=self.identity, measures=self.measures)
        into = into.with_audits(*self._usual(into))
        split = self._once(self._judged(rows, self._letters(landed, dead)))
        return route(self.written(split), into.reading(seen), dead, allow_empty=True)

    def replay(self, into: Target, dead: Target) -> WriteResult:
        """Replay the dead letters of one partition by the present rules, and re-admit valid records."""
        since = dead.table.ledger.version()
        letters = self.parsed(open_letters(dead.table, filed_under=dead.partition, version=since))
        split = self.written(self._once(self._judged(letters)))
        return replay_letters(split, into, dead, keys=self.keys or self.identity, since=since)

    def gates(self, stated: Gates = Gates()) -> Gates:  # noqa: B008 - a record that nobody can change
        """Return gates with audits of dead letters and duplicates, and with reports on duplicates and fields."""
        named = {audit.name for audit in stated.audits}
        own = [audit for audit in (FEW_DEAD, *([FEW_TWICE] if self.keys else ())) if audit.name not in named]
        text = (
            f"Warns if the share of duplicates is more than {_TOLERANCE:.0%} of all lines away from that of the "
            "partitions before."
        )
        usual = {_USUAL_DUPLICATES: text} if self.compares else {}
        return replace(
            stated,
            audits=(*own, *stated.audits),
            if_empty=stated.if_empty or "Warns of a partition without a valid record.",
            reports={**usual, **(FIELD_CHECKS if self.counts else {}), **stated.reports},
        )

    def about(self, stated: About, *, dead: str) -> About:
        """Return facts with the readers of the letters, and the figures of letters and fields.

        Args:
            stated: owner and further facts.
            dead: name of the table of the letters.
        """
        return replace(
            stated,
            used_by=stated.used_by or f"whoever mends the source: the letters that wait are in {dead}",
            figures={**LETTER_FIGURES, **(FIELD_FIGURES if self.counts else {}), **stated.figures},
        )

    def judge(self, rows: Any, letters: Any = None, *, rules: Mapping[str, str] | None = None) -> Split:  # noqa: ANN401 - frames
        """Type and judge records; the rows of others come with the reason.

        Args:
            rows: records with the payload.
            letters: earlier dead letters, whose status a record of the same identity keeps.
            rules: other rules than the declared ones.
        """
        return divert_unprocessable(
            rows,
            letters,
            payload=self.payload,
            raw=list(self.raw),
            schema=self.fields,
            identity=self.identity,
            carry=list(self.carry),
            rules=self.rules if rules is None else rules,
        )

    def _judged(self, rows: Any, letters: Any = None) -> Split:  # noqa: ANN401 - frames
        split = self.reworded(self.judge(rows, letters))
        return name_unread(split) if self.framed else split

    def _letters(self, landed: Pinned, dead: Target) -> Any:  # noqa: ANN401 - a frame or nothing
        """Read the letters that the records may have been, of all partitions that a fix may move."""
        if self.related:
            return landed.related(dead.table, self.related)
        return dead.table.read({}, version=dead.table.ledger.version()) if dead.table.ledger.exists() else None

    def _usual(self, into: Target) -> tuple[Audit, ...]:
        if not self.compares:
            return ()
        usual = {_USUAL_DUPLICATES: "duplicates"}
        return audits_of_usual(
            into.table.ledger, usual, partition=into.partition, tolerance=_TOLERANCE, severity="warn"
        )

    def _once(self, split: Split) -> Split:
        if not self.keys:
            return split
        order = [*self.order_by, *(column for column in self.identity if column not in self.order_by)]
        return deduplicate(split, keys=list(self.keys), order_by=order, keep=self.keep)


def letters_of(table: str, columns: Mapping[str, Column], *, filed_under: str, comment: str) -> TableSpec:
    """Declare the table of a table's dead letters, by date.

    Args:
        table: name of the table of valid rows.
        columns: the record as it landed, and where.
        filed_under: meaning of the date that letters are partitioned by.
        comment: meaning of a letter.
    """
    return TableSpec(
        f"{table}_dead_letter",
        {**columns, **LETTER, "filed_under": Column("DATE", filed_under, required=True)},
        partition_by=("filed_under",),
        event_time="occurred_at",
        checks={"known_status": f"status IN ({', '.join(map(quoted, LETTER_STATUSES))})"},
        comment=comment,
    )


def rules_of_presence(types: Mapping[str, str], *, blank: Literal["missing", "value"] = "missing") -> dict[str, str]:
    """Build the rules on required columns.

    Args:
        types: required column -> SQL type.
        blank: whether a text of blanks is ``missing`` or a ``value``.
    """

    def is_there(name: str, kind: str) -> str:
        if kind.upper() != "STRING":  # a text that is no value of the type has a reason of its own
            return f"{identifier(name)} IS NOT NULL OR {identifier(f'{name} text')} IS NOT NULL"
        return f"trim({identifier(name)}) <> ''" if blank == "missing" else f"{identifier(name)} IS NOT NULL"

    return {f"{name} is missing": is_there(name, kind) for name, kind in types.items()}


def rules_of_time(
    name: str,
    *,
    earliest: str,
    too_early: str,
    latest: str,
    own: str,
    filed: str = "event_date",
    misfiled: str = "not on the date it was filed under",
) -> dict[str, str]:
    """Build the rules on the event time of a record.

    Args:
        name: the event time's column.
        earliest: SQL of the first possible time.
        too_early: reason for an earlier one, behind the name.
        latest: SQL of the last possible time.
        own: SQL of the partition that the time lies in.
        filed: column with the partition that the record was filed under when it landed.
        misfiled: reason for a record of another partition, behind the name.
    """
    time = identifier(name)
    return {
        f"{name} is {too_early}": f"{time} IS NULL OR {time} >= {earliest}",
        f"{name} is in the future of its landing": f"{time} IS NULL OR {time} <= {latest}",
        f"{name} is {misfiled}": (
            f"{time} IS NULL OR NOT {time} BETWEEN {earliest} AND {latest} OR coalesce({own} = {filed}, false)"
        ),
    }
