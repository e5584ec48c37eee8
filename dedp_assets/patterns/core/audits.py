"""Audits: bounds on figures that are measured in the pass that writes the rows.

An audit never starts a Spark job of its own. Its figure is either an SQL aggregate over the rows being written,
observed while they are written, or a number the step knows anyway (row accounting, a baseline from the ledger).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Approvable, Finding, Severity

__all__ = ["Audit", "judge", "overrule", "summary", "verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One rule about a batch of rows.

    The judged number is ``of``, divided by ``per`` if that is given. It must not lie below ``fail_below`` or above
    ``fail_above``; beyond ``warn_below`` or ``warn_above`` the rows are published with a warning.

    Attributes:
        name: a sentence that can be true, in snake case.
        sql: SQL aggregate over the written rows that measures ``of``, without DISTINCT; over a split it sees all parts
            and has to name the column ``outcome``. ``None`` if ``of`` is a known figure (``read``, ``written``,
            ``dead``, ``duplicates``, or one the caller passes).
        of: name of the figure; the audit's own name if empty.
        per: name of the figure to divide by. Without history (figure missing or 0) the audit passes with a note.
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
        bounds = (self.warn_below, self.warn_above, self.fail_below, self.fail_above)
        if all(bound is None for bound in bounds):
            raise ConfigError(f"audit {self.name} has no bound: give at least one of fail_/warn_ below/above")
        if self.sql is None and not self.of:
            raise ConfigError(f"audit {self.name} measures nothing: give sql, or of with the name of a figure")

    @classmethod
    def none_where(cls, name: str, where: str, *, approvable: bool = False) -> Audit:
        """No written row satisfies the SQL predicate ``where``."""
        return cls(name=name, sql=f"count_if({where})", fail_above=0, where=where, approvable=approvable)

    @property
    def figure(self) -> str:
        """Name of the judged figure."""
        return self.of or self.name

    def judge(self, figures: Mapping[str, Any]) -> Finding:
        """The verdict over measured ``figures``."""
        value = figures.get(self.figure)
        shown = {self.figure: value}
        if self.per:
            base = figures.get(self.per)
            shown[self.per] = base
            if not base:
                return Finding(self.name, passed=True, figures=shown, note=f"no {self.per} to compare with")
            value = None if value is None else float(value) / float(base)
            shown["ratio"] = value
        if value is None or math.isnan(value):
            return Finding(self.name, passed=False, figures=shown, note="the figure was not measured")
        severity, note = self._breach(float(value))
        return Finding(self.name, not note, severity, shown, note, self.approvable)

    def _breach(self, value: float) -> tuple[Severity, str]:
        bounds: tuple[tuple[Severity, float | None, float | None], ...] = (
            ("fail", self.fail_below, self.fail_above),
            ("warn", self.warn_below, self.warn_above),
        )
        for severity, low, high in bounds:
            if low is not None and value < low:
                return severity, f"below {_round(low)}"
            if high is not None and value > high:
                return severity, f"above {_round(high)}"
        return "fail", ""


def judge(audits: Iterable[Audit], figures: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The verdicts of all audits: every rule is judged, so one run names every problem."""
    return tuple(audit.judge(figures) for audit in audits)


def overrule(findings: Sequence[Finding], approval: Approval | None) -> tuple[Finding, ...]:
    """``findings`` with every refusal that ``approval`` covers turned into a warning that names the person."""
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
    """``none``, ``passed``, ``warned`` or ``approved``: what the ledger says of published rows."""
    if not findings:
        return "none"
    if all(f.passed for f in findings):
        return "passed"
    return "approved" if any(f.approved_by for f in findings) else "warned"


def summary(findings: Iterable[Finding]) -> str:
    """The refusals in one sentence, with their figures."""
    return "; ".join(f"{f.name}: {f.note or 'failed'} ({_figures(f)})" for f in findings if f.refuses)


def _figures(finding: Finding) -> str:
    return ", ".join(f"{name}={_round(value)}" for name, value in finding.figures.items())


def _round(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
