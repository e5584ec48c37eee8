"""Error budgets: counted measurements of an objective, and the allowed share of bad measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dedp_assets.patterns.core.measuring.measurements import Measurement

__all__ = ["Budget", "BudgetSample", "counted", "within_hours"]

_HOUR = 3600


@dataclass(frozen=True, slots=True)
class BudgetSample:
    """A measurement that counts for an objective.

    Attributes:
        at: when it was measured.
        partition: its partition; empty for the whole table.
        value: the figure that is held against the target; ``None`` for a failure without a figure.
        unit: unit of the figure.
        reason: what the detector said.
    """

    at: datetime
    partition: str
    value: float | None
    unit: str
    reason: str


@dataclass(frozen=True, slots=True)
class Budget:
    """The error budget of a number of measurements.

    Attributes:
        measured: how many there are.
        bad: how many of them are bad.
        good_share: promised share of good ones.
    """

    measured: int
    bad: int
    good_share: float

    @property
    def share(self) -> float | None:
        """Share of good measurements; ``None`` without measurements."""
        return 1 - self.bad / self.measured if self.measured else None

    @property
    def rate(self) -> float | None:
        """Burn rate: how many times as many measurements are bad as the promise allows."""
        return self.bad / self.measured / (1 - self.good_share) if self.measured else None

    @property
    def left(self) -> float | None:
        """Share of the budget that is left; below 0 for an overspent budget."""
        # Rounded: 1 bad of 100 uses up exactly the budget of 0.99, and 1 - 0.99 is a bit more than 0.01.
        return None if self.rate is None else round(1 - self.rate, 9)

    @property
    def is_spent(self) -> bool:
        """``True`` if nothing of the budget is left."""
        return self.left is not None and self.left <= 0

    def is_low(self, bound: float) -> bool:
        """Return whether less than ``bound`` of the budget is left."""
        return self.left is not None and self.left < bound

    @property
    def text(self) -> str:
        """Counts as text."""
        return f"{self.bad} of {self.measured} measurements are bad, {1 - self.good_share:.3g} of all may be"


def counted(measurements: Iterable[Measurement], metric: str, table: str, *, of_usual: bool) -> list[BudgetSample]:
    """List the measurements that count for an objective, oldest first.

    Of a partition the newest counts, and of several about the whole table at the same time the last one, so that it
    makes no difference how often somebody measured.

    Args:
        measurements: the history, of any metric and table.
        metric: metric of the objective.
        table: table of the objective.
        of_usual: whether to take a value as the share of the measurement's target, its usual value.
    """
    mine = (each for each in measurements if each.metric == metric and each.table == table)
    found: dict[tuple[str, datetime | None], BudgetSample] = {}
    for each in mine:
        judged = _judged(each, of_usual=of_usual)
        key = (each.partition, None if each.partition else each.at)
        if judged is not None and (key not in found or found[key].at <= each.at):
            found[key] = judged
    return sorted(found.values(), key=lambda each: (each.at, each.partition))


def within_hours(judged: Sequence[BudgetSample], now: datetime, hours: float) -> list[BudgetSample]:
    """List the measurements of the last hours before ``now``, without later measurements."""
    return [each for each in judged if 0 <= (now - each.at).total_seconds() < hours * _HOUR]


def _judged(each: Measurement, *, of_usual: bool) -> BudgetSample | None:
    """Return a measurement with the figure that counts; ``None`` without a judgement."""
    value, unit = each.value, each.unit
    if value is not None and of_usual:
        if not each.target:  # no usual value is known, or it is 0: there is no share
            return None
        value, unit = value / each.target, ""
    if each.verdict == "unknown" or (value is None and each.verdict != "fail"):
        return None
    return BudgetSample(each.at, each.partition, value, unit, each.reason)
