"""Start of a platform's servers: how many answer, and an estimate by the last start."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from dedp_assets.patterns.core.measuring.quantities import quantity

__all__ = ["Startup"]

_NOTE = "start_seconds"


class Startup:
    """Count of answering servers since a start, with an estimate of the seconds to go.

    Args:
        folder: where the seconds of a start are noted for the next one.
        servers: number of servers that are to answer.
        now: time of the start.
    """

    def __init__(self, folder: Path, servers: int, now: datetime) -> None:
        self._note, self._servers, self._began, self._over = folder / _NOTE, servers, now, False
        self._last = 0.0
        with suppress(OSError, ValueError):  # the first start of a home, or a note that somebody wrote in
            self._last = float(self._note.read_text())

    def progress(self, waiting: int, now: datetime) -> str:
        """Describe the start, such as ``3 of 9, about 12 s left``; empty once every server has answered.

        Args:
            waiting: number of servers that do not answer yet.
            now: the time.
        """
        if self._over:
            return ""
        left = self._last - (now - self._began).total_seconds()
        about = f", about {quantity(round(left), 's', digits=2)} left" if waiting and left >= 1 else ""
        if not waiting:
            self._over = True
            with suppress(OSError):  # an estimate is worth no failed start
                self._note.write_text(f"{(now - self._began).total_seconds():.0f}")
        return f"{self._servers - waiting} of {self._servers}{about}"
