"""From a late file to corrected gold: real sensors, daemon and runs of `dedp up`, one file after the other.

Ours: a file with two visits of an older date is put into a day that was loaded long ago; the clock runs until the
commit of `gold/daily_visitors` that counts them. Theirs: the part of it in which a run computed; the rest is waiting
for a tick, for the queue, and for a process to start.

Fair, because nothing is left out: the file is written where it is read, and times are those of files, run records and
commits, one machine's clock. Files come at odd moments between two ticks. The last row drops files for many dates at
once; its seconds are until the last of them is in gold.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from statistics import median, quantiles

import dagster as dg

from benchmarks.measure import Row
from dedp_assets.case_study.sources import visits
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import CHECKOUT, Settings, child_environment, settings
from dedp_assets.laptop.servers.ports import free
from dedp_assets.patterns.delta import Ledger

__all__ = ["run"]

_GOLD, _BRONZE = "gold/daily_visitors", "bronze/visits"
_VISITS_A_DAY = 200
_GOAL_P50, _GOAL_P95 = 10.0, 15.0
_LONGEST_SECONDS = 600


@dataclass(frozen=True, slots=True)
class _Way:
    """What became of one late file, in seconds since 1970.

    Attributes:
        landed: when it was there.
        asked: run -> when it was asked for; the one that loads it, then the one that corrects gold.
        began: the same runs -> when their process began to compute.
        bronze: when bronze held it.
        gold: when gold counted it.
    """

    landed: float
    asked: tuple[float, float]
    began: tuple[float, float]
    bronze: float
    gold: float

    def parts(self) -> dict[str, float]:
        """Divide the way into its parts, in seconds."""
        return {
            "noticed": self.asked[0] - self.landed,
            "started": self.began[0] - self.asked[0],
            "bronze": self.bronze - self.began[0],
            "noticed again": self.asked[1] - self.bronze,
            "started again": self.began[1] - self.asked[1],
            "silver and gold": self.gold - self.began[1],
        }


def run(*, quick: bool) -> list[Row]:
    """Measure single files, and many dates at once."""
    days, files, many = (3, 1, 2) if quick else (14, 20, 12)
    chosen, first = settings(), Clock().now().date() - timedelta(days=days)
    for number in range(days):
        day = first + timedelta(days=number)
        visits.deliver(chosen.landing / "visits", day, visits.visits_of(day, count=_VISITS_A_DAY))
    with _platform(chosen):
        _wait(lambda: len(_counts(chosen)) == days, chosen)
        ways = list(_one_by_one(chosen, first, days, files))
        seconds = _at_once(chosen, first, days, many)
    totals = sorted(way.gold - way.landed for way in ways)
    p50, p95 = (quantiles(totals, n=20)[place] for place in (9, 18)) if len(totals) > 1 else (totals[0], totals[0])
    middle = {part: median(way.parts()[part] for way in ways) for part in ways[0].parts()}
    computed = middle["bronze"] + middle["silver and gold"]
    return [
        Row(
            f"{files} late files, {days} days of {_VISITS_A_DAY} visits",
            {"name": "late file to gold", "cpu": 0.0, "wall": p50, "counters": {"s p95": p95, "s worst": totals[-1]}},
            {"name": "computing", "cpu": 0.0, "wall": computed, "counters": {}},
            goal=f"p50 <= {_GOAL_P50:g} s, p95 <= {_GOAL_P95:g} s",
            reached=f"p50 {p50:.1f} s, p95 {p95:.1f} s",
            met=p50 <= _GOAL_P50 and p95 <= _GOAL_P95,
            why=", ".join(f"{part} {value:.1f} s" for part, value in middle.items()) + " (medians)",
        ),
        Row(
            f"{many} late dates at once",
            {"name": "until the last is in gold", "cpu": 0.0, "wall": seconds, "counters": {"dates": many}},
            {"name": "one after the other", "cpu": 0.0, "wall": many * p50, "counters": {}},
            reached=f"{seconds:.0f} s, {seconds / many:.1f} s a date",
        ),
    ]


def _one_by_one(chosen: Settings, first: date, days: int, files: int) -> Iterator[_Way]:
    random = Random(1)  # noqa: S311 - moments between ticks
    for number in range(files):
        time.sleep(random.uniform(0, 6))
        late, landing = first + timedelta(days=number % (days - 2)), first + timedelta(days=days - 1 - number % 2)
        wanted = _with_two_more(chosen, [late])
        landed = _drop(chosen, landing, [late], number)
        _wait_for(chosen, wanted)
        yield _way(chosen, landed, late.isoformat())


def _at_once(chosen: Settings, first: date, days: int, many: int) -> float:
    dates = [first + timedelta(days=number % (days - 1)) for number in range(many)]
    wanted = _with_two_more(chosen, dates)
    landed = _drop(chosen, first + timedelta(days=days - 1), dates, number=1_000)
    _wait_for(chosen, wanted)
    return next(Ledger(Path(chosen.lake) / _GOLD, name=_GOLD).newest_first()).timestamp.timestamp() - landed


def _drop(chosen: Settings, landing: date, dates: list[date], number: int) -> float:
    lines = [line for day in dates for line in visits.visits_of(day, count=2, seed=100 + number)]
    path = chosen.landing / "visits" / landing.isoformat() / f"late-{number:04d}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path.stat().st_mtime


def _counts(chosen: Settings) -> dict[str, int]:
    """Day -> visits, as the newest commit of gold about it says."""
    ledger = Ledger(Path(chosen.lake) / _GOLD, name=_GOLD)
    records = [commit.record for commit in (ledger.commits() if ledger.exists() else ())]
    return {r.partition["event_date"]: int(r.rows["represented"]) for r in records if r and "represented" in r.rows}


def _way(chosen: Settings, landed: float, day: str) -> _Way:
    bronze = Ledger(Path(chosen.lake) / _BRONZE, name=_BRONZE).last(lambda c: c.record)
    gold = Ledger(Path(chosen.lake) / _GOLD, name=_GOLD).last(lambda c: c.changes({"event_date": day}))
    assert bronze
    assert bronze.record
    assert gold
    assert gold.record
    runs = (bronze.record.run_id, gold.record.run_id)
    with dg.DagsterInstance.from_config(str(chosen.dagster_home)) as instance:
        found = {record.dagster_run.run_id: record for record in instance.get_run_records(dg.RunsFilter(list(runs)))}
    asked = tuple(found[run].create_timestamp.timestamp() for run in runs)
    began = tuple(found[run].start_time or 0.0 for run in runs)
    moments = (asked[0], asked[1]), (began[0], began[1])
    return _Way(landed, *moments, bronze.timestamp.timestamp(), gold.timestamp.timestamp())


def _with_two_more(chosen: Settings, dates: list[date]) -> dict[str, int]:
    before = _counts(chosen)
    return {day.isoformat(): before[day.isoformat()] + 2 for day in dates}


def _wait_for(chosen: Settings, wanted: Mapping[str, int]) -> None:
    _wait(lambda: wanted.items() <= _counts(chosen).items(), chosen)


def _wait(holds: Callable[[], bool], chosen: Settings) -> None:
    end = time.monotonic() + _LONGEST_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError((chosen.home / "up.log").read_text()[-2_000:])
        time.sleep(0.1)


@contextmanager
def _platform(chosen: Settings) -> Iterator[None]:
    """Run `dedp up`, as a person would, without a broker: visits come by files."""
    ports: Mapping[str, int] = {"--port": free(), "--engine-port": free(), "--kafka-port": free()}
    command = [str(Path(sys.executable).parent / "dedp"), "up", *(str(x) for pair in ports.items() for x in pair)]
    environment = child_environment({"DEDP_JIT": "quick", "PYTHONDONTWRITEBYTECODE": ""})
    with (chosen.home / "up.log").open("wb") as log:
        running = subprocess.Popen(command, env=environment, cwd=CHECKOUT, stdout=log, stderr=log)
    try:
        yield
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(120)
