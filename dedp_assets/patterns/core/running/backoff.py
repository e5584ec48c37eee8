"""Backoff: attempts of an operation that may fail for a while, and the pauses between the attempts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types

__all__ = ["Backoff"]

_LONGEST_SECONDS = 86_400
_MOST_DOUBLINGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Number of attempts, and pauses that double from one failure to the next.

    Attributes:
        attempts: how often something is tried at most.
        first_seconds: pause after the first failure, in seconds.
        longest_seconds: no pause is longer, in seconds.
        jitter: greatest share by which chance shortens a pause, so that those who failed together come back apart.

    Raises:
        ConfigError: for less than one attempt, a pause below 0 or above a day, or a share that is none.

    Example:
        >>> slow = Backoff(first_seconds=30, longest_seconds=100, jitter=0)
        >>> [slow.pause(failures) for failures in (1, 2, 3)]
        [30.0, 60.0, 100.0]
    """

    attempts: int = 5
    first_seconds: float = 0.2
    longest_seconds: float = 3600.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        require_types(self)
        if self.attempts < 1:
            raise ConfigError(f"attempts must be at least 1, not {self.attempts}")
        for name in ("first_seconds", "longest_seconds"):
            if not 0 <= getattr(self, name) <= _LONGEST_SECONDS:
                raise ConfigError(f"{name} must lie between 0 and {_LONGEST_SECONDS}, not {getattr(self, name):g}")
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"jitter must be a share from 0 to 1, not {self.jitter:g}")

    def longest_after(self, failures: int) -> float:
        """Return the pause after a number of failures in a row, without jitter, in seconds."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        return min(self.longest_seconds, self.first_seconds * 2.0**doublings)

    def pause(self, failures: int) -> float:
        """Return the pause after a number of failures in a row, in seconds."""
        return self.longest_after(failures) * random.uniform(1 - self.jitter, 1)  # noqa: S311 - jitter, not a secret

    def tries(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[bool]:
        """Yield, for each attempt, whether the attempt is the last; the next one comes after a pause.

        Args:
            sleep: waits so many seconds.
        """
        for number in range(self.attempts):
            if number:
                sleep(self.pause(number))
            yield number == self.attempts - 1
