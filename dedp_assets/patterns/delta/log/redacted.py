"""Redacted history: commits that a purge removed from a table's log, without values of rows.

A purge removes the log below its own commit, because statistics, predicates and notes of other writers hold values of
rows. The records of the library's writes hold none by contract, and everything downstream lives on them: cursors,
verdicts, positions in topics, changed partitions. So they are kept in one file beside the log, which engines pass over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.log.parsing import pairs_of
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["REDACTED", "RedactedFile", "RedactedHistory", "redacted"]

REDACTED = "_redacted.jsonl"
"""Name of the file in the folder of the log."""

_OF_FILES = ("path", "partitionValues", "size", "modificationTime", "deletionTimestamp", "dataChange")
_OF_INFO = ("timestamp", "inCommitTimestamp", "operation", "readVersion", "isolationLevel", "isBlindAppend")


@dataclass(frozen=True)
class RedactedHistory:
    """Commits by version, and partitions from before the first commit.

    Attributes:
        commits: version -> the commit's actions, as a log has them.
        before: partition -> version of the last change, of partitions that had rows before the first commit.
    """

    commits: Mapping[int, bytes] = field(default_factory=dict)
    before: Mapping[Partition, int] = field(default_factory=dict)

    @cached_property
    def first(self) -> int:
        """The oldest version; -1 without one."""
        return min(self.commits, default=-1)

    def between(self, since: int, until: int) -> Iterator[tuple[int, bytes, bool]]:
        """Yield the commits after ``since`` and before ``until``, oldest first.

        None, if a commit is missing right before ``until``.

        Yields:
            Version, bytes, and whether the version before is known.
        """
        begin = max(since + 1, self.first)
        if self.first >= 0 and all(version in self.commits for version in range(begin, until)):
            for version in range(begin, until):
                yield version, self.commits[version], version > begin or begin == since + 1

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        before = [[[list(pair) for pair in key], version] for key, version in self.before.items()]
        lines = [json.dumps({"before": before}, ensure_ascii=False).encode()]
        for version, raw in sorted(self.commits.items()):
            lines.append(b'{"version":%d,"actions":[%s]}' % (version, b",".join(raw.splitlines())))
        return b"\n".join(lines) + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> RedactedHistory:
        """Read the content of the file."""
        first, *lines = map(json.loads, content.splitlines())
        commits = {line["version"]: _lines(line["actions"]) for line in lines}
        return cls(commits, {tuple((c, v) for c, v in key): version for key, version in first["before"]})


@dataclass
class RedactedFile:
    """The redacted history beside a log, read again where the file is another one."""

    log: Store
    _read: tuple[object, RedactedHistory] | None = None

    @property
    def known(self) -> Mapping[int, bytes]:
        """The commits that were read before, without a look at the file."""
        return self._read[1].commits if self._read else {}

    def history(self) -> RedactedHistory:
        """Read the history; empty without a file, and of a damaged file."""
        try:
            tag = self.log.entry(REDACTED).tag
        except (FileNotFoundError, NotADirectoryError):
            return RedactedHistory()
        if self._read is None or self._read[0] != tag:
            self._read = tag, RedactedHistory()
            with suppress(OSError, ValueError, KeyError, TypeError):
                self._read = tag, RedactedHistory.from_bytes(self.log.read(REDACTED))
        return self._read[1]


def _lines(actions: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(action, ensure_ascii=False).encode() + b"\n" for action in actions)


def redacted(raw: bytes, metadata: Mapping[str, Any]) -> bytes:
    """Return the actions of a commit without values of rows.

    What stays: time and operation, the library's record, transaction ids, and which files of which partitions came and
    went. What goes: statistics, predicates, notes of other writers, findings' notes, tags, and texts of SQL in the
    record, of which a digest stays.

    Args:
        raw: the commit, which may be a redacted one.
        metadata: the present metadata action of the table, which stands for any earlier one.
    """
    return _lines(filter(None, (_redacted(kind, of, metadata) for kind, of in pairs_of(raw) if of)))


def _redacted(kind: str, of: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "commitInfo":
        return {kind: _info(of)}
    if kind in ("add", "remove"):
        kept = {name: of[name] for name in _OF_FILES if name in of}
        rows = json.loads(of.get("stats") or "{}").get("numRecords") if kind == "add" else None
        return {kind: kept if rows is None else {**kept, "stats": json.dumps({"numRecords": rows})}}
    if kind == "metaData":
        return {kind: dict(metadata)}
    return {kind: dict(of)} if kind == "txn" else {}


def _info(info: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: info[name] for name in _OF_INFO if name in info}
    to = str((info.get("operationParameters") or {}).get("version", ""))
    if info.get("operation") == "RESTORE" and to.isdigit():
        kept["operationParameters"] = {"version": to}
    metrics = info.get("operationMetrics") or {}
    kept["operationMetrics"] = {name: value for name, value in metrics.items() if str(value).isdigit()}
    record = CommitRecord.from_json(info.get("userMetadata"))
    return {**kept, "userMetadata": _record(record).to_json()} if record else kept


def _record(record: CommitRecord) -> CommitRecord:
    findings = ({**each, "figures": _plain(each.get("figures") or {}), "note": ""} for each in record.findings)
    return replace(
        record,
        figures=_plain(record.figures),
        findings=tuple(findings),
        fingerprint=record.content_digest,
        approval={**record.approval, "because": ""} if record.approval else None,
    )


def _plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Keep numbers and instants: another text, and names within a figure, may be values of rows."""
    return {name: value for name, value in figures.items() if not isinstance(value, str | list | dict) or _at(value)}


def _at(value: object) -> bool:
    with suppress(ValueError):
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    return False
