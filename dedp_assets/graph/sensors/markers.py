"""Markers of other teams' tables: a sensor that starts each consumer once for each finished partition.

What a tick asks for follows from the producer's log, the consumer's own log and the recorded runs. It has no cursor: a
lost tick or a restarted daemon changes nothing, as the consumer's commits say up to where each partition has read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from dedp_assets.graph.declare import LakeTable, OnMarkers
from dedp_assets.graph.declare.isolated import MarkerLog, require_contract
from dedp_assets.graph.reconcile.requests import decide
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.reconcile.watching import TableWatch
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake

__all__ = ["markers_finished"]

_AT_ONCE = 25


@dataclass(slots=True)
class _Consumer:
    """A table that markers start, with the cached state of both logs by root of the lake."""

    table: LakeTable[...]
    start: OnMarkers
    logs: dict[str, tuple[MarkerLog, TableWatch]] = field(default_factory=dict)

    def requests(self, lake: Lake, instance: dg.DagsterInstance) -> Iterator[dg.RunRequest | str]:
        """Yield the runs to request, and the reasons for held partitions.

        Raises:
            ContractError: if the producer's table is not where, or not as, the contract says.
        """
        spec, producer = self.table.spec, lake.table(self.start.producer)
        known = MarkerLog(self.start.column), TableWatch(spec, spec.partition_by[0], loads=True)
        markers, mine = self.logs.setdefault(lake.root, known)
        found = markers.poll(producer.ledger)
        mine.poll(lake.ledger(spec.name))
        if not (producer.ledger.exists() or mine.loaded):
            yield f"{spec.name}: nobody has written {producer.store.address} yet"
            return
        require_contract(producer)
        plan = self.start.plan(found, {key: int(loaded.delivery) for key, loaded in mine.loaded.items()})
        decision = decide(instance, plan, asset=spec.name, job_name=self.table.job.name, code=self.table.code)
        partitions = self.table.runs.partitions
        yield from (r for r in decision.requests if partitions and partitions.has_partition_key(r.partition_key or ""))
        yield from (f"{spec.name} {key}: {reason}" for key, reason in decision.held.items())


def markers_finished(tables: Sequence[LakeTable[...]], jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Make the sensor that starts the jobs of all tables with ``OnMarkers``.

    Args:
        tables: the declared tables of the location.
        jobs: the jobs of the location.
    """
    consumers = [_Consumer(table, start) for table in tables for start in table.runs.of(OnMarkers)]
    started = {each.table.job.name for each in consumers}
    read = ", ".join(sorted({each.start.producer.name for each in consumers}))

    @dg.sensor(
        name="markers_finished",
        jobs=[job for job in jobs if job.name in started],
        minimum_interval_seconds=settings().tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Finished partitions of tables of other teams that were not processed: {read}.",
        required_resource_keys={"lake"},
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        lake, found, errors = context.resources.lake, list[dg.RunRequest | str](), TableErrors()
        for each in consumers:
            with errors.at(each.table.spec.name):
                found += each.requests(lake, context.instance)
        requests = [each for each in found if isinstance(each, dg.RunRequest)]
        errors.report(context, fail=not requests)
        if requests:
            return dg.SensorResult(run_requests=requests[:_AT_ONCE])
        held = [each for each in found if isinstance(each, str)]
        return dg.SkipReason("; ".join(["no new marker", *held]))

    return evaluate
