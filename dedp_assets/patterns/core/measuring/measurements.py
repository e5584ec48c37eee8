"""Measurements of detectors: figures of tables and partitions with target, limits and verdict.

One record for every detector, so that checks, alerts, pages and the table of measurements need to know only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.quantities import compared
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.results import Finding, Verdict

__all__ = ["Measured", "Measurement", "Verdict"]

_ORDER: tuple[Verdict, ...] = ("ok", "unknown", "warn", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A figure of a table or of a partition at a time, and the verdict on the figure.

    Attributes:
        metric: name of the figure in snake case, such as ``gap`` or ``partition_rows``.
        table: table, topic or job that was measured, ``layer/dataset`` for tables.
        at: when it was measured, with time zone.
        verdict: ``warn`` and ``fail`` are troubles; ``unknown`` says that the figure cannot be judged: too little
            history, nothing measured. An unknown figure neither raises an alert nor clears one.
        partition: partition key; empty for the whole table.
        value: the figure; ``None`` if nothing could be measured.
        unit: unit of the figure, of the target and of the limits: ``rows``, ``s``, ``bytes``; empty for a ratio.
        target: usual or promised value, if there is one.
        at_least: lower limit, if there is one.
        at_most: upper limit, if there is one.
        reason: one sentence for people; empty for a figure within its limits.
        since: when the trouble began, if that is known.
        explained_by: upstream table whose trouble explains this one; empty for a trouble of the table's own.

    Raises:
        ConfigError: without a metric or a table, or with a time without a time zone.
    """

    metric: str
    table: str
    at: datetime
    verdict: Verdict
    partition: str = ""
    value: float | None = None
    unit: str = ""
    target: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    reason: str = ""
    since: datetime | None = None
    explained_by: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        if not self.metric or not self.table:
            raise ConfigError("a measurement must have a metric and a table, not an empty text")
        if any(moment is not None and moment.tzinfo is None for moment in (self.at, self.since)):
            raise ConfigError("at and since must be times with a time zone, not without")

    @property
    def is_trouble(self) -> bool:
        """``True`` for a verdict of ``warn`` or ``fail``."""
        return self.verdict in ("warn", "fail")

    @property
    def figure(self) -> str:
        """Value with unit; empty for a figure that could not be measured."""
        return self._shown[0]

    @property
    def limit(self) -> str:
        """Limits with their unit, as text."""
        return self._shown[1]

    @property
    def _shown(self) -> tuple[str, str]:
        return compared(self.value, self.unit, at_least=self.at_least, at_most=self.at_most)


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a detector, for one table or for several.

    Attributes:
        measurements: in the order of the tables and partitions that were asked for.
    """

    measurements: tuple[Measurement, ...] = ()

    @property
    def troubles(self) -> tuple[Measurement, ...]:
        """Measurements with a verdict of ``warn`` or ``fail``."""
        return tuple(each for each in self.measurements if each.is_trouble)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; ``ok`` without measurements."""
        return max((each.verdict for each in self.measurements), key=_ORDER.index, default="ok")

    def finding(self, name: str) -> Finding:
        """Return the measurements as the finding of a check, which fails for a trouble.

        Args:
            name: a sentence that can be true, in snake case.
        """
        figures = {
            f"{each.metric} {each.partition}".strip(): each.value
            for each in self.measurements
            if each.value is not None
        }
        severe = self.verdict == "fail"
        shown = self.troubles or tuple(each for each in self.measurements if each.verdict == "unknown")
        note = "; ".join(dict.fromkeys(each.reason for each in shown if each.reason))
        return Finding(name, not self.troubles, "fail" if severe else "warn", figures, note)

    def __add__(self, other: Measured) -> Measured:
        return Measured((*self.measurements, *other.measurements))
