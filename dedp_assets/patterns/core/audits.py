"""Audits: bounds on figures that are measured in the pass that writes the rows.

An audit never starts a Spark job of its own. Its figure is either an SQL aggregate over the rows being written,
observed while they are written, or a number the step knows anyway (row accounting, a baseline from the ledger).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.names import identifier, reserved
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Approvable, Failure, Finding

__all__ = ["Audit", "judge", "not_empty", "overrule", "require_passed", "summary", "verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A rule about a batch of rows.

    The judged number is ``of``, divided by ``per`` if that is given. It must not lie below ``fail_below`` or above
    ``fail_above``; beyond ``warn_below`` or ``warn_above`` the rows are published with a warning.

    Attributes:
        name: a sentence that can be true, in snake case.
        sql: SQL aggregate over the written rows that measures ``of``, without DISTINCT; over a split it sees all parts
            and has to name the column ``__dedp_outcome``. ``None`` if ``of`` is a known figure (``read``, ``written``,
            ``dead``, ``duplicates``, or one the caller passes).
        of: name of the figure; the audit's own name if empty. A figure that is measured in two ways is refused.
        per: name of the figure to divide by. Without history (the figure is 0 or ``None``) the audit passes with a
            note; if nobody measured the figure, it fails.
        where: SQL predicate that names the rows at fault, for samples and for quarantine.
        approvable: whether a named person may overrule a failure, or only one who names this audit (``BY_NAME``).

    Example:
        >>> Audit(name="dead_letters_are_few", of="dead", per="read", warn_above=0, fail_above=0.1).fail_above
        0.1
    """

    name: str
    sql: str | None = None
    of: str = ""
    per: str = ""
    warn_below: float | None = None
    warn_above: float | None = None
    fail_below: float | None = None
    fail_above: float | None = None
    where: str | None = None
    approvable: Approvable = False

    def __post_init__(self) -> None:
        require_types(self)
        bounds = (self.warn_below, self.warn_above, self.fail_below, self.fail_above)
        if all(bound is None for bound in bounds):
            raise ConfigError(f"audit {self.name} has no bound: give at least one of fail_/warn_ below/above")
        if self.sql is None and not self.of:
            raise ConfigError(f"audit {self.name} measures nothing: give sql, or of with the name of a figure")
        if ours := reserved((self.name, self.of, self.per)):
            raise ConfigError(
                f"audit {self.name} uses the name {ours[0]}: names like that are the library's, choose another"
            )

    @classmethod
    def none_where(cls, name: str, where: str, *, approvable: bool = False) -> Audit:
        """Declare that no written row satisfies the SQL predicate ``where``."""
        return cls(name=name, sql=f"count_if({where})", fail_above=0, where=where, approvable=approvable)

    @classmethod
    def all_read(cls, name: str, of: str, sql: str = "") -> Audit:
        """Declare that the values of ``sql``, by default the column ``of``, add up to the number of rows read."""
        total = f"coalesce(sum({sql or identifier(of)}), 0)"
        return cls(name=name, of=of, sql=total, per="read", fail_below=1, fail_above=1)

    @property
    def figure(self) -> str:
        """Name of the judged figure."""
        return self.of or self.name

    @property
    def sees_all(self) -> bool:
        """True if the audit's own SQL aggregate measures the figure, over every row of the pass."""
        return self.sql is not None and self.where is None

    @property
    def measure(self) -> str:
        """The SQL that measures the judged figure; empty for a known figure."""
        return f"count_if({self.where})" if self.where is not None else self.sql or ""

    def judge(self, figures: Mapping[str, Any], why: str = "") -> Finding:
        """Judge the measured ``figures``; ``why`` is the reason for a judged figure that was not measured."""
        value = self._number(figures.get(self.figure))
        shown = {self.figure: value}
        if self.per:
            if self.per not in figures:
                return Finding(self.name, False, self._worst, shown, f"nobody measured {self.per}")  # noqa: FBT003
            base = self._number(figures[self.per])
            shown[self.per] = base
            if base is None or not _float(base):
                return Finding(self.name, passed=True, figures=shown, note=f"no {self.per} to compare with")
            value = None if value is None else _float(value) / _float(base)
            shown["ratio"] = value
        if value is None or math.isnan(_float(value)):
            severity: Failure = "fail" if why else self._worst
            return Finding(self.name, False, severity, shown, why or "the figure was not measured")  # noqa: FBT003
        severity, note = self._breach(_float(value))
        return Finding(self.name, not note, severity, shown, note, self.approvable)

    @property
    def _worst(self) -> Failure:
        """The worst severity of a breach: ``fail`` with a bound that refuses rows, otherwise ``warn``."""
        return "fail" if self.fail_below is not None or self.fail_above is not None else "warn"

    def _number(self, value: Any) -> Any:  # noqa: ANN401 - whatever an aggregate gives
        if value is not None and not isinstance(value, Real | Decimal):
            raise ConfigError(
                f"audit {self.name} compares {self.sql or self.figure} with numbers, which is {value!r}: give an "
                "aggregate that is a number"
            )
        return value

    def _breach(self, value: float) -> tuple[Failure, str]:
        bounds: tuple[tuple[Failure, float | None, float | None], ...] = (
            ("fail", self.fail_below, self.fail_above),
            ("warn", self.warn_below, self.warn_above),
        )
        for severity, low, high in bounds:
            if low is not None and value < low:
                return severity, f"below {_round(low)}"
            if high is not None and value > high:
                return severity, f"above {_round(high)}"
        return "fail", ""


def judge(
    audits: Iterable[Audit], figures: Mapping[str, Any], why: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """Judge all audits, and return a finding for each.

    Args:
        audits: the rules.
        figures: what was measured.
        why: figure that could not be measured -> the reason.
    """
    return tuple(audit.judge(figures, (why or {}).get(audit.figure, "")) for audit in audits)


def not_empty(of: str = "written", *, allow_empty: bool = False) -> Audit:
    """Return the audit that refuses an empty input before a replacement of existing rows.

    A source that delivers nothing is usually broken.

    Args:
        of: the figure that counts them.
        allow_empty: whether no rows may replace others, with a warning.
    """
    bounds = (1, None) if allow_empty else (None, 1)
    return Audit(name="input_is_not_empty", of=of, warn_below=bounds[0], fail_below=bounds[1], approvable=True)


def require_passed(table: str, audits: Iterable[Audit], figures: Mapping[str, Any], approval: Approval | None) -> None:
    """Refuse figures known before the write that fail an audit without an approval.

    Raises:
        AuditFailed: if one of them refuses it, and nobody approved that.
    """
    findings = overrule(judge(audits, figures), approval)
    if refused := summary(findings):
        raise AuditFailed(f"{table}: nothing published. {refused}", findings=findings)


def overrule(findings: Sequence[Finding], approval: Approval | None) -> tuple[Finding, ...]:
    """Return the findings with each refusal covered by ``approval`` as a warning that names the person."""
    if approval is None:
        return tuple(findings)
    note = f"approved by {approval.by}: {approval.because}"
    return tuple(
        replace(f, severity="warn", approved_by=approval.by, note=f"{f.note}; {note}")
        if f.refuses and approval.covers(f)
        else f
        for f in findings
    )


def verdict(findings: Sequence[Finding]) -> str:
    """Return the ledger's verdict on published rows: ``none``, ``passed``, ``warned`` or ``approved``."""
    if not findings:
        return "none"
    if all(f.passed for f in findings):
        return "passed"
    return "approved" if any(f.approved_by for f in findings) else "warned"


def summary(findings: Iterable[Finding]) -> str:
    """Return the refusals as one sentence, with figures; empty without a refusal."""
    return "; ".join(f"{f.name}: {f.note or 'failed'} ({_figures(f)})" for f in findings if f.refuses)


def _figures(finding: Finding) -> str:
    return ", ".join(f"{name}={_round(value)}" for name, value in finding.figures.items())


def _float(value: Any) -> float:  # noqa: ANN401 - any number
    """Convert a number to a float; a number beyond the range becomes infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _round(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
