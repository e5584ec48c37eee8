"""Dagster's run history over connections that stay open."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.storage.event_log import SqliteEventLogStorage  # noqa: TID251 - reads what ours wrote
from sqlalchemy import event
from sqlalchemy.engine import Engine

from dedp_assets.laptop.orchestration.instance import CONFIGURATION
from tests.faults.processes import wait_until

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
STORAGE = yaml.safe_load(CONFIGURATION.read_text())["storage"]


@dg.asset(check_specs=[dg.AssetCheckSpec("is_there", asset="numbers")])
def numbers():
    yield dg.Output(1, metadata={"rows": 1})
    yield dg.AssetCheckResult(passed=True, check_name="is_there")


DEFINITIONS = dg.Definitions([numbers])


def opened(home: Path, *, ours: bool = True) -> dg.DagsterInstance:
    (home / "dagster.yaml").write_text(
        yaml.dump({"telemetry": {"enabled": False}, **({"storage": STORAGE} if ours else {})})
    )
    return dg.DagsterInstance.get()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


def executed(instance: dg.DagsterInstance) -> str:
    job = DEFINITIONS.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, run_config=QUIET).run_id


def history(instance: dg.DagsterInstance) -> list[tuple[str, str, list[str]]]:
    runs = [(run.run_id, run.status.value) for run in instance.get_runs()]
    return [(i, status, [log.message for log in instance.all_logs(i)]) for i, status in runs]


@pytest.mark.parametrize("ours_first", [True, False])
def test_history_is_read_and_written_on_by_dagsters_own_storage_and_by_ours(home, ours_first):
    """Runs, events, materializations and checks are the same for both, whichever wrote them first."""
    with opened(home, ours=ours_first) as first:
        executed(first)
        expected = history(first)
    with opened(home, ours=not ours_first) as second:
        assert history(second) == expected
        executed(second)
        expected = history(second)
        assert len(expected) == 2
    with opened(home, ours=ours_first) as again:
        assert history(again) == expected
        assert again.get_latest_materialization_event(numbers.key).run_id == expected[0][0]
        check = dg.AssetCheckKey(numbers.key, "is_there")
        records = again.event_log_storage.get_asset_check_execution_history(check, limit=5)
        assert [record.run_id for record in records] == [run for run, *_ in expected]


def test_a_run_opens_a_few_connections(home):
    """One a run, to its database, where Dagster's own storage opens more than fifty."""
    with opened(home) as instance:
        executed(instance)
        made = []
        event.listen(Engine, "connect", lambda *_: made.append(1))
        for _ in range(3):
            executed(instance)
        assert len(made) <= 3


def test_events_reach_a_watcher_while_the_run_goes_on(home):
    """A process that watches a run's file, as the UI does, is told of each event before the writer closes."""
    with opened(home) as instance:
        run = instance.create_run_for_job(DEFINITIONS.resolve_implicit_global_asset_job_def())
        instance.report_engine_event("first", run)
        seen: list[str] = []
        watcher = SqliteEventLogStorage(str(home / "history" / "runs"))
        watcher.register_instance(instance)
        watcher.watch(run.run_id, None, lambda entry, _: seen.append(entry.message))
        try:
            instance.report_engine_event("second", run)
            assert wait_until(lambda: "second" in seen, seconds=30)
        finally:
            watcher.dispose()


def test_a_forked_process_writes_over_connections_of_its_own(home):
    """The parent's connections stay usable, and both processes' events are there."""
    with opened(home) as instance:
        run = instance.create_run_for_job(DEFINITIONS.resolve_implicit_global_asset_job_def())
        instance.report_engine_event("parent", run)
        child = os.fork()
        if child == 0:
            instance.report_engine_event("child", run)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        instance.report_engine_event("parent again", run)
        said = [log.message for log in instance.all_logs(run.run_id)]
        assert [line for line in said if line in ("parent", "child", "parent again")] == [
            "parent",
            "child",
            "parent again",
        ]


def test_two_storages_create_the_database_of_a_run_at_once(home):
    """One file comes of it, with the events of both."""
    with opened(home) as one, opened(home) as other:
        run = one.create_run_for_job(DEFINITIONS.resolve_implicit_global_asset_job_def())
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda i: i.report_engine_event("here", run), (one, other)))
        assert sum(log.message == "here" for log in one.all_logs(run.run_id)) == 2


def test_a_database_that_is_not_migrated_is_migrated(home):
    """A file that another process began and did not finish becomes a whole one."""
    with opened(home) as instance:
        run = instance.create_run_for_job(DEFINITIONS.resolve_implicit_global_asset_job_def())
        with closing(sqlite3.connect(home / "history" / "runs" / f"{run.run_id}.db")):
            pass
        (home / "history" / "runs" / f"{run.run_id}.db").touch()
        instance.report_engine_event("here", run)
        assert [log.message for log in instance.all_logs(run.run_id)][-1] == "here"


def test_events_of_more_runs_than_stay_open_are_all_there(home):
    """The databases of older runs are closed, and opened again when they are asked for."""
    with opened(home) as instance:
        runs = [instance.create_run_for_job(DEFINITIONS.resolve_implicit_global_asset_job_def()) for _ in range(12)]
        for run in [*runs, *runs]:
            instance.report_engine_event("here", run)
        assert all(sum(log.message == "here" for log in instance.all_logs(run.run_id)) == 2 for run in runs)


def test_a_wiped_history_is_written_again(home):
    """No open connection keeps a deleted file."""
    with opened(home) as instance:
        executed(instance)
        instance.event_log_storage.wipe()
        assert executed(instance) in {run.run_id for run in instance.get_runs()}
        assert len(instance.all_logs(instance.get_runs()[0].run_id)) > 5
