"""Landing files to gold against a plain copy of the same landing files to Parquet with the same parse.

Ours: the job ``daily_visits`` for one new day: files checked and numbered line by line, bronze, silver with dead
letters and deduplication, both gold tables; every step audited, accounted for, committed and recorded in Dagster.
Theirs: one Spark job that reads the same files as text, parses each line by ``from_json`` to the same typed columns,
and writes Parquet.

Fair, because both read the same bytes in the same warm session with 2 GiB of heap, a new day in every round. The copy
is a limit and no alternative: it writes once, we write bronze, silver and gold. That is why each step is shown as well,
by the wall time its events in Dagster say. The goal is on rows per second of the whole chain.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

import dagster as dg

from benchmarks import data
from benchmarks.measure import Counters, Row, Side, compare, explain, files_of, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.patterns.delta import Ledger

__all__ = ["run"]

_VISITS = 1_000_000
_WARM_UP = 30
_GOAL = 0.8
_INSIDE = ("content", "read_lines", "_compute", "stage_rows", "_staged_files", "figures", "publish", "usual")
_STEPS = {
    "bronze_visits": "landing to bronze",
    "silver_visits": "bronze to silver",
    "gold_daily_page_views": "silver to gold, page views",
    "gold_daily_visitors": "silver to gold, visitors",
}


def run(*, quick: bool) -> list[Row]:
    """Measure the chain and its steps."""
    session, platform, count = SparkEngine().session, Platform(settings()), 1_000 if quick else _VISITS
    content = data.lines(count, data.day(0))

    def land(number: int) -> None:
        some = content if number else content[: count // 10]
        data.land(settings().landing, _day(number), [line.replace(data.day(0), _day(number)) for line in some])

    def ours(number: int) -> dict[str, float]:
        ended = platform.run("daily_visits", partition=_day(number))
        assert not ended.failure, ended.failure
        return _written(number, count if number else count // 10)

    def theirs(number: int) -> dict[str, float]:
        target = settings().home / "copies" / _day(number)
        lines = session.read.text(str(settings().landing / "visits" / _day(number) / "*.jsonl"))
        lines.selectExpr(f"from_json(value, '{data.TYPED}') AS visit").select("visit.*").write.parquet(str(target))
        return files_of({"size_bytes": file.stat().st_size} for file in target.glob("*.parquet"))

    warm_up, rounds = (0, 1) if quick else (2, 3)  # the compiler of the JVM is at work in the first full day, too
    sides = interleave(
        {"platform": ours, "copy to Parquet": theirs},
        rounds=rounds,
        warm_up=warm_up,
        before=land,
        counters=Counters(session),
    )
    chain = _judged(f"{count:,} visits, landing to gold", sides, count)
    runs = [_wall_of_steps(platform.instance, run.run_id) for run in platform.instance.get_runs(limit=rounds)]
    parts = {label: median(run[name] for run in runs) for name, label in _STEPS.items()}
    copied = sides[1].middle("wall")
    rates = ", ".join(
        f"{label} {spent:.1f} s = {count / spent:,.0f} rows/s, {copied / spent:.2f}x the copy's"
        for label, spent in parts.items()
    )
    chain.why = f"by step: {rates}"
    if not quick:
        land(rounds + warm_up)
        chain.why += f". Inside the platform's functions, {explain(partial(ours, rounds + warm_up), _INSIDE)}"
    return [chain]


def _judged(case: str, sides: list[Side], count: int) -> Row:
    row = compare(case, *sides)
    reached = min(1 / row.ratios["cpu"][0], 1 / row.ratios["wall"][0])
    row.goal, row.reached, row.met = f">= {_GOAL}x rows/s", f"{reached:.2f}x rows/s", reached >= _GOAL
    for side in (row.ours, row.theirs):
        side["counters"]["rows/s"] = count / side["wall"]
    return row


def _day(number: int) -> str:
    """Warm-up comes last in the calendar, so that its volume is no yardstick for the others."""
    return data.day(number - 1 if number else _WARM_UP)


def _written(number: int, count: int) -> dict[str, float]:
    """What the run wrote, by its commits; and that no visit was lost."""
    files: list[Path] = []
    day = _day(number)
    for name, column in (("bronze/visits", "landed_on"), ("silver/visits", "event_date")):
        commit = Ledger(Path(settings().lake) / name, name=name).latest({column: day})
        assert commit is not None
        assert commit.record is not None
        assert commit.record.rows["read"] >= count - count // 200
        files += [Path(settings().lake) / name / file for file in commit.files_added]
    return files_of({"size_bytes": file.stat().st_size if file.exists() else 0} for file in files)


def _wall_of_steps(instance: dg.DagsterInstance, run_id: str) -> dict[str, float]:
    began: dict[str, float] = {}
    spent: dict[str, float] = {}
    for entry in instance.all_logs(run_id):
        event = entry.dagster_event
        if event and event.step_key and event.event_type is dg.DagsterEventType.STEP_START:
            began[event.step_key] = entry.timestamp
        if event and event.step_key and event.event_type is dg.DagsterEventType.STEP_SUCCESS:
            spent[event.step_key] = entry.timestamp - began[event.step_key]
    return spent
