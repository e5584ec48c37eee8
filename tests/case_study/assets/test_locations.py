"""Two code locations under Dagster's daemon: a marker of one starts a run of the other, over restarts and failures."""

from __future__ import annotations

import json

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.graph.outcomes.failures import failure_of
from tests.case_study.assets.conftest import day, world_in
from tests.case_study.assets.test_daemon import daemon, skipped
from tests.faults.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.budget(90, "daemons over two code locations, and the runs that they start")]

SENSOR, REPORT = "markers_finished", "reporting/busy_pages"


def produce(home, *hours, views=1):
    """Rows of the producer's hours, by a writer that nobody of the consumer knows."""
    for hour in hours:
        key = f"{day(0)}-{hour:02}"
        rows = pa.table({"page": ["/a", "/b"], "views": pa.array([views, 2], pa.int64()), "hour": [key, key]})
        replaced = {"predicate": f"hour = '{key}'"} if (home / "lakehouse/gold/page_views_by_hour").exists() else {}
        write_deltalake(
            str(home / "lakehouse/gold/page_views_by_hour"), rows, mode="overwrite", partition_by=["hour"], **replaced
        )


def report(home):
    """Views of the day by page, as the consumer has them."""
    rows = DeltaTable(str(home / "lakehouse" / REPORT)).to_pyarrow_table().to_pylist()
    return {row["page"]: row["views"] for row in rows}


def looked(instance, process, times=2):
    """Whether the daemon lives, and the sensor has looked again so many times and asked for nothing."""
    before = skipped(instance, SENSOR)
    seen = wait_until(lambda: process.poll() is not None or skipped(instance, SENSOR) >= before + times)
    return seen and process.poll() is None


def reports(instance):
    """The consumer's runs; the producer's own location follows its table, too."""
    return [run for run in instance.get_runs() if run.job_name == "report_busy_pages"]


def finished(instance, count):
    """The consumer's runs so far, once there are so many and none is under way."""
    runs = reports(instance)
    return runs if len(runs) >= count and all(run.is_finished for run in runs) else []


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with Dagster's configuration, and 23 hours of the producer; its tests tell one story in order."""
    folder = tmp_path_factory.mktemp("locations")
    with world_in(folder):
        pass
    produce(folder, *range(23))
    return folder


@pytest.fixture(scope="module")
def instance(home):
    with dg.DagsterInstance.from_config(str(home / "dagster")) as made:
        yield made


def test_a_producers_marker_starts_the_consumers_run_once(home, instance):
    """With 23 hours none, by the 24th one, though the sensor looks again; both locations are loaded."""
    with daemon(home) as process:
        assert looked(instance, process)
        assert reports(instance) == []
        produce(home, 23)
        assert wait_until(lambda: process.poll() is not None or finished(instance, 1))
        assert looked(instance, process)
    (run,) = reports(instance)
    assert failure_of(instance, run) == ""
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert (run.tags["dagster/partition"], run.tags["dagster/sensor_name"]) == (day(0), SENSOR)
    assert run.remote_job_origin.repository_origin.code_location_origin.location_name == "reporting"
    assert report(home) == {"/a": 24, "/b": 48}


def test_a_restarted_daemon_starts_nothing_twice_though_the_other_location_does_not_load(home, instance):
    """The day that was processed stays processed, and a backfilled hour starts it once more."""
    known = [run.run_id for run in reports(instance)]
    modules = {"dedp": "dedp_assets.of_nobody", "reporting": "dedp_assets.case_study.reporting.definitions"}
    named = [{"python_module": {"module_name": module, "location_name": name}} for name, module in modules.items()]
    (home / "workspace.yaml").write_text(json.dumps({"load_from": named}))
    with daemon(home, home / "workspace.yaml") as process:
        assert looked(instance, process)
        assert [run.run_id for run in reports(instance)] == known
        produce(home, 5, views=100)
        assert wait_until(lambda: process.poll() is not None or finished(instance, 2))
        assert looked(instance, process)
    assert "of_nobody" in (home / "daemon.log").read_text()
    assert [run.status for run in reports(instance)] == [dg.DagsterRunStatus.SUCCESS] * 2
    assert report(home) == {"/a": 123, "/b": 48}
