"""The watermark of bronze, as the log keeps it: over restarts, reruns of old days, and days that land late."""

from __future__ import annotations

import tempfile
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.case_study.defs.bronze.visits import ALLOWED_LATENESS_SECONDS, VISITS, watermark_before
from dedp_assets.case_study.defs.bronze.visits_stream import STALLED_AFTER
from dedp_assets.graph.inputs import topics
from dedp_assets.patterns.delta import Ledger
from tests.helpers import a_record, write_log

FIRST = date(2026, 1, 5)
TOLERANCE = timedelta(seconds=ALLOWED_LATENESS_SECONDS)
COLUMNS = {"raw": "string", "landed_on": "date", "event_date": "date"}


def inputs_after(ledger):
    return topics.inputs_after(ledger, allowed_lateness_seconds=ALLOWED_LATENESS_SECONDS)


def day(number):
    return (FIRST + timedelta(days=number)).isoformat()


def moment(hours):
    return datetime(2026, 1, 5, tzinfo=timezone.utc) + timedelta(hours=hours)


def land(location, number, newest, channel=""):
    """A day's landing, as a run of it commits: with the watermark that held before, which is returned."""
    stated = watermark_before(Ledger(location), day(number))
    record = a_record(
        VISITS.name,
        {} if channel else {"landed_on": day(number)},
        notes={"watermark": stated.isoformat() if stated else None},
        figures={"newest": newest.timestamp() if newest else None},
        channel=channel,
    )
    changed = [{"landed_on": day(number), "event_date": day(number)}]
    write_log(location, COLUMNS, ["landed_on", "event_date"], [{"record": record, "changed": changed}])
    return stated


def state(location, days=8):
    """The watermark before each day, as a process that starts now finds it."""
    return [watermark_before(Ledger(location), day(number)) for number in range(days)]


def follows(before, after):
    """Whether no watermark of ``after`` is lower than the one of ``before``."""
    return all(old is None or (new is not None and new >= old) for old, new in zip(before, after, strict=True))


newest_hours = st.integers(1, 24 * 9) | st.none()
landings = st.lists(st.tuples(st.integers(0, 6), newest_hours, st.sampled_from(["", "topic"])), max_size=8)


@pytest.mark.promise("no-restart-rerun-or-late")
@settings(deadline=None, max_examples=settings.default.max_examples * 3 // 5)
@given(landings)
def test_no_restart_rerun_or_late_day_moves_the_watermark_back(landed):
    """Days land, land again with more, and land late, in any order: what the log says is what a plain model says."""
    with tempfile.TemporaryDirectory() as home:
        location, known, before = Path(home, "visits"), {}, [None] * 8
        for number, hours, channel in landed:
            seen = max(filter(None, (known.get(number), hours)), default=hours)
            known[number] = seen
            land(location, number, None if seen is None else moment(seen), channel)
            after = state(location)
            assert follows(before, after)
            assert follows(after, after[1:] + after[-1:])
            reached = [[moment(known[d]) - TOLERANCE for d in range(n) if known.get(d) is not None] for n in range(8)]
            assert after == [max(times, default=None) for times in reached]
            before = after


@pytest.mark.parametrize("channel", ["", "topic"])
def test_a_rerun_of_an_old_day_is_judged_by_the_watermark_that_held_before_it(tmp_path, channel):
    """Neither the days after it nor the rerun itself change what was late when the day landed."""
    for number in range(4):
        land(tmp_path / "visits", number, moment(24 * number + 23), channel)
    before = state(tmp_path / "visits")
    assert land(tmp_path / "visits", 1, moment(24 + 23), channel) == moment(23) - TOLERANCE
    assert state(tmp_path / "visits") == before


def test_a_day_that_lands_after_the_next_one_counts_for_all_that_follow(tmp_path):
    """The day between knew nothing of it when it landed, so its commit does not say."""
    land(tmp_path / "visits", 0, moment(20))
    land(tmp_path / "visits", 2, moment(50))
    land(tmp_path / "visits", 1, moment(60))
    assert state(tmp_path / "visits", 4)[2:] == [moment(60) - TOLERANCE] * 2


def read_topic(location, run, at, **newest):
    """What a run over a topic commits: one micro-batch for each value of the inputs' newest event times."""
    noted = inputs_after(Ledger(location)).note
    for batch in zip(*newest.values(), strict=True):
        figures = {f"newest of {name}": text for name, text in zip(newest, batch, strict=True)}
        record = a_record(
            VISITS.name, {}, run_id=run, channel="topic", at=at.isoformat(), notes={"inputs": noted}, figures=figures
        )
        write_log(location, COLUMNS, ["landed_on", "event_date"], [{"record": record}])


def test_an_input_that_went_silent_is_named_after_any_restart(tmp_path):
    """What each partition of the topic delivered, and when, stands in the log; of a run all micro-batches count."""
    location = tmp_path / "visits"
    read_topic(
        location, "run-1", moment(10), a=["2026-01-05 09:00:00", "2026-01-05 09:58:00"], b=["2026-01-05 09:30:00", None]
    )
    read_topic(location, "run-2", moment(17), a=["2026-01-05 16:59:00"], b=[None])
    inputs = inputs_after(Ledger(location))
    assert inputs.newest == {"a": moment(16) + timedelta(minutes=59), "b": moment(9.5)}
    assert inputs.heard == {"a": moment(17), "b": moment(10)}
    finding = inputs.judge(at=moment(17), stalled_after_seconds=STALLED_AFTER.total_seconds())
    assert (finding.passed, finding.note) == (False, "stalled input b: nothing since 2026-01-05T10:00:00+00:00")
    assert finding.figures == {"stalled": 1, "a behind [s]": 0, "b behind [s]": 7.5 * 3600 - 60}


def test_without_a_topic_nothing_is_stalled(tmp_path):
    """A table that takes files, or none yet, has no partitions of a topic."""
    assert inputs_after(Ledger(tmp_path / "none")).newest == {}
    land(tmp_path / "visits", 0, moment(20))
    assert inputs_after(Ledger(tmp_path / "visits")).judge(at=moment(99), stalled_after_seconds=1).passed
