"""Small files: partitions with many small files trigger maintenance before the nightly run."""

import json

import dagster as dg

from dedp_assets.graph.reconcile.requests import decide, is_running
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.ingestion.compactor import plan_compaction

__all__ = ["files_scattered"]

MANY = 50
"""How many small files of one partition do not wait for the night; the run merges fewer, too."""
_JOB = "maintain_tables"
_ASSET = "platform/maintenance"
_UNKNOWN = -1


@dg.sensor(
    job_name=_JOB,
    minimum_interval_seconds=300,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=f"A partition with {MANY} small files or more starts maintenance, apart from the jobs that write them.",
)
def files_scattered(context: dg.SensorEvaluationContext, lake: Lake) -> dg.SensorResult | dg.SkipReason:
    """Request maintenance, if tables written since the last tick have many small files.

    The cursor keeps the version at which a table was last seen with few small files. A run is asked for once after it,
    so a table that cannot be compacted, or whose writers never yield, is left to the night and to its check.
    """
    if is_running(context.instance, _JOB):
        return dg.SkipReason(f"{_JOB} is running")
    tidy: dict[str, int] = json.loads(context.cursor) if context.cursor else {}
    versions, plans, errors = dict[str, int](), dict[str, Plan](), TableErrors()
    for name in lake.names():
        with errors.at(name):
            version = lake.ledger(name).version()
            if tidy.get(name) != version:
                plans[name] = plan_compaction(lake.ledger(name), min_small_files=MANY)
            versions[name] = version
    scattered = {name: plan for name, plan in plans.items() if plan.partitions}
    after = {name: tidy.get(name, _UNKNOWN) if name in scattered else version for name, version in versions.items()}
    errors.report(context, fail=not scattered)
    if not scattered:
        return dg.SensorResult(skip_reason=f"no partition has {MANY} small files", cursor=json.dumps(after))
    since = ", ".join(f"{name} since {after[name]}" for name in scattered)
    found = "; ".join(f"{name}: {plan.reason}" for name, plan in scattered.items())
    plan = Plan((_ASSET,), found, causes={_ASSET: "small-files"}, cursor={_ASSET: since})
    decision = decide(context.instance, plan, asset=_ASSET, job_name=_JOB)
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests), cursor=json.dumps(after))
    return dg.SensorResult(skip_reason="; ".join([found, *decision.held.values()]), cursor=json.dumps(after))
