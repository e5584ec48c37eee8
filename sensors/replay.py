"""Replay: after a fix, the dates whose dead letters older code refused are processed again."""

import dagster as dg

from dedp_assets.patterns.error_management.dead_letter import plan_replay
from resources.lake import Lake
from sensors.requests import decide

__all__ = ["dead_letters_fixed"]

_TABLE = "silver/visits_dead_letter"


@dg.sensor(
    job_name="rebuild_silver_visits",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="A new code version of silver starts the dates that still have dead letters of an older one.",
)
def dead_letters_fixed(context: dg.SensorEvaluationContext, lake: Lake) -> dg.SensorResult | dg.SkipReason:
    """Compare the code version that refused dead letters with the one that is deployed."""
    ledger = lake.ledger(_TABLE)
    if not ledger.exists():
        return dg.SkipReason("there are no dead letters")
    graph = context.repository_def.asset_graph if context.repository_def else None
    code_version = graph.get(dg.AssetKey(["silver", "visits"])).code_version if graph else None
    open_letters: dict[str, int] = {}
    refused_by: dict[str, str] = {}
    for partition, stats in ledger.state().statistics().items():
        day = dict(partition)["filed_under"]
        last = ledger.latest({"filed_under": day})
        if day is not None and last and last.record:
            open_letters[day] = int(last.record.notes.get("open", stats.rows))
            refused_by[day] = last.record.code_version
    plan = plan_replay(open_letters, refused_by, code_version=code_version or "")
    decision = decide(context.instance, plan, asset="silver/visits", job_name="rebuild_silver_visits")
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason(plan.reason)
