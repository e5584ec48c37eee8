"""The run history in PostgreSQL, and the way from SQLite to PostgreSQL and back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.graph.resources.home import Running, hold
from dedp_assets.laptop.orchestration import history
from dedp_assets.laptop.orchestration.instance import prepare_home
from dedp_assets.laptop.servers import postgres
from dedp_assets.patterns.core.errors import ConfigError, NotReady

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
DAYS = dg.StaticPartitionsDefinition(["a", "b"])
NAMES = dg.DynamicPartitionsDefinition(name="names")


@dg.asset(partitions_def=DAYS, check_specs=[dg.AssetCheckSpec("is_there", asset="numbers")])
def numbers(context):
    if context.partition_key == "b" and context.run.tags.get("fails"):
        raise dg.Failure("on purpose")
    yield dg.Output(1, metadata={"rows": 1})
    yield dg.AssetCheckResult(passed=context.partition_key == "a", check_name="is_there")


@dg.asset(deps=[numbers])
def total():
    return 1


@dg.sensor(job_name="all_numbers")
def looks(context):
    context.update_cursor("seen")
    return dg.SkipReason("nothing new")


NUMBERS = dg.define_asset_job("all_numbers", [numbers])
DEFINITIONS = dg.Definitions([numbers, total], jobs=[NUMBERS], sensors=[looks])


@pytest.fixture
def chosen(monkeypatch) -> Iterator[Settings]:
    """Settings of a home that the server's user may enter, as pytest's own folders are closed to other users."""
    for name in ("DEDP_POSTGRES", "DEDP_HISTORY"):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory(prefix="dedp-") as folder:
        yield replace(settings(), home=Path(folder) / "home", postgres=None, history=None)


def lived(instance: dg.DagsterInstance) -> None:
    """Runs that fail and are repeated, an event without a run, dynamic partitions, a cursor of the daemon."""
    job = DEFINITIONS.resolve_job_def("all_numbers")
    for key, tags in (("a", {}), ("b", {"fails": "yes"}), ("b", {}), ("a", {"again": "yes"})):
        job.execute_in_process(instance=instance, partition_key=key, tags=tags, run_config=QUIET, raise_on_error=False)
    instance.report_runless_asset_event(dg.AssetMaterialization("total", metadata={"by": "hand"}))
    instance.add_dynamic_partitions("names", ["one", "two"])
    instance.run_storage.set_cursor_values({"daemon": "42"})


def content(instance: dg.DagsterInstance) -> dict[str, object]:
    """All that the UI shows of a history, without ids that only a storage gives."""
    runs = sorted(instance.get_run_records(), key=lambda record: record.create_timestamp)
    events = {
        run.dagster_run.run_id: [(e.timestamp, e.step_key, e.user_message, e.dagster_event) for e in logs]
        for run in runs
        for logs in [instance.all_logs(run.dagster_run.run_id)]
    }
    check = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(numbers.key, "is_there"), limit=10
    )
    latest = {key: instance.get_latest_materialization_event(key) for key in (numbers.key, total.key)}
    return {
        "runs": [
            (r.dagster_run, r.start_time, r.end_time, r.create_timestamp.replace(microsecond=0), r.dagster_run.tags)
            for r in runs
        ],
        "plans": [instance.get_job_snapshot(str(r.dagster_run.job_snapshot_id)) is not None for r in runs],
        "events": events,
        "latest": {key.to_user_string(): event and (event.run_id, event.timestamp) for key, event in latest.items()},
        "materialized": instance.get_materialized_partitions(numbers.key),
        "checks": [(record.run_id, record.status) for record in check],
        "dynamic": sorted(instance.get_dynamic_partitions("names")),
        "cursors": instance.run_storage.get_cursor_values({"daemon"}),
    }


@pytest.mark.slow
def test_a_history_is_the_same_in_postgresql_and_back_in_sqlite(chosen):
    """Runs, events, checks, partitions, latest materializations; runs go on in either place."""
    with history.opened(chosen, history.SQLITE) as files:
        lived(files)
        expected = content(files)
    assert len(expected["runs"]) == 4
    copied, text = history.history(chosen, to="own")
    assert copied == {"place": "the PostgreSQL of this home", "runs": 4, "copied_from": "SQLite files"}
    assert text == (
        "4 runs with events, ticks and backfills were copied to the PostgreSQL of this home, and nothing was removed. "
        "Set DEDP_HISTORY=own."
    )
    stored = replace(chosen, history="own")
    with history.opened(stored, "own") as database:
        assert content(database) == expected
        DEFINITIONS.resolve_job_def("all_numbers").execute_in_process(
            instance=database, partition_key="b", run_config=QUIET
        )
        expected = content(database)
        with pytest.raises(ValueError, match="--to must be an empty run history, not SQLite files, which holds 4 runs"):
            history.move(stored, to="sqlite")
    elsewhere = replace(chosen, home=chosen.home.with_name("elsewhere"))
    with history.opened(stored, "own") as database, history.opened(elsewhere, history.SQLITE) as files:
        history.copy_history(database, files)
        assert content(files) == expected
    found = {"place": "the PostgreSQL of this home", "runs": 5}
    assert history.history(stored, to="") == (found, "the PostgreSQL of this home: 5 runs")
    assert postgres.open_database(stored) is None, "a server that was started for the copy was left running"


def test_what_rests_not_is_not_copied(chosen):
    """A platform in the home, a run under way, the same place."""
    with pytest.raises(ValueError, match="--to must be another place than the present one, not SQLite files"):
        history.move(chosen, to="sqlite")
    with (
        hold(chosen, Running(os.getpid(), "now", "http://web", "sc://engine")),
        pytest.raises(ValueError, match=r"must rest while it is copied, and .* runs in this home: end it first"),
    ):
        history.move(chosen, to="own")


@pytest.mark.slow
def test_a_run_under_way_is_not_copied(chosen):
    """Its events would be in one place and in the other."""
    with history.opened(chosen, history.SQLITE) as files:
        run = files.create_run_for_job(DEFINITIONS.resolve_job_def("all_numbers"), status=dg.DagsterRunStatus.STARTED)
    with pytest.raises(ValueError, match=f"must rest while it is copied, and a run is under way: {run.run_id}"):
        history.move(chosen, to="own")


def test_dagsters_processes_learn_of_the_database_by_a_variable(chosen):
    """The configuration on disk holds no password."""
    url = "postgresql://dedp:very-secret@db.example/history"
    assert prepare_home(replace(chosen, history=url))["DEDP_HISTORY_URL"] == url.replace("://", "+psycopg2://", 1)
    stated = (chosen.dagster_home / "dagster.yaml").read_text()
    assert "very-secret" not in stated
    assert "DEDP_HISTORY_URL" in stated
    assert "DEDP_HISTORY_URL" not in prepare_home(chosen)
    assert "RunHistory" in (chosen.dagster_home / "dagster.yaml").read_text()


def test_a_place_that_cannot_be_is_refused(chosen):
    """No URL, a server that is another's, or one that does not run; no text repeats a secret."""
    with pytest.raises(ConfigError, match=r"^DEDP_HISTORY is no PostgreSQL URL: write postgresql://") as refused:
        prepare_home(replace(chosen, history="mysql://u:very-secret@h/d"))
    assert "very-secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="DEDP_HISTORY must be a URL where DEDP_POSTGRES is one, not own"):
        prepare_home(replace(chosen, history="own", postgres="postgresql://u:p@h/d"))
    with pytest.raises(NotReady, match=r"DEDP_HISTORY=own\) that is not running: start it with `make up`"):
        prepare_home(replace(chosen, history="own"))
