"""The reconciler: polls of the whole graph that request runs for stale partitions, oldest first.

Two sensors share it: one asks for loads of deliveries, the other for tables that are behind those that they read. The
daemon starts the ticks of a sensor five seconds apart, and what a load changes is seen by a tick that is still looking.

What a tick asks for follows from the logs, the landing zone and the runs in flight alone. It has no cursor: what the
process remembers of a former look only saves work, so a lost tick, a restart or a restored table changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import dagster as dg

from dedp_assets.graph.catalogue.selections import writing
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.reconcile.pending import reject_beyond
from dedp_assets.graph.reconcile.reconciler import NAME, Reconciler
from dedp_assets.graph.reconcile.reconciling import Gap
from dedp_assets.graph.reconcile.requests import run_request
from dedp_assets.graph.reconcile.slots import declare_pools
from dedp_assets.graph.reconcile.waiting import keep_polling
from dedp_assets.graph.resources.environments import settings

__all__ = ["reconciler", "reconcilers"]

DELIVERIES = "deliveries"
_SHOWN = 5


def reconcilers(tables: Sequence[LakeTable[...]], jobs: Sequence[Any]) -> list[dg.SensorDefinition]:
    """Make the two sensors over every landing dataset and every declared edge.

    Args:
        tables: the declared tables of the graph; those that do not follow their upstream are left out.
        jobs: the jobs of the graph, among them those that load deliveries (``lands``).
    """
    loop = Reconciler(tables)
    return [reconciler(tables, jobs, loop=loop, asks_for=kind) for kind in ("deliveries", "tables")]


def reconciler(
    tables: Sequence[LakeTable[...]],
    jobs: Sequence[Any],
    *,
    loop: Reconciler | None = None,
    asks_for: Literal["deliveries", "tables"] = "tables",
) -> dg.SensorDefinition:
    """Make a sensor that polls the whole graph and requests runs for stale partitions of a kind.

    Args:
        tables: the declared tables.
        jobs: the jobs that load deliveries.
        loop: what looks, if another sensor looks by it, too.
        asks_for: loads of deliveries by their jobs, or runs of the tables that are behind those that they read.
    """
    looking = loop or Reconciler(tables)
    loads = asks_for == "deliveries"
    name, declared = DELIVERIES if loads else NAME, set[str]()
    loading = {job for table in tables for job in table.lands.values()}
    following = [asset_key(spec) for t in tables if t.runs.follows and t.reads.tables for spec in t.tables]
    # Runs of tables have no job of their own: its name would stand for other tables after a change of the project.
    target: dict[str, Any] = {"jobs": [job for job in jobs if job.name in loading]} if loads else {}
    if following and not loads:
        target = {"asset_selection": writing(dg.AssetSelection.assets(*following))}

    @dg.sensor(
        name=name,
        **target,
        minimum_interval_seconds=1 if settings().look_seconds else settings().tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=_description(tables, asks_for),
        required_resource_keys={"lake", "landing", "clock"},
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        return keep_polling(lambda: evaluate_once(context))

    def evaluate_once(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        resources, repository = context.resources, context.repository_def
        if context.instance.root_directory not in declared:  # once a process: a person may change a pool meanwhile
            declare_pools(context.instance, tables)
            declared.add(context.instance.root_directory)
        if not loads:
            reject_beyond(context.instance, tables, repository)
        outcome, overview = looking.reconcile(
            resources.lake,
            resources.landing,
            resources.clock.now(),
            instance=context.instance,
            repository=repository,
            name=name,
            mine=lambda want: bool(want.job) == loads,
        )
        if outcome.asks:
            return dg.SensorResult(run_requests=[run_request(ask, repository) for ask in outcome.asks])
        overview.unreadable.report(context, fail=True)
        return dg.SkipReason(_skip_reason(outcome.gaps, overview))

    return evaluate


def _description(tables: Sequence[LakeTable[...]], asks_for: str) -> str:
    landing = "Deliveries that are complete and not loaded: " + ", ".join(name for t in tables for name in t.lands)
    edges = [
        f"{', '.join(s.name for s in t.reads.tables)} to {t.spec.name}"
        for t in tables
        if t.reads.tables and t.runs.follows
    ]
    behind = f"Partitions that have not applied what changed upstream: {'; '.join(edges)}"
    return {"deliveries": landing, "tables": behind}[asks_for]


def _skip_reason(gaps: Sequence[Gap], overview: Overview) -> str:
    """Return the reason for a tick without requests: versions, held partitions and strange files."""
    seen = ", ".join(f"{name} at version {version}" for name, version in overview.versions().items())
    held = [f"{gap.table} {gap.key}".strip() + f": {gap.reason}" for gap in gaps[:_SHOWN]]
    strange = {name: why for arrivals in overview.arrivals for name, why in arrivals.strange.items()}
    held += [f"{name}: {why}" for name, why in sorted(strange.items())]
    count = len(gaps) + len(strange)
    more = [f"and {count - _SHOWN} more"] if count > _SHOWN else []
    return "; ".join([f"nothing to ask for{f', {seen}' if seen else ''}", *held[:_SHOWN], *more])
