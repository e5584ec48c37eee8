"""Endings of missing rows: dead letter, duplicate, other partition, erasure, age."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dedp_assets.graph.inputs.feeds import Values
from dedp_assets.graph.observe.origins.makers import makers_of
from dedp_assets.graph.observe.origins.stored_rows import MOST_SHOWN, Row, StoredRows, holds, text_of, validation_of
from dedp_assets.graph.observe.origins.trails import LINE, Trails
from dedp_assets.graph.observe.origins.tree import Origins
from dedp_assets.patterns.core.parsing.json_fields import json_object
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.delta import Commit
from dedp_assets.patterns.error_management._letters import LETTER

__all__ = ["Ending", "Endings"]

Kind = Literal[
    "dead letter", "duplicate", "other partition", "not read yet", "left out", "suppressed", "expired", "unknown"
]


@dataclass(frozen=True, slots=True)
class Ending:
    """The place where a row has ended.

    Attributes:
        kind: the kind of the place.
        where: table and partition, or file and line.
        why: sentence with the reason.
        row: the record there, with the values that the classes of the columns show.
    """

    kind: Kind
    where: str
    why: str
    row: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Endings:
    """Search for missing rows in the tables around a partition."""

    trails: Trails

    @property
    def _origins(self) -> Origins:
        return self.trails.origins

    @property
    def _stored(self) -> StoredRows:
        return self.trails.stored

    def of(self, name: str, partition: Values, wanted: Values) -> list[Ending]:
        """List where a row with wanted values may have ended; one unknown ending, if nowhere.

        Args:
            name: the table.
            partition: the partition in which the row is missed.
            wanted: column -> text of the value.
        """
        ledger = self._origins.lake.ledger(name)
        made = makers_of(ledger, [partition], version=ledger.version()).commits
        found = [*self._elsewhere(name, wanted), *self._letters(name, wanted)]
        if made and made[0].expires:
            why = f"the partition was removed by age at version {made[0].version}, on {made[0].timestamp:%Y-%m-%d}"
            found.append(Ending("expired", f"{name} {slice_name(partition)}", why))
        found = found or [*self._upstream(name, partition, wanted)] or [*self._suppressed(name, [wanted])]
        return found[:MOST_SHOWN] or [_unknown(name, partition, made)]

    def _elsewhere(self, name: str, wanted: Values) -> Iterator[Ending]:
        by = self._origins.lake.ledger(name).state().partition_columns
        for row in self._stored.found(name, (), None, [wanted])[:MOST_SHOWN]:
            where = slice_name({column: text_of(row[column]) for column in by})
            shown = self._stored.shown(name, row)
            yield Ending("other partition", f"{name} {where}", "the row lies in another partition", shown)

    def _letters(self, name: str, wanted: Values) -> Iterator[Ending]:
        table = self._origins.table(name)
        for spec in table.beside if table else ():
            ledger = self._origins.lake.ledger(spec.name)
            if spec.name == name or not set(LETTER) <= set(spec.columns) or not ledger.exists():
                continue
            state = ledger.state()
            for row in self._letters_of(spec.name, wanted):
                where = slice_name({column: text_of(row[column]) for column in state.partition_columns})
                place = f", {_place(row)}" if {*LINE} <= {*row} else ""
                why = (
                    f"{row['reason']} ({row['error_class']}, {row['status']} since {row['dead_lettered_at']:%Y-%m-%d})"
                )
                shown = self._stored.shown(spec.name, row, why=row["reason"])
                yield Ending("dead letter", f"{spec.name} {where}{place}", why, shown)

    def _letters_of(self, letters: str, wanted: Values) -> list[Row]:
        """Return the letters of a place, or with wanted values in the record, or in a torn text."""
        columns = self._stored.columns(letters)
        if {*wanted} <= {*columns}:
            return self._stored.found(letters, (), None, [wanted])[:MOST_SHOWN]
        texts = [name for name, each in columns.items() if each["type"] == "string" and name not in (*LETTER, *LINE)]
        value = max(filter(None, wanted.values()), key=len, default="")
        found = self._stored.scan(letters).holding(value, texts).to_pylist() if value and texts else []
        return [row for row in found if any(_may_be(row[c], wanted) for c in texts)][:MOST_SHOWN]

    def _upstream(self, name: str, partition: Values, wanted: Values) -> Iterator[Ending]:
        newest = self._origins.lake.ledger(name).version()
        for record, (upstream, partitions, version) in self.trails.inputs(name, partition, newest):
            if upstream in self._own(name):
                continue
            find = self._search(name, upstream, wanted)
            if find is None:
                continue
            read, there = find(partitions, self._stored.readable(upstream, version)), find((), None)
            for row in read[:MOST_SHOWN]:
                yield from self._left_out(name, partition, row, upstream, record)
            for row in [each for each in there if each not in read][:MOST_SHOWN]:
                yield self._not_read(upstream, partitions, row, version)
            if not there and (columns := self._survivors(name, upstream, wanted)):
                ends = self.of(upstream, partitions[0] if partitions else {}, columns)
                yield from (each for each in ends if each.kind != "unknown")

    def _own(self, name: str) -> set[str]:
        table = self._origins.table(name)
        return {spec.name for spec in table.tables} if table else {name}

    def _search(self, name: str, upstream: str, wanted: Values) -> Any:  # noqa: ANN401 - a function or nothing
        """Return a search of upstream rows by wanted values; ``None`` if no upstream column holds the values."""
        theirs, validation = self._stored.columns(upstream), validation_of(self._origins.table(name))
        if columns := self._survivors(name, upstream, wanted):
            return lambda partitions, version: self._stored.found(upstream, partitions, version, [columns])
        if validation and validation.payload in theirs:
            field_ = (validation.payload, wanted)
            return lambda partitions, version: self._stored.recorded(upstream, partitions, version, field_)
        return None

    def _survivors(self, name: str, upstream: str, wanted: Values) -> Values:
        """Return the wanted values by upstream columns; none, if one of the columns has no upstream column."""
        theirs = self._stored.columns(upstream)
        named = {column: self.trails.origin_of(name, upstream, column, theirs) for column in wanted}
        return {named[column]: value for column, value in wanted.items()} if all(named.values()) else {}

    def _left_out(
        self, name: str, partition: Values, row: Row, upstream: str, record: CommitRecord
    ) -> Iterator[Ending]:
        """Yield why a row that was read is in no row of the table: duplicate, erased person, or a filter."""
        shown, where = self._stored.shown(upstream, row), _place(row) if {*LINE} <= {*row} else upstream
        validation = validation_of(self._origins.table(name))
        landed = json_object(str(row.get(validation.payload))) if validation else None
        if validation and landed and validation.keys:
            key = {column: text_of(landed.get(column)) for column in validation.keys}
            for stays in self._stored.found(name, [partition], None, [key])[:1]:
                why = f"{_place(stays)} has the same {', '.join(key)} and stays, as the {validation.keep} one"
                yield Ending("duplicate", where, why, shown)
                return
        erased = [*self._suppressed(name, [row, landed or {}])]
        yield from erased
        if not erased:
            counts = ", ".join(
                f"{record.rows[n]} {n}" for n in ("dead", "duplicates", "filtered") if record.rows.get(n)
            )
            why = f"the row was read by run {record.run_id}, and is in no row of {name}"
            yield Ending("left out", where, f"{why}; that run counts {counts or 'every row as written'}", shown)

    def _not_read(self, upstream: str, partitions: Sequence[Values], row: Row, version: int) -> Ending:
        by = self._origins.lake.ledger(upstream).state().partition_columns
        own = {column: text_of(row[column]) for column in by}
        where = f"{upstream} {slice_name(own)}" + (f", {_place(row)}" if {*LINE} <= {*row} else "")
        shown = self._stored.shown(upstream, row)
        if any(each.items() <= own.items() for each in partitions):
            why = f"the row came after version {version}, which the partition was computed from"
            return Ending("not read yet", where, why, shown)
        return Ending("other partition", where, "the row belongs to another partition", shown)

    def _suppressed(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Ending]:
        """Yield the rows whose person is on the list of erased persons."""
        listed = self._origins.lake.suppression()
        named = {column: each.subject for column, each in self._stored.spec(name).columns.items() if each.subject}
        if not named or not listed.state():
            return
        for kind, value in {(kind, text_of(row.get(column))) for row in rows for column, kind in named.items()}:
            if value and listed.among(kind, [value]):
                why = f"the {kind} was erased by request: no write brings rows of the {kind} back"
                yield Ending("suppressed", name, why)


def _unknown(name: str, partition: Values, made: Sequence[Commit]) -> Ending:
    """Return the ending of a row that nobody has seen, with the versions that were read."""
    read = [f"{each} {read}" for commit in made if commit.record for each, read in commit.record.inputs.items()]
    why = f"no row, letter or landed record has the values; the partition was computed from {', '.join(read)}"
    if not read:
        why = "no commit of the log names what the partition was computed from"
    return Ending("unknown", f"{name} {slice_name(partition)}", why)


def _may_be(text: str | None, wanted: Values) -> bool:
    """Return whether a record has the wanted values, or is none and holds their texts."""
    record = json_object(text) if text else None
    if record is None:
        return bool(text) and all(value is None or value in str(text) for value in wanted.values())
    return holds(record, wanted)


def _place(row: Row) -> str:
    return f"{row[LINE[0]]} line {row[LINE[1]]}"
