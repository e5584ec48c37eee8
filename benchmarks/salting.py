"""An aggregation with 90 % of its rows in one group, salted against unsalted.

Ours: ``aggregate(..., salt=8)``. Theirs: the same without salt. One case keeps counts and sums, which shrink to a row
for each task before the shuffle, so that there is nothing to spread; the other keeps sets of distinct values.

Fair, because both read the same rows by the same function in one session, and their states are compared in the end.
``largest task MB`` is what the task that reads most of the shuffle reads in one round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.value.distributed_aggregator import aggregate

__all__ = ["run"]

_SOURCE = (
    "if(id % 10 < 9, 'unknown', concat('user ', id % 1000)) AS who",
    "xxhash64(id) % 100000 AS page",
    "CAST(id % 60000 AS INT) AS bytes",
)
_CASES = {
    "counts and sums": {"visits": "count(*)", "bytes": "sum(bytes)", "largest": "max(bytes)"},
    "distinct values": {"visits": "count(*)", "pages": "distinct(page)"},
}
_SALT, _TASKS = 8, 8


def run(*, quick: bool) -> list[Row]:
    """Measure both kinds of states."""
    session = SparkEngine().session
    session.conf.set("spark.sql.shuffle.partitions", _TASKS)
    session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    count = 1_000 if quick else 4_000_000
    source = str(settings().home / "source")
    session.range(0, count, 1, _TASKS).selectExpr(*_SOURCE).write.parquet(source)
    return [_measure(session, source, f"{count:,} rows, {case}", measures) for case, measures in _CASES.items()]


def _measure(session: SparkSession, source: str, case: str, measures: Mapping[str, str]) -> Row:
    def states(salt: int) -> DataFrame:
        return aggregate(session.read.parquet(source), keys=["who"], measures=measures, salt=salt)

    def work(salt: int) -> Callable[[int], Mapping[str, float]]:
        def once(_: int) -> Mapping[str, float]:
            before = session.sparkContext._jsc.sc().dagScheduler().nextStageId()
            states(salt).write.format("noop").mode("overwrite").save()
            return {"largest task MB": max(map(_largest, _stages(session, since=before)))}

        return once

    sides = interleave({"salted": work(_SALT), "unsalted": work(1)}, rounds=7, warm_up=2, counters=Counters(session))
    assert sorted(map(str, states(_SALT).collect())) == sorted(map(str, states(1).collect()))
    return compare(case, *sides)


def _stages(session: Any, *, since: int) -> list[Any]:  # noqa: ANN401 - a classic session
    """List the stages from number ``since`` on, oldest first; waits until the listeners have seen every event."""
    context = session.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    store, number, found = context.statusStore(), context.dagScheduler().nextStageId(), list[Any]()
    for stage in range(since, number):
        tasks = store.taskList(stage, 0, 1_000)
        metrics = [tasks.apply(n).taskMetrics() for n in range(tasks.size())]
        found.append([each.get().shuffleReadMetrics() for each in metrics if each.isDefined()])
    return found


def _largest(stage: Any) -> float:  # noqa: ANN401 - what Spark's bookkeeping says of its tasks
    return max((each.remoteBytesRead() + each.localBytesRead() for each in stage), default=0) / 1e6
