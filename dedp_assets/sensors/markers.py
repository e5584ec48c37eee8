"""Markers of other teams' tables: a sensor that starts each consumer once for each finished partition.

What a tick asks for follows from the producer's log, the consumer's own log and the recorded runs. It has no cursor: a
lost tick or a restarted daemon changes nothing, as the consumer's commits say up to where each partition has read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from dedp_assets.graph.declare import LakeTable, OnMarkers
from dedp_assets.graph.declare.isolated import MarkerLog, require_contract
from dedp_assets.graph.reconcile.requests import decide
from dedp_assets.graph.reconcile.watching import TableWatch
from dedp_assets.graph.run.batches import NOT_COMPUTED
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.resources.environments import settings
from dedp_assets.resources.lake import Lake

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
        lake, found, broken = context.resources.lake, list[dg.RunRequest | str](), dict[str, str]()
        for each in consumers:
            try:
                found += each.requests(lake, context.instance)
            except ContractError as error:  # it keeps no other consumer from its runs
                broken[each.table.spec.name] = str(error)
        requests = [each for each in found if isinstance(each, dg.RunRequest)]
        if broken and not requests:
            raise ContractError("; ".join(broken.values()))
        if requests:
            _report(context, broken)
            return dg.SensorResult(run_requests=requests[:_AT_ONCE])
        held = [each for each in found if isinstance(each, str)]
        return dg.SkipReason("; ".join(["no new marker", *held]))

    return evaluate


def _report(context: dg.SensorEvaluationContext, broken: Mapping[str, str]) -> None:
    """Log broken contracts in a tick with requests, which cannot fail, and observe each consumer."""
    for name, sentence in broken.items():
        context.log.error(f"{name} is not asked for: {sentence}")
        observed = dg.AssetObservation(name.split("/"), metadata={NOT_COMPUTED: sentence})
        context.instance.report_runless_asset_event(observed)
