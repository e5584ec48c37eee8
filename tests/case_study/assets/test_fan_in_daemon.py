"""A backfill of hours by Dagster's own daemon, and the day that waits for all 24 of them."""

from __future__ import annotations

import warnings
from collections import Counter

import dagster as dg
import psutil
import pytest
import yaml
from dagster._core.execution.backfill import PartitionBackfill  # noqa: TID251 - the public way is a web server

from dedp_assets.case_study.defs.gold.page_views_by_hour import page_views_by_hour
from dedp_assets.graph.reconcile.slots import pools_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from tests.case_study.assets.conftest import day, world_in
from tests.case_study.assets.intervals import intervals, most_at_once
from tests.case_study.assets.test_daemon import daemon
from tests.case_study.assets.test_page_views import APPROVED, BY_HOUR, REPORT, SO_FAR, compute_hours, hours, visits
from tests.faults.processes import descendants, kill, wait_until
from tests.helpers import connect_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.budget(120, "a shared engine, two daemons, and a run for each of ten hours"),
]
CAP = 4
ASKED = hours(0)[14:]
"""The hours of the backfill; one run computes those before."""
STRANGE = 20
UNDER_WAY = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
CLOSED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def roomy(home):
    """Give the home a queue with room for more runs than the table has slots."""
    path = home / "dagster/dagster.yaml"
    stated = yaml.safe_load(path.read_text())
    stated["concurrency"]["runs"]["max_concurrent_runs"] = CAP + 2
    path.write_text(yaml.safe_dump(stated))


def backfill(world):
    """Ask for the last hours of the day, as the UI does for a person."""
    instance = world.platform.instance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Dagster's own code
        asked = PartitionBackfill.from_asset_partitions(
            "hours",
            world.platform.definitions.resolve_asset_graph(),
            partition_names=ASKED,
            asset_selection=[dg.AssetKey(BY_HOUR.split("/"))],
            backfill_timestamp=Clock().now().timestamp(),
            dynamic_partitions_store=instance,
            tags={},
            all_partitions=False,
            title=None,
            description=None,
            run_config=None,
        )
    instance.add_backfill(asked)


class Seen:
    """What is seen of a backfill's runs while something is waited for."""

    def __init__(self, instance, world):
        self.instance, self.world = instance, world

    def runs(self, statuses):
        runs = self.instance.get_runs(dg.RunsFilter(statuses=statuses))
        return [run for run in runs if "dagster/backfill" in run.tags]

    def until(self, condition):
        assert wait_until(condition, seconds=900), self.states()

    def states(self):
        """Runs by job, partition and status."""
        runs = self.instance.get_runs()
        return [(run.job_name, run.tags.get("dagster/partition"), run.status.value) for run in runs]

    def committed(self):
        """Commits by hour."""
        ledger = self.world.ledger(BY_HOUR)
        records = (commit.record for commit in ledger.commits()) if ledger.exists() else ()
        return Counter(record.partition["hour"] for record in records if record)

    def is_written(self, table):
        ledger = self.world.ledger(table)
        return ledger.exists() and ledger.latest({"event_date": day(0)}) is not None


@pytest.fixture(scope="module")
def story(spark, tmp_path_factory):
    """The backfill with a refused hour and a daemon that was killed in the middle of it, up to the partial day."""
    home = tmp_path_factory.mktemp("home")
    with world_in(home) as world:
        world.land(day(0), visits(0, STRANGE))
        world.react()
        assert not compute_hours(world, hours(0)[:14]).failure
        backfill(world)
    with connect_server(settings()) as engine, dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        seen, more = Seen(instance, world), {"SPARK_REMOTE": engine}
        roomy(home)
        with daemon(home, **more) as process:
            seen.until(lambda: len(seen.committed()) >= 17 and seen.runs(UNDER_WAY))
            tree = psutil.Process(process.pid)
            processes = {tree, *descendants(tree)}
            kill(processes)
            process.wait()
            assert wait_until(lambda: not any(each.is_running() for each in processes))
        killed = {run.run_id for run in seen.runs(UNDER_WAY)}
        with world_in(home):  # a new start closes the runs whose process is gone
            roomy(home)
        with daemon(home, **more):
            seen.until(lambda: len(seen.committed()) == 23 and seen.is_written(SO_FAR))
            seen.until(lambda: not seen.runs([dg.DagsterRunStatus.QUEUED, *UNDER_WAY]))
            yield home, seen, killed


def materialized(instance, table):
    records = instance.fetch_materializations(dg.AssetKey(table.split("/")), limit=200).records
    return Counter(record.partition_key for record in records)


def test_four_hours_were_computed_at_once_and_never_more(story):
    """Of ten, by the slots that the table declares, with room for six in the queue; a killed run ends when closed."""
    _, seen, _ = story
    assert pools_of([page_views_by_hour]) == {BY_HOUR.replace("/", "_"): CAP}
    steps = intervals(seen.instance, seen.runs(CLOSED), BY_HOUR)
    assert len(steps) >= len(ASKED)
    assert most_at_once(steps) == CAP


def test_after_a_kill_each_hour_is_committed_once_and_the_day_waits_for_the_refused_one(story):
    """23 commits; a run that was not killed materialized its hour once. The day so far is partial."""
    _, seen, killed = story
    others = set(hours(0)) - {hours(0)[STRANGE]}
    assert killed
    assert seen.committed() == Counter(others)
    again = {run.tags["dagster/partition"] for run in seen.runs(CLOSED) if run.run_id in killed}
    counts = materialized(seen.instance, BY_HOUR)
    assert {key: counts[key] for key in others - again} == dict.fromkeys(others - again, 1)
    assert not seen.is_written(REPORT)
    told = seen.world.rows(SO_FAR, event_date=day(0))
    assert {(row["is_approximate"], row["completeness"]) for row in told} == {(True, 23 / 24)}


def test_the_refused_hour_alone_brings_the_day(story):
    """Retried by a person; nobody asks for the day, and none of the other hours is computed again."""
    home, seen, _ = story
    before = materialized(seen.instance, BY_HOUR)
    with world_in(home) as world:
        assert not world.compute(BY_HOUR, hours(0)[STRANGE], **APPROVED).failure
    seen.until(lambda: seen.is_written(REPORT))
    seen.until(lambda: {row["completeness"] for row in seen.world.rows(SO_FAR, event_date=day(0))} == {1.0})
    assert materialized(seen.instance, BY_HOUR) == before + Counter([hours(0)[STRANGE]])
    assert seen.committed() == Counter(hours(0))
    assert sum(row["views"] for row in seen.world.rows(REPORT, event_date=day(0))) == 72
