"""Process trees, by process id: who descends from whom, and whether they are gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path


def descendants(process: int) -> set[int]:
    """Ids of all processes below one, over sessions and process groups."""
    parents = {int(stat.parent.name): _stat(stat)[1] for stat in Path("/proc").glob("[0-9]*/stat")}
    found: set[int] = set()
    generation = {process}
    while generation:
        generation = {child for child, parent in parents.items() if int(parent) in generation} - found
        found |= generation
    return found


def command(process: int) -> str:
    """Command line of a process; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def living(processes: Iterable[int]) -> set[int]:
    """Those that still run; one that only waits to be reaped does not."""
    return {process for process in processes if _stat(Path(f"/proc/{process}/stat"))[0] not in "ZX"}


def wait_until(condition: Callable[[], object], *, seconds: float = 180) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


def kill(processes: Iterable[int]) -> None:
    """End what is left of some processes, each by its id."""
    for process in living(processes):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _stat(path: Path) -> tuple[str, str]:
    """State and parent; ``X`` for a process that is gone."""
    with suppress(OSError):
        state, parent = path.read_text().rpartition(")")[2].split()[:2]
        return state, parent
    return "X", "0"
