"""Workload classes of tables, maintenance policy of each class, and slots of maintenance jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.delta import MAINTENANCE, Commit

__all__ = [
    "DAY",
    "HOUR",
    "POLICIES",
    "WEEK_HOURS",
    "JobSlots",
    "MaintenancePolicy",
    "SeenCommits",
    "TableClass",
    "class_of",
]

TableClass = Literal["streaming_hot", "batch_regular", "historical_archive"]
WEEK_HOURS = 168
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_HOT_WRITES, _REGULAR_WRITES, _ARCHIVE_AGE = 10, 1, timedelta(days=30)
_HOT_BYTES = 64 * 1024 * 1024
_LOOK_BACK = timedelta(days=90)
_KINDS = {"OPTIMIZE": "optimize", "VACUUM END": "vacuum"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """Intervals of the maintenance of a class, and retention of replaced files.

    The next interval begins at a multiple of its length since 1970 in UTC, so that a job of each night is due each
    night, also if the last one ended some minutes later than usual.

    Attributes:
        optimize_hours: interval of optimization, in hours.
        vacuum_hours: interval of the vacuum, in hours.
        retention_hours: how long replaced files stay readable, in hours.
        after_writes: whether a write since the last optimization makes the next one due as well.

    Raises:
        ConfigError: for an interval below an hour, or a retention below a week.
    """

    optimize_hours: int
    vacuum_hours: int
    retention_hours: int
    after_writes: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        for name in ("optimize_hours", "vacuum_hours"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.retention_hours < WEEK_HOURS:
            raise ConfigError(
                f"retention_hours must be at least {WEEK_HOURS}, not {self.retention_hours}: readers and writers at "
                "work need what was replaced"
            )


POLICIES: Mapping[TableClass, MaintenancePolicy] = MappingProxyType(
    {
        "streaming_hot": MaintenancePolicy(optimize_hours=6, vacuum_hours=WEEK_HOURS, retention_hours=WEEK_HOURS),
        "batch_regular": MaintenancePolicy(optimize_hours=24, vacuum_hours=24, retention_hours=720, after_writes=True),
        "historical_archive": MaintenancePolicy(optimize_hours=720, vacuum_hours=2160, retention_hours=2160),
    }
)
"""The policy of each class, unless another one is stated."""


def class_of(
    writes_per_hour: float, average_bytes: int | None, written_at: datetime | None, now: datetime
) -> TableClass:
    """Return the class of a table with some workload."""
    small = average_bytes is not None and average_bytes < _HOT_BYTES
    if writes_per_hour > _HOT_WRITES and small:
        return "streaming_hot"
    forgotten = written_at is None and average_bytes is not None  # by a log that was cleaned up
    old = forgotten or (written_at is not None and now - written_at > _ARCHIVE_AGE)
    return "historical_archive" if old and writes_per_hour < _REGULAR_WRITES else "batch_regular"


@dataclass(slots=True)
class SeenCommits:
    """Writes and maintenance in the commits of a table, taken in newest first.

    Attributes:
        now: the time of the look.
        at: job -> time of the newest commit of such a job.
        writes: writes of the last day.
        foreign: writes of other writers since the last optimization.
        written_at: time of the newest write.
    """

    now: datetime
    at: dict[str, datetime] = field(default_factory=dict)
    writes: int = 0
    foreign: int = 0
    written_at: datetime | None = None

    def takes(self, commit: Commit) -> bool:
        """Take a commit in; ``False`` for one from a time that tells nothing new."""
        age = self.now - commit.timestamp
        known = self.written_at is not None and self.at.keys() == {*_KINDS.values()}
        if age > (DAY if known else _LOOK_BACK) and self.written_at is not None:
            return False
        if commit.operation in MAINTENANCE:
            if job := _KINDS.get(commit.operation):
                self.at.setdefault(job, commit.timestamp)
        elif commit.changed or commit.files_added:
            self.written_at = self.written_at or commit.timestamp
            self.writes += age <= DAY
            self.foreign += commit.record is None and "optimize" not in self.at
        return True


@dataclass(slots=True)
class JobSlots:
    """Slots of the jobs that run at once.

    Attributes:
        most: job -> number of slots.
        taken: job -> number of taken slots.
        running: jobs that run, with their tables.
    """

    most: Mapping[str, int]
    taken: Counter[str]
    running: frozenset[str]

    @classmethod
    def of(cls, most: Mapping[str, int], running: Collection[str]) -> JobSlots:
        """Return the slots of some jobs while others run.

        Raises:
            ConfigError: for less than a slot, and for names of running jobs that are no jobs.
        """
        if low := [job for job in most if most[job] < 1]:
            raise ConfigError(f"most_{low[0]} must be at least 1, not {most[low[0]]}")
        named = [key.partition(" ") for key in running]
        if strange := [
            key for key, (job, _, table) in zip(running, named, strict=True) if job not in most or not table
        ]:
            raise ConfigError(f"running must name jobs like 'optimize gold/sales', not {strange[0]!r}")
        return cls(most, Counter(job for job, _, _ in named), frozenset(running))

    def barred(self, job: str, key: str) -> str:
        """Return why a job cannot start; empty if a slot is free."""
        if key in self.running:
            return "it is running"
        return f"{self.most[job]} at once is the most" if self.taken[job] >= self.most[job] else ""
