"""Replay: after a fix, the dates whose dead letters older code refused are processed again.

The cursor keeps the version looked at and the open letters of each date, so a tick pays for new commits only.
"""

import json
from typing import Any

import dagster as dg

from dedp_assets.patterns.delta.log import Ledger
from dedp_assets.patterns.error_management.dead_letter import plan_replay
from resources.environments import settings
from resources.lake import Lake
from sensors.requests import decide

__all__ = ["dead_letters_fixed"]

_TABLE = "silver/visits_dead_letter"
_UNKNOWN = ""


@dg.sensor(
    job_name="rebuild_silver_visits",
    minimum_interval_seconds=6 * settings().tick_seconds,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="A new code version of silver starts the dates that still have dead letters of an older one.",
)
def dead_letters_fixed(context: dg.SensorEvaluationContext, lake: Lake) -> dg.SensorResult | dg.SkipReason:
    """Compare the code version that refused dead letters with the one that is deployed."""
    ledger = lake.ledger(_TABLE)
    if not ledger.exists():
        return dg.SkipReason("there are no dead letters")
    cursor: dict[str, Any] = json.loads(context.cursor) if context.cursor else {"version": -1, "letters": {}}
    version, letters = _letters(ledger, cursor["version"], cursor["letters"])
    graph = context.repository_def.asset_graph if context.repository_def else None
    code_version = graph.get(dg.AssetKey(["silver", "visits"])).code_version if graph else None
    open_letters = {day: count for day, (count, _) in letters.items()}
    refused_by = {day: code for day, (_, code) in letters.items()}
    plan = plan_replay(open_letters, refused_by, code_version=code_version or "")
    decision = decide(context.instance, plan, asset="silver/visits", job_name="rebuild_silver_visits")
    after = json.dumps({"version": version, "letters": letters})
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests), cursor=after)
    return dg.SensorResult(skip_reason=plan.reason, cursor=after)


def _letters(ledger: Ledger, since: int, known: dict[str, tuple[int, str]]) -> tuple[int, dict[str, tuple[int, str]]]:
    """Date -> how many letters are open there, and the code version that refused them; and the version looked at.

    Dates that the log no longer tells about count as refused by unknown code.
    """
    version, letters = ledger.resume(since), dict(known)
    if version < since:
        letters = {}
    for commit in ledger.commits(since=version):
        if commit.version > version + 1:
            active = ledger.state(commit.version).statistics()
            held = {dict(values)["filed_under"]: stats.rows for values, stats in active.items()}
            letters = {day: letters.get(day, (rows, _UNKNOWN)) for day, rows in held.items() if day is not None}
        if commit.record and (day := commit.record.partition.get("filed_under")):
            letters[day] = (int(commit.record.notes.get("open", commit.rows_added)), commit.record.code_version)
        version = commit.version
    return version, {day: told for day, told in letters.items() if told[0]}
