"""How gold is made: one query over a silver date, published on silver's explicit PASS for that date and version."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.defs.silver.visits import VISITS, of_day
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import Reading
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish, require_pass, usual
from dedp_assets.reporting import Inputs, Step, Work, pin, run
from resources.lake import Lake

USUAL = "usual"
REQUIRED = ("dead_letters_are_few", "rows_are_accounted_for")


def promote(
    context: dg.AssetExecutionContext,
    lake: Lake,
    target: TableSpec,
    *,
    at: datetime,
    query: str,
    audits: Sequence[Audit],
    counted: str,
) -> Iterator[Any]:
    """Compute ``target`` from silver's visits, day by day.

    Args:
        context: Dagster's.
        lake: where the tables are.
        target: the gold table, partitioned by event date.
        at: when the run started.
        query: SQL over ``{visits}``.
        audits: rules over the result.
        counted: figure that says how many visits the result stands for.
    """
    silver, table = lake.table(VISITS), lake.table(target)

    def reads(day: str) -> Inputs:
        pinned = pin(silver.ledger, day, of_day(day), written=of_day(day))
        return replace(pinned, notes={"open": True}) if _is_open(day, at) else pinned

    def publish(step: Step) -> WriteResult:
        version, day = step.inputs.versions[VISITS.name], of_day(step.key)
        visits = silver.read(day, version=version)
        rows = sum(s.rows for p, s in silver.ledger.state(version).statistics().items() if dict(p) == day)
        return audit_write_audit_publish(
            visits.sparkSession.sql(query, visits=visits),
            table,
            partition=day,
            provenance=step.provenance,
            audits=[_lenient(audit) for audit in audits] if _is_open(step.key, at) else audits,
            reading=Reading(
                figures={"read": rows, USUAL: usual(table.ledger, figure=counted, partition=day)},
                represented=counted,
                findings=(require_pass(silver.ledger, day, version=version, audits=REQUIRED),),
            ),
        )

    yield from run(context, Work(table, of_day, reads, publish), at=at)


def _is_open(day: str, at: datetime) -> bool:
    """Whether a day is not over yet, so that its volume says nothing."""
    return at.date().isoformat() <= day


def _lenient(audit: Audit) -> Audit:
    """Lower audits that compare with usual days to a warning; keep every other audit."""
    if audit.per != USUAL:
        return audit
    low, high = audit.fail_below or audit.warn_below, audit.fail_above or audit.warn_above
    return replace(audit, fail_below=None, fail_above=None, warn_below=low, warn_above=high)
