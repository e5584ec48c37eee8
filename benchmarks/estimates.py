"""Seconds that `dedp plan` estimates against the seconds that the planned runs then take.

Ours: the estimate of each planned run, the median of the tables' past commits. Theirs: what the run took, by the same
tables' commits. Twenty days of visits are loaded to gold; then each day is delivered again with some more visits, the
runs are planned, and the reconciler runs them.

Fair, because both are read from the ledger by the same rule: from the start of a step to its commit. An estimate as
good as the past is still wrong by what a run differs from earlier runs, which is what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks import data
from benchmarks.measure import Row, Sample, Side, compare
from dedp_assets.graph.outcomes.durations import durations_of
from dedp_assets.graph.reconcile.estimating import Estimates
from dedp_assets.graph.reconcile.planning import plan_runs
from dedp_assets.graph.reconcile.run_plans import PlannedRun
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake, lake_of
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.project import project

__all__ = ["run"]

_LEAST, _MOST = 0.75, 1.25


def run(*, quick: bool) -> list[Row]:
    """Measure the runs of a backfill."""
    days, count = (2, 200) if quick else (20, 1_000)
    platform, lake, landing = Platform(settings()), lake_of(settings()), Landing(root=settings().landing_zone)
    _load(platform, days, count)
    _deliver(days, count + count // 20)
    tables = project().tables()
    runs = plan_runs(tables, lake, landing, Clock().now(), instance=platform.instance).runs
    estimates = Estimates(runs, tables, lake, landing)
    planned = [(run, estimates.of(run)) for run in runs]
    before = {name: lake.ledger(name).version() for name in lake.names()}
    _react(platform)
    pairs = [
        (Sample(guess.cpu_seconds.median, guess.seconds.median), took)
        for run, guess in planned
        if guess.seconds.runs and (took := _took(lake, run, before))
    ]
    ours, theirs = (Side(name, [pair[n] for pair in pairs]) for n, name in enumerate(("estimate", "taken")))
    row = compare(f"{len(pairs)} runs of {days} days", ours, theirs)
    off = median(guess.wall / took.wall for guess, took in pairs)
    row.goal, row.reached = f"median estimate between {_LEAST:g} and {_MOST:g} of what a run took", f"{off:.2f}"
    row.met = _LEAST <= off <= _MOST
    return [row]


def _load(platform: Platform, days: int, count: int) -> None:
    """Load the days to gold, one after the other, as they would come."""
    for number in range(days):
        _deliver(1, count, first=number)
        _react(platform)


def _deliver(days: int, count: int, *, first: int = 0) -> None:
    for number in range(first, first + days):
        on = data.day(number)
        data.land(settings().landing, on, data.lines(count, on))


def _react(platform: Platform) -> None:
    failed = [ended for ended in platform.react() if ended.failure]
    assert not failed, failed


def _took(lake: Lake, run: PlannedRun, before: Mapping[str, int]) -> Sample | None:
    """Return what a planned run took by the commits since then; ``None`` if it made none."""
    costs = [*_costs(lake, run.tables, run.keys, before)]
    return Sample(sum(cpu for cpu, _ in costs), sum(seconds for _, seconds in costs)) if costs else None


def _costs(
    lake: Lake, tables: Sequence[str], keys: Sequence[str], before: Mapping[str, int]
) -> Iterator[tuple[float, float]]:
    """Yield CPU seconds and seconds of the commits of some partitions."""
    for name in tables:
        commits = [*lake.ledger(name).commits(since=before.get(name, -1))]
        took = dict(durations_of(commits))
        for commit in commits:
            record = commit.record
            if record and {*keys} & {*record.partition.values()} and commit.version in took:
                cpu = record.cost.cpu_seconds if record.cost else None
                yield cpu or 0.0, took[commit.version]
