"""Page views by the hour, and the two days made of them: aligned, and so far."""

from __future__ import annotations

import json
import logging
from collections import Counter

import dagster as dg
import pytest
from deltalake import DeltaTable

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.graph.inputs.fan_in import NO_BRANCH
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.outcomes.run_tags import APPROVED_BECAUSE, APPROVED_BY, FORCE
from dedp_assets.graph.resources.alerting import outbox_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.quality._profiles import observed_write as _observed_write
from tests.case_study.assets.conftest import day, page_views, world_in
from tests.helpers import a_run

pytestmark = [pytest.mark.spark, pytest.mark.budget(90, "24 hours, each a partition, and days made of them")]

BY_HOUR, REPORT, SO_FAR = "gold/page_views_by_hour", "gold/page_views_report", "gold/page_views_so_far"
REFUSED = (20, 21, 22, 23)
"""Hours of day 0 with a page that is no path."""
APPROVED = {APPROVED_BY: "Ada", APPROVED_BECAUSE: "the site has such pages"}


def hours(number):
    return [f"{day(number)}-{hour:02d}" for hour in range(24)]


def visits(number, *strange, seed=0):
    """Return three visits an hour; those of some hours are of a page that is no path."""
    return [
        json.dumps(
            {
                "visit_id": f"{seed}-{hour}-{each}",
                "event_time": f"{day(number)}T{hour:02d}:{20 * each:02d}:00Z",
                "user_id": f"u{each}",
                "page": f"posts/{each}" if hour in strange else f"/posts/{(hour + each) % 5}",
                "status": 200,
            }
        )
        for hour in range(24)
        for each in range(3)
    ]


def compute_hours(world, keys):
    """One run over hours that follow each other; the refused ones do not keep the others from being published."""
    first, *_, last = keys
    ends = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return world.compute(BY_HOUR, **ends)


def of_day(world, table, number):
    return world.rows(table, event_date=day(number))


def materializations(world, table):
    """Materializations by partition."""
    records = world.platform.instance.fetch_materializations(dg.AssetKey(table.split("/")), limit=500).records
    return Counter(record.partition_key for record in records)


@pytest.fixture(scope="module")
def partial(spark, tmp_path_factory):
    """A day of which 20 hours were published and 4 refused, and what the reconciler made of it."""
    with world_in(tmp_path_factory.mktemp("partial")) as world:
        world.land(day(0), visits(0, *REFUSED))
        world.react()
        ended = compute_hours(world, hours(0))
        assert "pages_are_paths" in ended.failure
        assert [(job, key) for job, key in world.react() if "page_views" in job] == [(SO_FAR, day(0))]
        yield world


def test_20_of_24_hours_are_a_partial_day_that_says_so(partial):
    """Exactly the views of the 20; every row is flagged, with the share; the check warns and names the 4."""
    rows = of_day(partial, SO_FAR, 0)
    there = [json.loads(line) for line in visits(0) if int(json.loads(line)["event_time"][11:13]) not in REFUSED]
    assert {row["page"]: row["views"] for row in rows} == page_views(there)
    assert {(row["is_approximate"], row["completeness"]) for row in rows} == {(True, 20 / 24)}
    told = partial.materialization(SO_FAR, day(0))
    assert (told["branches"], told["completeness"]) == ("20 of 24", 20 / 24)
    assert told["missing branches"] == ", ".join(hours(0)[hour] for hour in REFUSED)
    judged = partial.evaluation(SO_FAR, "every_branch_is_there")
    assert (judged.passed, judged.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert all(hours(0)[hour] in judged.description for hour in REFUSED)
    assert not any(hours(0)[hour] in judged.description for hour in range(20))


def test_each_published_hour_has_the_profile_of_its_rows_in_the_commit(partial):
    """As many rows and pages as the hour has."""
    profile = partial.last(BY_HOUR, hour=hours(0)[0]).record.notes["profile"]
    assert {name: (each["rows"], each["distinct"]) for name, each in profile.items()} == {
        "hour": (3, 1),
        "page": (3, 3),
        "views": (3, 1),
    }
    assert partial.checks(BY_HOUR)["rows_are_profiled"]


def test_the_aligned_day_waits_and_status_says_for_which_hours(partial):
    """Nothing of it is written."""
    (((key, state), reason),) = partial.waiting(REPORT).items()
    assert (state, key) == ("waiting", day(0))
    assert "waits for 4 of 24" in reason
    assert all(hours(0)[hour] in reason for hour in REFUSED)
    assert not partial.ledger(REPORT).exists()


def test_a_run_of_the_aligned_day_that_a_person_starts_is_not_ready(partial):
    """It says the same, and writes nothing."""
    ended = partial.compute(REPORT, day(0))
    assert "waits for 4 of 24" in ended.failure
    assert not partial.ledger(REPORT).exists()


@pytest.fixture(scope="module")
def complete(partial):
    """The same world once the 4 hours were approved, one by one; the reconciler does the rest."""
    before = partial.ledger(SO_FAR).version()
    for hour in REFUSED[:3]:
        assert not partial.compute(BY_HOUR, hours(0)[hour], **APPROVED).failure
        assert REPORT not in [job for job, _ in partial.react()]
    assert not partial.compute(BY_HOUR, hours(0)[REFUSED[3]], **APPROVED).failure
    assert {(REPORT, day(0)), (SO_FAR, day(0))} <= {*partial.react()}
    return partial, before


def test_the_last_of_the_retried_hours_brings_the_day_and_the_others_are_not_repeated(complete):
    """The 20 hours have one materialization each, as have the 4."""
    world, _ = complete
    assert materializations(world, BY_HOUR) == Counter(hours(0))
    assert materializations(world, REPORT) == Counter([day(0)])
    views = Counter({row["page"]: row["views"] for row in of_day(world, REPORT, 0)})
    assert views == page_views(map(json.loads, visits(0, *REFUSED)))
    strange = [row for row in of_day(world, REPORT, 0) if row["page"] == "posts/0"]
    assert [(row["views"], row["visitors"], row["busiest_hour"]) for row in strange] == [(4, 1, hours(0)[20])]


def test_the_complete_day_replaces_the_partial_one_which_time_travel_still_shows(complete):
    """The flag flips, nobody is warned; the version before has the 20 hours with their flag."""
    world, before = complete
    rows = of_day(world, SO_FAR, 0)
    assert sum(row["views"] for row in rows) == 72
    assert {(row["is_approximate"], row["completeness"]) for row in rows} == {(False, 1.0)}
    judged = world.evaluation(SO_FAR, "every_branch_is_there")
    assert (judged.passed, world.materialization(SO_FAR, day(0))["branches"]) == (True, "24 of 24")
    past = DeltaTable(world.address(SO_FAR), version=before).to_pyarrow_table().to_pylist()
    assert (sum(row["views"] for row in past), {row["is_approximate"] for row in past}) == (60, {True})


def test_the_duration_of_each_hour_is_recorded_and_the_slowest_is_named(complete):
    """In the day's commit and in what the UI shows of it."""
    world, _ = complete
    told = world.materialization(REPORT, day(0))
    seconds = told["seconds by branch"]
    assert sorted(seconds) == hours(0)
    assert min(seconds.values()) >= 0
    assert seconds[told["slowest branch"]] == max(seconds.values()) == told["slowest branch [seconds]"]
    assert world.last(REPORT, event_date=day(0)).record.notes["branches"][BY_HOUR]["slowest"] == told["slowest branch"]


def test_an_hour_that_is_computed_again_makes_the_day_stale_and_the_rerun_replaces_it(complete):
    """With the visit that came late, and no other row twice."""
    world, _ = complete
    world.land(
        day(1), visits(1, seed=1), late=[line.replace('"0-3-0"', '"late"') for line in visits(0) if '"0-3-0"' in line]
    )
    world.react()
    assert not world.compute(BY_HOUR, hours(0)[3]).failure
    assert {(REPORT, day(0)), (SO_FAR, day(0))} <= {*world.react()}
    for table in (REPORT, SO_FAR):
        rows = of_day(world, table, 0)
        assert sum(row["views"] for row in rows) == 73
        assert len({row["page"] for row in rows}) == len(rows)
    assert materializations(world, BY_HOUR) == Counter([*hours(0), hours(0)[3]])


def test_a_fault_of_the_observer_costs_the_profile_and_no_row(complete, monkeypatch):
    """The hour is written with the same rows; the check warns, also after a run that finds the hour current."""
    world, _ = complete
    hour = hours(0)[5]
    before = world.rows(BY_HOUR, hour=hour)

    def wrong(*_):
        raise RuntimeError("the observer is wrong")

    monkeypatch.setattr(_observed_write, "profile_of", wrong)
    assert not world.compute(BY_HOUR, hour, **{FORCE: "true"}).failure
    assert world.rows(BY_HOUR, hour=hour) == before
    judged = world.evaluation(BY_HOUR, "rows_are_profiled")
    assert (judged.passed, judged.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "the observer is wrong" in judged.description
    version = world.ledger(BY_HOUR).version()
    assert not world.compute(BY_HOUR, hour).failure
    assert world.ledger(BY_HOUR).version() == version
    assert not world.checks(BY_HOUR)["rows_are_profiled"]


def test_a_page_that_the_day_has_not_counted_is_refused_by_name_until_it_has(complete):
    """The report stays as it was; the run that follows the day's count publishes the page."""
    world, _ = complete
    assert world.checks(REPORT)["pages_are_of_the_day"]
    before, monday = of_day(world, REPORT, 0), {"event_date": day(0)}
    table = lake_of(world.settings).table(DAILY_PAGE_VIEWS)
    fewer = table.read(monday).filter("page <> '/posts/1'")
    table.overwrite(fewer, partition=monday, provenance=a_run(table.name, at=Clock().now()))
    said = world.compute(REPORT, day(0)).failure
    assert "pages_are_of_the_day: above 0" in said
    assert f'pages_are_of_the_day: {{"event_date":"{day(0)}","page":"/posts/1"}}' in said
    assert world.evaluation(REPORT, "pages_are_of_the_day").metadata["pages_are_of_the_day"].value == 1
    assert of_day(world, REPORT, 0) == before
    assert not world.compute(table.name, day(0), **{FORCE: "true"}).failure
    assert (REPORT, day(0)) in world.react()
    assert world.checks(REPORT)["pages_are_of_the_day"]
    assert sorted(map(str, of_day(world, REPORT, 0))) == sorted(map(str, before))


def test_0_of_24_hours_write_nothing_and_raise_one_alert(tmp_path):
    """The run of the day calls the error handler and is refused: nobody asks for it again until an hour is there."""
    with world_in(tmp_path) as world:
        refusals = Refusals(lake_of(world.settings).refused(BY_HOUR))
        for hour in hours(0):
            refusals.note(hour, Refusal(("1",), "1", "run-1", "pages_are_paths"))
        (ended,) = world.platform.react()
        assert (ended.job, ended.partition) == (SO_FAR, day(0))
        assert f"no partition of {BY_HOUR} is there, without 24 of 24" in ended.failure
        assert not world.ledger(SO_FAR).exists()
        instance = world.platform.instance
        (run,) = instance.get_runs()
        errors = [entry.user_message for entry in instance.all_logs(run.run_id) if entry.level == logging.ERROR]
        assert any("without 24 of 24" in text for text in errors)
        observed = instance.fetch_observations(dg.AssetKey(SO_FAR.split("/")), limit=1).records
        assert "without 24 of 24" in observed[0].asset_observation.metadata["not computed"].value
        assert list(world.platform.react()) == []
        alerts = [each.alert for each in outbox_of(world.settings).open_episodes() if each.alert.kind == NO_BRANCH]
        assert [(alert.table, alert.partition) for alert in alerts] == [(SO_FAR, day(0))]
        assert "without 24 of 24" in alerts[0].reason
