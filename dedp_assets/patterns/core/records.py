"""The commit record: metadata of a run, stored as JSON in the same Delta commit as the data.

The commit is the ledger. Nothing else remembers which upstream version was read, which audits passed or who approved
what, so nothing can disagree with the table.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timezone
from numbers import Integral, Real
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.costs import COST_NOTE, Cost
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.results import Finding, RowCounts

__all__ = ["PROMOTABLE", "Approval", "CommitRecord", "Provenance", "slice_name"]

PROMOTABLE = ("passed", "warned", "approved")

_DIGEST = re.compile(r"[0-9a-f:/|+-]*")
_SHA = "sha256:"


def slice_name(partition: Mapping[str, str] | Mapping[str, str | None]) -> str:
    """Return the name of a write's owned partitions, such as ``event_date=2026-01-05``, or ``all``.

    Different sets have different names, whatever their values are: ``%``, ``/`` and a text ``NULL`` are escaped.
    """
    if len(partition) == 1:  # a sensor names thousands
        ((column, value),) = partition.items()
        return f"{_escaped(column)}={'NULL' if value is None else _escaped(value)}"
    return "/".join([slice_name({column: value}) for column, value in sorted(partition.items())]) or "all"


def _escaped(name: str) -> str:
    if "%" in name or "/" in name:
        return name.replace("%", "%25").replace("/", "%2F")
    return "%4EULL" if name == "NULL" else name


def _plain(value: Any) -> Any:  # noqa: ANN401, PLR0911 - whatever a figure or a note is
    """Convert a value to plain JSON values: texts, finite numbers, booleans, null, lists and objects."""
    if value is None or isinstance(value, str | bool):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    if isinstance(value, Set):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, Integral):
        return int(value)
    return _text_of(float(value) if isinstance(value, Real) else value)


def _text_of(value: object) -> object:
    """Return the text of a value without a JSON form; a finite number stays a number."""
    if isinstance(value, float):
        endless = "Infinity" if value > 0 else "-Infinity"
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else endless
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


def _utc(moment: datetime | None) -> str:
    if moment is None:
        return ""
    known = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
    return known.isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Approval:
    """A named person's decision that a failed audit was a false positive.

    Attributes:
        by: who decided.
        because: why.
        audits: the audits it covers; empty covers every approvable one of the run but those to be approved by name.

    Raises:
        ConfigError: without a name or a reason.
    """

    by: str
    because: str
    audits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_types(self)
        if not self.by.strip() or not self.because.strip():
            raise ConfigError("an approval needs the name of the person who decided (by) and the reason (because)")

    def covers(self, finding: Finding) -> bool:
        """Return whether this approval overrules ``finding``."""
        if finding.name in self.audits:
            return bool(finding.approvable)
        return finding.approvable is True and not self.audits


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Facts about a write for the commit record: run, code, inputs and cause.

    Attributes:
        asset: name of what is computed, usually the table's name.
        run_id: the run that writes.
        code_version: version of the code that computes the rows; same code and same inputs mean same rows.
        pattern: ``chapter.module`` of the pattern that writes.
        inputs: upstream name -> the version or content identity that was read.
        sequence: the upstream version this write applies, the cursor of incremental and late-data patterns;
            ``None`` takes the next number after the last applied one.
        cause: why the run happened (``landing``, ``late-data``, ``replay``, ``manual``, ...).
        channel: what the rows come by, where a table has several ways in; files, if empty.
        approval: a person's decision on this run's audits.
        replay: whether a person asked to compute again: rows other than the same inputs gave before are then published
            instead of refused.
        compare: whether rows other than the stored ones of the partition are refused until a person approves them.
        at: when the run started; the library reads no clock.
        notes: further facts for the ledger, JSON values.
        read: files and bytes of the pinned inputs by their logs, as far as these tell.

    Raises:
        ConfigError: for a value of another type; a time needs a zone.
    """

    asset: str
    run_id: str
    code_version: str = "1"
    pattern: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    sequence: int | None = None
    cause: str = "manual"
    channel: str = ""
    approval: Approval | None = None
    replay: bool = False
    compare: bool = False
    at: datetime | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    read: Cost = field(default_factory=Cost, compare=False)

    def __post_init__(self) -> None:
        require_types(self)

    def by(self, pattern: str) -> Provenance:
        """Return the provenance with ``pattern`` as the writing pattern, unless a pattern is already set."""
        return self if self.pattern else replace(self, pattern=pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """The record of a commit, as read back from the log.

    Attributes:
        partition: the partition values the write owned.
        verdict: ``passed``, ``warned`` (published with a warning), ``approved`` (a person overruled a failure), or
            ``none`` (the write asked for no audit).
        rows: row accounting by name, in rows.
        figures: every number measured while the rows were staged.
        fingerprint: order-free digest of the written rows, to tell a retry from other data.
        at: when the run started, ISO 8601 in UTC; empty if nobody said.
        cost: cost of the write; ``None`` if nobody measured it. Two records of one write are equal whatever they cost.
    """

    asset: str
    run_id: str
    code_version: str
    pattern: str
    cause: str
    inputs: Mapping[str, Any]
    partition: Mapping[str, str]
    sequence: int | None
    verdict: str
    rows: Mapping[str, int]
    figures: Mapping[str, Any]
    findings: tuple[Mapping[str, Any], ...]
    fingerprint: str
    channel: str = ""
    approval: Mapping[str, Any] | None = None
    replay: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""
    cost: Cost | None = field(default=None, compare=False)

    @property
    def counted(self) -> bool:
        """``True`` if ``rows`` holds counts; Delta's own statements (merge, delete) count no rows."""
        return self.verdict != "none" or any(self.rows.values())

    @classmethod
    def of(
        cls,
        provenance: Provenance,
        *,
        content: str,
        owned: Mapping[str, str] | None = None,
        counts: RowCounts = RowCounts(),  # noqa: B008 - frozen
        findings: Sequence[Finding] = (),
        verdict: str = "none",
        figures: Mapping[str, Any] | None = None,
    ) -> CommitRecord:
        """Make the record of a commit by ``provenance``, as read back; ``content`` is the fingerprint."""
        approval = provenance.approval
        record = cls(
            asset=provenance.asset,
            run_id=provenance.run_id,
            code_version=provenance.code_version,
            pattern=provenance.pattern,
            cause=provenance.cause,
            channel=provenance.channel,
            inputs=provenance.inputs,
            partition=dict(owned or {}),
            sequence=provenance.sequence,
            verdict=verdict,
            rows=counts.as_dict(),
            figures=figures or {},
            findings=tuple(f.as_dict() for f in findings),
            fingerprint=content,
            approval={"by": approval.by, "because": approval.because} if approval else None,
            replay=provenance.replay,
            notes=provenance.notes,
            at=_utc(provenance.at),
            cost=provenance.read if provenance.read.known else None,
        )
        return record.stored()

    @property
    def promotable(self) -> bool:
        """``True`` if a downstream gate may read the rows, by an explicit verdict."""
        return self.verdict in PROMOTABLE

    @property
    def content_digest(self) -> str:
        """The fingerprint, or a digest of a fingerprint with words, among which may be values of rows."""
        if _DIGEST.fullmatch(self.fingerprint) or self.fingerprint.startswith(_SHA):
            return self.fingerprint
        return _SHA + hashlib.sha256(self.fingerprint.encode()).hexdigest()

    def same_content(self, other: CommitRecord) -> bool:
        """Return whether two records are of the same content; either may be a redacted one."""
        return self.fingerprint == other.fingerprint or self.content_digest == other.content_digest

    def awaits(self, partition: Mapping[str, str | None]) -> bool:
        """Return whether the rolled-back execution ``partition`` has to run again after this execution."""
        pending = self.notes.get("execution", {}).get("pending", ())
        return partition.keys() == self.partition.keys() and any(key in partition.values() for key in pending)

    def costing(self, cost: Cost) -> CommitRecord:
        """Return this record with ``cost`` added.

        Of inputs whose logs do not tell their rows, the row accounting does.
        """
        read = self.cost or Cost()
        if read.rows_read is None and self.counted:
            read = replace(read, rows_read=self.rows["read"])
        return replace(self, cost=read + cost)

    def to_json(self) -> str:
        """Return the record as the JSON text stored in the commit.

        JSON has no number for infinity and for what is none: they are the texts ``Infinity``, ``-Infinity`` and
        ``NaN``. Bytes are hexadecimal digits, sets are lists in order, and what else JSON does not know is its text.
        """
        payload = {"dedp": 1, **_plain(self)}
        del payload["cost"]
        if self.cost is not None:
            payload["notes"][COST_NOTE] = self.cost.known
        return json.dumps(payload, allow_nan=False, separators=(",", ":"))

    def stored(self) -> CommitRecord:
        """Return the record as read back from the log, with plain JSON values only."""
        return CommitRecord.from_json(self.to_json()) or self

    @classmethod
    def from_json(cls, text: str | None) -> CommitRecord | None:
        """Read the record in ``text``; ``None`` for a text from another writer."""
        try:
            payload = json.loads(text or "")
        except ValueError:
            return None
        if not isinstance(payload, dict) or payload.pop("dedp", None) != 1:
            return None
        payload["findings"] = tuple(payload["findings"])
        cost = Cost.read(payload.get("notes", {}).pop(COST_NOTE, None))
        return cls(**{name: value for name, value in payload.items() if name in _FIELDS}, cost=cost)


_FIELDS = {each.name for each in fields(CommitRecord)} - {"cost"}
"""Names in JSON of the fields of this release."""
