"""Pauses of a delivery that fails: each is twice as long as the one before, with jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

__all__ = ["Pause"]

_FIRST, _LONGEST = timedelta(seconds=30), timedelta(hours=1)
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class Pause:
    """Failures in a row, of a channel or of one message, and the time of the next attempt.

    Attributes:
        failures: number of failures since the last success.
        retry_at: time of the next attempt; ``None`` without a failure.
        reason: reason of the last failure.
    """

    failures: int = 0
    retry_at: datetime | None = None
    reason: str = ""

    def after(self, reason: str, now: datetime) -> Pause:
        """Return the state after one more failure: a pause that doubles, with jitter."""
        longest = min(_LONGEST, _FIRST * 2 ** min(self.failures, _MOST_DOUBLINGS))
        pause = longest * random.uniform(0.5, 1)  # noqa: S311 - jitter, not a secret
        return Pause(self.failures + 1, now + pause, reason)
