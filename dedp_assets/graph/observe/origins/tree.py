"""Tree of the commits behind a partition's rows, upstream down to landing files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.feeds import Values
from dedp_assets.graph.observe.origins.makers import makers_of, partitions_within
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta import Commit
from dedp_assets.patterns.error_management._letters import LETTER

__all__ = ["Input", "Made", "Origin", "Origins", "Read", "more_of"]

_MOST_COMMITS = 10
_SEEN = "explained above"
_NOTED = ("because", "to", "trigger", "delivery", "watermark", "offsets", "expired", "execution")
"""Notes of a commit record about sources of the rows and requesters of the run."""

Read = tuple[str, list[Values], int]
"""Upstream table of a run, the partitions that were read, and the version."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a commit: a table at a version, or a source with the identity of the content.

    Attributes:
        name: the table, or the source.
        read: version of the last change of the partitions read, or identity of the content.
        is_reference: whether rows are looked up there and none is taken over.
        files: landing file -> lines, of a source of files.
        origin: the commits behind the rows of the table; ``None`` for a source.
    """

    name: str
    read: Any
    is_reference: bool = False
    files: Mapping[str, int] = field(default_factory=dict)
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A commit that made rows, by the record of the run.

    Attributes:
        did: the record was of an overwrite, a merge, a replay of letters, an expiry or a RESTORE, by Delta's name.
        audits: audit -> ``passed``, ``warned``, ``failed`` or ``approved by`` somebody, with the note.
        letters: table of the dead letters of the same run -> letters by status.
        inputs: what the run read; empty for a commit of another engine.
        restored_to: the version that a RESTORE made current again; ``None`` for any other commit.
    """

    version: int
    at: str
    did: str
    run: str = ""
    code: str = ""
    pattern: str = ""
    cause: str = ""
    verdict: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    audits: Mapping[str, str] = field(default_factory=dict)
    approval: Mapping[str, Any] | None = None
    replay: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)
    letters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    restored_to: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The commits behind the rows of a table's partitions at a version.

    Attributes:
        partitions: the partitions, each by its values; empty for a table without partitions.
        commits: newest first; at most ten.
        older: number of further commits.
        restores: RESTOREs by which these commits are in force again.
        changed_since: version of a later change of the partitions, which is in no row of the reader; ``None`` without.
        refused: reason why a later run of the partition was refused; empty without a refusal.
        ends: why nothing more is known; empty if all is.
    """

    table: str
    version: int
    partitions: tuple[Values, ...]
    commits: tuple[Made, ...] = ()
    older: int = 0
    restores: tuple[Made, ...] = ()
    changed_since: int | None = None
    refused: str = ""
    ends: str = ""


@dataclass(slots=True)
class Origins:
    """Search for the origins of rows in the logs of a lake.

    Attributes:
        lake: the tables.
        declared: the project's tables; of another one, the log alone is known.
    """

    lake: Lake
    declared: Sequence[LakeTable[...]] = ()
    _seen: set[object] = field(default_factory=set)
    _path: list[str] = field(default_factory=list)

    def table(self, name: str) -> LakeTable[...] | None:
        """Return the declaration that writes a table; ``None`` for an undeclared table."""
        return next((each for each in self.declared if name in [spec.name for spec in each.tables]), None)

    def of(self, name: str, partition: Values, key: str) -> Origin:
        """Return the origin of a partition's present rows, with a later refusal.

        Args:
            name: the table.
            partition: values of partition columns, or of what tells executions apart.
            key: the partition key of its runs, under which refusals are noted.
        """
        self._seen.clear()
        origin = self._origin(name, [partition], self.lake.ledger(name).version())
        return replace(origin, refused=self.refused(name, key))

    def refused(self, name: str, key: str) -> str:
        """Return reason and run of a partition's refusal, until a later run succeeds; empty without one."""
        note = self.refusal(name, key)
        return f"{note.reason} (run {note.run_id})" if note else ""

    def refusal(self, name: str, key: str) -> Refusal | None:
        """Return the standing refusal of a partition, or ``None``."""
        table = self.table(name)
        return Refusals(self.lake.refused(table.spec.name if table else name)).by_key().get(key)

    def made(self, name: str, commit: Commit, *, follow: bool = True) -> Made:
        """Return a commit by the record of the run, with the origins of the inputs if followed."""
        record = commit.record or commit.maintenance
        if record is None:
            at = f"{commit.timestamp:%Y-%m-%d %H:%M:%S}"
            return Made(commit.version, at, commit.operation, restored_to=commit.restored_to)
        inputs = self._inputs(name, record, follow=follow)
        return Made(
            version=commit.version,
            at=f"{commit.timestamp:%Y-%m-%d %H:%M:%S}",
            did=commit.operation,
            run=record.run_id,
            code=record.code_version,
            pattern=record.pattern,
            cause=record.cause,
            verdict=record.verdict,
            rows=record.rows if record.counted else {},
            audits=dict(map(_judged, record.findings)),
            approval=record.approval,
            replay=record.replay,
            notes={note: record.notes[note] for note in _NOTED if record.notes.get(note)},
            letters=dict(self._letters(name, record)),
            inputs=tuple(inputs),
            restored_to=commit.restored_to,
        )

    def read_by(self, name: str, record: CommitRecord) -> Iterator[Read]:
        """List the upstream tables of a record, each with the partitions that were read, and the version."""
        for upstream, version in record.inputs.items():
            if self._is_table(upstream) and isinstance(version, int):
                yield upstream, self._partitions(name, record, upstream, version), version

    def _origin(self, name: str, named: Sequence[Values], version: int) -> Origin:
        ledger = self.lake.ledger(name)
        try:
            partitions = partitions_within(ledger, named, version=version)
            if (seen := (name, version, tuple(map(str, partitions)))) in self._seen:
                return Origin(name, version, partitions, ends=_SEEN)
            self._seen.add(seen)
            found = makers_of(ledger, partitions, version=version)
            later = ledger.changed(*named)
        except PatternError as error:
            return Origin(name, version, tuple(named), ends=str(error))
        return Origin(
            name,
            version,
            partitions,
            commits=tuple(self.made(name, commit) for commit in found.commits[:_MOST_COMMITS]),
            older=max(len(found.commits) - _MOST_COMMITS, 0),
            restores=tuple(self.made(name, commit, follow=False) for commit in found.restores),
            changed_since=later.version if later and later.version > version else None,
            ends=found.ends or ("" if found.commits else "no commit of the log is about the partition"),
        )

    def _inputs(self, name: str, record: CommitRecord, *, follow: bool) -> Iterator[Input]:
        tables = {upstream: (parts, version) for upstream, parts, version in self.read_by(name, record)}
        references: Mapping[str, int] = record.notes.get("references") or {}
        files: Mapping[str, int] = record.notes.get("files") or {}
        for source, read in record.inputs.items():
            if source in tables:
                parts, version = tables[source]
                origin = self._below(name, source, parts, version) if follow else None
                yield Input(source, version, is_reference=source in references, origin=origin)
            else:
                yield Input(source, read, files=files)
        for table, version in references.items():
            if table not in tables:
                origin = self._below(name, table, [{}], version) if follow else None
                yield Input(table, version, is_reference=True, origin=origin)

    def _below(self, name: str, upstream: str, named: Sequence[Values], version: int) -> Origin:
        """Return the origin of an input; a table above in the tree ends the search."""
        self._path.append(name)
        try:
            if upstream not in self._path:
                return self._origin(upstream, named, version)
        finally:
            self._path.pop()
        return Origin(upstream, version, tuple(named), ends=f"{more_of(upstream, named)} goes on")

    def _is_table(self, name: str) -> bool:
        return name.count("/") == 1 and self.lake.ledger(name).exists()

    def _partitions(self, name: str, record: CommitRecord, upstream: str, version: int) -> list[Values]:
        """Return the upstream partitions of a run, by the declared feed or the changes of the version."""
        table = self.table(name)
        key = next(iter(record.partition.values()), "")
        for spec, feed in table.reads.tables.items() if table else ():
            if spec.name == upstream:
                return list(feed.reads(key))
        try:
            return [dict(each) for each in self.lake.ledger(upstream).commit(version).changed] or [{}]
        except PatternError:
            return [{}]

    def _letters(self, name: str, record: CommitRecord) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Yield the tables of letters that the same run wrote, with the counts by status."""
        table = self.table(name)
        for spec in table.beside if table else ():
            ledger = self.lake.ledger(spec.name)
            if spec.name == name or not set(LETTER) <= set(spec.columns) or not ledger.exists():
                continue
            owned = owned_by(next(iter(record.partition.values()), ""), spec)
            commit = ledger.last(partial(_is_of, record.run_id, owned))
            if commit and commit.record:
                figures = commit.record.figures
                yield spec.name, {each: figures[each] for each in ("open", "replayed", "given_up") if figures.get(each)}


def more_of(table: str, partitions: Sequence[Values]) -> str:
    """Write the command that explains the first of some partitions."""
    keys = [value for values in partitions[:1] for value in values.values() if value]
    return f"`dedp explain {' '.join([table, *keys[:1]])}`"


def _is_of(run: str, owned: Values, commit: Commit) -> bool:
    """Return whether a commit about a partition is of a run."""
    return commit.record is not None and commit.record.run_id == run and commit.touches(owned)


def _judged(finding: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of a finding, and the verdict with the note."""
    failed = "warned" if finding.get("severity") == "warn" else "failed"
    by = f"approved by {finding['approved_by']}" if finding.get("approved_by") else failed
    verdict = "passed" if finding.get("passed") else by
    note = finding.get("note") or ""
    return str(finding.get("name")), f"{verdict}: {note}" if note else verdict
