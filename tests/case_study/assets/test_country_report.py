"""The country report: paid answers, two steps that count, and an export, from the failure of any step on."""

from __future__ import annotations

import json
from collections import Counter
from functools import wraps

import dagster as dg
import pytest

from dedp_assets.case_study.defs.gold import country_report, visits_by_country, visits_by_region
from dedp_assets.case_study.defs.gold.country_sequence import COUNTRY_REPORT_STEPS
from dedp_assets.case_study.sources.ip_locations import location_of
from dedp_assets.graph.outcomes.run_tags import DEGRADED, process_of
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta.versions import exposure, exposures
from dedp_assets.patterns.delta.versions.version_tables import names
from dedp_assets.patterns.flow.local_sequencer import StepState, chain_steps, plan_steps
from dedp_assets.patterns.idempotency.proxy import judge_exposure
from dedp_assets.project import project
from tests.case_study.assets.conftest import day, visits_of, world_in
from tests.faults.test_kill import killed_at

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(80, "a platform whose runs fail and go on, with a service, and one that is killed"),
]

PLACES, COUNTRIES, REGIONS, REPORT = [step.name for step in COUNTRY_REPORT_STEPS.steps]


def report_job():
    """The job of the report, as a process of its own would load it."""
    return project().definitions().resolve_job_def("country_report")


@pytest.fixture(scope="module")
def world(spark, served, tmp_path_factory):
    """A world with two days of silver, whose tests tell one story in order; nothing reacts by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEDP_SERVICES", served)
        with world_in(tmp_path_factory.mktemp("report")) as made:
            for number in range(2):
                made.land(day(number), visits_of(number))
                for table in ("bronze/visits", "silver/visits"):
                    assert not made.compute(table, day(number)).failure
            yield made


def execute(world, number, again=""):
    """Run the job of a day, or a failed run of it from the failure on: run, steps that ended, failures."""
    instance, tags = world.platform.instance, {"dagster/partition": day(number)}
    options = dg.ReexecutionOptions.from_failure(again, instance) if again else None
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    job = dg.reconstructable(report_job)
    with dg.execute_job(job, instance, quiet, tags, reexecution_options=options) as done:
        ended = {event.step_key.replace("_", "/", 1) for event in done.all_events if event.is_step_success}
        failed = [event.step_failure_data.user_failure_data for event in done.all_events if event.is_step_failure]
    return instance.get_run_by_id(done.run_id), ended, [each.description for each in failed]


def refusing(patch, table):
    """Let the function of a table refuse, until the patch is undone."""

    @wraps(table.function)
    def refuse(*_, **__):
        raise ContractError("nothing goes through")

    patch.setitem(vars(table), "function", refuse)


def counted(lines):
    """Visits by country, by a model in plain Python."""
    return Counter(location_of(visit["ip"])["country"] or "unknown" for visit in map(json.loads, lines))


def shown(world):
    """Visits by day and country as readers of the report see them."""
    return {(str(row["event_date"]), row["country"]): row["visits"] for row in world.rows(REPORT)}


def expected(*numbers):
    return {(day(n), country): visits for n in numbers for country, visits in counted(visits_of(n)).items()}


def reported(world):
    return lake_of(world.settings).table(country_report.COUNTRY_REPORT)


def test_without_readiness_neither_load_nor_export_runs(world, services):
    """A day that nobody delivered: no address is asked for, nothing is counted, and nothing is shown."""
    services.requests("locations")
    run, ended, (said, *_) = execute(world, 3)
    assert (run.status, ended) == (dg.DagsterRunStatus.FAILURE, set())
    assert "silver/visits holds nothing of" in said
    assert services.requests("locations") == 0
    assert not {PLACES, COUNTRIES, REGIONS, REPORT} & world.versions().keys()


def test_a_failed_export_runs_again_alone_and_nothing_is_paid_twice(world, services):
    """From the failure on: no request, one more execution of the last step, the versions before it as they were."""
    services.requests("locations")
    with pytest.MonkeyPatch.context() as patch:
        refusing(patch, country_report.country_report)
        run, ended, (said,) = execute(world, 0)
    assert services.requests("locations") > 0
    assert ended == {PLACES, COUNTRIES, REGIONS}
    assert said == "stopped: nothing goes through"
    before = world.versions()
    assert REPORT not in before
    states = {name: StepState("done") for name in ended}
    plan = plan_steps(COUNTRY_REPORT_STEPS.steps, states={**states, REPORT: StepState("failed")}, inputs={})
    resumed, again, failures = execute(world, 0, again=run.run_id)
    assert (resumed.status, again, failures) == (dg.DagsterRunStatus.SUCCESS, {REPORT}, [])
    assert plan.partitions == (REPORT,)
    assert services.requests("locations") == 0
    assert {name: world.versions()[name] for name in before} == before
    assert shown(world) == expected(0)


def test_a_step_that_continues_leaves_the_report_and_a_degraded_run(world):
    """The run fails after the report is exported, and its repetition computes the failed step alone."""
    with pytest.MonkeyPatch.context() as patch:
        refusing(patch, visits_by_region.visits_by_region)
        run, ended, (said,) = execute(world, 1)
    assert (run.status, run.tags[DEGRADED]) == (dg.DagsterRunStatus.FAILURE, REGIONS)
    assert ended == {PLACES, COUNTRIES, REPORT}
    assert said.startswith(f"degraded: {REGIONS} {day(1)}: nothing goes through")
    assert said.endswith(f"goes on: {REPORT}")
    assert shown(world) == expected(0, 1)
    before = world.versions()
    resumed, again, _ = execute(world, 1, again=run.run_id)
    assert (resumed.status, again) == (dg.DagsterRunStatus.SUCCESS, {REGIONS})
    changed = {name for name, version in world.versions().items() if version != before[name]}
    assert changed == {REGIONS}


def test_a_partition_of_the_middle_step_touches_no_other_one(world, services):
    """Computed again for a day, with the steps after it: other days keep their commits and rows."""
    services.requests("locations")
    before = {table: world.last(table, event_date=day(1)).version for table in (PLACES, COUNTRIES, REGIONS)}
    rows = [row for row in world.rows(REPORT) if str(row["event_date"]) == day(1)]
    for table in (COUNTRIES, REGIONS):
        assert not world.compute(table, day(0), **{"dedp/force": "true"}).failure
    assert not world.compute(REPORT).failure
    assert {table: world.last(table, event_date=day(1)).version for table in before} == before
    assert [row for row in world.rows(REPORT) if str(row["event_date"]) == day(1)] == rows
    assert services.requests("locations") == 0


def test_a_load_that_fails_leaves_the_former_version_shown(world, monkeypatch):
    """Readiness is there and the load fails: readers see what they saw."""
    before, history = shown(world), list(exposures(reported(world)))
    refusing(monkeypatch, country_report.country_report)
    assert "nothing goes through" in world.compute(REPORT, **{"dedp/force": "true"}).failure
    assert (shown(world), list(exposures(reported(world)))) == (before, history)


def count_again(world, visits):
    """Deliver the second day with so many visits, and compute it up to the step before the report."""
    world.land(day(1), visits_of(1, count=visits))
    jobs = [(table, day(1)) for table in ("bronze/visits", "silver/visits", PLACES, COUNTRIES)]
    assert not [each for table, key in jobs if (each := world.compute(table, key).failure)]


@pytest.mark.parametrize("point", ["before", "after"])
def test_rows_and_the_name_that_shows_them_change_together(world, point):
    """Ended between the data write and the pointer, or right after it: neither or both, and a rerun converges."""
    count_again(world, 41 if point == "before" else 42)
    before, history = shown(world), [each.version for each in exposures(reported(world))]
    shows = exposure.expose

    def killed(*args, **options):
        if point == "after":
            shows(*args, **options)
        raise SystemExit("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exposure, "expose", killed)
        assert "killed" in world.compute(REPORT).failure
    world.restart()
    after = [each.version for each in exposures(reported(world))]
    assert len(after) == len(history) + (point == "after")
    assert (shown(world) == before) == (point == "before")
    assert not world.compute(REPORT).failure
    assert len(list(exposures(reported(world)))) == len(history) + 1
    assert sum(visits for (key, _), visits in shown(world).items() if key == day(1)) == 41 + (point == "after")
    assert judge_exposure(reported(world)).passed


@pytest.mark.slow
def test_a_process_killed_between_the_rows_and_their_name_leaves_the_former_report(world):
    """SIGKILL under the lock, before the pointer is committed: old rows, old name; a rerun shows its version once."""
    count_again(world, 43)
    before, history, stored = shown(world), list(exposures(reported(world))), names(reported(world))
    killed = killed_at(world, "before switch", REPORT)
    left = names(reported(world))
    assert (shown(world), list(exposures(reported(world)))) == (before, history)
    assert len({*left} - {*stored}) == 1
    world.restart()
    failed = world.platform.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]), limit=1)
    assert [process_of(run) for run in failed] == [killed]
    assert not world.compute(REPORT).failure
    assert [each.version for each in exposures(reported(world))][1:] == [each.version for each in history]
    assert (names(reported(world)), judge_exposure(reported(world)).passed) == (left, True)
    assert sum(visits for (key, _), visits in shown(world).items() if key == day(1)) == 43
    assert len(world.rows(REPORT)) == len(shown(world))


def test_one_task_of_the_same_steps_gives_the_same_rows(world, spark):
    """The steps as functions in one chain of frames, against the tables that the orchestrated steps wrote."""
    lake = lake_of(world.settings)
    places = lake.stored(PLACES).read()

    def by_country(visits):
        return spark.sql(visits_by_country.QUERY, visits=visits, ip_locations=places.drop("event_date").distinct())

    def exported(counted):
        return counted.select(*country_report.COUNTRY_REPORT.columns)

    chained = chain_steps(lake.stored("silver/visits").read(), steps=[by_country, exported])
    rows = sorted((row.asDict() for row in chained.collect()), key=str)
    assert rows == sorted(world.rows(REPORT), key=str)
