"""`dedp up` and runs as processes: started together, ended together, and noticed when they are gone."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
import pytest

from dedp_assets.cli import main
from dedp_assets.instance import PROCESS, close_abandoned
from dedp_assets.local import engine, processes
from dedp_assets.local.ports import free as free_port
from resources.announced import listens
from resources.environments import CHECKOUT, child_environment, settings
from tests.faults.processes import command, descendants, kill, living, wait_until
from tests.helpers import free_pair

DEDP = str(Path(sys.executable).parent / "dedp")


def environment(home, **more):
    """A home of its own and the checkout's cache."""
    fixed = {**more, "DEDP_HOME": str(home), "DEDP_CACHE": str(settings().cache), "DEDP_JIT": "quick"}
    return child_environment(fixed, without=("SPARK_REMOTE",))


@pytest.fixture
def taken():
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize(("option", "other"), [("--port", "--engine-port"), ("--engine-port", "--port")])
def test_a_port_in_use_ends_up_with_one_line(tmp_path, taken, option, other):
    """Exit code 1, the port and the option that changes it; nothing is started and nothing is written."""
    free = ["--kafka-port", str(free_pair()), other, str(free_port())]
    arguments = [DEDP, "up", option, str(taken), *free]
    done = subprocess.run(arguments, env=environment(tmp_path), capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert line.startswith(f"dedp up: port {taken} for ")
    assert option in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("web", "spark"),
    [("99999", "free"), ("-1", "free"), ("0", "free"), ("free", "0"), ("free", "free")],
    ids=["too large", "negative", "web port 0", "engine port 0", "twice the same"],
)
def test_ports_that_cannot_work_are_refused_before_anything_starts(tmp_path, monkeypatch, capsys, web, spark):
    """A number that is no port, that means any port, or that both processes would want, is one line on the screen."""
    for name in ("DEDP_HOME", "DAGSTER_HOME", "JAVA_HOME", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(engine, "prepare", lambda _: None)
    monkeypatch.setattr(processes, "Together", lambda: pytest.fail("it was about to start processes"))
    free = str(free_port())
    ports = ["--port", web.replace("free", free), "--engine-port", spark.replace("free", free)]
    assert main(["up", *ports, "--kafka-port", str(free_pair())]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@contextmanager
def platform_up(tmp_path, **variables):
    """`dedp up` in a session of its own; yields it with all its processes once they work, and leaves none behind."""
    web, spark, everything = free_port(), free_port(), set()
    arguments = [DEDP, "up", "--port", str(web), "--engine-port", str(spark), "--kafka-port", str(free_pair())]
    with (tmp_path / "output").open("wb") as output:
        up = subprocess.Popen(
            arguments,
            env=environment(tmp_path / "home", **variables),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        assert wait_until(lambda: up.poll() is not None or (answers(web) and listens(spark))), "not up in time"
        assert wait_until(lambda: up.poll() is not None or _code_servers(up.pid) >= 2), "no code servers"
        assert up.poll() is None, (tmp_path / "output").read_text()
        everything = {up.pid, *descendants(up.pid)}
        yield up, everything
    finally:
        kill({*everything, *descendants(up.pid), up.pid})
        up.wait(timeout=60)


def _code_servers(process):
    return sum("api grpc" in command(descendant) for descendant in descendants(process))


def answers(port):
    """Whether the webserver serves requests."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5) as reply:
        return "dagster_version" in json.loads(reply.read())
    return False


@pytest.mark.slow
def test_ctrl_c_ends_every_process_of_up(tmp_path):
    """After the signal that a terminal sends, engine, webserver, daemon and their code servers are all gone."""
    # Without rows in a database nothing is launched meanwhile: the daemon would show what became of it.
    nobody = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    with platform_up(tmp_path, DEDP_POSTGRES=nobody) as (up, everything):
        commands = " ".join(command(process) for process in everything)
        for part in ("SparkConnectServer", "kafka.Kafka", "dagster-webserver", "dagster-daemon run", "api grpc"):
            assert part in commands
        os.killpg(up.pid, signal.SIGINT)
        assert up.wait(timeout=60) in (0, 130)
        assert wait_until(lambda: not living(everything), seconds=60), [command(p) for p in living(everything)]
        assert "Traceback" not in (tmp_path / "output").read_text()


TOGETHER = """
import sys
from dedp_assets.local.processes import Together

together = Together()
for name, command in zip(("worker", "other"), sys.argv[1:]):
    together.add_process(name, command)
together.loop()
"""


@pytest.mark.slow
def test_what_a_process_says_of_being_ended_is_not_shown(tmp_path):
    """What it said before is, and so is how each of them ended."""
    ready = shlex.quote(str(tmp_path / "ready"))
    worker = f"trap 'echo disturbed; exit 1' TERM; echo at work; touch {ready}; while :; do sleep 0.05; done"
    other = f"while ! [ -e {ready} ]; do sleep 0.05; done; echo bye"
    arguments = [sys.executable, "-c", TOGETHER, worker, other]
    done = subprocess.run(arguments, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60)
    shown = [line.partition("| ")[2] for line in done.stdout.splitlines()]
    assert {"at work", "bye", "other stopped (rc=0)", "worker stopped (rc=1)"} <= set(shown)
    assert "disturbed" not in shown


@pytest.mark.slow
def test_if_one_process_of_up_ends_the_others_end_too(tmp_path):
    """A platform without its engine does not linger: it ends, and its exit code says that something was wrong."""
    with platform_up(tmp_path) as (up, everything):
        (jvm,) = [
            p for p in everything if "SparkConnectServer" in command(p) and command(p).split()[0].endswith("java")
        ]
        os.kill(jvm, signal.SIGKILL)
        assert up.wait(timeout=60) != 0
        assert wait_until(lambda: not living(everything), seconds=60), [command(p) for p in living(everything)]
        assert not (tmp_path / "home" / "postgres" / "data" / "postmaster.pid").exists()


@dg.op
def nothing() -> None:
    """Does nothing."""


@dg.job
def some_job() -> None:
    """A job to have runs of."""
    nothing()


@pytest.fixture
def a_started_run():
    """``a_started_run(process)``: a run on an instance of its own, in the midst of its work, and that instance."""
    with dg.DagsterInstance.ephemeral() as instance:

        def make(process=None, status=dg.DagsterRunStatus.STARTED):
            tags = {} if process is None else {PROCESS: str(process)}
            return instance.create_run_for_job(some_job, tags=tags, status=status).run_id, instance

        yield make


@pytest.fixture
def dead():
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
def test_a_run_whose_process_is_gone_is_closed(a_started_run, dead, status):
    """It failed, says why, and is closed once."""
    run, instance = a_started_run(dead, status)
    assert close_abandoned(instance) == [run]
    assert instance.get_run_by_id(run).status == dg.DagsterRunStatus.FAILURE
    said = [entry.dagster_event.message for entry in instance.all_logs(run)]
    assert "the process that ran it is gone" in said
    assert close_abandoned(instance) == []


@pytest.mark.parametrize("alone", [False, True])
def test_a_run_whose_process_lives_is_left_alone(a_started_run, alone):
    """Even a daemon that is only starting does not fail the run of a person's own command."""
    run, instance = a_started_run(os.getpid())
    assert close_abandoned(instance, nobody_else_runs=alone) == []
    assert instance.get_run_by_id(run).status == dg.DagsterRunStatus.STARTED


def test_a_run_that_names_no_process_is_closed_only_when_nobody_else_runs(a_started_run):
    """The daemon's own runs survive a command beside it, and are closed when the daemon starts anew."""
    run, instance = a_started_run()
    assert close_abandoned(instance) == []
    assert close_abandoned(instance, nobody_else_runs=True) == [run]


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED])
def test_a_run_that_has_ended_keeps_its_verdict(a_started_run, dead, status):
    """Nothing is closed twice, though its process is gone."""
    run, instance = a_started_run(dead, status)
    assert close_abandoned(instance, nobody_else_runs=True) == []
    assert instance.get_run_by_id(run).status == status
