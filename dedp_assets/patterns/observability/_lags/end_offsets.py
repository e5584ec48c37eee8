"""End offsets of a topic's partitions over time: partitions that stand, and partitions that fell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dedp_assets.patterns.core.measuring.calendars import QuietHours, active_seconds
from dedp_assets.patterns.core.measuring.measurements import Measurement, Verdict
from dedp_assets.patterns.core.measuring.quantities import duration
from dedp_assets.patterns.core.options import require_types

__all__ = ["EndOffset", "Standing", "TopicJudge", "standings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffset:
    """End offset of a topic's partition at a time.

    Attributes:
        partition: number of the partition, as text.
        offset: offset after the newest record.
        seen_at: when the broker was asked, with time zone.
    """

    partition: str
    offset: int
    seen_at: datetime

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Time for which an end offset has not moved.

    Attributes:
        offset: the end offset.
        since: first look at the offset.
        seen_at: last look at the offset.
        moved: whether a look before ``since`` found a lower offset.
        fell_at: first look at which the offset was lower than before, if there is one.
    """

    offset: int
    since: datetime
    seen_at: datetime
    moved: bool = False
    fell_at: datetime | None = None


def standings(progress: Sequence[EndOffset], now: datetime) -> dict[str, Standing]:
    """Return the standing of each partition, by partition number, from looks up to ``now``."""
    found: dict[str, Standing] = {}
    for each in sorted(progress, key=lambda each: (each.seen_at, each.offset)):
        known = found.get(each.partition)
        if each.seen_at > now:
            continue
        if known is not None and known.offset == each.offset:
            found[each.partition] = replace(known, seen_at=each.seen_at)
            continue
        fell_at = known.fell_at if known else None
        if known is not None and each.offset < known.offset:
            fell_at = fell_at or each.seen_at
        found[each.partition] = Standing(
            offset=each.offset,
            since=each.seen_at,
            seen_at=each.seen_at,
            moved=known is not None and each.offset > known.offset,
            fell_at=fell_at,
        )
    return {name: found[name] for name in sorted(found, key=lambda name: (len(name), name))}


@dataclass(frozen=True, slots=True)
class TopicJudge:
    """Verdicts on the standings of a topic's partitions.

    Attributes:
        topic: name of the topic.
        now: the present.
        max_gap_seconds: longest usual time without a record, in seconds.
        quiet: times that do not count.
        partitions: partition number -> standing.
    """

    topic: str
    now: datetime
    max_gap_seconds: float
    quiet: Sequence[QuietHours]
    partitions: Mapping[str, Standing]

    def of_topic(self) -> Measurement:
        """Measure the time since any partition moved."""
        known = list(self.partitions.values())
        if not known:
            return self._gap("", None, "unknown", f"{self.topic}: nobody has looked at the partitions yet")
        moved = [each.since for each in known if each.moved]
        whole = Standing(
            offset=0,
            since=max(moved) if moved else min(each.since for each in known),
            seen_at=max(each.seen_at for each in known),
            moved=bool(moved),
        )
        if reason := self._unclear(whole):
            return self._gap("", whole, "unknown", f"{self.topic}: {reason}")
        gap = self._seconds(whole)
        if gap <= self.max_gap_seconds:
            return self._gap("", whole, "ok")
        return self._gap("", whole, "fail", f"{self.topic}: no record for {duration(gap)} in any partition")

    def of_partition(self, partition: str) -> Measurement:
        """Measure the time since a partition moved; silence of one partition shows while others move."""
        standing = self.partitions[partition]
        called = f"{self.topic}, partition {partition}"
        if reason := self._unclear(standing):
            return self._gap(partition, standing, "unknown", f"{called}: {reason}")
        gap = self._seconds(standing)
        if gap <= self.max_gap_seconds:
            return self._gap(partition, standing, "ok")
        if not any(each.moved and each.since > standing.since for each in self.partitions.values()):
            return self._gap(partition, standing, "unknown", f"{called}: no other partition moves either")
        return self._gap(partition, standing, "warn", f"{called}: no record for {duration(gap)}, while others move")

    def restarts(self) -> Measurement:
        """Measure the number of partitions whose end offset fell."""
        fell = [each.fell_at for each in self.partitions.values() if each.fell_at is not None]
        reason = f"{self.topic} was made again: the end offset fell in {len(fell)} of {len(self.partitions)} partitions"
        return Measurement(
            metric="restarted",
            table=self.topic,
            at=self.now,
            verdict="warn" if fell else "ok",
            value=len(fell),
            unit="partitions",
            at_most=0,
            reason=reason if fell else "",
            since=min(fell, default=None),
        )

    def _seconds(self, standing: Standing) -> float:
        # Up to the last look: time in which nobody looked is no silence.
        return active_seconds(standing.since, standing.seen_at, self.quiet)

    def _unclear(self, standing: Standing) -> str:
        """Return the reason against a judgement of a standing offset; empty without one."""
        if active_seconds(standing.seen_at, self.now, self.quiet) > self.max_gap_seconds:
            return f"nobody has looked since {standing.seen_at:%Y-%m-%d %H:%M:%S %Z}"
        first = standing.since == standing.seen_at and not standing.moved and standing.fell_at is None
        return "there is one look so far" if first else ""

    def _gap(self, partition: str, standing: Standing | None, verdict: Verdict, reason: str = "") -> Measurement:
        return Measurement(
            metric="gap",
            table=self.topic,
            at=self.now,
            verdict=verdict,
            partition=partition,
            value=self._seconds(standing) if standing else None,
            unit="s",
            at_most=self.max_gap_seconds,
            reason=reason,
            since=standing.since if standing else None,
        )
