"""The schedule that looks back: what it asks for, in one run, and what it says is lost."""

from __future__ import annotations

from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.case_study.defs.silver.referrals import REFERRALS, referrals
from dedp_assets.graph.declare import schedules_of
from dedp_assets.patterns.delta import transaction_id

(REFERRALS_EVERY_DAY,) = schedules_of(referrals)
DAYS = [f"2026-01-{number:02}" for number in range(1, 20)]
"""Complete days when the schedule ticks, in the night to 20 January; the look-back begins on the fifth."""


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """An instance that a schedule can report to."""
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as made:
        yield made


@pytest.fixture
def tick(zone, instance):
    """``tick()``: the schedule's tick in the night to 20 January 2026."""

    def at_night():
        with dg.build_schedule_context(
            instance=instance,
            scheduled_execution_time=datetime(2026, 1, 20, 2, tzinfo=timezone.utc),
            resources=zone.resources(),
            repository_def=zone.definitions.get_repository_def(),
        ) as context:
            return REFERRALS_EVERY_DAY.evaluate_tick(context)

    return at_night


def visited(*days):
    return {"changed": [{"event_date": day} for day in days]}


def applied(version, *days):
    ids = [transaction_id(REFERRALS.name, {"event_date": day}, 0) for day in days]
    return {"txn": dict.fromkeys(ids, version)}


def ranges(data):
    """First and last partition of each run that was asked for."""
    ends = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    return [tuple(request.tags[end] for end in ends) for request in data.run_requests or []]


def test_the_first_tick_asks_for_the_whole_look_back_in_one_run(zone, tick):
    """Yesterday and the fourteen days before it; what is older, and today, is left out."""
    zone.dated("silver/visits", visited(*DAYS, "2026-01-20"))
    data = tick()
    assert ranges(data) == [("2026-01-05", "2026-01-19")]
    assert data.run_requests[0].run_key == f"silver/referrals:2026-01-05..2026-01-19@1 by {referrals.code}"
    assert data.run_requests[0].tags["dedp/cause"] == "look-back"


def test_only_what_changed_is_asked_for(zone, tick):
    """One late day, and the present one; then nothing, with a reason."""
    zone.dated("silver/visits", visited(*DAYS[:-1]), visited("2026-01-17", DAYS[-1]))
    zone.dated("silver/referrals", applied(1, *DAYS[:-1]))
    assert ranges(tick()) == [("2026-01-17", "2026-01-19")]
    zone.dated("silver/referrals", applied(2, "2026-01-17", DAYS[-1]))
    data = tick()
    assert (ranges(data), data.skip_message) == ([], "nothing changed in the look-back of 14 before 2026-01-19")


def test_a_day_that_upstream_does_not_hold_is_in_no_range(zone, tick):
    """A run that could only fail for it is not asked for; the days around it are."""
    zone.dated("silver/visits", visited("2026-01-10", "2026-01-11", "2026-01-13"))
    assert ranges(tick()) == [("2026-01-10", "2026-01-11"), ("2026-01-13", "2026-01-13")]


def test_what_is_late_beyond_the_look_back_is_an_observation_that_plots(zone, tick, instance):
    """The number of such days at each tick, with their names."""
    zone.dated("silver/visits", visited(*DAYS), visited("2026-01-03", "2026-01-04"))
    zone.dated("silver/referrals", applied(1, *DAYS))
    tick()
    zone.dated("silver/referrals", applied(2, "2026-01-03", "2026-01-04"))
    tick()
    records = instance.fetch_observations(dg.AssetKey(REFERRALS.name.split("/")), limit=2).records
    told = [{name: value.value for name, value in record.asset_observation.metadata.items()} for record in records]
    lost = "partitions late beyond the look-back"
    assert told == [
        {lost: 0},
        {lost: 2, "which": "changed upstream and not brought in: 2026-01-03, 2026-01-04"},
    ]


def test_before_anything_is_there_the_tick_waits(tick):
    """An empty lake is no error."""
    assert tick().skip_message == "nothing changed in the look-back of 14 before 2026-01-19"


def test_a_table_with_a_look_back_does_not_follow_its_upstream():
    """It would be woken by late data twice."""
    assert not referrals.runs.follows
