"""Dispatch of a refused batch: quarantine for the rows at fault, publication for the other rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import summary
from dedp_assets.patterns.core.errors import AuditFailed, Conflict
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import RowsRead
from dedp_assets.patterns.delta import StagedWrite, Target

__all__ = ["dispatch", "timed"]


def timed(result: WriteResult, staged: StagedWrite) -> WriteResult:
    """Add the wait of the written rows for their commit, which the commit record has, to ``result``."""
    record = staged.table.ledger.commit(result.version).record if result.applied else None
    if record is None or record.cost is None or record.cost.held_seconds is None:
        return result
    return replace(result, figures={**result.figures, "held_seconds": record.cost.held_seconds})


def dispatch(
    refused: AuditFailed,
    into: Target,
    quarantine: Target,
    *,
    since: tuple[int | None, int | None],
    allow_empty: bool,
) -> WriteResult:
    """Publish the rows that no failed audit names; write the other rows to quarantine first.

    In this order a crash loses no row.

    Neither table may have been written after its version in ``since`` (target, quarantine).

    The target's partition stays as it was where no row is left to publish, unless it may be emptied.
    """
    target, audits = into.table, into.audits
    failed = {finding.name: finding for finding in refused.findings if finding.refuses}
    named = [audit for audit in audits if audit.name in failed]
    # A predicate that cannot be evaluated names no row.
    measured = [audit for audit in named if failed[audit.name].figures.get(audit.figure) is not None]
    faults = [audit.where for audit in measured if audit.where]
    if refused.stage is None or {audit.name for audit in named} != failed.keys():
        raise refused
    staged = target.session.read.format("delta").load(refused.stage).select(*map(identifier, target.spec.columns))
    fault = " OR ".join(f"coalesce(({where}), false)" for where in faults)
    whole = len(faults) < len(named)
    noted = replace(into.run, notes={**into.run.notes, "quarantined_for": sorted(failed)})
    aside = staged if whole else staged.filter(fault)
    put = quarantine.table.stage(aside, partition=quarantine.partition, provenance=noted).publish(since=since[1])
    passed = None
    if not whole:
        good, rest = staged.filter(~F.expr(fault)), [audit for audit in audits if audit not in named]
        known = {name: value for name, value in into.rows_read.figures.items() if name != "read"}
        left = RowsRead(figures=known, findings=into.rows_read.findings)
        passed = _staged(good, replace(into, run=noted, audits=tuple(rest), rows_read=left), allow_empty=allow_empty)
    if passed is None:
        version = target.ledger.version()
        reason = f"the whole batch went to {quarantine.name}: {summary(refused.findings)}"
        return WriteResult(target.name, version, applied=False, changed=False, reason=reason, findings=refused.findings)
    result = _published(passed, replace(quarantine, run=noted), since=since[0], put=put.version)
    judged = {finding.name: finding for finding in (*refused.findings, *result.findings)}
    return replace(result, findings=tuple(judged[name] for name in judged))


def _published(passed: StagedWrite, quarantine: Target, *, since: int | None, put: int) -> WriteResult:
    """Publish the rows without a fault; after a conflict, remove the rows put aside at version ``put``."""
    try:
        return timed(passed.publish(since=since), passed)
    except Conflict:
        with suppress(Conflict):  # another run has put rows of its own in their place
            quarantine.table.clear(partition=quarantine.partition, provenance=quarantine.run, since=put)
        raise


def _staged(rows: DataFrame, into: Target, *, allow_empty: bool) -> StagedWrite | None:
    """Stage the rows to publish; return ``None`` for an empty batch unless ``allow_empty``."""
    staged = into.stage(rows)
    if staged.record.rows["written"] or allow_empty:
        return staged
    staged.stage.discard()
    return None
