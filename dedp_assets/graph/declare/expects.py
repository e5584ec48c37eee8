"""Expectations of a table's data, for detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.core.measuring.usual import Baseline
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.observability.sla_misses_detector import Due

__all__ = ["Baseline", "Due", "Expects", "QuietHours"]

_NUMBERS = ("every_minutes", "gap_minutes", "partition_gap_minutes", "variation", "lag_minutes", "lag_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expects:
    """Expectations of a table's data.

    An expectation that is not stated is not judged.

    Attributes:
        every_minutes: continuous delivery: each such interval brings a row.
        gap_minutes: irregular delivery: greatest time without an arrival of rows.
        partition_gap_minutes: greatest time without a record in one partition of a topic that the table reads, while
            other partitions have some.
        quiet: times in which no delivery is expected; they do not count as a gap.
        volume: rule of the usual number of rows of a partition, held against the newest complete one.
        variation: greatest coefficient of variation (standard deviation / mean) of the sizes of partitions.
        lag_minutes: greatest age of the first change of an upstream table that is not applied.
        lag_rows: greatest number of upstream rows that are not applied.
        due: deadline of a partition, and longest duration of a run.

    Raises:
        ConfigError: for a number that is not above 0, for two rules of delivery, and for quiet hours without a rule.
    """

    every_minutes: float | None = None
    gap_minutes: float | None = None
    partition_gap_minutes: float | None = None
    quiet: Sequence[QuietHours] = ()
    volume: Baseline | None = None
    variation: float | None = None
    lag_minutes: float | None = None
    lag_rows: int | None = None
    due: Due | None = None

    def __post_init__(self) -> None:
        require_types(self)
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} must be above 0, not {value:g}")
        if self.every_minutes and self.gap_minutes:
            raise ConfigError("every_minutes or gap_minutes must be stated, not both")
        if self.quiet and not (self.every_minutes or self.gap_minutes or self.partition_gap_minutes):
            raise ConfigError("quiet must come with every_minutes, gap_minutes or partition_gap_minutes, not alone")

    @property
    def is_empty(self) -> bool:
        """``True`` without any expectation."""
        return not any(getattr(self, each.name) for each in fields(self))
