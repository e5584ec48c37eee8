"""CPU of a step's column lineage trace against CPU of the step.

Ours: what a step does once for its code version and columns: Spark plans the query another time, and the text of the
plan is read. Theirs: the whole step, which reads, computes and publishes.

Fair, because both are of one query over one table, in one process and session, with a warm planner. A table that
is computed each day under a code version for a month is traced once in 30 steps: the goal counts that share. Reading
the text alone is shown as a line of its own.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, Side, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.observability._plans import lineage_of
from dedp_assets.patterns.observability.fine_grained_tracker import trace_columns

__all__ = ["run"]

_VISITS = TableSpec(
    "silver/visits",
    {"id": Column("BIGINT"), "page": Column("STRING"), "user_id": Column("STRING"), "day": Column("STRING")},
    partition_by=("day",),
)
_VIEWS = TableSpec(
    "gold/page_views",
    {"page": Column("STRING"), "views": Column("BIGINT"), "visitors": Column("BIGINT"), "day": Column("STRING")},
    partition_by=("day",),
)
_QUERY = (
    "WITH shown AS (SELECT page, user_id, day FROM {visits} WHERE page IS NOT NULL) "
    "SELECT page, count(*) AS views, count(DISTINCT user_id) AS visitors, day FROM shown GROUP BY page, day"
)
_DAY = {"day": "mon"}
_STEPS, _GOAL = 30, 0.02


def run(*, quick: bool) -> list[Row]:
    """Measure a small and a larger partition."""
    session, home = SparkEngine().session, settings().home
    sizes = (1_000,) if quick else (1_000, 1_000_000)
    return [row for count in sizes for row in _measure(session, home, count)]


def _measure(session: SparkSession, home: Path, count: int) -> list[Row]:
    visits, views = (Table(spec, home / f"{spec.name}-{count}", session) for spec in (_VISITS, _VIEWS))
    columns = ("id", "concat('/p/', id % 40) page", "concat('u', id % 999) user_id", "'mon' day")
    made = session.range(count).selectExpr(*columns)
    visits.overwrite(made, partition=_DAY, provenance=Provenance(asset=visits.name, run_id="benchmark"))

    def query() -> DataFrame:
        return session.sql(_QUERY, visits=visits.read(_DAY))

    def step(number: int) -> None:
        by = Provenance(asset=views.name, run_id=f"run-{number}", inputs={"visits": number}, replay=True)
        views.overwrite(query(), partition=_DAY, provenance=by)

    def trace(_: int) -> None:
        assert not trace_columns(query()).gaps

    text = str(session.sql("EXPLAIN EXTENDED SELECT * FROM {traced}", traced=query()).collect()[0][0])

    def reading(_: int) -> None:
        assert not lineage_of(text, list(_VIEWS.columns), {}).gaps

    sides = interleave(
        {"the trace": trace, "a step": step, "the text": reading},
        rounds=7,
        warm_up=3,
        repeats=3,
        counters=Counters(session),
    )
    traced, whole, read = sides
    part = compare(f"{count:,} rows, the trace in a step", traced, whole)
    middle, least, most = (each / _STEPS for each in part.ratios["cpu"])
    part.goal, part.met = f"<= {_GOAL:.0%} of the CPU, once in {_STEPS} steps", middle <= _GOAL
    part.reached = f"{middle:.2%} [{least:.2%}-{most:.2%}]"
    return [part, compare(f"{count:,} rows, reading the text", Side(read.name, read.samples), whole)]
