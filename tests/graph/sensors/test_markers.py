"""The sensor over markers of another team's table: each finished day starts one run."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.case_study.reporting import defs as package
from dedp_assets.case_study.reporting.definitions import defs
from dedp_assets.graph.declare import (
    About,
    Gates,
    OnMarkers,
    Reads,
    Runs,
    Step,
    Target,
    declared,
    finished,
    job_of,
    lake_table,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.outcomes.run_tags import CAUSE, REQUEST
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.run.batches import NOT_COMPUTED
from dedp_assets.graph.sensors.markers import markers_finished
from dedp_assets.patterns import overwrite_partition
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.helpers import a_record, write_log

DAY, NEXT = "2026-01-05", "2026-01-06"
PRODUCED, REPORT = "gold/page_views_by_hour", "reporting/busy_pages"
COLUMNS = {"page": "string", "views": "long", "hour": "string"}


class Platform:
    """A lake whose logs are written by hand, and Dagster's record of the runs that the sensor asked for."""

    def __init__(self, folder, instance):
        self.folder, self.instance = folder, instance
        self.restart()

    def restart(self, *more):
        """A new process, whose location may declare more consumers: whatever the sensor remembered is gone."""
        tables = [*declared(package), *more]
        self.sensor = markers_finished(tables, [job_of(table) for table in tables])

    def produce(self, *hours, day=DAY, columns=COLUMNS):
        commits = [
            {"record": a_record(PRODUCED, {"hour": key}), "changed": [{"hour": key}]}
            for key in (f"{day}-{hour:02}" for hour in hours)
        ]
        write_log(self.folder / PRODUCED, columns, ["hour"], commits)

    def look(self):
        """Tick once: the runs that Dagster starts, by partition; a known run key starts none."""
        engine = SparkEngine()
        lake = Lake(root=str(self.folder), engine=engine)
        with dg.build_sensor_context(
            self.instance, definitions=defs(), resources={"lake": lake}, sensor_name=self.sensor.name
        ) as context:
            self.logged = []
            context.log.addFilter(lambda record: self.logged.append(record) or True)
            data = self.sensor.evaluate_tick(context)
        self.idle, started = data.skip_message, []
        for request in data.run_requests:
            tags = {**request.tags, "dagster/run_key": request.run_key}
            if not self.instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": request.run_key})):
                self.instance.add_run(dg.DagsterRun(request.job_name, tags=tags, status=dg.DagsterRunStatus.SUCCESS))
                started.append(request.partition_key)
        return started

    def report(self, day=DAY, version=0):
        """What a run of the consumer commits: the day, and the producer's version that it read."""
        record = a_record(REPORT, {"day": day}, notes={"delivery": str(version)})
        write_log(
            self.folder / REPORT,
            {"page": "string", "views": "long", "day": "date"},
            ["day"],
            [{"record": record, "changed": [{"day": day}], "txn": {f"{REPORT}/day={day}/0": version}}],
        )


@pytest.fixture
def platform(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        yield Platform(tmp_path / "lake", instance)


def test_nothing_starts_until_the_24th_marker_and_then_one_run_of_that_day(platform):
    """However often the sensor looks, before and after the run, and after a restart."""
    assert platform.look() == []
    assert "nobody has written" in platform.idle
    platform.produce(*range(23))
    assert [platform.look(), platform.look()] == [[], []]
    assert "1 of 24 hours have no marker: 23" in platform.idle
    platform.produce(23)
    assert [platform.look(), platform.look()] == [[DAY], []]
    platform.restart()
    assert platform.look() == []
    platform.report(version=24)
    assert platform.look() == []
    platform.restart()
    assert platform.look() == []
    assert platform.idle == "no new marker"
    (run,) = platform.instance.get_runs()
    assert (run.job_name, run.tags[CAUSE]) == ("report_busy_pages", "marker")
    assert run.tags[REQUEST].startswith(f"{REPORT}:{DAY}@")


def test_a_backfill_of_the_producer_starts_the_run_of_its_day_alone(platform):
    """Other days, and a day with further hours to come, are left alone."""
    platform.produce(*range(24))
    platform.produce(*range(24), day=NEXT)
    platform.produce(*range(3), day="2026-01-07")
    assert platform.look() == [DAY, NEXT]
    platform.report(version=51)
    platform.report(NEXT, version=51)
    assert platform.look() == []
    platform.produce(5)
    assert [platform.look(), platform.look()] == [[DAY], []]
    platform.report(version=52)
    assert platform.look() == []


def test_a_failed_run_is_asked_for_again_and_a_known_one_is_not(platform):
    """Three times at most, as every request of the platform."""
    platform.produce(*range(24))
    for attempt in range(3):
        assert platform.look() == [DAY], attempt
        run = platform.instance.get_runs()[0]
        platform.instance.delete_run(run.run_id)
        tags = {**run.tags}
        platform.instance.add_run(dg.DagsterRun(run.job_name, tags=tags, status=dg.DagsterRunStatus.FAILURE))
    assert platform.look() == []
    assert "gave up after 3 failed runs" in platform.idle


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"page": "string", "hour": "string"}, "expected views BIGINT, found no such column among page, hour"),
        ({**COLUMNS, "views": "double"}, "expected views BIGINT, found DOUBLE"),
    ],
)
def test_a_producer_that_changes_its_schema_starts_nothing_and_is_told(platform, columns, said):
    """The tick fails with what was expected and found: no run crashes at night."""
    platform.produce(*range(24), columns=columns)
    with pytest.raises(ContractError, match=said):
        platform.look()


HOURS = TableSpec("gold/hours", {"page": Column("STRING"), "hour": Column("STRING")}, partition_by=("hour",))
ECHOES = TableSpec("reporting/echoes", {"page": Column("STRING"), "day": Column("DATE")}, partition_by=("day",))


def build(step: Step, into: Target) -> WriteResult:
    """Nobody computes it."""
    raise AssertionError


def test_a_broken_contract_is_told_in_the_tick_in_which_another_consumer_has_a_run(platform):
    """The run is asked for; the broken contract is an error of the tick's log and an observation of its consumer."""
    start = OnMarkers(HOURS, period="day")
    stated = {"reads": Reads(inputs=finished(start)), "about": About("team:x"), "patterns": [overwrite_partition]}
    echoes = lake_table(ECHOES, runs=Runs(DAILY, start), gates=Gates(if_empty="x"), code_version="1", **stated)(build)
    platform.restart(echoes)
    platform.produce(*range(24))
    columns = {"page": "long", "hour": "string"}
    commit = {"record": a_record(HOURS.name, {"hour": f"{DAY}-00"}), "changed": [{"hour": f"{DAY}-00"}]}
    write_log(platform.folder / HOURS.name, columns, ["hour"], [commit])
    assert platform.look() == [DAY]
    (told,) = [each for each in platform.logged if each.levelname == "ERROR"]
    assert told.getMessage().startswith("reporting/echoes is not asked for: ")
    assert "expected page STRING, found BIGINT" in told.getMessage()
    (observed,) = platform.instance.fetch_observations(dg.AssetKey(["reporting", "echoes"]), limit=5).records
    said = observed.asset_observation.metadata[NOT_COMPUTED].value
    assert told.getMessage().endswith(said)
    platform.report(version=24)
    with pytest.raises(ContractError, match="expected page STRING, found BIGINT"):
        platform.look()


def test_a_producer_that_moved_its_table_is_told_by_the_path(platform):
    """Once the consumer has read it; before that, nobody has written it yet."""
    platform.produce(*range(24))
    assert platform.look() == [DAY]
    platform.report(version=24)
    (platform.folder / PRODUCED).rename(platform.folder / "gold/moved")
    with pytest.raises(ContractError, match=r"expected a table at .*gold/page_views_by_hour, found none"):
        platform.look()
