"""Changes in the applications' database wake their capture."""

import dagster as dg

from dedp_assets.patterns.core.errors import Conflict, ContractError, NotReady
from dedp_assets.patterns.core.results import Plan
from dedp_assets.sources.operational import USERS, USERS_SLOT
from resources.environments import settings
from resources.lake import Lake
from resources.postgres import OperationalDatabase
from sensors.requests import decide

__all__ = ["users_changed"]

_JOB = "capture_users"
_TABLE = "bronze/users_history"


@dg.sensor(
    job_name=_JOB,
    minimum_interval_seconds=2 * settings().tick_seconds,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Users that were committed in the applications' database since the last capture start the next one.",
)
def users_changed(
    context: dg.SensorEvaluationContext, lake: Lake, operational: OperationalDatabase
) -> dg.SensorResult | dg.SkipReason:
    """Ask the replication slot; a failed capture is tried again, three times from the same position.

    A slot that is lost starts the capture once: its run says what is lost and what to do, until somebody captured anew.
    """
    try:
        position = operational.waiting(USERS, slot=USERS_SLOT)
    except (NotReady, Conflict) as error:
        return dg.SkipReason(str(error))
    except ContractError:
        history = lake.ledger(_TABLE)
        position = f"slot lost after version {history.version() if history.exists() else -1}"
    if not position:
        return dg.SkipReason("nothing was committed since the last capture")
    plan = Plan((_TABLE,), "changes wait", causes={_TABLE: "changes"}, cursor={_TABLE: position})
    decision = decide(context.instance, plan, asset=_TABLE, job_name=_JOB)
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason("; ".join(decision.held.values()))
