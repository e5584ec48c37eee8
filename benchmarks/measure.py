"""How everything here is measured.

Two sides take turns (ours, theirs, theirs, ours, ...) in one process, one session and over the same files. Counters
come first: they do not depend on the machine's mood. Then the CPU time of the whole process tree (Python, the JVM and
whatever they started), which neighbours on the machine disturb least. Then wall time.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

__all__ = [
    "Counters", "Row", "Sample", "Side", "compare", "each_side_once", "explain", "files_of", "interleave", "timed",
    "tree_cpu",
]  # fmt: skip

_TICKS = os.sysconf("SC_CLK_TCK")
_LIBRARY = ("dedp_assets", "resources", "sensors")
_ONCE = ContextVar("_ONCE", default=False)


@dataclass(frozen=True, slots=True)
class Sample:
    """One execution of one side.

    Attributes:
        cpu: seconds of CPU of the process tree.
        wall: seconds by the clock.
        counters: work done, by name.
    """

    cpu: float
    wall: float
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Side:
    """All executions of one side.

    Attributes:
        name: what it is.
        samples: in order.
    """

    name: str
    samples: Sequence[Sample]

    def middle(self, what: str) -> float:
        """Median of ``cpu`` or ``wall``, in seconds."""
        return float(median(getattr(sample, what) for sample in self.samples))

    def counters(self) -> dict[str, float]:
        """Median of each counter."""
        names = dict.fromkeys(name for sample in self.samples for name in sample.counters)
        return {name: median(s.counters[name] for s in self.samples if name in s.counters) for name in names}

    def shown(self) -> dict[str, Any]:
        """The side as the report shows it."""
        return {
            "name": self.name,
            "rounds": len(self.samples),
            "cpu": self.middle("cpu"),
            "wall": self.middle("wall"),
            "counters": self.counters(),
        }


@dataclass(slots=True)
class Row:
    """One line of the report.

    Attributes:
        case: which size or kind.
        ours: the platform's side.
        theirs: what it is compared with.
        goal: the goal in words; empty for a line that only informs.
        reached: what was reached, in the goal's unit.
        met: whether the goal is met.
        ratios: ``cpu`` and ``wall`` -> median, smallest and largest ratio of ours to theirs, round by round.
        why: what was measured about a missed goal, or about the comparison.
    """

    case: str
    ours: Mapping[str, Any]
    theirs: Mapping[str, Any]
    goal: str = ""
    reached: str = ""
    met: bool | None = None
    ratios: Mapping[str, Sequence[float]] = field(default_factory=dict)
    why: str = ""


class Counters:
    """What Spark's own bookkeeping says: jobs, tasks, bytes shuffled, seconds of garbage collection."""

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - a classic session
        self._context = session.sparkContext._jsc.sc()

    def read(self) -> dict[str, float]:
        """Totals since the session started; waits until the listeners have seen every event."""
        self._context.listenerBus().waitUntilEmpty()
        totals = self._context.statusStore().executorSummary("driver")
        return {
            "jobs": self._context.dagScheduler().numTotalJobs(),
            "tasks": totals.totalTasks(),
            "shuffled MB": totals.totalShuffleWrite() / 1e6,
            "GC s": totals.totalGCTime() / 1000,
        }


@contextmanager
def each_side_once() -> Iterator[None]:
    """Let ``interleave`` execute each side once, without a warm-up: to see that a benchmark works."""
    before = _ONCE.set(True)
    try:
        yield
    finally:
        _ONCE.reset(before)


def interleave(
    sides: Mapping[str, Callable[[int], Mapping[str, float] | None]],
    *,
    rounds: int,
    warm_up: int = 1,
    repeats: int = 1,
    before: Callable[[int], object] = lambda _: None,
    counters: Counters | None = None,
) -> list[Side]:
    """Let the sides take turns, the one that begins changing from round to round.

    Within ``each_side_once``, one round counts and none is a warm-up.

    Args:
        sides: name -> what to time; gets the round's number and may return further counters.
        rounds: how many rounds count.
        warm_up: how many rounds before them do not.
        repeats: how often a side is executed for one sample, which is then their mean: for what is over quickly.
        before: what to prepare for a round, outside of the time.
        counters: Spark's counters, if there is a session.
    """
    if _ONCE.get():
        rounds, warm_up, repeats = 1, 0, 1
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    for number in range(warm_up + rounds):
        before(number)
        order = list(sides.items())
        for name, work in order if number % 2 == 0 else order[::-1]:
            sample = timed(partial(work, number), counters=counters, repeats=repeats)
            if number >= warm_up:
                samples[name].append(sample)
    return [Side(name, found) for name, found in samples.items()]


def timed(
    work: Callable[[], Mapping[str, float] | None], *, counters: Counters | None = None, repeats: int = 1
) -> Sample:
    """Execute ``repeats`` times; returns the mean."""
    known = counters.read() if counters else {}
    cpu, wall = tree_cpu(), time.perf_counter()
    more: Mapping[str, float] | None = None
    for _ in range(repeats):
        more = work()
    wall, cpu = (time.perf_counter() - wall) / repeats, (tree_cpu() - cpu) / repeats
    spent = {name: (value - known[name]) / repeats for name, value in counters.read().items()} if counters else {}
    return Sample(cpu, wall, {**spent, **(more or {})})


def tree_cpu(root: int | None = None) -> float:
    """Seconds of CPU that a process, all its descendants and their ended children have used so far."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                words = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # ended meanwhile
            parents[int(entry.name)] = int(words[1])
            used[int(entry.name)] = sum(int(word) for word in words[11:15])
    root = root or os.getpid()
    return sum(ticks for pid, ticks in used.items() if _descends(pid, root, parents)) / _TICKS


def compare(case: str, ours: Side, theirs: Side, *, at_most: float | None = None, why: str = "") -> Row:
    """Ours against theirs, as the median of the ratios of each round; the goal holds for CPU and for wall."""
    ratios = {what: _ratios(ours, theirs, what) for what in ("cpu", "wall")}
    worst = max(ratios["cpu"][0], ratios["wall"][0])
    return Row(
        case=case,
        ours=ours.shown(),
        theirs=theirs.shown(),
        goal="" if at_most is None else f"<= {at_most:g}x",
        reached=f"{worst:.2f}x",
        met=None if at_most is None else worst <= at_most,
        ratios=ratios,
        why=why,
    )


def explain(work: Callable[[], object], functions: Sequence[str]) -> str:
    """Where the time goes, by function of the platform, from one profiled execution (nested ones overlap)."""
    profile = cProfile.Profile()
    started = time.perf_counter()
    profile.runcall(work)
    total = time.perf_counter() - started
    found: dict[str, tuple[int, float]] = {}
    for (file, _, name), (_, calls, _, seconds, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if name in functions and any(f"/{package}/" in file for package in _LIBRARY):
            before = found.get(name, (0, 0.0))
            found[name] = (before[0] + calls, before[1] + seconds)
    parts = [f"{name} {found[name][1]:.2f} s ({found[name][0]}x)" for name in functions if name in found]
    return f"of {total:.2f} s: {', '.join(parts)}"


def files_of(adds: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Counters of written files."""
    sizes = [add["size_bytes"] for add in adds]
    return {"files": len(sizes), "written MB": sum(sizes) / 1e6}


def _ratios(ours: Side, theirs: Side, what: str) -> list[float]:
    pairs = zip(ours.samples, theirs.samples, strict=True)
    found = [getattr(a, what) / max(getattr(b, what), 1 / _TICKS) for a, b in pairs]
    return [median(found), min(found), max(found)]


def _descends(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    while pid > 1 and pid != root:
        pid = parents.get(pid, 0)
    return pid == root
