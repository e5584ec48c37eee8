"""Fan-in of a feed: what a day waits for among its hours, by hand-written logs."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.graph.inputs.fan_in import FanInAlert, NoBranch, handled, note_of
from dedp_assets.graph.inputs.feeds import aligned, day_to_hour, hour_to_day, pin, unaligned
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from tests.helpers import a_record, write_log

DAY = "2026-01-05"
HOURS = [f"{DAY}-{hour:02d}" for hour in range(24)]
NAME = "gold/by_hour"
SPEC = TableSpec(NAME, {"id": Column("BIGINT"), "hour": Column("STRING")}, partition_by=("hour",))
COMMITTED = datetime.fromtimestamp(1767600000, timezone.utc)
"""When hand-written commits are made; a millisecond later with each version."""
NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)


def written(hour, *, rows=True, seconds=60.0, run=""):
    """A commit about an hour whose run began some seconds before."""
    at = (COMMITTED - timedelta(seconds=seconds)).isoformat()
    record = a_record(NAME, {"hour": hour}, at=at, run_id=run or f"run-{hour}")
    return {"changed": [{"hour": hour}] if rows else [], "record": record, "txn": {f"{NAME}/hour={hour}/0": 1}}


def table_of(root, *commits):
    write_log(root / NAME, {"id": "long", "hour": "string"}, ["hour"], list(commits))
    return Table(SPEC, root / NAME, lambda: pytest.fail("it asked for a Spark session"))


def test_a_day_waits_for_each_of_its_24_hours_and_names_those_that_are_missing(tmp_path):
    """One that has no rows is there; the version is that of the newest commit, with or without rows."""
    feed = aligned(hour_to_day("hour"))
    table = table_of(tmp_path, *map(written, HOURS[:22]))
    with pytest.raises(NotReady, match=re.escape(f"{DAY} waits for 2 of 24: {HOURS[22]} (waiting), {HOURS[23]}")):
        pin(table, feed, DAY)
    table_of(tmp_path, written(HOURS[23]), written(HOURS[22], rows=False))
    pinned = pin(table, feed, DAY)
    assert (pinned.changed, pinned.version, len(pinned.branches)) == (24, 24, 24)
    assert {each.state for each in pinned.branches.values()} == {"succeeded"}
    assert pinned.branches[HOURS[22]].version == 24


def test_without_a_fan_in_a_day_is_there_with_its_first_hour(tmp_path):
    """As it was: a mapping alone waits for nothing."""
    assert pin(table_of(tmp_path, written(HOURS[0])), hour_to_day("hour"), DAY).changed == 1


def test_an_hour_that_is_written_again_raises_the_version(tmp_path):
    """So that the published day is stale."""
    table = table_of(tmp_path, *map(written, HOURS))
    before = pin(table, aligned(hour_to_day("hour")), DAY)
    table_of(tmp_path, written(HOURS[3]))
    after = pin(table, aligned(hour_to_day("hour")), DAY)
    assert (before.changed, after.changed, after.branches[HOURS[3]].version) == (24, 25, 25)


def test_a_success_that_the_log_no_longer_tells_counts(tmp_path):
    """Transaction ids survive the cleanup of the log."""
    table = table_of(tmp_path, *map(written, HOURS[1:]), {"txn": {f"{NAME}/hour={HOURS[0]}/0": 7}})
    assert pin(table, aligned(hour_to_day("hour")), DAY).branches[HOURS[0]].version == 0


def states_of(**runs):
    return lambda _table: {f"{DAY}-{hour[1:]}": state for hour, state in runs.items()}


def test_20_of_24_hours_are_a_partial_day_once_the_others_have_failed(tmp_path):
    """For good, that is; one that is tried again is running, and is waited for."""
    table, feed = table_of(tmp_path, *map(written, HOURS[:20])), unaligned(hour_to_day("hour"))
    with pytest.raises(NotReady, match="waits for 4 of 24"):
        pin(table, feed, DAY)
    failed = {"h20": "failed", "h21": "failed", "h22": "failed"}
    with pytest.raises(NotReady, match=re.escape(f"waits for 1 of 24: {HOURS[23]} (running)")):
        pin(table, feed, DAY, states=states_of(**failed, h23="running"))
    pinned = pin(table, feed, DAY, states=states_of(**failed, h23="failed"))
    note = note_of(pinned.branches)
    assert (pinned.changed, note["succeeded"], note["completeness"]) == (20, 20, 20 / 24)
    assert note["missing"] == dict.fromkeys(HOURS[20:], "failed")


def test_a_run_of_an_hour_that_is_there_is_waited_for(tmp_path):
    """It may replace what is there."""
    table, feed = table_of(tmp_path, *map(written, HOURS)), unaligned(hour_to_day("hour"))
    with pytest.raises(NotReady, match=re.escape(f"{HOURS[7]} (running)")):
        pin(table, feed, DAY, states=states_of(h07="running"))
    assert pin(table, feed, DAY, states=states_of(h07="failed")).changed == 24


def test_at_the_deadline_a_day_does_without_the_hours_that_nobody_has_started(tmp_path):
    """But not without one that runs: by noon, and no minute earlier."""
    table, feed = table_of(tmp_path, *map(written, HOURS[:12])), unaligned(hour_to_day("hour"), after_hours=12)
    with pytest.raises(NotReady, match="waits for 12 of 24"):
        pin(table, feed, DAY, at=NOON - timedelta(minutes=1))
    assert note_of(pin(table, feed, DAY, at=NOON).branches)["completeness"] == 0.5
    with pytest.raises(NotReady, match="waits for 1 of 24"):
        pin(table, feed, DAY, at=NOON, states=states_of(h13="running"))


def test_0_of_24_hours_call_the_error_handler_that_the_feed_names(tmp_path):
    """With the table and the hours; without one the default is called. It is no NotReady: no retry helps."""
    alerts, logged = list[FanInAlert](), list[FanInAlert]()
    table = table_of(tmp_path, written("2026-01-06-00"))
    failed = {f"h{hour:02d}": "failed" for hour in range(24)}
    for feed in (
        unaligned(hour_to_day("hour"), if_none=alerts.append),
        unaligned(hour_to_day("hour")),
    ):
        with pytest.raises(NoBranch, match="no partition of gold/by_hour is there") as caught, handled(logged.append):
            pin(table, feed, DAY, states=states_of(**failed))
        assert not caught.value.retryable
    (alert,) = alerts
    assert (alert.upstream, alert.key) == (NAME, DAY)
    assert all(f"{hour} (failed)" in alert.text for hour in HOURS)
    assert logged == [alert]


def test_hours_that_all_failed_before_their_table_was_made_call_the_error_handler(tmp_path):
    """Without the table an aligned day waits for each of them."""
    table = Table(SPEC, tmp_path / NAME, lambda: pytest.fail("it asked for a Spark session"))
    failed = {f"h{hour:02d}": "failed" for hour in range(24)}
    with pytest.raises(NoBranch, match="without 24 of 24"):
        pin(table, unaligned(hour_to_day("hour")), DAY, states=states_of(**failed))
    with pytest.raises(NotReady, match="waits for 24 of 24"):
        pin(table, aligned(hour_to_day("hour")), DAY)


def test_each_hour_has_the_duration_of_its_run_and_the_slowest_is_named(tmp_path):
    """From the start of the run to the commit; in a run of several hours each begins where the one before it ended."""
    slow = {HOURS[5]: 3600.0}
    commits = [
        written(hour, seconds=slow.get(hour, 60.0), run="range" if hour in HOURS[10:13] else "") for hour in HOURS
    ]
    note = note_of(pin(table_of(tmp_path, *commits), aligned(hour_to_day("hour")), DAY).branches)
    assert note["slowest"] == HOURS[5]
    assert note["seconds"][HOURS[5]] == pytest.approx(3600, abs=0.1)
    assert [note["seconds"][HOURS[n]] for n in (4, 10, 11, 12)] == pytest.approx([60, 60, 0, 0], abs=0.1)


def test_a_commit_of_another_tool_has_no_duration(tmp_path):
    """Nobody knows when its run began."""
    table = table_of(tmp_path, *map(written, HOURS[1:]), {"changed": [{"hour": HOURS[0]}]})
    note = note_of(pin(table, aligned(hour_to_day("hour")), DAY).branches)
    assert (note["succeeded"], len(note["seconds"])) == (24, 23)


def test_an_hour_reads_its_day_and_a_day_that_changed_asks_for_its_24_hours():
    """A table by the hour below one by the day."""
    feed = day_to_hour("event_date")
    assert feed.reads(HOURS[13]) == ({"event_date": DAY},)
    assert list(feed.feeds({"event_date": DAY})) == HOURS
    assert list(feed.feeds({"event_date": None})) == []


def test_a_deadline_before_the_day_is_refused():
    """By the option's name."""
    with pytest.raises(ConfigError, match="after_hours must be 0 or more, not -1"):
        unaligned(hour_to_day("hour"), after_hours=-1)
