"""Asset of the requests to erase persons: plans, erasures, and the deadline of thirty days."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.selections import writing
from dedp_assets.graph.declare import LakeJob, LakeTable
from dedp_assets.graph.erasure.cases import Cases
from dedp_assets.graph.erasure.erasing import Eraser
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import Provenance
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.delta import subjects_of
from dedp_assets.patterns.governance.gdpr_erase import Erasure

__all__ = ["JOB", "erasure_definitions", "names_persons"]

JOB = "go_on_with_erasures"
"""Name of the job that plans and carries out requests."""

_KEY = ["platform", "erasures"]
_ABOUT = (
    "Requests to erase persons. Asked ones get a plan, approved ones are carried out, and what had to wait is erased: "
    "tables on which a run wrote, rows that are computed again, rows whose legal hold was released.\n\n"
    "Patterns at work: GDPR Erase."
)
_COLUMNS = {
    "request": ("string", "name of the request"),
    "since": ("string", "when it came, UTC"),
    "due": ("string", "by when it has to be ended, UTC"),
    "erased": ("bigint", "rows, values and files that were erased"),
    "state": ("string", "asked, planned, approved or ended"),
    "open": ("bigint", "places that a later run ends"),
    "ended": ("string", "when nothing was left; empty until then"),
}
_REPORT = dg.TableSchema([dg.TableColumn(name, kind, meaning) for name, (kind, meaning) in _COLUMNS.items()])
_IN_TIME = "every_request_is_in_time"


def names_persons(tables: Sequence[LakeTable[...]]) -> bool:
    """Return whether a declared table names persons."""
    return any(subjects_of(spec) for table in tables for spec in table.tables)


def erasure_definitions(tables: Sequence[LakeTable[...]], jobs: Sequence[LakeJob]) -> dg.Definitions:
    """Make the asset of the requests, the job and the schedule of a project whose tables name persons.

    Args:
        tables: the declared tables.
        jobs: the declared jobs, whose sources hold persons, too.
    """

    @dg.multi_asset(
        specs=[
            dg.AssetSpec(
                _KEY,
                description=_ABOUT,
                metadata={"dagster/column_schema": _REPORT, "patterns": "governance.gdpr_erase"},
                group_name="platform",
                code_version="2",
                owners=["team:platform"],
                tags={"dedp/pattern": "governance.gdpr_erase", "dedp/chapter": "governance"},
                kinds={"spark", "deltalake", "platform"},
            )
        ],
        check_specs=[
            dg.AssetCheckSpec(
                _IN_TIME,
                asset=_KEY,
                description="Fails once thirty days have passed since a request that is not ended: `dedp erase` says "
                "what is left.",
                blocking=True,
            )
        ],
        name="platform_erasures",
        pool="platform_erasures",
    )
    def erasures(context: dg.AssetExecutionContext, lake: Lake, clock: Clock, secrets: Secrets) -> Iterator[Any]:
        """Plan asked requests, and carry out approved requests."""
        eraser, now = Eraser.of(settings(), lake, tables, secrets, jobs), clock.now()
        run = Provenance(asset="platform/erasures", run_id=context.run.run_id, at=now, cause="erasure")
        for request in eraser.cases.names():
            try:
                _go_on(eraser, request, run, now)
            except PatternError as error:
                context.log.warning(f"{request}: {error}")
        yield from _report(eraser.cases, now)

    job = dg.define_asset_job(
        JOB,
        selection=writing(dg.AssetSelection.assets(_KEY)),
        description="Plan what was asked, and erase what was approved or had to wait, of every open request.",
    )
    nightly = dg.ScheduleDefinition(
        name="erasures_every_night",
        job=job,
        cron_schedule="20 5 * * *",
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="At 05:20 UTC, after the nightly loads, the maintenance and the checks.",
    )
    return dg.Definitions(assets=[erasures], jobs=[job], schedules=[nightly])


def _report(cases: Cases, now: datetime) -> Iterator[Any]:
    """Yield the check of the deadline and the table of the requests."""
    found, faults = cases.read()
    left = [case for case in found if not case.ended]
    late = {case.request: len(case.open) for case in left if case.due < now}
    passed = not (late or faults)
    yield dg.AssetCheckResult(asset_key=_KEY, check_name=_IN_TIME, passed=passed, metadata={**late, **faults})
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
        for case in found
    ]
    table = dg.MetadataValue.table(records, _REPORT)
    yield dg.MaterializeResult(asset_key=_KEY, metadata={"requests": table, "open [requests]": len(left)})


def _go_on(eraser: Eraser, request: str, run: Provenance, now: datetime) -> None:
    """Plan an asked or carry out an approved request; note a refusal in the case."""
    case = eraser.cases.case(request)
    try:
        if case.state == "asked":
            eraser.plan(Erasure(request=request, ids=eraser.cases.ids(case), at=now, because=case.because))
        elif case.state == "approved":
            eraser.erase(case, run, now=now, leave_held=True)
    except PatternError as error:
        eraser.cases.note(request, str(error))
        raise
