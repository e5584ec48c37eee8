"""Decisions about access: rows of the audit, and the rule by which a user's day is unusual."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.expected_values import expected
from dedp_assets.patterns.core.measuring.usual import Baseline, reach
from dedp_assets.patterns.core.options import require_types

__all__ = ["AccessDecision", "UsualAccess", "judged", "remembered_since", "stamp"]

_DAY = timedelta(days=1)
_USUAL = Baseline(last=28, minimum_history=5, tolerance=1.0, tolerance_above=2.0)
"""Up to three times the median of 28 days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    """One row of the audit.

    Attributes:
        at: when (ISO 8601 in UTC).
        event: ``request`` of a grant, ``open`` for the reading of rows, or ``charge`` for what jobs over them cost.
        outcome: ``granted``, ``denied`` or ``charged``.
        reason: until when, or why not.
        grants: ids of the grants by which rows are read.
        alert: whether somebody has to look at the access.
        tiers: tiers of the datasets, in their order; of rows of earlier releases, none.
        mark: text in the watermark column of what was opened; empty without one.
        unusual: for each tier where the day of the user became unusual, by what; also in the reason.
        cost: figures of a charge, as of :class:`~dedp_assets.patterns.core.measuring.costs.Cost`.
    """

    at: str
    event: str
    outcome: str
    user: str
    purpose: str
    datasets: Collection[str]
    justification: str
    ticket: str
    case: str
    export: bool
    reason: str
    approved_by: str = ""
    grants: Collection[str] = ()
    alert: bool = False
    tiers: Collection[str] = ()
    mark: str = ""
    unusual: Collection[str] = ()
    cost: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_opening(self) -> bool:
        """``True`` for opened rows."""
        return (self.event, self.outcome) == ("open", "granted")

    @property
    def is_denial(self) -> bool:
        """``True`` for a denied request or opening."""
        return self.outcome == "denied"

    def tables(self, tier: str) -> set[str]:
        """Return the datasets of a tier."""
        return {name for name, of in zip(self.datasets, self.tiers, strict=False) if of == tier}


_COUNTS: Mapping[str, tuple[str, Callable[[Sequence[AccessDecision], str], int]]] = MappingProxyType(
    {
        "opens": ("openings", lambda day, _: sum(each.is_opening for each in day)),
        "tables": (
            "tables opened",
            lambda day, tier: len({name for each in day if each.is_opening for name in each.tables(tier)}),
        ),
        "denials": ("denials", lambda day, _: sum(each.is_denial for each in day)),
    }
)
"""Option -> words for people, and the count in the decisions of a day about a tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualAccess:
    """Rule of usual accesses of a user to tables of a tier in 24 hours.

    They are held against the user's own days before: unusual is what lies above the stated number and above the
    baseline's limit. With too little history, and where the usual number is 0, the stated number decides alone. Days
    without a decision do not count.

    Attributes:
        opens: openings in 24 hours that are usual for everybody.
        tables: distinct tables opened in 24 hours, as above.
        denials: denied requests and openings in 24 hours, as above.
        baseline: the earlier days that count, and how far above their median a day may be; keys are the UTC days on
            which the 24 hours end. By default up to three times the median of 28 days, with 5 days at least.
        on_anomaly: ``alert`` writes the decision as an alert; ``deny`` denies the opening as well.

    Raises:
        ConfigError: for a number below 0.
    """

    opens: int = 20
    tables: int = 5
    denials: int = 5
    baseline: Baseline = _USUAL
    on_anomaly: Literal["alert", "deny"] = "alert"

    def __post_init__(self) -> None:
        require_types(self)
        for name, most in self._limits.items():
            if most < 0:
                raise ConfigError(f"{name} must be 0 or more, not {most}")

    @property
    def _limits(self) -> Mapping[str, int]:
        return {"opens": self.opens, "tables": self.tables, "denials": self.denials}

    def fault(self, past: Sequence[AccessDecision], decision: AccessDecision, tier: str) -> str:
        """Return the reason why a decision makes a day unusual for a tier; empty for a usual day.

        Args:
            past: earlier decisions of the user.
            decision: the decision; a granted request and a charge are no part of a day.
            tier: the tier.
        """
        days = dict[str, list[AccessDecision]]()
        for each in (*past, decision):
            if tier in each.tiers and (each.is_opening or each.is_denial):
                days.setdefault(_day_of(each, decision), []).append(each)
        today = _day_of(decision, decision)
        for name in ("denials",) if decision.is_denial else ("opens", "tables") if decision.is_opening else ():
            words, count = _COUNTS[name]
            counts = {day: count(decisions, tier) for day, decisions in days.items()}
            most = max(self._limits[name], expected(counts, today, baseline=self.baseline).high or 0)
            if counts.get(today, 0) > most:
                return f"{counts[today]} {words} of the tier {tier} in 24 hours, where up to {most:,.10g} are usual"
        return ""


def judged(
    decision: AccessDecision, past: Sequence[AccessDecision], usual: Mapping[str, UsualAccess]
) -> AccessDecision:
    """Return a decision, as an alert or a denial if the day of the user becomes unusual.

    Args:
        decision: the decision.
        past: earlier decisions of the user.
        usual: tier -> the rule.
    """
    faults = {tier: fault for tier, rule in usual.items() if (fault := rule.fault(past, decision, tier))}
    if not faults:
        return decision
    unusual = tuple(faults.values())
    if decision.is_opening and any(usual[tier].on_anomaly == "deny" for tier in faults):
        decision = replace(decision, outcome="denied", reason="not opened", grants=(), mark="")
    return replace(decision, alert=True, unusual=unusual, reason=f"{decision.reason}; unusual: {'; '.join(unusual)}")


def remembered_since(at: datetime, usual: Mapping[str, UsualAccess]) -> datetime:
    """Return the time from which decisions count for rules at a time."""
    return at - _DAY * (1 + max(reach(rule.baseline.last) for rule in usual.values()))


def stamp(at: datetime) -> str:
    """Return a time in ISO 8601 in UTC, so that texts sort as times."""
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds")


def _day_of(each: AccessDecision, decision: AccessDecision) -> str:
    """Return the UTC day on which the 24 hours of a decision end, counted back from another decision."""
    now = datetime.fromisoformat(decision.at)
    return (now - (now - datetime.fromisoformat(each.at)) // _DAY * _DAY).date().isoformat()
