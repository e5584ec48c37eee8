"""The S3 server of a home: keys of the home's own, one server at a time, and its end with whoever started it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psutil
import pytest

from dedp_assets.graph.resources.engine import EngineError
from dedp_assets.graph.resources.environments import Settings, settings, variable
from dedp_assets.graph.resources.home import Running
from dedp_assets.laptop.servers import s3
from dedp_assets.laptop.servers.attached import attached, await_answer
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta.storage.s3_store import S3Store
from tests.faults.processes import command, living, wait_until
from tests.object_store import forget_clients

ATTACHES = """
import sys, time
from pathlib import Path
from dedp_assets.laptop.servers.attached import attached
with attached(["sleep", "600"], log=Path(sys.argv[1])):
    print("runs", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> Settings:
    """Settings of a home whose lake is on the home's own server; what is named in the environment is taken back."""
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ALLOW_HTTP"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("no_proxy", "internal.example")
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.setenv("DEDP_LAKE", "s3")
    return settings()


def test_keys_are_made_up_once_and_only_the_owner_reads_them(tmp_path):
    """Another home has others; no command line shows them."""
    first, again = (s3.variables(tmp_path / "a", port=1) for _ in range(2))
    other = s3.variables(tmp_path / "b", port=1)
    assert first == again
    keys = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert not {first[name] for name in keys} & {other[name] for name in keys}
    assert (tmp_path / "a" / "identities.json").stat().st_mode & 0o077 == 0
    line = " ".join(s3.command(tmp_path / "a", port=18_333))
    assert not [name for name in keys if first[name] in line]


def test_the_server_is_for_this_machine_alone(own):
    """It listens on loopback, calls nobody, and is reached without a proxy."""
    words = s3.command(own.home / s3.FOLDER, port=18_333)
    assert {"-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-s3.port=18333"} <= {*words}
    assert s3.variables(own.home / s3.FOLDER, port=18_333)["no_proxy"] == "internal.example,127.0.0.1"


def test_a_missing_program_names_the_extra(own, monkeypatch, tmp_path):
    """A wheel without the extra has none."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"DEDP_LAKE=s3 needs the extra \[local\]"):
        s3.command(own.home / s3.FOLDER, port=18_333)


def test_a_platform_without_an_answering_server_is_named_with_its_log(own, monkeypatch):
    """A command starts no second server over the same objects."""
    monkeypatch.setattr(s3, "running", lambda _: Running(1, "today", "http://w", "sc://e"))
    monkeypatch.setattr(s3, "_START_SECONDS", 0)
    monkeypatch.setattr(s3, "serving", lambda *_, **__: pytest.fail("a second server was about to start"))
    with (
        pytest.raises(EngineError, match=r"logs/s3.log\): start the platform again with `make up LAKE=s3`"),
        s3.reached(own),
    ):
        pass


def test_up_is_refused_while_a_command_runs_the_server(own):
    """It would serve the same objects; afterwards it is allowed."""
    s3.require_unused(own)
    with (own.home / s3.FOLDER / "users.lock").open() as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with pytest.raises(ValueError, match="a command runs the S3 server of this home"):
            s3.require_unused(own)
    s3.require_unused(own)


def test_a_server_ends_with_the_process_that_started_it(tmp_path):
    """Though that is killed."""
    with subprocess.Popen([sys.executable, "-c", ATTACHES, str(tmp_path / "log")], stdout=subprocess.PIPE) as starter:
        try:
            assert starter.stdout.readline() == b"runs\n"

            def running():
                """The processes that it started, once the server's command is among them: a fork has none at first."""
                found = {*psutil.Process(starter.pid).children(recursive=True)}
                return found if "sleep 600" in [command(each) for each in found] else set()

            assert wait_until(running, seconds=60)
            started = running()
        finally:
            starter.kill()
    assert wait_until(lambda: not living(started), seconds=60), [command(each) for each in living(started)]


def test_a_server_that_ends_early_is_told_with_its_last_words(tmp_path):
    """Nobody waits for it any longer."""
    log = tmp_path / "log"
    with attached(["sh", "-c", "echo no such option; exit 3"], log=log) as process:
        with pytest.raises(EngineError, match=r"(?s)the server does not start; its log, .*no such option"):
            await_answer("the server", process, lambda: False, log=log)
        assert process.wait(60) == 3


@pytest.mark.slow
def test_commands_at_once_share_a_server_and_a_later_one_finds_the_objects(own):
    """The first ends it after the last is done, by a kill; the objects are there at the next start."""
    started, done = Event(), Event()

    def servers():
        """S3 servers of this process; other tests may have one."""
        return {each for each in psutil.Process(os.getpid()).children(recursive=True) if "weed" in command(each)}

    others = servers()

    def second():
        assert started.wait(60)
        with s3.reached(own):
            store, address = S3Store("dedp", "t"), variable("AWS_ENDPOINT_URL")
            store.put("a", b"1")
            done.set()
        return address

    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(second)
        with s3.reached(own):
            forget_clients()
            started.set()
            assert done.wait(60)
            first = variable("AWS_ENDPOINT_URL")
        assert other.result() == first
    assert servers() == others
    with s3.reached(own):
        forget_clients()
        assert variable("AWS_ENDPOINT_URL") != first
        assert S3Store("dedp", "t").read("a") == b"1"
    forget_clients()
