"""Process trees: who descends from whom, and whether they are gone.

A process is known by its id and its start, as psutil does: the kernel uses an id again, also for a thread, and a signal
to the id of a thread ends the process of that thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil


def descendants(process: psutil.Process) -> set[psutil.Process]:
    """All processes below one, over sessions and process groups."""
    with suppress(psutil.NoSuchProcess):
        return set(process.children(recursive=True))
    return set()


def command(process: psutil.Process) -> str:
    """Command line of a process; empty if it is gone."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def living(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Those that still run; one that only waits to be reaped does not."""
    return {process for process in processes if _status(process) not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)}


def wait_until(condition: Callable[[], object], *, seconds: float = 180, every: float = 0.2) -> bool:
    """Whether a condition came true in time, looked at again after ``every`` seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(every)
    return False


def kill(processes: Iterable[psutil.Process]) -> None:
    """End what is left of some processes."""
    for process in living(processes):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _status(process: psutil.Process) -> str:
    """State of a process; dead for one whose id is used again."""
    with suppress(psutil.NoSuchProcess):
        if process.is_running():
            return str(process.status())
    return str(psutil.STATUS_DEAD)
