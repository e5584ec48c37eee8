"""Requests to erase persons: asked ones are planned, approved ones carried out, and ended within thirty days."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.selections import writing
from dedp_assets.graph.erasure.erasing import Eraser
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import Provenance
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.governance.gdpr_erase import Erasure
from dedp_assets.project import project

KEY = ["platform", "erasures"]
_COLUMNS = {
    "request": ("string", "name of the request"),
    "since": ("string", "when it came, UTC"),
    "due": ("string", "by when it has to be ended, UTC"),
    "erased": ("bigint", "rows, values and files that were erased"),
    "state": ("string", "asked, planned, approved or ended"),
    "open": ("bigint", "places that a later run ends"),
    "ended": ("string", "when nothing was left; empty until then"),
}
REPORT = dg.TableSchema([dg.TableColumn(name, kind, meaning) for name, (kind, meaning) in _COLUMNS.items()])
IN_TIME = "every_request_is_in_time"


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            KEY,
            description="Requests to erase persons. Asked ones get a plan, approved ones are carried out, and what had "
            "to wait is erased: tables on which a run wrote, rows that are computed again, rows whose legal hold was "
            "released.\n\nPatterns at work: GDPR Erase.",
            metadata={"dagster/column_schema": REPORT, "patterns": "governance.gdpr_erase"},
            group_name="platform",
            code_version="2",
            owners=["team:platform"],
            tags={"dedp/pattern": "governance.gdpr_erase", "dedp/chapter": "governance"},
            kinds={"spark", "deltalake", "platform"},
        )
    ],
    check_specs=[
        dg.AssetCheckSpec(
            IN_TIME,
            asset=KEY,
            description="Fails once thirty days have passed since a request that is not ended: `dedp erase` says what "
            "is left.",
            blocking=True,
        )
    ],
    name="platform_erasures",
    pool="platform_erasures",
)
def erasures(context: dg.AssetExecutionContext, lake: Lake, clock: Clock, secrets: Secrets) -> Iterator[Any]:
    """Plan the asked requests, and go on with the approved ones."""
    eraser, now = Eraser.of(settings(), lake, project().tables(), secrets, project().jobs()), clock.now()
    run = Provenance(asset="platform/erasures", run_id=context.run.run_id, at=now, cause="erasure")
    for request in eraser.cases.names():
        try:
            _go_on(eraser, request, run, now)
        except PatternError as error:
            context.log.warning(f"{request}: {error}")
    cases, faults = eraser.cases.read()
    left = [case for case in cases if not case.ended]
    late = {case.request: len(case.open) for case in left if case.due < now}
    passed = not (late or faults)
    yield dg.AssetCheckResult(asset_key=KEY, check_name=IN_TIME, passed=passed, metadata={**late, **faults})
    records = [
        dg.TableRecord(
            {
                "request": case.request,
                "since": case.at,
                "due": case.due.isoformat(),
                "erased": case.erased,
                "state": case.state,
                "open": len(case.open),
                "ended": case.ended,
            }
        )
        for case in cases
    ]
    table = dg.MetadataValue.table(records, REPORT)
    yield dg.MaterializeResult(asset_key=KEY, metadata={"requests": table, "open [requests]": len(left)})


def _go_on(eraser: Eraser, request: str, run: Provenance, now: datetime) -> None:
    """Plan a request that was asked, or carry out an approved one; what refuses that stands in the case."""
    case = eraser.cases.case(request)
    try:
        if case.state == "asked":
            eraser.plan(Erasure(request=request, ids=eraser.cases.ids(case), at=now, because=case.because))
        elif case.state == "approved":
            eraser.erase(case, run, now=now, leave_held=True)
    except PatternError as error:
        eraser.cases.note(request, str(error))
        raise


go_on_with_erasures = dg.define_asset_job(
    "go_on_with_erasures",
    selection=writing(dg.AssetSelection.assets(KEY)),
    description="Plan what was asked, and erase what was approved or had to wait, of every open request.",
)
erasures_every_night = dg.ScheduleDefinition(
    name="erasures_every_night",
    job=go_on_with_erasures,
    cron_schedule="20 5 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="At 05:20 UTC, after the nightly loads, the maintenance and the checks.",
)
