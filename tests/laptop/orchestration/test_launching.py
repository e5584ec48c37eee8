"""Runs in forks: what they are, how they end, and when there is none."""

import os
import subprocess
import sys
import time

import dagster as dg
import psutil
import pytest
from dagster._core.launcher import LaunchRunContext  # noqa: TID251 - what the daemon hands to a launcher

from dedp_assets.graph.outcomes.run_tags import process_of, ran_by
from dedp_assets.graph.resources.environments import child_environment
from dedp_assets.laptop.orchestration import launching
from tests.faults.processes import wait_until

LAUNCHER = {
    "run_launcher": {"module": "dedp_assets.laptop.orchestration.launching", "class": "ForkingRunLauncher"},
    "telemetry": {"enabled": False},
}


@dg.op
def say_who_runs(context):
    parent = " ".join(psutil.Process(os.getppid()).cmdline())
    context.add_output_metadata({"process": os.getpid(), "parent": parent})


@dg.job(executor_def=dg.in_process_executor)
def short():
    say_who_runs()


@dg.op
def wait_to_be_ended():
    for _ in range(600):
        time.sleep(0.1)


@dg.job(executor_def=dg.in_process_executor)
def long():
    wait_to_be_ended()


@pytest.fixture
def instance(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=LAUNCHER) as instance:
        yield instance


def created(instance, job):
    origin = dg.reconstructable(job).get_python_origin()
    return instance.create_run_for_job(job, job_code_origin=origin, status=dg.DagsterRunStatus.STARTING)


def launched(instance, job):
    run = created(instance, job)
    instance.run_launcher.launch_run(LaunchRunContext(run, None))
    return run.run_id


@pytest.mark.slow
def test_a_run_is_a_fork_of_a_process_that_has_the_code_loaded(instance):
    """Its tag names the process that its op ran in, and that process is a child of the fork server."""
    run_id = launched(instance, short)
    assert wait_until(lambda: instance.get_run_by_id(run_id).is_finished)
    run = instance.get_run_by_id(run_id)
    assert run.status is dg.DagsterRunStatus.SUCCESS
    (output,) = [e for e in instance.all_logs(run_id) if e.is_dagster_event and e.dagster_event.is_successful_output]
    said = output.dagster_event.step_output_data.metadata
    assert said["process"].value == process_of(run) != os.getpid()
    assert "multiprocessing.forkserver" in said["parent"].value


@pytest.mark.slow
def test_a_run_is_ended_by_whoever_knows_the_instance(instance):
    """As the webserver does, which did not start it."""
    run_id = launched(instance, long)
    assert wait_until(lambda: instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START))
    assert instance.run_launcher.terminate(run_id)
    assert wait_until(lambda: instance.get_run_by_id(run_id).is_finished)
    run = instance.get_run_by_id(run_id)
    assert run.status is dg.DagsterRunStatus.CANCELED
    assert wait_until(lambda: not psutil.pid_exists(process_of(run)))
    assert not instance.run_launcher.terminate(run_id)


PRELOADS = """
import dedp_assets.laptop.orchestration.preloaded
from dedp_assets.patterns.delta.storage import s3_bucket
print(s3_bucket._USERS)
"""


@pytest.mark.slow
def test_a_process_that_is_to_be_forked_asks_no_bucket(tmp_path):
    """A fork of one that did could not use buckets, and declarations look at tables."""
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true", "DEDP_LAKE": "s3://lake/tables"}
    environment = child_environment({**nowhere, "DEDP_HOME": str(tmp_path)})
    done = subprocess.run([sys.executable, "-c", PRELOADS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_another_program_under_the_runs_number_is_left_alone(instance):
    """Numbers of processes are used again: the run is gone, and this process is not what ran it."""
    run = created(instance, long)
    instance.add_run_tags(run.run_id, ran_by(os.getpid(), run.run_id))
    assert not instance.run_launcher.terminate(run.run_id)


def test_changed_code_is_not_run_from_memory(instance, monkeypatch):
    """Then Dagster's code server launches it, which this run has none of."""
    launcher = instance.run_launcher
    monkeypatch.setattr(launching, "_stamp", lambda: ())
    with pytest.raises(dg.DagsterInvariantViolationError, match="requires a workspace"):
        launcher.launch_run(LaunchRunContext(created(instance, short), None))


def test_a_copy_of_a_run_is_not_said_to_run_where_the_first_did(instance):
    """A re-execution copies the tags of its run, and the process of that one is gone."""
    first, copy = created(instance, short), created(instance, short)
    for run in (first, copy):
        instance.add_run_tags(run.run_id, ran_by(4711, first.run_id))
    assert process_of(instance.get_run_by_id(first.run_id)) == 4711
    assert process_of(instance.get_run_by_id(copy.run_id)) is None
