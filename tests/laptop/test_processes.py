"""`dedp up` and runs as processes: one platform per home, what dies comes back, and everything ends together."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData  # noqa: TID251 - what the daemon's runs write of themselves
from deltalake import DeltaTable

from dedp_assets.case_study.sources import visits
from dedp_assets.cli import main
from dedp_assets.graph.outcomes.run_tags import ran_by
from dedp_assets.graph.resources.announced import listens
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import child_environment, settings
from dedp_assets.laptop import processes
from dedp_assets.laptop.orchestration.instance import close_abandoned
from dedp_assets.laptop.servers import engine, registry
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.delta.storage.coordination import table_lock
from dedp_assets.project import project
from tests.faults.processes import command, living, wait_until
from tests.helpers import free_pair
from tests.platforms import DEDP, platform_up

pytestmark = pytest.mark.budget(250, "platforms of several processes, which are killed")

DAY, VISITS = date(2026, 1, 5), 300
SERVERS = {
    "engine": "SparkConnectServer",
    "kafka": "kafka.Kafka",
    "database": "bin/postgres -D",
    "services": "sources.services:application",
    "status": "status_server:application",
    "registry": "quarkus-run.jar",
    # What `dagster code-server start` answers for; the first location is the project's own.
    **{
        f"code_{location.name}" if number else "code": f"info --location-name {location.name}"
        for number, location in enumerate(project().locations)
    },
    "web": "dagster-webserver",
    "daemon": "dagster-daemon run",
}


def environment(home, **more):
    """A home of its own and the checkout's cache."""
    fixed = {**more, "DEDP_HOME": str(home), "DEDP_CACHE": str(settings().cache), "DEDP_JIT": "quick"}
    return child_environment(fixed, without=("SPARK_REMOTE",))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A home for commands in this process, which may start nothing."""
    for name in ("DEDP_HOME", "DAGSTER_HOME", "JAVA_HOME", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("DEDP_REGISTRY", "own")
    monkeypatch.setattr(engine, "prepare", lambda _: None)
    monkeypatch.setattr(processes, "supervise", lambda *_, **__: pytest.fail("it was about to start processes"))
    return tmp_path


@pytest.fixture
def taken():
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


ONES = ("--port", "--engine-port", "--services-port", "--status-port", "--registry-port")
OPTIONS = (*ONES, "--database-port", "--kafka-port")


@pytest.mark.parametrize("option", OPTIONS)
def test_a_port_in_use_ends_up_with_one_line(here, taken, capsys, option):
    """Exit code 2, the port and the option that changes it; nothing is started, and the home is free again."""
    asked = {**{name: free_pair() for name in OPTIONS}, option: taken}
    assert main(["up", *[str(word) for pair in asked.items() for word in pair]]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert said.out == f"dedp up: the servers' code is loaded; everything is written to {here}\n"
    assert (here / "platform.lock").read_text() == ""
    assert line.startswith(f"dedp up: port {taken} for ")
    assert option in line


@pytest.mark.parametrize(
    ("web", "spark"),
    [("99999", "free"), ("-1", "free"), ("0", "free"), ("free", "0"), ("free", "free")],
    ids=["too large", "negative", "web port 0", "engine port 0", "twice the same"],
)
def test_ports_that_cannot_work_are_refused_before_anything_starts(here, capsys, web, spark):
    """A number that is no port, that means any port, or that both processes would want, is one line on the screen."""
    free = str(free_port())
    ports = ["--port", web.replace("free", free), "--engine-port", spark.replace("free", free)]
    ports += ["--kafka-port", str(free_pair()), "--services-port", str(free_port()), "--status-port", str(free_port())]
    ports += ["--registry-port", str(free_port())]
    assert main(["up", *ports]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("named", ["", "own", "http://registry.example"])
def test_topics_go_through_the_registry_that_is_named_or_its_own(here, monkeypatch, named):
    """Dagster's processes have the own one's address, so that no record goes without its schema; no other is served."""
    own = {"DEDP_REGISTRY": named, "DEDP_KAFKA": "b:1", "DEDP_SERVICES": "http://s", "DEDP_POSTGRES": "postgresql://d"}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    made = {}

    def supervise(servers, *_, **__):
        made.update({server.name: server for server in servers})
        raise StopIteration

    monkeypatch.setattr(processes, "supervise", supervise)
    monkeypatch.setattr(processes, "use_java", lambda _: None)
    monkeypatch.setattr(engine, "connect_command", lambda *_: ["spark"])
    monkeypatch.setattr(registry, "command", lambda *_, **__: ["registry"])
    ports = {name: free_pair() for name in OPTIONS}
    assert main(["up", *[str(word) for pair in ports.items() for word in pair]]) == 3
    assert ("registry" in made) == (named == "own")
    own = registry.url(ports["--registry-port"]) if named == "own" else None  # another address is in the environment
    assert {made[name].variables.get("DEDP_REGISTRY") for name in ("code", "web", "daemon")} == {own}


@pytest.mark.parametrize("named", ["", "bao", "https://vault.example:8200"])
def test_a_server_of_secrets_runs_where_it_is_asked_for(here, monkeypatch, named):
    """Beside the other servers; another one by its URL is not started, nor is the file of the home served."""
    own = {"DEDP_SECRETS": named, "DEDP_KAFKA": "b:1", "DEDP_SERVICES": "http://s", "DEDP_POSTGRES": "postgresql://d"}
    for name, value in {**own, "DEDP_REGISTRY": ""}.items():
        monkeypatch.setenv(name, value)
    made = {}

    def supervise(servers, *_, **__):
        made.update({server.name: server for server in servers})
        raise StopIteration

    monkeypatch.setattr(processes, "supervise", supervise)
    monkeypatch.setattr(processes, "use_java", lambda _: None)
    monkeypatch.setattr(engine, "connect_command", lambda *_: ["spark"])
    ports = {name: free_pair() for name in (*OPTIONS, "--bao-port")}
    assert main(["up", *[str(word) for pair in ports.items() for word in pair]]) == 3
    assert ("bao" in made) == (named == "bao")
    if named == "bao":
        assert made["bao"].command[1:] == ["server", f"-config={here / 'bao' / 'server.json'}"]


@pytest.fixture(scope="module")
def platform():
    """A platform that has one day of visits to load; the tests tell one story, and the last one ends it."""
    # Not in pytest's folder, which every other pytest that starts closes to PostgreSQL's user.
    with tempfile.TemporaryDirectory(prefix="dedp-") as folder:
        visits.deliver(Path(folder) / "home/landing/visits", DAY, visits.visits_of(DAY, count=VISITS))
        home, ports = Path(folder) / "home", {**{name: free_port() for name in ONES}, "--kafka-port": free_pair()}
        variables = environment(home, DEDP_TICK_SECONDS="2", DEDP_REGISTRY="own")
        with platform_up(home, ports, variables, said=Path(folder) / "said") as up:
            yield up


@pytest.mark.slow
def test_up_says_where_everything_is_once_it_answers(platform):
    """The servers come first, the address when the page is there, in few lines; the rest is in files that it names."""
    url = f"http://127.0.0.1:{platform.ports['--port']}"
    assert platform.says(f"ready     web: {url}"), platform.said()
    with urllib.request.urlopen(f"{url}/server_info", timeout=30) as reply:  # noqa: S310
        assert "dagster_version" in json.loads(reply.read())
    page = f"http://127.0.0.1:{platform.ports['--status-port']}"
    assert platform.says(f"ready     status: what needs somebody is at {page}"), platform.said()
    with urllib.request.urlopen(f"{page}/status.json", timeout=60) as reply:  # noqa: S310
        told = json.loads(reply.read())
    assert (told["web"], "silver/visits" in {table["name"] for table in told["tables"]}) == (url, True)
    logs = platform.home / "logs"
    first, *more = platform.said().splitlines()
    assert first == f"dedp up: the servers' code is loaded; everything is written to {platform.home}"
    # Between the two, the first start of all says that it fetches jars.
    began, _, where = next(line for line in more if " starting " in line).partition(";")
    assert {*began.partition("starting")[2].strip().split(", ")} == {*SERVERS}
    assert str(logs) in where
    assert {f"{name}.log" for name in SERVERS} <= {path.name for path in logs.iterdir()}
    assert "DEBUG" not in platform.said()


@pytest.mark.promise("what-is-killed-comes-back")
@pytest.mark.slow
def test_what_is_killed_comes_back_and_a_run_in_flight_is_asked_for_again(platform):
    """Every server once, the engine in the midst of a run; the day is loaded in one commit, with all of its rows."""
    assert platform.says(f"started   daily_visits {DAY}"), platform.said()
    for name, words in SERVERS.items():
        platform.find(words).kill()
        assert platform.says(f"restart   {name} died and is started again; its log: {platform.home}/logs/{name}.log")
    for name in set(SERVERS) - {"daemon"}:
        assert platform.says(f"ready     {name}: ", times=2), platform.said()
    table = platform.home / "lakehouse" / "silver/visits"
    assert wait_until(lambda: loaded(table) == VISITS, seconds=400), platform.said()
    bronze = platform.home / "lakehouse" / "bronze/visits"
    assert loaded(bronze, "landed_on") == VISITS
    for one in (table, bronze):
        assert len([commit for commit in Ledger(one).newest_first() if commit.changed and commit.record]) == 1


def loaded(table, column="event_date"):
    """How many rows of the day there are."""
    if not (table / "_delta_log").exists():
        return 0
    return DeltaTable(str(table)).to_pyarrow_table(filters=[(column, "=", DAY)]).num_rows


@pytest.mark.slow
def test_a_second_platform_is_refused_and_other_commands_join_the_first(platform):
    """On other ports, too; what runs is not touched, and `status` says that it runs."""
    before = {platform.find(words) for words in SERVERS.values()}
    others = [str(word) for name in set(OPTIONS) - {"--kafka-port"} for word in (name, free_port())]
    done = dedp(platform, "up", *others, "--kafka-port", str(free_pair()))
    assert (done.returncode, len(done.stdout.splitlines())) == (2, 1)
    assert done.stderr.startswith(f"dedp up: this home is used by pid {platform.process.pid} since ")
    assert f"runs (pid {platform.process.pid} since " in dedp(platform, "status").stderr
    assert "1 steps done in the operational database" in dedp(platform, "work").stdout
    assert {platform.find(words) for words in SERVERS.values()} == before


def dedp(platform, *words):
    """A command beside the platform."""
    return subprocess.run([DEDP, *words], env=environment(platform.home), capture_output=True, text=True, check=False)


def run_while_killed(platform, ask, started, *, table, kills):
    """Hold a run at the lock of a table while a server is killed and starts again, and await the run's end."""
    known = {told: platform.said().count(told) for told in (f"restart   {kills} died", f"ready     {kills}: ")}
    with table_lock(Ledger(platform.home / "lakehouse" / table).store, timeout_seconds=60):
        ask()
        assert platform.says(f"started   {started}", seconds=600), platform.said()
        platform.find(SERVERS[kills]).kill()
        for told, before in known.items():
            assert platform.says(told, times=before + 1, seconds=600), platform.said()
    assert platform.says(f"done      {started}", seconds=600), platform.said()


def skipped_since(instance, sensor, moment):
    """How often a sensor looked and asked for nothing since a moment."""
    (state,) = [each for each in instance.all_instigator_state() if each.instigator_name == sensor]
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, after=moment.timestamp())
    return sum(tick.status.value == "SKIPPED" for tick in ticks)


@pytest.mark.slow
def test_two_locations_are_restarted_apart_from_each_other(platform):
    """A run in flight in one ends well while the server of the other is killed and starts again, and is one run.

    Its own server keeps its process.
    """
    ours, theirs, next_day = "code", "code_reporting", DAY + timedelta(days=1)
    for name in (ours, theirs):
        assert platform.says(f"ready     {name}: "), platform.said()
    server = platform.find(SERVERS[ours])

    def deliver():
        lines = visits.visits_of(next_day, count=VISITS)
        visits.deliver(platform.home / "landing/visits", next_day, lines)

    run_while_killed(platform, deliver, f"daily_visits {next_day}", table="silver/visits", kills=theirs)
    assert platform.find(SERVERS[ours]) == server
    with dg.DagsterInstance.from_config(str(platform.home / "dagster")) as instance:
        since = Clock().now()
        for sensor in ("deliveries", "markers_finished"):
            assert wait_until(lambda name=sensor: skipped_since(instance, name, since) >= 2, seconds=600, every=1)
        runs = instance.get_runs(dg.RunsFilter(job_name="daily_visits"))
        mine = [run for run in runs if run.tags["dagster/partition"] == str(next_day)]
        assert [run.status for run in mine] == [dg.DagsterRunStatus.SUCCESS]


@pytest.mark.slow
def test_ctrl_c_ends_every_process_of_up(platform):
    """After the signal that a terminal sends nothing is left, and the last line says so."""
    platform.see()
    os.killpg(platform.process.pid, signal.SIGINT)
    assert platform.process.wait(timeout=90) == 0
    assert not living(platform.everything), [command(process) for process in living(platform.everything)]
    assert platform.said().splitlines()[-1].endswith("nothing of it runs any more")
    assert "Traceback" not in platform.said()
    assert not (platform.home / "postgres" / "data" / "postmaster.pid").exists()
    assert not listens(platform.ports["--engine-port"])


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
            run_id = instance.create_run_for_job(some_job, status=status).run_id
            if process is not None:
                instance.add_run_tags(run_id, ran_by(process, run_id))
            return run_id, instance

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


@pytest.mark.parametrize("as_thread", [False, True])
def test_a_run_is_closed_though_its_process_number_is_used_again(a_started_run, as_thread):
    """By another process, as after a start of the machine, or by a thread, which has a number of a process on Linux."""
    run, instance = a_started_run(os.getpid())
    with ThreadPoolExecutor() as threads:
        number = threads.submit(threading.get_native_id).result() if as_thread else os.getpid()
        tag, value = next(iter(ran_by(os.getpid(), run).items()))
        assert value.split()[:2] == [str(os.getpid()), run]
        assert len(value.split()) == 3
        instance.add_run_tags(run, {tag: f"{number} {run}" if as_thread else f"{number} {run} 1.00"})
        assert close_abandoned(instance) == [run]


def test_a_run_of_the_daemon_whose_process_is_gone_is_closed(a_started_run, dead):
    """The process that Dagster notes when a run starts is looked for, too; while it lives the run is left alone."""
    (lost, instance), (fine, _) = a_started_run(), a_started_run()
    for run, process in ((lost, dead), (fine, os.getpid())):
        data = EngineEventData(metadata={"pid": dg.MetadataValue.text(str(process))})
        instance.report_engine_event("Started process for run.", instance.get_run_by_id(run), data)
    assert close_abandoned(instance, nobody_else_runs=True) == [lost]


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
