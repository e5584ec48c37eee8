"""One run by the number of its rows: landing to gold of a tenth of the rows, and of all of them.

Ours: the job ``daily_visits`` for one new day of 20 million visits: bronze, silver with dead letters and deduplication,
both gold tables, all audited, accounted for and committed.
Theirs: the same job, before, for a day of 2 million visits.

Fair, because a visit costs the same work in both, and the engine is warm: a day of 2 million went before. The goal is
on the cost of a row. The engine, its master and the lake are those of the settings (``DEDP_SPARK_MASTER``,
``DEDP_LAKE``): CPU and memory are those of this process tree, which has a cluster's workers only if this process
started them. Every visit is accounted for: written, dead, or twice.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import psutil

from benchmarks import data
from benchmarks.measure import Counters, Row, Side, timed
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.patterns.ingestion.readiness_marker import delivering

__all__ = ["run"]

_VISITS, _OF_FILE, _TIMES, _GOAL = 2_000_000, 500_000, 10, 1.2
_FIRST_VISIT = '{"visit_id": "'


def run(*, quick: bool) -> list[Row]:
    """Measure a day of some rows, and then a day of ten times as many."""
    session, platform = SparkEngine().session, Platform(settings())
    of_file, count = (400, 2_000) if quick else (_OF_FILE, _VISITS)
    some = data.lines(of_file, data.day(0))
    sides = []
    # Earlier days are a day's yardstick of a usual volume, so each greater day comes earlier in the calendar.
    days = (("warm-up", 2, count), ("a tenth", 1, count), ("all", 0, _TIMES * count))
    for name, back, rows in days[1:] if quick else days:
        _land(settings().landing, data.day(back), some, rows // of_file)
        sample = timed(partial(_load, platform, data.day(back), rows), counters=Counters(session))
        sides.append(Side(f"{rows:,} visits, {name}", [sample]))
    *_, tenth, whole = sides
    ratios = {what: whole.middle(what) / tenth.middle(what) / _TIMES for what in ("cpu", "wall")}
    worst = max(ratios.values())
    return [
        Row(
            f"{_TIMES * count:,} visits in one run, by row against {count:,}",
            whole.shown(),
            tenth.shown(),
            goal=f"<= {_GOAL}x by row",
            reached=f"{worst:.2f}x by row",
            met=worst <= _GOAL,
            ratios={what: (ratio, ratio, ratio) for what, ratio in ratios.items()},
        )
    ]


def _land(root: Path, on: str, lines: list[str], files: int) -> None:
    """Deliver files of the same lines, whose visits are called otherwise in each."""
    folder = root / "visits" / on
    with delivering(folder):
        for number in range(files):
            with (folder / f"part-{number:03}.jsonl").open("w") as file:
                file.writelines(
                    f"{line.replace(_FIRST_VISIT, f'{_FIRST_VISIT}{number}-').replace(data.day(0), on)}\n"
                    for line in lines
                )


def _load(platform: Platform, on: str, count: int) -> dict[str, float]:
    """What the run wrote and needed, once no visit is missing."""
    ended = platform.run("daily_visits", partition=on)
    assert not ended.failure, ended.failure
    lake = lake_of(settings())
    bronze, silver = (
        lake.ledger(name).latest({column: on})
        for name, column in (("bronze/visits", "landed_on"), ("silver/visits", "event_date"))
    )
    assert bronze is not None
    assert silver is not None
    assert silver.record is not None
    counted = silver.record.rows
    assert bronze.rows_added == counted["read"] == count, counted
    assert counted["written"] + counted["dead"] + counted["duplicates"] == count, counted
    assert counted["dead"] == count // 200, counted
    return {
        "files": len(bronze.files_added) + len(silver.files_added),
        "written MB": (bronze.bytes_added + silver.bytes_added) / 1e6,
        "most GB": _peak_bytes() / 1e9,
    }


def _peak_bytes() -> int:
    """The most memory that this process and each JVM below it have ever used, in bytes."""
    mine = psutil.Process()
    measured = [mine, *(each for each in mine.children(recursive=True) if each.name() == "java")]
    texts = [Path(f"/proc/{each.pid}/status").read_text() for each in measured]
    return sum(int(line.split()[1]) * 1024 for text in texts for line in text.splitlines() if line.startswith("VmHWM:"))
