"""Processes that are known by their start as well: nothing else is ended under an id that is used again."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import psutil
import pytest

from tests.faults.processes import command, descendants, kill, living, wait_until

SLEEPS = "import time; time.sleep(600)"


@contextmanager
def another():
    """A process of its own, and its end."""
    with subprocess.Popen([sys.executable, "-c", SLEEPS]) as started:
        process = psutil.Process(started.pid)
        try:
            # A process that was forked has the command line of its program once it has begun that program.
            assert wait_until(lambda: command(process).endswith(f"-c {SLEEPS}"), seconds=60)
            yield process
        finally:
            kill([process])


@pytest.fixture
def gone():
    """A process that has ended and been reaped."""
    with another() as process:
        pass
    return process


@pytest.mark.parametrize("as_thread", [False, True])
def test_who_has_the_id_of_a_process_that_is_gone_is_left_alone(gone, as_thread):
    """Whether a process has the id now, or a thread of this one: Linux takes either for a process in signals."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    gone._pid = thread.native_id if as_thread else os.getpid()
    gone._ident = (gone._pid, gone._ident[1])
    try:
        os.kill(gone.pid, 0)
        assert not living([gone])
        kill([gone])
        assert descendants(gone) == set()
    finally:
        stop.set()
        thread.join()


def test_a_process_is_found_below_its_parent_until_it_is_killed():
    """A killed one does not live while it waits to be reaped."""
    with another() as process:
        assert process in descendants(psutil.Process())
        assert living([process]) == {process}
        kill([process])
        assert wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, seconds=60)
        assert living([process]) == set()
    assert command(process) == ""
