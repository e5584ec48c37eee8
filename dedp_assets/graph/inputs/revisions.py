"""Revisions of a reference table: the first day with changed rows, commit by commit."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from dedp_assets.patterns.delta import Glimpse, Ledger

__all__ = ["TRUE_SINCE", "Revisions"]

TRUE_SINCE = "true_since"
"""Name of the note in which a commit states the first day, in UTC, whose facts may be joined otherwise than before."""


@dataclass(slots=True)
class Revisions:
    """The newest commit about each day, from the day on that a commit states (:data:`TRUE_SINCE`).

    A commit is about all days from its first one on, so it replaces older commits that begin on this day or later.

    Attributes:
        days: first day of each commit that was not replaced, ascending; empty text for a commit about all days.
        versions: versions of the same commits, ascending.
    """

    days: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, ledger: Ledger, *, until: int) -> Revisions:
        """Read the revisions of a table up to version ``until``, from the commits still in the log."""
        found = cls()
        for glimpse in ledger.glimpses(records=True):
            if glimpse.version <= until:
                found.take_in(glimpse)
        return found

    def take_in(self, commit: Glimpse) -> None:
        """Add the next commit.

        One that states no first day (of another writer, a restore, a table made anew) is about all days.
        """
        if not commit.changed:
            return
        day = "" if commit.forgotten else str(commit.stated.get("notes", {}).get(TRUE_SINCE, ""))
        while self.days and self.days[-1] >= day:
            self.days.pop()
            self.versions.pop()
        self.days.append(day)
        self.versions.append(0 if commit.forgotten else commit.version)

    def since(self, version: int) -> str:
        """Return the first day of the commits after ``version``; empty for all days, or without commits."""
        return next(iter(self.days[bisect_right(self.versions, version) :]), "")

    def newest(self, day: str) -> int:
        """Return the version of the newest commit about ``day``; 0 without a commit."""
        place = bisect_right(self.days, day)
        return self.versions[place - 1] if place else 0
