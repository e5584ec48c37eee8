"""The measurement of a write's cost against the write that it measures.

Ours: what a publish does to know its cost: the clock, a tag for the jobs, the driver's account of the tasks, and the
record with the cost as JSON. Theirs: the whole publish, measured.

Fair, because each measurement reads the account of a job like the publish's, and that of no job on top; both sides are
in one process and session. For orientation, a line shows a publish that is measured against the same one without: two
publishes differ by more than a hundredth from one round to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.measure import Counters, Row, Side, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.measuring.metering import Meter, used_by_jobs
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table

__all__ = ["run"]

_SPEC = TableSpec(
    "silver/visits",
    {"n": Column("BIGINT", required=True), "page": Column("STRING"), "day": Column("STRING", required=True)},
    partition_by=("day",),
)
_DAY = {"day": "mon"}
_RUN = Provenance(asset=_SPEC.name, run_id="benchmark")
_TAG = "metering"
_GOAL = 0.01
_TIMES = 100
"""Measurements in one sample: one alone is shorter than a tick of the CPU's clock."""


def run(*, quick: bool) -> list[Row]:
    """Measure small and large partitions."""
    session, home = SparkEngine().session, settings().home
    sizes = (1_000,) if quick else (1_000, 1_000_000)
    return [row for count in sizes for row in _measure(session, home, count)]


def _measure(session: SparkSession, home: Path, count: int) -> list[Row]:
    metered, bare = (Table(_SPEC, home / f"{kind}-{count}", session) for kind in ("metered", "bare"))
    numbers = itertools.count()

    def publish(table: Table) -> None:
        rows = session.range(count).selectExpr(f"id + {next(numbers)} AS n", "concat('/p/', id % 40) page", "'mon' day")
        assert table.overwrite(rows, partition=_DAY, provenance=_RUN).changed

    def ours(_: int) -> None:
        publish(metered)

    def without(_: int) -> None:
        with _unmeasured():
            publish(bare)

    def job(number: int) -> None:
        tag = f"{_TAG}-{number}"
        session.sparkContext.addJobTag(tag)
        session.range(count).write.parquet(str(home / f"job-{count}-{number}"))
        session.sparkContext.removeJobTag(tag)

    def alone(number: int) -> None:
        for _each in range(_TIMES):
            _measurement(session, f"{_TAG}-{number}")

    sides = interleave(
        {"the measurement": alone, "a publish": ours, "a publish without": without},
        rounds=7,
        warm_up=3,
        repeats=5 if count < 100_000 else 1,
        before=job,
        counters=Counters(session),
    )
    many, whole, unmeasured = sides
    once = [replace(sample, cpu=sample.cpu / _TIMES, wall=sample.wall / _TIMES) for sample in many.samples]
    measuring = Side(many.name, once)
    part = compare(f"{count:,} rows, the measurement in a publish", measuring, whole)
    middle, least, most = part.ratios["cpu"]
    part.goal, part.met = f"<= {_GOAL:.0%} of the CPU", middle <= _GOAL
    part.reached = f"{middle:.2%} [{least:.2%}-{most:.2%}]"
    return [
        part,
        compare(f"{count:,} rows, with and without", whole, unmeasured),
    ]


def _measurement(session: SparkSession, tag: str) -> None:
    """Do what a publish does to know its cost."""
    meter = Meter()
    with meter.jobs(session):
        pass
    used = used_by_jobs(session.sparkContext, tag)
    assert used.cpu_seconds
    with meter.waiting(nullcontext()):
        for _ in meter.trying([True]):
            CommitRecord.of(_RUN, content="").costing(meter.cost() + used).to_json()


@contextmanager
def _unmeasured() -> Iterator[None]:
    """Let writes measure nothing."""
    kept: dict[str, Any] = {name: getattr(Meter, name) for name in ("jobs", "cost")}
    try:
        for name, nothing in (("jobs", nullcontext()), ("cost", Cost())):
            setattr(Meter, name, lambda *_, nothing=nothing: nothing)
        yield
    finally:
        for name, method in kept.items():
            setattr(Meter, name, method)
