"""The cost of a write: seconds, CPU, rows, files and bytes read and written, and requests to a bucket.

Every figure is optional: an unknown one is absent, and never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import reduce
from typing import Any

from dedp_assets.patterns.core.names import RESERVED

__all__ = ["COST_NOTE", "Cost", "total"]

COST_NOTE = f"{RESERVED}cost"
"""Note of a stored commit record that holds the cost: releases without the field read a note, and refuse a field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a write, or the sum over several writes.

    An unknown figure is ``None``.

    Attributes:
        seconds: time within the write up to the commit record, in seconds, without what callers did in between.
        waiting_seconds: wait for the table's lock, in seconds.
        staging_seconds: Spark's work before the commit and the audits, in seconds.
        held_seconds: time from the last written file to the commit: audits, lock and decision, in seconds.
        committing_seconds: decision, conflicts and commits up to the record of the last one, in seconds.
        cpu_seconds: CPU of the executors' tasks, in seconds.
        files_read: files of the pinned inputs, and files of the table that were rewritten.
        rows_read: rows in these files, by the logs; of inputs outside of the lake, rows that the write accounts for.
        bytes_read: size of these files, in bytes.
        rows_written: rows in the files that the commit added, in rows.
        files_written: these files.
        bytes_written: size of these files, in bytes.
        bytes_spilled: what tasks wrote to disk because memory was short, in bytes.
        attempts: commits tried, the one that succeeded included.
        requests_get: requests for content that the library sent to the table's bucket up to the commit record. Those
            of Spark and deltalake are not known; lists that a client reads in pages are counted by 1,000 names.
        requests_head: requests for size and tag of an object, as above.
        requests_list: requests for names, as above.
        requests_put: requests that write an object, as above.
        requests_delete: requests that remove objects, up to 1,000 each, as above.
    """

    seconds: float | None = None
    waiting_seconds: float | None = None
    staging_seconds: float | None = None
    held_seconds: float | None = None
    committing_seconds: float | None = None
    cpu_seconds: float | None = None
    rows_read: int | None = None
    files_read: int | None = None
    bytes_read: int | None = None
    rows_written: int | None = None
    files_written: int | None = None
    bytes_written: int | None = None
    bytes_spilled: int | None = None
    attempts: int | None = None
    requests_get: int | None = None
    requests_head: int | None = None
    requests_list: int | None = None
    requests_put: int | None = None
    requests_delete: int | None = None

    def __add__(self, other: Cost) -> Cost:
        """Return the sum by figure; a figure that one side lacks is the other side's."""
        sums: dict[str, Any] = {name: _sum(getattr(self, name), getattr(other, name)) for name in _NAMES}
        return Cost(**sums)

    @property
    def requests(self) -> int | None:
        """Sum of the requests of all kinds, if counted: for tables in a bucket."""
        reading = (self.requests_get, self.requests_head, self.requests_list)
        sent = [each for each in (*reading, self.requests_put, self.requests_delete) if each is not None]
        return sum(sent) if sent else None

    @property
    def known(self) -> dict[str, Any]:
        """The known figures by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def read(cls, stored: object) -> Cost | None:
        """Read a stored cost, without the figures of later releases.

        Returns:
            The cost; ``None`` for a value that is no mapping.
        """
        return cls(**{n: v for n, v in stored.items() if n in _NAMES}) if isinstance(stored, Mapping) else None


_NAMES = tuple(each.name for each in fields(Cost))


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs by figure."""
    return reduce(Cost.__add__, costs, Cost())


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other
