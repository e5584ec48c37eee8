"""Trends of a partition's lag: stalled, growing, restarted, and the age of the first unread record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from dedp_assets.patterns.core.measuring.measurements import Verdict
from dedp_assets.patterns.observability._lags.lag_samples import LagSample

__all__ = ["OldestUnread", "growing_since", "present_object", "restart", "stalled_since", "unread_since"]

_RISES = 3
"""Number of consecutive increases of a lag that count as a growing lag."""


@dataclass(frozen=True, slots=True)
class OldestUnread:
    """Time of the first unread record.

    Attributes:
        at: the time.
        is_bound: whether the record is older: the samples do not go back far enough.
    """

    at: datetime
    is_bound: bool = False


def present_object(samples: Sequence[LagSample]) -> int:
    """Return the index of the first sample of the producer's present object.

    The object is another one if its identity changed, or its end moved back.
    """
    breaks = [number for number, (a, b) in enumerate(pairwise(samples), 1) if _differ(a, b) or b.produced < a.produced]
    return breaks[-1] if breaks else 0


def restart(samples: Sequence[LagSample], now: datetime, *, window_seconds: float) -> tuple[Verdict, str]:
    """Return verdict and reason if the producer's object was deleted and created again, or restored.

    Args:
        samples: samples of one partition, oldest first.
        now: current time.
        window_seconds: how long a restart is reported that the consumer has dealt with.

    Returns:
        ``fail`` if the consumer's position is about the former object, ``warn`` if the consumer goes on in the new one;
        ``ok`` without a restart.
    """
    newest, first = samples[-1], present_object(samples)
    again = f"{newest.producer} was deleted and created again, or restored"
    former = f"{again}: the consumer's position {newest.consumed} is about the former one"
    if "" not in (newest.identity, newest.read_identity) and newest.identity != newest.read_identity:
        return "fail", former
    consumed = newest.consumed or 0
    committed = max((each.consumed or 0 for each in samples[first:-1]), default=0)
    if consumed > newest.produced and (newest.consumed_first or newest.produced < committed):
        return "fail", f"{again}: it ends at {newest.produced}, before the consumer's position {consumed}"
    if first and _is_other(samples[first - 1], samples[first]):
        if newest.consumed and newest.consumed == samples[first - 1].consumed and not newest.read_identity:
            return "fail", former
        if (now - samples[first].seen_at).total_seconds() <= window_seconds:
            return "warn", f"{again}: the consumer goes on in the new one"
    return "ok", ""


def stalled_since(samples: Sequence[LagSample]) -> datetime | None:
    """Return when a consumer with unread records last stopped moving.

    ``None`` for a moving consumer.

    A consumer that was caught up before has been waiting for the producer until then.

    Args:
        samples: samples of one partition of the present object, oldest first.
    """
    newest, since = samples[-1], None
    lag = newest.lag
    for each in reversed(samples):
        if each.is_caught_up or each.lag is None or each.consumed != newest.consumed or each.lag > (lag or 0):
            break
        since, lag = each.seen_at, each.lag
    return since


def growing_since(samples: Sequence[LagSample]) -> datetime | None:
    """Return the time since when the lag of a consumer that moves has grown and never fallen.

    The lag is compared right after each move of the consumer: between two moves, every lag grows.

    Args:
        samples: samples of one partition of the present object within the window, oldest first.

    Returns:
        ``None`` if the consumer was caught up in between, or the lag fell, or rose too few times.
    """
    if any(each.is_caught_up or each.lag is None for each in samples):
        return None
    moved = [b for a, b in pairwise(samples) if a.consumed != b.consumed]
    lags = [each.lag or 0 for each in moved]
    rises = sum(1 for a, b in pairwise(lags) if b > a)
    fell = any(b < a for a, b in pairwise(lags))
    return moved[0].seen_at if rises >= _RISES and not fell else None


def unread_since(samples: Sequence[LagSample]) -> OldestUnread | None:
    """Return the production time of the first unread record.

    ``None`` if unknown or caught up.

    Without a time from the producer it is interpolated between the two samples in which the producer's end passed the
    consumer's position.

    Args:
        samples: samples of one partition of the present object, oldest first.
    """
    newest = samples[-1]
    position = newest.position
    if newest.is_caught_up or position is None:
        return None
    if newest.unread_since is not None:
        return OldestUnread(newest.unread_since)
    for a, b in reversed([*pairwise(samples)]):
        if a.produced <= position < b.produced:
            share = (position - a.produced) / (b.produced - a.produced)
            return OldestUnread(a.seen_at + timedelta(seconds=share * (b.seen_at - a.seen_at).total_seconds()))
    return OldestUnread(samples[0].seen_at, is_bound=True)


def _is_other(before: LagSample, after: LagSample) -> bool:
    """Return whether two samples are of two objects.

    An end that moved back behind a commit is that of another object.
    """
    return _differ(before, after) or after.produced < (before.consumed or 0)


def _differ(one: LagSample, other: LagSample) -> bool:
    return "" not in (one.identity, other.identity) and one.identity != other.identity
