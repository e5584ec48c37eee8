"""Servers under supervision, with small programs in their place: what dies comes back, and everything ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import psutil
import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from tests.faults.processes import command, descendants, kill, living, wait_until

pytestmark = pytest.mark.slow

KEEP = """
import json, sys
from pathlib import Path
from dedp_assets.laptop.supervision import RestartPolicy, Server, supervise

folder, programs = Path(sys.argv[1]), json.loads(sys.argv[2])
after = {"second": "first"}
servers = [Server(name, [sys.executable, "-c", text], after=after.get(name, "")) for name, text in programs.items()]
settled, retries, hourly = map(int, sys.argv[3:6])
policy = RestartPolicy(settled_seconds=settled, retries=retries, hourly=hourly, stop_seconds=2)

def died(name, log):
    print("died:", name, log, flush=True)

with supervise(servers, folder, mark=str(folder), died=died, policy=policy) as kept:
    print("up", flush=True)
    reason = ""
    while not reason and not kept.asked.wait(0.1):
        reason = kept.poll()
        for ask in (kept.restart, kept.start):
            if (wish := folder / ask.__name__).exists():
                name = wish.read_text()
                wish.unlink()
                ask(name)
                print(f"{ask.__name__}ed", flush=True)
print("ended:", reason or "asked", flush=True)
"""
STAYS = "import time; time.sleep(600)"
DIES = "import sys; print('no luck'); sys.exit(3)"
DEAF = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STAYS!r}], start_new_session=True)"


@contextmanager
def kept(tmp_path, settled=1, retries=3, hourly=100, **programs):
    """Programs under supervision in a process of its own; yields it and a function that reads what it said."""
    said = tmp_path / "said"
    words = [str(tmp_path / "logs"), json.dumps(programs), str(settled), str(retries), str(hourly)]
    with said.open("wb") as output:
        up = subprocess.Popen(
            [sys.executable, "-c", KEEP, *words], cwd=CHECKOUT, stdout=output, stderr=output, start_new_session=True
        )
    process, seen = psutil.Process(up.pid), set()
    try:
        assert wait_until(
            lambda: seen.update(descendants(process)) or up.poll() is not None or "up" in said.read_text()
        )
        yield up, said.read_text
        assert wait_until(lambda: up.poll() is not None, seconds=60), said.read_text()
        assert not running(tmp_path)
    finally:
        kill({*seen, *descendants(process), process, *running(tmp_path)})
        up.wait()


def running(tmp_path):
    """Every process that was started below a supervision, orphans included."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("DEDP_PLATFORM") == str(tmp_path / "logs"):
                found.add(process)
    return living(found)


def program(up, text):
    """The process that runs a program's text, once there is one."""

    def find():
        return [p for p in descendants(psutil.Process(up.pid)) if command(p).endswith(f"-c {text}")]

    assert wait_until(find, seconds=60)
    return find()[0]


def test_a_restart_is_no_death(tmp_path):
    """Another process of the program runs, nothing is said of a death, and the limit of deaths does not count it."""
    with kept(tmp_path, hourly=1, page=STAYS) as (up, said):
        for number in range(1, 4):
            before = program(up, STAYS).pid
            (tmp_path / "logs" / "restart").write_text("page")
            assert wait_until(lambda number=number: said().count("restarted") == number, seconds=30)
            assert wait_until(lambda before=before: program(up, STAYS).pid != before, seconds=30)
        up.send_signal(signal.SIGTERM)
    assert "died:" not in said()
    assert "ended: asked" in said()


def test_a_server_waits_until_its_start_is_asked_for(tmp_path):
    """It does not run before; asked for again while it runs, it stays the same process, and no death is said."""
    waits = "import time; time.sleep(601)"
    with kept(tmp_path, first=STAYS, second=waits) as (up, said):
        program(up, STAYS)
        assert not [each for each in descendants(psutil.Process(up.pid)) if command(each).endswith(waits)]
        seen = set()
        for times in (1, 2):
            (tmp_path / "logs" / "start").write_text("second")
            assert wait_until(lambda times=times: said().count("started") == times, seconds=30)
            seen.add(program(up, waits).pid)
        up.send_signal(signal.SIGTERM)
    assert len(seen) == 1
    assert "died:" not in said()


def test_what_is_killed_comes_back_and_is_said_in_one_line(tmp_path):
    """Its neighbour goes on."""
    with kept(tmp_path, one=STAYS, other=f"{STAYS} ") as (up, said):
        one, other = program(up, STAYS), program(up, f"{STAYS} ")
        one.kill()
        assert wait_until(lambda: "died" in said(), seconds=30)
        assert program(up, STAYS) != one
        assert program(up, f"{STAYS} ") == other
        up.send_signal(signal.SIGINT)
    up, *lines = said().splitlines()
    assert lines == [
        f"died: one {tmp_path}/logs/one.log",
        "ended: asked",
    ]


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ({"settled": 1, "retries": 1}, "did not live for 1 s in 2 starts"),
        ({"settled": 0, "hourly": 2}, "died 3 times within an hour"),
    ],
    ids=["at each start", "now and then"],
)
def test_what_keeps_dying_ends_everything_and_says_why(tmp_path, bounds, why):
    """Beyond either bound, with the end of what it said; its neighbour ends, too."""
    with kept(tmp_path, **bounds, one=DIES, other=STAYS) as (up, said):
        assert wait_until(lambda: up.poll() is not None, seconds=60)
    assert f"one {why}, so everything is ended; its log: {tmp_path}/logs/one.log, which ends with:" in said()
    assert "no luck" in said()


def test_a_signal_ends_everything_while_a_server_waits_to_be_started_again(tmp_path):
    """Whichever, and however often it comes; of deaf servers and orphans nothing is left; few lines are said."""
    with kept(tmp_path, retries=50, one=DIES, other=STAYS, deaf=DEAF, parent=PARENT) as (up, said):
        assert wait_until(lambda: said().count("died: one") > 1, seconds=60)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            up.send_signal(number)
        assert wait_until(lambda: up.poll() is not None, seconds=60)
    assert said().splitlines()[-1] == "ended: asked"
    assert len(said().splitlines()) < 10


INTERRUPTED = """
import os, signal, sys
from dedp_assets.laptop.supervision import EndRequest

asked, signals = EndRequest(), [signal.SIGTERM, signal.SIGINT] * 50
for number in {*signals}:
    signal.signal(number, asked.make)

def interrupt(*_):
    if signals:
        os.kill(os.getpid(), signals.pop())
    return interrupt

sys.settrace(interrupt)
heard = asked.wait(60)
sys.settrace(None)
print(heard, len(signals), flush=True)
"""
"""A signal at each line of a wait, and at each line of the handler that a signal interrupted it with."""


def test_a_signal_is_heard_at_any_moment():
    """Also in the midst of a wait, or of the handler of another signal: neither waits for the other forever."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.startswith("True "), done.stderr


def test_if_the_supervisor_is_killed_everything_ends(tmp_path):
    """In one sentence that names the log; the servers do not live on as orphans."""
    with kept(tmp_path, one=STAYS, deaf=DEAF) as (up, said):
        program(up, STAYS)
        (supervisord,) = [p for p in descendants(psutil.Process(up.pid)) if "laptop.supervisord" in command(p)]
        supervisord.kill()
    assert said().splitlines()[1:] == [
        f"ended: supervisord, which keeps the servers running, ended; its log: {tmp_path}/logs/supervisord.log"
    ]


@pytest.mark.skipif(
    sys.platform != "linux", reason="the supervisor learns of its parent's death by prctl, which is Linux's"
)
def test_if_the_one_who_keeps_them_is_killed_everything_ends(tmp_path):
    """Nobody is left who could end it by hand."""
    with kept(tmp_path, one=STAYS, deaf=DEAF) as (up, _):
        program(up, STAYS)
        os.kill(up.pid, signal.SIGKILL)
        assert wait_until(lambda: not running(tmp_path), seconds=60)
