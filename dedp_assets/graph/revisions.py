"""Revisions: the days for which a table that is looked up by time says something else since a commit."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from dedp_assets.patterns.delta.log import Glimpse, Ledger

__all__ = ["TRUE_SINCE", "Revisions"]

TRUE_SINCE = "true_since"
"""Note of a commit: the first day, in UTC, for which its rows may say something else than those before it."""


@dataclass(slots=True)
class Revisions:
    """The commits that still matter to some day: a later one that reaches as far back takes the place of an older one.

    Attributes:
        days: the first day that each is about, ascending; empty if it is about all days.
        versions: their versions, ascending as well.
    """

    days: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, ledger: Ledger, *, until: int) -> Revisions:
        """Read them from a table's log, as far as the log still holds it, up to a version."""
        found = cls()
        for glimpse in ledger.glimpses(records=True):
            if glimpse.version <= until:
                found.take_in(glimpse)
        return found

    def take_in(self, commit: Glimpse) -> None:
        """Take in the next commit.

        What does not say since when (another writer, a restore, a table made anew) is about all days.
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
        """Find the first day that a commit after a version is about; empty for all days."""
        return next(iter(self.days[bisect_right(self.versions, version) :]), "")

    def newest(self, day: str) -> int:
        """Find the newest version that is about a day."""
        place = bisect_right(self.days, day)
        return self.versions[place - 1] if place else 0
