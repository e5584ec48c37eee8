"""Data SLA SLO: objectives for a table with error budgets, and severities by written bounds.

Problem: nobody can say whether a table is good enough. Each single breach alerts alike, a slow loss of quality nobody.
Solution: an objective states a target, a bound for alerts, and the share of measurements within the target over a
    rolling window. What the share leaves is the error budget, and a severity says how soon a person has to act.
Consequences: a budget needs a stored history of measurements. A promise of 99.9 % over 30 daily partitions has no room
    for a single bad one: the share has to fit the number of measurements.
Choose instead: SLA Misses Detector, for the deadline of today's partition; Skew Detector, for a size that nobody
    promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement, Verdict
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.observability._timing.budgets import Budget, BudgetSample, counted, within_hours
from dedp_assets.patterns.observability._timing.percentiles import nearest_rank

__all__ = ["measure_objective", "severity_of", "Objective"]

_LOW_BUDGET = 0.25
_VERDICTS: dict[str, Verdict] = {"": "ok", "P1": "fail", "P2": "fail", "P3": "warn", "P4": "warn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A promised level of a figure that is measured again and again.

    Attributes:
        name: name of the objective in snake case, such as ``freshness``; the metrics of its measurements begin with it.
        metric: metric of the measurements that count.
        table: table that they are of.
        target: promised value. A measurement within it is good.
        alert: value that violates the promise. Above the target the figure has to stay low, below it high.
        good_share: promised share of good measurements, such as 0.99; the rest is the error budget.
        window_days: length of the rolling window of the budget, in days.
        recent_hours: length of the time that the present figure and the burn rate are about, in hours.
        figure: present figure: the bound that 95 % of the recent values keep (``p95``), or the newest value.
        of_usual: whether the figure is the share of a measurement's value in its own ``target``, its usual value.

    Raises:
        ConfigError: if target and alert are equal, or the share leaves no budget.
    """

    name: str
    metric: str
    table: str
    target: float
    alert: float
    good_share: float = 0.99
    window_days: float = 30
    recent_hours: float = 24
    figure: Literal["p95", "newest"] = "p95"
    of_usual: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        if not self.name or not self.metric or not self.table:
            raise ConfigError("an objective must have a name, a metric and a table, not an empty text")
        if self.target == self.alert:
            raise ConfigError(f"alert must be above the target or below it, not {self.alert:g} like the target")
        if not 0 < self.good_share < 1:
            raise ConfigError(f"good_share must be above 0 and below 1, not {self.good_share:g}")
        if not 0 < self.recent_hours <= 24 * self.window_days:
            raise ConfigError(f"recent_hours must be above 0 and within the window, not {self.recent_hours:g}")

    @property
    def is_upper(self) -> bool:
        """``True`` if the figure has to stay low."""
        return self.alert > self.target

    def is_beyond(self, value: float, bound: float) -> bool:
        """Return whether a value is worse than a bound."""
        return value > bound if self.is_upper else value < bound


@typed
def measure_objective(measurements: Sequence[Measurement], now: datetime, *, objective: Objective) -> Measured:
    """Measure the present figure of an objective, and the error budget over the rolling window.

    ====  ============================================================  ===============  ===========
    P     Bound                                                         Verdict          Respond in
    ====  ============================================================  ===============  ===========
    P1    the newest measurement is a failure without a value: outage   fail             15 minutes
    P2    the present figure is beyond ``alert``                        fail             2 hours
    P3    the present figure is beyond ``target``, or the error budget  warn             24 hours
          is used up
    P4    less than a quarter of the error budget is left               warn             a week
    ====  ============================================================  ===============  ===========

    Args:
        measurements: the stored history, in any order, also of other metrics and tables. Of a partition the newest
            measurement counts, of several at the same time the last one, and an ``unknown`` one never.
        now: current time, with time zone.
        objective: the objective.

    Returns:
        Four measurements, whose metrics begin with the name of the objective. ``_figure`` is the present figure, with
        severity P1 to P3. ``_budget_left`` is the share of the error budget that the bad measurements of the window
        have left, below 0 if they used more, with severity P3 or P4. ``_good_share`` is the share of good measurements,
        and ``_burn_rate`` says how many times as fast as promised the recent ones use the budget; these two alert
        nobody. A reason begins with the severity. A trouble has the same metric as long as it lasts, which makes it
        one episode. Without a measurement a figure is ``unknown``.

    Raises:
        ConfigError: as of :class:`Objective`.

    Example:
        >>> from datetime import timedelta, timezone
        >>> noon = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        >>> def delay(hour, minutes):
        ...     at, value = noon + timedelta(hours=hour), 60.0 * minutes
        ...     return Measurement(metric="delay", table="silver/orders", at=at, verdict="ok", value=value, unit="s")
        >>> freshness = Objective(name="freshness", metric="delay", table="silver/orders", target=1800, alert=2700)
        >>> for minutes in (10, 40, 50):
        ...     history = [delay(hour, minutes) for hour in range(24)]
        ...     found = measure_objective(history, noon + timedelta(hours=23), objective=freshness)
        ...     print(found.measurements[0].figure, found.verdict, severity_of(found) or "no trouble", sep=", ")
        10 min, ok, no trouble
        40 min, warn, P3
        50 min, fail, P2
    """
    known = counted(measurements, objective.metric, objective.table, of_usual=objective.of_usual)
    window = within_hours(known, now, 24 * objective.window_days)
    recent = within_hours(window, now, objective.recent_hours)
    bad = [each for each in window if _is_bad(each, objective)]
    budget = Budget(len(window), len(bad), objective.good_share)
    burned = Budget(len(recent), sum(_is_bad(each, objective) for each in recent), objective.good_share)
    return Measured(
        (
            _figure(recent, window, now, objective),
            _budget_left(budget, bad, now, objective),
            _plain("good_share", budget.share, now, objective, target=objective.good_share),
            _plain("burn_rate", burned.rate, now, objective, target=1.0),
        )
    )


@typed
def severity_of(measured: Measured) -> str:
    """Return the worst severity of measured objectives: ``P1`` to ``P4``, empty without a trouble.

    Args:
        measured: measurements as :func:`measure_objective` returns them, of one objective or of several.
    """
    named = (each.reason.partition(":")[0] for each in measured.troubles)
    return min((each for each in named if each in _VERDICTS and each), default="")


def _is_bad(judged: BudgetSample, objective: Objective) -> bool:
    return judged.value is None or objective.is_beyond(judged.value, objective.target)


def _figure(
    recent: Sequence[BudgetSample], window: Sequence[BudgetSample], now: datetime, objective: Objective
) -> Measurement:
    """Measure the present figure, and judge outage, alert bound and target."""
    value, severity, reason = None, "", ""
    values = [each.value for each in recent if each.value is not None]
    if recent and recent[-1].value is None:
        severity, reason = "P1", recent[-1].reason or "nothing could be measured"
    elif values:
        value = values[-1] if objective.figure == "newest" else _kept_by_most(values, objective)
        severity, reason = _judged(value, objective, recent[-1].unit)
    return Measurement(
        metric=f"{objective.name}_figure",
        table=objective.table,
        at=now,
        verdict=_VERDICTS[severity] if recent else "unknown",
        value=value,
        unit=recent[-1].unit if recent else "",
        target=objective.target,
        at_most=objective.alert if objective.is_upper else None,
        at_least=None if objective.is_upper else objective.alert,
        reason=f"{severity}: {reason}" if severity else "" if recent else "nothing was measured of late",
        since=_since(window, recent, objective) if severity else None,
    )


def _kept_by_most(values: Sequence[float], objective: Objective) -> float:
    """Return the value that 95 % of the values do not exceed, or do not fall below."""
    sign = 1 if objective.is_upper else -1
    return sign * nearest_rank([sign * each for each in values], 0.95)


def _judged(value: float, objective: Objective, unit: str) -> tuple[str, str]:
    """Return severity and reason of a value; both empty within the target."""
    side, target = "above" if objective.is_upper else "below", quantity(objective.target, unit)
    if objective.is_beyond(value, objective.alert):
        return (
            "P2",
            f"{objective.name} is {side} {quantity(objective.alert, unit)}, where the promise of {target} is broken",
        )
    if objective.is_beyond(value, objective.target):
        return "P3", f"{objective.name} is {side} the promised {target}"
    return "", ""


def _since(window: Sequence[BudgetSample], recent: Sequence[BudgetSample], objective: Objective) -> datetime | None:
    """Return the start of the newest unbroken bad measurements; else the first recent bad measurement."""
    last_good = max((each.at for each in window if not _is_bad(each, objective)), default=None)
    unbroken = (each.at for each in window if last_good is None or each.at > last_good)
    return min(unbroken, default=None) or min((each.at for each in recent if _is_bad(each, objective)), default=None)


def _budget_left(budget: Budget, bad: Sequence[BudgetSample], now: datetime, objective: Objective) -> Measurement:
    """Measure and judge the error budget that is left."""
    severity, reason, since = "", "", None
    if budget.is_spent:
        severity, rest = "P3", "used up"
    elif budget.is_low(_LOW_BUDGET):
        severity, rest = "P4", f"used up but for {budget.left:.0%}"
    if severity:
        reason = f"{severity}: the error budget of {objective.window_days:g} days is {rest}: {budget.text}"
        counts = ((replace(budget, bad=count), each.at) for count, each in enumerate(bad, start=1))
        since = next(at for one, at in counts if (one.is_spent if severity == "P3" else one.is_low(_LOW_BUDGET)))
    return Measurement(
        metric=f"{objective.name}_budget_left",
        table=objective.table,
        at=now,
        verdict="unknown" if budget.left is None else _VERDICTS[severity],
        value=budget.left,
        target=1.0,
        at_least=_LOW_BUDGET,
        reason=reason,
        since=since,
    )


def _plain(name: str, value: float | None, now: datetime, objective: Objective, *, target: float) -> Measurement:
    """Return a measurement with the verdict ``ok``, for information."""
    verdict: Verdict = "unknown" if value is None else "ok"
    metric = f"{objective.name}_{name}"
    return Measurement(metric=metric, table=objective.table, at=now, verdict=verdict, value=value, target=target)
