"""Samples of a consumer's progress: the record, a bounded history of samples, and the history as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Literal

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.options import require_types

__all__ = ["LagSample", "Unit", "from_json", "keep_samples", "to_json"]

Unit = Literal["rows", "versions", "bytes"]
_TIMES = ("seen_at", "unread_since")
_COUNTS = ("produced", "consumed", "begin", "unread", "unread_rows", "unread_partitions", "idle")
_SAMPLES = "samples of lag, version 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """The positions of a producer and of a consumer in one partition, seen at a time.

    Positions are those of the next record: an offset, a version of a table plus 1, a byte of a log. So the consumer is
    ``produced - consumed`` behind. They come from the producer and from what the consumer committed, and not from the
    consumer's runs.

    Attributes:
        consumer: table or consumer group that reads.
        producer: topic, table or slot that is read.
        seen_at: when the positions were read, with time zone.
        produced: position behind the newest record.
        consumed: position of the next record to read, as the consumer committed it; ``None`` without a commit.
        begin: position of the oldest record that the producer still holds.
        partition: partition of the producer; empty for a producer without partitions.
        unit: what positions count.
        identity: identity of the producer's object, such as a topic id; an object of the same name that was deleted
            and created again has another one. Empty if unknown.
        read_identity: identity of the object that the consumer's commit is about, if the commit says it.
        unread: number of unread units where positions count more than that, such as versions without rows; by default
            the difference of the positions.
        unread_rows: number of unread rows, where ``unit`` is another one and the number is known.
        unread_partitions: number of partitions of the consumer that lack something unread, if known.
        unread_since: time of the first unread record, by the producer's clock, if known.
        from_begin: whether a consumer without a commit begins at the oldest record: then all is unread. Of any other
            consumer without a commit nobody knows.
        consumed_first: whether ``consumed`` was read before ``produced``: otherwise a commit in between seems to be
            ahead of the producer.
        idle: lag, in units, that a consumer with nothing to read may show: the log of a database holds changes of other
            tables, too.

    Raises:
        ConfigError: without a consumer or a producer, for a time without a time zone, or a number below 0.
    """

    consumer: str
    producer: str
    seen_at: datetime
    produced: int
    consumed: int | None = None
    begin: int = 0
    partition: str = ""
    unit: Unit = "rows"
    identity: str = ""
    read_identity: str = ""
    unread: int | None = None
    unread_rows: int | None = None
    unread_partitions: int | None = None
    unread_since: datetime | None = None
    from_begin: bool = False
    consumed_first: bool = True
    idle: int = 0

    def __post_init__(self) -> None:
        require_types(self)
        if not self.consumer or not self.producer:
            raise ConfigError("a sample must have a consumer and a producer, not an empty text")
        if below := [name for name in _COUNTS if (getattr(self, name) or 0) < 0]:
            raise ConfigError(f"{below[0]} must be 0 or more, not {getattr(self, below[0])}")

    @property
    def key(self) -> tuple[str, str, str]:
        """Consumer, producer and partition."""
        return self.consumer, self.producer, self.partition

    @property
    def input(self) -> str:
        """Name of the producer's partition, such as ``visits-0``."""
        return f"{self.producer}-{self.partition}" if self.partition else self.producer

    @property
    def position(self) -> int | None:
        """Position of the first unread record still held.

        ``None`` without a known position.
        """
        if self.consumed is None:
            return self.begin if self.from_begin else None
        return max(self.consumed, self.begin)

    @property
    def lag(self) -> int | None:
        """Number of unread units that the producer still holds.

        ``None`` without a known position.
        """
        if self.position is None:
            return None
        return max(self.produced - self.position, 0) if self.unread is None else self.unread

    @property
    def is_caught_up(self) -> bool:
        """Caught-up state: the lag is known, and no greater than ``idle``."""
        return self.lag is not None and self.lag <= self.idle

    @property
    def rows(self) -> int | None:
        """Number of unread rows, if known."""
        return self.lag if self.unit == "rows" else self.unread_rows


def keep_samples(
    known: Sequence[LagSample], new: Iterable[LagSample], *, window_seconds: float = 86_400.0, most: int = 200
) -> list[LagSample]:
    """Add new samples to a history; return the history, bounded for each partition, oldest first.

    Two samples of one partition at the same time are one: the new one. Of samples in a row that tell the same, the
    first and the last one stay.

    Args:
        known: the history so far.
        new: samples to add.
        window_seconds: samples older than that, counted back from the newest of all, are dropped, but for the first one
            that tells what a sample within still tells.
        most: most samples of a partition. Beyond that, samples of the older half are dropped whose neighbours are
            nearest, so that the history reaches as far back, in steps of about equal length.

    Raises:
        ConfigError: for a window that is not above 0, or ``most`` below 4: a trend needs some samples.
    """
    if window_seconds <= 0 or most < 4:
        raise ConfigError(f"window_seconds={window_seconds:g} must be above 0, and most={most} 4 or more")
    found = {(each.key, each.seen_at): each for each in (*known, *new)}
    if not found:
        return []
    oldest = max(each.seen_at for each in found.values()) - timedelta(seconds=window_seconds)
    by_key: dict[tuple[str, str, str], list[LagSample]] = {}
    for each in sorted(found.values(), key=lambda sample: sample.seen_at):
        by_key.setdefault(each.key, []).append(each)
    return [each for samples in by_key.values() for each in _thinned(_changing(samples, oldest), most)]


def _changing(samples: list[LagSample], oldest: datetime) -> list[LagSample]:
    """Return the first and the last of equal samples in a row, without samples before the window."""
    states = [_STATE(each) for each in samples]
    before, after = [None, *states[:-1]], [*states[1:], None]
    ends = [(s, each) for each, s, a, b in zip(samples, states, before, after, strict=True) if not a == s == b]
    return [
        sample
        for (state, sample), (next_state, later) in zip(ends, [*ends[1:], ends[-1]], strict=True)
        if sample.seen_at >= oldest or (later.seen_at >= oldest and state == next_state)
    ]


def _thinned(samples: list[LagSample], most: int) -> list[LagSample]:
    kept = list(samples)
    while len(kept) > most:
        # Never the first one. Every second one would double the oldest gap each time, until it is days.
        gaps = [(kept[n + 1].seen_at - kept[n - 1].seen_at, n) for n in range(1, len(kept) // 2)]
        del kept[min(gaps)[1]]
    return kept


def to_json(samples: Sequence[LagSample]) -> str:
    """Write samples as JSON; fields with their default are left out."""
    return json.dumps({_SAMPLES: [_plain(each) for each in samples]})


def from_json(text: str) -> list[LagSample]:
    """Read samples that :func:`to_json` wrote.

    Raises:
        ContractError: for a text that holds no such samples.
    """
    try:
        stored = json.loads(text)
        return [_sample(each) for each in stored[_SAMPLES]]
    except (ValueError, TypeError, KeyError, AttributeError, ConfigError) as error:
        raise ContractError(
            f"the history of lag cannot be read ({error}): remove it, and the samples from now on begin a new one"
        ) from error


def _plain(sample: LagSample) -> dict[str, Any]:
    stated = {name: getattr(sample, name) for name in _DEFAULTS}
    values = {name: value for name, value in stated.items() if value != _DEFAULTS[name]}
    return {name: value.isoformat() if name in _TIMES else value for name, value in values.items()}


def _sample(stored: dict[str, Any]) -> LagSample:
    values: dict[str, Any] = {n: datetime.fromisoformat(v) if n in _TIMES else v for n, v in stored.items()}
    return LagSample(**values)


_DEFAULTS = {name: each.default for name, each in LagSample.__dataclass_fields__.items()}
_STATE = attrgetter(*(name for name in _DEFAULTS if name != "seen_at"))
