"""Writes of new rows: the stage of a write, a method of ``Table``, and writes without rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.columns import require_rows
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.measuring.requests import with_requests_counted
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import RowsRead
from dedp_assets.patterns.delta.commit.spark_writer import require_stated
from dedp_assets.patterns.delta.handle import ERASURES, TableHandle
from dedp_assets.patterns.delta.merge.declared_keys import REPEATED, repeated, require_whole
from dedp_assets.patterns.delta.snapshots.definition import conform, content_columns
from dedp_assets.patterns.delta.snapshots.layouts import in_buckets
from dedp_assets.patterns.delta.snapshots.tiers import require_writable
from dedp_assets.patterns.delta.staging.comparing import compared_rows, removed_rows
from dedp_assets.patterns.delta.staging.guards import (
    discarded_if_unjudged,
    in_range,
    layout_of,
    refusal,
)
from dedp_assets.patterns.delta.staging.metrics import Measuring
from dedp_assets.patterns.delta.staging.row_accounting import Accounting
from dedp_assets.patterns.delta.staging.stage_files import stage_rows
from dedp_assets.patterns.delta.staging.staged_write import StagedWrite
from dedp_assets.patterns.delta.staging.stages import empty_stage
from dedp_assets.patterns.delta.staging.write_counts import Parts
from dedp_assets.patterns.delta.suppression import MARK

__all__ = ["publish_nothing", "stage_nothing", "stage_write"]


@in_range
@with_requests_counted
def stage_write(  # noqa: PLR0913 - of a verb of the table
    table: TableHandle,
    rows: DataFrame | Split,
    *,
    partition: Mapping[str, object] | None = None,
    provenance: Provenance,
    audits: Sequence[Audit] = (),
    rows_read: RowsRead = RowsRead(),  # noqa: B008 - frozen
    keep: str = "valid",
    also: Sequence[str] = (),
    append: bool = False,
) -> StagedWrite:
    """Write rows to a stage and audit the rows, without a commit.

    Args:
        table: the table to write.
        rows: what to write; of a split, the part ``keep``.
        partition: the partition values this write owns; empty owns the whole table.
        provenance: who writes, from what, and why.
        audits: rules over the written rows; constraints and row accounting are judged in any case.
        rows_read: what is known about the rows read, to account for them.
        keep: the part of a split that is meant for this table.
        also: parts of a split to stage in the same job for other tables.
        append: keep the present rows.

    Raises:
        AuditFailed: if a rule refuses the rows; the stage stays for inspection.
        ConfigError: for an append to a table with a key, a partition that does not follow from the key, or a table
            that counts a column by itself.
        SchemaMismatch: if the rows' columns are not the table's.
    """
    meter, provenance = Meter(), table.noting_erasures(provenance)
    require_rows(table.name, rows)
    require_whole(table.spec, partition or {}, append=append)
    state = table.ensure()
    require_stated(table.name, state)
    split = in_buckets(table.spec, Split.of(rows, keep), keep, state)
    owned = require_writable(table.name, state, partition or {}, append=append)
    conform(table.name, split, keep, state)
    _offer(table, split, keep)
    split, present = _present(table, split, provenance)
    # Rows of erased persons are told apart in the pass over all: a tally is then taken where the rows are read.
    tally = (rows_read := rows_read if present else rows_read.along(rows, audits)).tally
    split = Split.of(tally.rows) if tally and tally.along else split
    parts = Parts.of(split, keep, content_columns(table.spec, state), rows_read, present)
    same = repeated(table.spec, parts.chosen)
    accounting = Accounting.of(table.name, parts, state, owned, audits, repeated=REPEATED if same else "")
    measuring = Measuring(
        accounting.measures(),
        accounting.asked(),
        accounting.landed(),
        {**parts.hashes, **same},
        aside=(MARK,) if present else (),
        where=present,
    )
    with meter.jobs(split.rows.sparkSession):
        stage = stage_rows(
            split, layout_of(table, state, owned), measuring=measuring.along(tally), keep=keep, also=also
        )
    with discarded_if_unjudged(stage):
        judged = accounting.judge(stage.observed, provenance.approval)
        if provenance.compare:
            judged = judged.also(compared_rows(table, stage, owned, state, meter, append=append), provenance.approval)
    if judged.refused:
        raise refusal(table, owned, judged, stage, stage.read(), split)
    return StagedWrite.of(table, stage, judged, owned, provenance, append=append, meter=meter, state=state)


def _offer(table: TableHandle, split: Split, keep: str) -> None:
    """Give the rows of the table to whoever wants to see the rows of each write."""
    if table.on_rows:
        table.on_rows(lambda: split[keep] if split.outcome else split.rows)


def _present(table: TableHandle, split: Split, run: Provenance) -> tuple[Split, str]:
    """Tell the rows of erased persons from the others, if somebody was on the list when the run looked."""
    listed = table.suppression if ERASURES in run.notes else None
    return listed.apart(split, table.spec) if listed else (split, "")


def publish_nothing(
    table: TableHandle,
    owned: Mapping[str, str],
    provenance: Provenance,
    *,
    append: bool = False,
    since: int | None = None,
) -> WriteResult:
    """Publish an empty write without a Spark job."""
    return stage_nothing(table, owned, provenance, append=append).publish(since=since)


def stage_nothing(
    table: TableHandle, owned: Mapping[str, str], provenance: Provenance, *, append: bool = False
) -> StagedWrite:
    """Return an empty write, ready to be published without a Spark job.

    Raises:
        AuditFailed: for a run that compares, if the write would remove rows.
    """
    judged, stage = Accounting(Parts()).judge({}), empty_stage(table.store)
    if provenance.compare and not append and table.ledger.exists():
        judged = judged.also(removed_rows(table.ledger.state(), owned), provenance.approval)
    if judged.refused:
        raise refusal(table, owned, judged, stage, table.read().limit(0))
    return StagedWrite.of(table, stage, judged, owned, provenance, append=append)
