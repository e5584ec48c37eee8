"""Activity of a table by the table's log: arrivals of rows and sizes of partitions.

Records only: what detectors judge. ``delta`` reads them from a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dedp_assets.patterns.core.measuring.partition_times import Calendar, utc_span

__all__ = ["Activity", "DataArrival", "PartitionSize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataArrival:
    """A commit that brought rows into a table.

    Maintenance, changes of the schema, commits without rows, deletions and copied rows of a rewrite are no arrivals.

    Attributes:
        version: version of the table.
        at: time of the commit.
        rows: number of rows that the commit brought, without copied rows.
        partition: key of the partition that the run owned; empty for a commit about no single partition.
        newest_event: greatest time of an event in the new files, by their statistics; ``None`` if the table declares no
            event time, or the statistics lack it.
        run_id: run that wrote the commit; empty for a foreign writer.
        cause: cause of that run, such as ``schedule`` or ``late-data``; empty for a foreign writer.
        seconds: duration of the write, if the commit record tells it.
        restores: whether the commit made rows of an earlier version current again.
    """

    version: int
    at: datetime
    rows: int
    partition: str = ""
    newest_event: datetime | None = None
    run_id: str = ""
    cause: str = ""
    seconds: float | None = None
    restores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    """Size of a partition's active files, and the times of the partition's commits.

    Attributes:
        rows: rows by the statistics of the files; ``None`` if a file lacks them.
        size: size of the files, in bytes.
        files: number of files.
        first_at: time of the first retained commit about the partition; ``None`` if the log no longer tells.
        last_at: time of the last one.
        verdict: verdict of the audits of the last write, as in the commit record; empty for a foreign writer.
    """

    rows: int | None
    size: int
    files: int
    first_at: datetime | None = None
    last_at: datetime | None = None
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Arrivals of rows and sizes of partitions of a table, up to a version.

    Attributes:
        table: name of the table.
        version: newest version that was read; -1 for a table that does not exist.
        arrivals: retained arrivals, oldest first.
        partitions: partition key -> size, sorted by key; the key of a table without partitions is empty.
        fields: partition key -> census of the fields of the records read, of writes that took one, oldest write first.
        calendar: times of the partition keys; by default, keys name days or hours in UTC.
    """

    table: str
    version: int = -1
    arrivals: tuple[DataArrival, ...] = ()
    partitions: Mapping[str, PartitionSize] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    calendar: Calendar = field(default=utc_span, repr=False, compare=False)

    def as_of(self, at: datetime) -> Activity:
        """Return the activity until a time: earlier arrivals, and partitions with commits by then.

        A table whose retained log begins later did not exist. Sizes of partitions stay those of the newest version.
        """
        arrivals = tuple(each for each in self.arrivals if each.at <= at)
        then = {key: size for key, size in self.partitions.items() if size.first_at is None or size.first_at <= at}
        version = self.version if arrivals or then else -1
        fields = {key: census for key, census in self.fields.items() if key in then or key not in self.partitions}
        return replace(self, version=version, arrivals=arrivals, partitions=then, fields=fields)
