"""Code servers: the message of a server that answers names the first declaration that the code was loaded without."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys

import pytest
import yaml

from dedp_assets.laptop.orchestration import code_server
from dedp_assets.laptop.orchestration.code_server import loaded
from dedp_assets.project import project

FAULT = "/my lake/defs/broken.py:8:1: TypeError: lake_table() got an unexpected keyword argument 'runz'"
TIME, COLOURED = "2026-01-05 16:37:34 +0000", "\x1b[32m{time}\x1b[0m - dagster{of} - \x1b[34m{level}\x1b[0m - {text}"


def lines(*faults, form=COLOURED):
    """What a code server's log has of one start."""
    start = form.format(time=TIME, of=".code_server", level="INFO", text="Starting Dagster code server for module lake")
    found = [form.format(time=TIME, of="", level="ERROR", text=f"\x1b[31m{fault}\x1b[0m") for fault in faults]
    return "".join(f"{line}\n" for line in [start, *found, start.replace("Starting", "Started")])


@pytest.fixture
def answering():
    """A port that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("log", "but"),
    [
        (None, ""),
        ("", ""),
        (lines(), ""),
        (lines(FAULT), f", without what has faults (`dedp check`): {FAULT}"),
        (lines(FAULT, FAULT.replace("8:1", "9:1")), f", without what has faults (`dedp check`): {FAULT}"),
        (lines(FAULT) + lines(), ""),
        (lines() + lines(FAULT), f", without what has faults (`dedp check`): {FAULT}"),
        (lines("something else is wrong in x.py"), ""),
    ],
    ids=["no log", "empty", "sound", "a fault", "two faults", "mended since", "broken since", "another error"],
)
def test_a_server_that_answers_names_the_first_fault_of_its_last_start(tmp_path, answering, log, but):
    """Without the colours of the log, and whatever an earlier start found."""
    if log is not None:
        (tmp_path / "code.log").write_text(log)
    assert loaded(answering, tmp_path / "code.log") == f"the code is loaded{but}"


def test_a_server_that_does_not_answer_is_not_ready(tmp_path):
    """Whatever its log says."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "code.log").write_text(lines(FAULT))
    assert loaded(port, tmp_path / "code.log") == ""


def test_private_places_are_sockets_that_nobody_else_reaches(tmp_path, monkeypatch):
    """Short, as a path of a socket has to be; commands and the workspace name them; nothing is left of them."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "ignored, for it does not exist"))
    locations = project().locations
    with code_server.places(locations, private=True) as places:
        assert places.keys() == {location.name for location in locations}
        (folder,) = {place.parent for place in places.values()}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert max(len(str(place)) for place in places.values()) < 100
        named = yaml.safe_load(code_server.workspace(tmp_path, servers=places).read_text())["load_from"]
        for location, each in zip(locations, named, strict=True):
            place = places[location.name]
            assert each == {"grpc_server": {"socket": str(place), "location_name": location.name}}
            words = code_server.command(location, place)
            assert words[words.index("-s") + 1] == str(place)
            assert not {"-p", "-h"} & {*words}
            assert code_server.variables(place) == {"TMPDIR": str(folder)}
            assert loaded(place, tmp_path / "code.log") == ""
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(place))
                server.listen()
                assert loaded(place, tmp_path / "code.log") == "the code is loaded"
    assert not folder.exists()


def test_without_locks_places_are_free_ports(tmp_path):
    """As the workspace says them to webserver and daemon."""
    locations = project().locations
    with code_server.places(locations, private=False) as places:
        assert all(isinstance(place, int) for place in places.values())
        named = yaml.safe_load(code_server.workspace(tmp_path, servers=places).read_text())["load_from"]
    expected = [{"host": "127.0.0.1", "port": places[each.name], "location_name": each.name} for each in locations]
    assert named == [{"grpc_server": each} for each in expected]
    assert {**code_server.variables(3000)} == {}


WATCHED = """
import subprocess, sys, time
from threading import Thread
from dedp_assets.laptop.orchestration import code_server
code_server._LOOK_SECONDS = 0.05
Thread(target=code_server._end_with_the_code, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", *sys.argv[2:]], stdin=subprocess.PIPE)
time.sleep(2)
child.communicate()
time.sleep(float(sys.argv[1]))
print("goes on")
"""


@pytest.mark.parametrize(
    ("seconds", "words", "code"),
    [("1", [], 0), ("120", ["-m", "dagster", "api", "grpc"], 1)],
    ids=["another child", "the child with the code"],
)
def test_a_code_server_ends_after_the_child_with_the_code_and_after_no_other(seconds, words, code):
    """A command that an import calls while the server starts comes and goes."""
    done = subprocess.run([sys.executable, "-c", WATCHED, seconds, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (code, "" if code else "goes on"), done.stderr
