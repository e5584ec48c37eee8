"""Lag of one partition of a producer, judged by limits and trend."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Verdict
from dedp_assets.patterns.core.measuring.quantities import duration, quantity
from dedp_assets.patterns.observability._lags import lag_trends as trends
from dedp_assets.patterns.observability._lags.lag_samples import LagSample

__all__ = ["LagVerdict", "Limits", "PartitionLag", "Thresholds", "judge_partition", "worst"]

_ORDER: tuple[Verdict, ...] = ("ok", "unknown", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Upper limits of a figure, both exclusive.

    ``None`` for no limit.

    Attributes:
        unit: unit of the figure, for error messages.
        warn: limit of a warning.
        fail: limit of a failure.
    """

    unit: str
    warn: float | None = None
    fail: float | None = None

    def __post_init__(self) -> None:
        for name, limit in (("warn", self.warn), ("fail", self.fail)):
            if limit is not None and limit < 0:
                raise ConfigError(f"{name}_above_{self.unit} must be 0 or more, not {limit:g}")
        if self.warn is not None and self.fail is not None and self.fail < self.warn:
            raise ConfigError(
                f"fail_above_{self.unit} must be at least warn_above_{self.unit} ({self.warn:g}), not {self.fail:g}"
            )

    @property
    def at_most(self) -> float | None:
        """The limit to show: that of the failure, otherwise that of the warning."""
        return self.warn if self.fail is None else self.fail

    def verdict(self, value: float) -> Verdict:
        """Judge a figure."""
        if self.fail is not None and value > self.fail:
            return "fail"
        return "warn" if self.warn is not None and value > self.warn else "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a lag, with the time spans of the trend in seconds."""

    rows: Thresholds
    seconds: Thresholds
    window_seconds: float
    stale_after_seconds: float

    def __post_init__(self) -> None:
        for name in ("window_seconds", "stale_after_seconds"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0, not {getattr(self, name):g}")


@dataclass(frozen=True, slots=True)
class LagVerdict:
    """Figure of a partition with unit, limits and verdict."""

    value: float | None
    verdict: Verdict
    reason: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The figures of one partition of a producer.

    Attributes:
        newest: the newest sample.
        lag: lag in the unit of the positions.
        rows: lag in rows.
        partitions: lag in partitions of the consumer.
        seconds: age of the first unread record.
        lost: number of units that were deleted before they were read.
        restarted: 1 if the producer's object was deleted and created again, or restored.
    """

    newest: LagSample
    lag: LagVerdict
    rows: LagVerdict
    partitions: LagVerdict
    seconds: LagVerdict
    lost: LagVerdict
    restarted: LagVerdict = field(default_factory=lambda: LagVerdict(0, "ok"))


def judge_partition(samples: tuple[LagSample, ...], now: datetime, limits: Limits) -> PartitionLag:
    """Judge one partition by samples of the partition, oldest first."""
    newest = samples[-1]
    age = (now - newest.seen_at).total_seconds()
    if age > limits.stale_after_seconds:
        return _unknown(newest, f"{newest.input} was seen {duration(age)} ago: nobody knows its lag now")
    verdict, reason = trends.restart(samples, now, window_seconds=limits.window_seconds)
    restarted = LagVerdict(float(verdict != "ok"), verdict, reason)
    if verdict == "fail":
        return _unknown(newest, f"{newest.input}: its lag cannot be counted from a former position", restarted)
    if newest.lag is None:
        return _unknown(newest, _without_commit(samples), restarted)
    present = samples[trends.present_object(samples) :]
    return PartitionLag(
        newest=newest,
        lag=_lag(present, now, limits),
        rows=_rows(newest, limits),
        partitions=LagVerdict(newest.unread_partitions, "ok"),
        seconds=_seconds(present, now, limits),
        lost=_lost(newest),
        restarted=restarted,
    )


def worst(*verdicts: Verdict) -> Verdict:
    """Return the worst of some verdicts; ``ok`` without any."""
    return max(verdicts, key=_ORDER.index, default="ok")


def _unknown(newest: LagSample, reason: str, restarted: LagVerdict | None = None) -> PartitionLag:
    unknown = LagVerdict(None, "unknown", reason)
    lost = unknown if restarted is None else _lost(newest) if restarted.verdict == "ok" else LagVerdict(None, "unknown")
    return PartitionLag(
        newest=newest,
        lag=unknown,
        rows=unknown,
        partitions=unknown,
        seconds=unknown,
        lost=lost,
        restarted=restarted or unknown,
    )


def _without_commit(samples: tuple[LagSample, ...]) -> str:
    newest, before = samples[-1], [each for each in samples if each.consumed is not None]
    if before:
        at = before[-1].seen_at.isoformat(timespec="seconds")
        was = f"its last position was {before[-1].consumed} at {at}"
        return f"{newest.input}: the commit of {newest.consumer} is gone, {was}"
    return f"{newest.input}: {newest.consumer} has committed no position"


def _lag(samples: tuple[LagSample, ...], now: datetime, limits: Limits) -> LagVerdict:
    newest = samples[-1]
    lag = newest.lag or 0
    behind = f"{newest.input}: {quantity(lag, newest.unit)} behind"
    window = [each for each in samples if (now - each.seen_at).total_seconds() <= limits.window_seconds]
    stalled, growing = trends.stalled_since(samples), trends.growing_since(window)
    if stalled is not None and (newest.seen_at - stalled).total_seconds() >= limits.window_seconds:
        still = f"the consumer has not moved for {duration((now - stalled).total_seconds())}"
        moved = still if newest.consumed is not None else "the consumer has never read it"
        return LagVerdict(lag, "fail", f"{behind}; {moved}", stalled)
    verdict = limits.rows.verdict(lag) if newest.unit == "rows" else "ok"
    if growing is not None:
        grown = f"the lag has grown for {duration((now - growing).total_seconds())} while the consumer moves"
        return LagVerdict(lag, worst(verdict, "warn"), f"{behind}; {grown}", growing)
    if newest.consumed is not None and newest.consumed > newest.produced:
        return LagVerdict(
            0, "ok", f"{newest.input}: the end was read before the commit, {newest.consumed} is ahead of it"
        )
    return LagVerdict(lag, verdict, behind if verdict != "ok" else "")


def _rows(newest: LagSample, limits: Limits) -> LagVerdict:
    rows = newest.rows
    if rows is None:
        return LagVerdict(None, "unknown", f"{newest.input}: the number of unread rows is not known")
    verdict = limits.rows.verdict(rows)
    return LagVerdict(rows, verdict, f"{newest.input}: {quantity(rows, 'rows')} behind" if verdict != "ok" else "")


def _seconds(samples: tuple[LagSample, ...], now: datetime, limits: Limits) -> LagVerdict:
    newest, unread = samples[-1], trends.unread_since(samples)
    if unread is None:
        return LagVerdict(0.0, "ok")
    seconds = (now - unread.at).total_seconds()
    if seconds < 0:
        ahead = f"{newest.input}: the first unread record is dated {duration(-seconds)} after now: its clock is ahead"
        return LagVerdict(0.0, "unknown", ahead)
    verdict = limits.seconds.verdict(seconds)
    old = f"{newest.input}: the first unread record is {duration(seconds)} old"
    if unread.is_bound:
        verdict = "unknown" if verdict == "ok" else verdict
        return LagVerdict(seconds, verdict, f"{old} or older: the samples do not go back far enough", unread.at)
    return LagVerdict(seconds, verdict, old if verdict != "ok" else "", unread.at if verdict != "ok" else None)


def _lost(newest: LagSample) -> LagVerdict:
    lost = max(newest.begin - newest.consumed, 0) if newest.consumed is not None else 0
    deleted = (
        f"{newest.input}: {quantity(lost, newest.unit)} from {newest.consumed} to {newest.begin - 1} were deleted "
        "before they were read; the lag counts from there"
    )
    return LagVerdict(lost, "fail" if lost else "ok", deleted if lost else "")
