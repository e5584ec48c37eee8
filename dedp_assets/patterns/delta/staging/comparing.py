"""Comparison of staged rows with the stored rows that a write would replace.

A replay computes rows again by other code (guide ch. 10.4). Whether they differ from the present ones is an audit like
any other: a run that compares is refused, its rows stay in the stage, and a person's approval publishes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.rows import row_hash
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import content_columns
from dedp_assets.patterns.delta.staging.stages import Stage

__all__ = ["AS_BEFORE", "changed_rows", "compared_rows", "removed_rows"]

AS_BEFORE = "rows_are_as_before"
"""The audit of a run that compares."""
_HASH, _COUNT = "__dedp_hash", "__dedp_count"


def compared_rows(
    table: TableHandle,
    stage: Stage,
    owned: Mapping[str, str],
    state: TableState,
    meter: Meter,
    *,
    append: bool = False,
) -> Finding:
    """Compare staged rows with the stored rows of the owned partition by the declared key.

    The comparison is one Spark job, and technical columns do not count. Without a key whole rows are compared, and
    none is a changed one.

    Args:
        table: the table.
        stage: the staged rows.
        owned: partition of the write; empty for the table.
        state: the state of the table that the write replaces.
        meter: meter of the write, which the job is counted in.
        append: whether the stored rows stay.
    """
    if append:
        return _judged(rows_in=stage.rows)
    if not state.holds(owned):
        return Finding(AS_BEFORE, passed=True, note="nothing was stored")
    columns = content_columns(table.spec, state)
    before = table.read(*([owned] if owned else []), version=state.version).select(*map(identifier, columns))
    hashed = F.expr(row_hash(fields_of(before, columns))).alias(_HASH)
    by = [identifier(name) for name in table.spec.key] or [_HASH]
    sides = [
        rows.select(*map(identifier, table.spec.key), hashed, F.lit(sign).alias(_COUNT))
        for rows, sign in ((before, -1), (stage.read(), 1))
    ]
    differing = sides[0].unionByName(sides[1]).groupBy(*dict.fromkeys([*by, _HASH])).agg(F.sum(_COUNT).alias(_COUNT))
    found = differing.groupBy(*by).agg(
        F.expr(f"sum(greatest({_COUNT}, 0))").alias("came"), F.expr(f"-sum(least({_COUNT}, 0))").alias("went")
    )
    with meter.jobs(table.session):
        totals = found.agg(F.sum("came"), F.sum("went"), F.expr("sum(least(came, went))")).first()
    came, went, changed = (count or 0 for count in totals) if totals else (0, 0, 0)
    return _judged(rows_in=came - changed, rows_out=went - changed, rows_changed=changed)


def changed_rows(figures: Mapping[str, Any]) -> Finding:
    """Judge the counts of a merge: rows inserted, deleted and updated."""
    return _judged(figures["inserted"], figures["deleted"], figures["updated"])


def removed_rows(state: TableState, owned: Mapping[str, str]) -> Finding:
    """Judge a write without rows, in whose place the stored rows of the owned partition would go."""
    if not state.holds(owned):
        return Finding(AS_BEFORE, passed=True, note="nothing was stored")
    wanted = state.spelled(owned)
    held = [files for key, files in state.statistics().items() if wanted.items() <= dict(key).items()]
    found = _judged(rows_out=sum(files.rows for files in held))
    if found.passed and not all(files.exact for files in held):
        return replace(found, passed=False, note="stored rows would go, which the log does not count")
    return found


def _judged(rows_in: int = 0, rows_out: int = 0, rows_changed: int = 0) -> Finding:
    figures = {"rows_in": rows_in, "rows_out": rows_out, "rows_changed": rows_changed}
    same = not any(figures.values())
    note = "" if same else "other rows than before"
    return Finding(AS_BEFORE, passed=same, figures=figures, note=note, approvable=True)
