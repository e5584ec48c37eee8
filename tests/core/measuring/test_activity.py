"""Activity of a table, seen from an earlier time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from dedp_assets.patterns.core.measuring.activity import Activity, DataArrival, PartitionSize

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)


def hours(number):
    return NOON + timedelta(hours=number)


def size(first, last):
    return PartitionSize(rows=1, size=1, files=1, first_at=first, last_at=last)


ACTIVITY = Activity(
    table="visits",
    version=7,
    arrivals=tuple(DataArrival(version=number, at=hours(number), rows=1) for number in range(3)),
    partitions={"a": size(hours(0), hours(2)), "b": size(hours(1), hours(1)), "unknown": size(None, None)},
    fields={"a": {"records": 1}, "b": {"records": 2}, "emptied": {"records": 3}},
)


def test_activity_as_of_a_time_lacks_the_rest():
    """The time itself counts, and a partition of an unknown time may be old."""
    then = ACTIVITY.as_of(hours(0))
    assert [each.version for each in then.arrivals] == [0]
    assert {*then.partitions} == {"a", "unknown"}
    assert {*then.fields} == {"a", "emptied"}
    assert then.version == 7
    assert ACTIVITY.as_of(hours(9)) == ACTIVITY


def test_a_table_that_was_made_later_did_not_exist():
    """Neither does a rerun see the table that the first run could not see."""
    without = {key: each for key, each in ACTIVITY.partitions.items() if each.first_at}
    made_later = Activity(table="visits", version=7, arrivals=ACTIVITY.arrivals, partitions=without)
    assert made_later.as_of(hours(-1)) == Activity(table="visits")
