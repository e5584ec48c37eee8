"""Trail of a row: the commits and tables on the way, down to landing file and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dedp_assets.graph.inputs.feeds import Values
from dedp_assets.graph.observe.origins.makers import makers_of
from dedp_assets.graph.observe.origins.stored_rows import MOST_SHOWN, Row, StoredRows, text_of, validation_of
from dedp_assets.graph.observe.origins.tree import Made, Origins, Read, more_of
from dedp_assets.graph.run.column_traces import traced_last
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta import Commit

__all__ = ["LINE", "Line", "Trail", "Trails"]

LINE = ("source_file", "line_number")
"""Columns of a record's place in the landing zone."""


@dataclass(frozen=True, slots=True)
class Line:
    """The place of a landed record.

    Attributes:
        source: delivery of a dataset, or topic.
        file: file of the delivery, or partition of the topic.
        line: line of the file, counted from 1.
        repeats: the line that stays, of a line that was a duplicate of the same key; empty for any other.
    """

    source: str
    file: str
    line: int
    repeats: str = ""


@dataclass(frozen=True, slots=True)
class Trail:
    """The rows of one table on the trail, with commits, and the trail upstream.

    Attributes:
        by: columns by whose values the rows were found.
        rows: at most ten rows, with the values that the classes of the columns show.
        count: number of all rows.
        brought_by: the commits that brought the rows as they are.
        lines: places of the rows in the landing zone, where the rows come from there.
        upstream: the trail in each table that was read.
        gone: the version that was read, if its rows are gone and those of the newest version are shown.
        repeats: landed lines with the keys of the rows that were left out as duplicates.
        ends: why the trail ends here; empty where it goes on, or has reached the landing zone.
    """

    table: str
    version: int
    by: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]
    count: int
    brought_by: tuple[Made, ...] = ()
    lines: tuple[Line, ...] = ()
    upstream: tuple[Trail, ...] = ()
    repeats: tuple[Line, ...] = ()
    gone: int | None = None
    ends: str = ""


@dataclass(frozen=True)
class Trails:
    """Trails of rows through the tables of a lake."""

    origins: Origins

    @property
    def stored(self) -> StoredRows:
        """The rows of the lake."""
        return StoredRows(self.origins)

    def of(self, name: str, partitions: Sequence[Values], version: int, wanted: Sequence[Values]) -> Trail | None:
        """Return the trail of the rows with wanted values, or ``None`` for no row.

        Args:
            name: the table.
            partitions: partitions to search; all of them, if none is named.
            version: version of the table.
            wanted: alternatives of values by column.
        """
        rows = self.stored.found(name, partitions, version, wanted)
        return self._followed(name, version, wanted, rows) if rows else None

    def _followed(self, name: str, version: int, wanted: Sequence[Values], rows: list[Row]) -> Trail:
        few = rows[:MOST_SHOWN]
        brought = self._brought(name, version, wanted, few)
        upstream, lines = list[Trail](), list[Line]()
        for commit, mine in brought:
            upstream += self._upstream(name, commit, mine, [*wanted[0]])
            lines += self._lines(name, commit, mine)
        return Trail(
            name,
            version,
            tuple(wanted[0]),
            tuple(self.stored.shown(name, row) for row in few),
            len(rows),
            tuple(self.origins.made(name, commit, follow=False) for commit, _ in brought),
            tuple(lines),
            tuple(upstream),
            tuple(self._repeats(name, version, few)),
            ends=self._end(name, brought) if not (lines or upstream) else "",
        )

    def _brought(
        self, name: str, version: int, wanted: Sequence[Values], rows: Sequence[Row]
    ) -> list[tuple[Commit, list[Row]]]:
        """Pair the commits that brought rows with these rows, the newest commit first.

        Of several commits of a partition the oldest one since which a row is unchanged: a merge copies other rows.
        """
        pairs, ledger = dict[int, tuple[Commit, list[Row]]](), self.origins.lake.ledger(name)
        for partition in _distinct(self._partition(name, version, row) for row in rows):
            left = [row for row in rows if self._partition(name, version, row) == partition]
            commits = makers_of(ledger, [partition], version=version).commits
            for number, commit in enumerate(commits):
                older = commits[number + 1 :]
                is_known = not older or older[0].version >= ledger.begins_at()
                there = self._after(name, partition, older[0], wanted) if older and is_known and left else []
                for each in (commit,) if is_known else commits[number:]:  # any of these, as their versions are gone
                    pairs.setdefault(each.version, (each, []))[1].extend(row for row in left if repr(row) not in there)
                left = [row for row in left if repr(row) in there]
        return [(commit, found) for _, (commit, found) in sorted(pairs.items(), reverse=True) if found]

    def _after(self, name: str, partition: Values, commit: Commit, wanted: Sequence[Values]) -> list[str]:
        """Return the texts of the rows that a commit left in a partition; none if a vacuum removed files."""
        try:
            return [*map(repr, self.stored.found(name, [partition], commit.version, wanted))]
        except PatternError:
            return []

    def _upstream(self, name: str, commit: Commit, rows: Sequence[Row], by: Sequence[str]) -> Iterator[Trail]:
        for upstream, partitions, version in self.origins.read_by(name, commit.record) if commit.record else ():
            try:
                yield self._into(name, (upstream, partitions, version), rows, by)
            except PatternError as error:
                yield Trail(upstream, version, (), (), 0, ends=str(error))

    def _into(self, name: str, read: Read, rows: Sequence[Row], by: Sequence[str]) -> Trail:
        """Return the trail of rows in an upstream table; of a version that is gone, in the newest one."""
        upstream, partitions, version = read
        nothing = Trail(upstream, version, (), (), 0)
        if upstream == name:
            return replace(nothing, ends=f"rows of the partition before: {more_of(name, partitions)}")
        columns = self.survives(name, upstream, by)
        if isinstance(columns, str):
            return replace(nothing, ends=columns)
        wanted = _distinct({theirs: text_of(row[own]) for own, theirs in columns.items()} for row in rows)
        at = self.stored.readable(upstream, version)
        found = self.stored.found(upstream, partitions, at, wanted)
        if not found:
            return replace(nothing, ends=f"no row of {upstream} has the values of {', '.join(columns.values())}")
        return replace(self._followed(upstream, at, wanted, found), gone=None if at == version else version)

    def survives(self, name: str, upstream: str, by: Sequence[str]) -> dict[str, str] | str:
        """Return the upstream column of each key column, or of the landing place; else the reason.

        Args:
            name: the table.
            upstream: a table that it reads.
            by: the key.
        """
        own, theirs = self.stored.columns(name), self.stored.columns(upstream)
        validation = validation_of(self.origins.table(name))
        place = [*(validation.identity if validation else LINE)]
        if {*place} <= {*own} & {*theirs}:
            return {column: column for column in place}
        columns = {column: found for column in by if (found := self.origin_of(name, upstream, column, theirs))}
        lost = [column for column in by if column not in columns]
        return f"no column of {upstream} holds {', '.join(lost)} of {name}: the key ends here" if lost else columns

    def origin_of(self, name: str, upstream: str, column: str, theirs: Mapping[str, Any]) -> str:
        """Return the upstream column with the same values, by the declaration or the trace; empty without one."""
        table = self.origins.table(name)
        declared = table.lineage()[name].deps_by_column.get(column, []) if table else []
        named = {dep.column_name for dep in declared if "/".join(dep.asset_key.path) == upstream}
        if column in theirs and (column in named or table is None):
            return column
        traced = traced_last(self.origins.lake.column_lineage(name))
        inputs = traced.columns[column].inputs if traced and column in traced.columns else ()
        same = [each.column for each in inputs if each.table == upstream and each.transformation == "IDENTITY"]
        return same[0] if len(same) == 1 and not any(each.field for each in inputs) else ""

    def places(self, name: str, version: int, rows: Sequence[Row]) -> list[Line]:
        """List the landing files and lines of rows; empty for a table without the columns of file and line."""
        if not rows or not {*LINE} <= {*rows[0]}:
            return []
        wanted = _distinct({column: text_of(row[column]) for column in LINE} for row in rows)
        brought = self._brought(name, version, wanted, rows)
        return [line for commit, mine in brought for line in self._lines(name, commit, mine)]

    def _repeats(self, name: str, version: int, rows: Sequence[Row]) -> Iterator[Line]:
        """Yield the landed lines that were duplicates of deduplicated rows, each with the line that stays."""
        table = self.origins.table(name)
        validation = validation_of(table) if table and table.spec.name == name else None
        if table is None or validation is None or not ({*validation.keys, *LINE} <= {*rows[0]} and validation.keys):
            return
        beside = {spec.name for spec in table.tables}
        for row in rows:
            wanted, stays = {key: text_of(row[key]) for key in validation.keys}, f"{row[LINE[0]]} line {row[LINE[1]]}"
            for _, (upstream, partitions, version_read) in self.inputs(
                name, self._partition(name, version, row), version
            ):
                if upstream in beside or validation.payload not in self.stored.columns(upstream):
                    continue
                read = self.stored.readable(upstream, version_read)
                found = self.stored.recorded(upstream, partitions, read, (validation.payload, wanted))
                others = [each for each in found if any(each.get(c) != row.get(c) for c in validation.identity)]
                yield from (replace(line, repeats=stays) for line in self.places(upstream, read, others[:MOST_SHOWN]))

    def _partition(self, name: str, version: int, row: Row) -> Values:
        state = self.origins.lake.ledger(name).state(version)
        return state.spelled({column: text_of(row[column]) for column in state.partition_columns})

    def inputs(self, name: str, partition: Values, version: int) -> Iterator[tuple[CommitRecord, Read]]:
        """Yield the upstream tables of a partition's rows, each once, with a record that names the input.

        Args:
            name: the table.
            partition: the partition, in the log's spelling.
            version: version of the table.
        """
        seen = set[tuple[str, int]]()
        for commit in makers_of(self.origins.lake.ledger(name), [partition], version=version).commits:
            for read in self.origins.read_by(name, commit.record) if commit.record else ():
                if commit.record and (read[0], read[2]) not in seen:
                    seen.add((read[0], read[2]))
                    yield commit.record, read

    def _lines(self, name: str, commit: Commit, rows: Sequence[Row]) -> Iterator[Line]:
        """Yield the places of rows that a commit brought from a source outside of the lake."""
        record = commit.record
        tables = {upstream for upstream, _, _ in self.origins.read_by(name, record)} if record else set()
        sources = [each for each in record.inputs if each not in tables] if record else []
        for row in rows if sources and {*LINE} <= {*self.stored.columns(name)} else ():
            yield Line(sources[0] if len(sources) == 1 else "", str(row[LINE[0]]), int(row[LINE[1]]))

    def _end(self, name: str, brought: Sequence[tuple[Commit, list[Row]]]) -> str:
        if not brought:
            return f"the log of {name} no longer names the commit that brought the row"
        commit = brought[-1][0]
        if commit.record is None:
            return f"version {commit.version} of {name} was written by another engine, whose commit names no input"
        if sources := [*commit.record.inputs]:
            return f"the rows of {name} come from {', '.join(sources)}, and name no file and line there"
        return f"the record of version {commit.version} of {name} names no input"


def _distinct(values: Any) -> list[Values]:  # noqa: ANN401 - an iterable of mappings
    return list({str(sorted(each.items())): each for each in values}.values())
