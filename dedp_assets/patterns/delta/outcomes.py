"""What becomes of the rows when a table's rows are changed: five outcomes, and whether they add up.

Every row of a file that is rewritten, and every row of the source that meets no such row, has one outcome. What is
counted on the way is held against numbers that come from elsewhere: how many rows the log says that the files hold, and
how many the files that were written do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Finding, RowCounts
from dedp_assets.patterns.core.rows import RowsRead
from dedp_assets.patterns.delta import accounting
from dedp_assets.patterns.delta.log import KeyedFile, TableState
from dedp_assets.patterns.delta.stages import Stage

__all__ = ["CHANGED", "OUTCOMES", "WRITTEN", "accounted", "check_audits", "counts", "measured", "metrics", "totals"]

OUTCOMES = ("inserted", "updated", "deleted", "kept", "unused")
"""A row is new, other than it was, gone, as it was; or a row of the source that met none and was not inserted."""

CHANGED = f"`{OUTCOME}` IN ('inserted', 'updated')"
"""SQL: rows that a change brings; audits and constraints are about them."""

WRITTEN = f"`{OUTCOME}` IN ('inserted', 'updated', 'kept')"
"""SQL: rows that are written."""

_OURS = {*OUTCOMES, "source", "untouched", "before", "after"}


def measured() -> dict[str, str]:
    """List the SQL aggregates that count the rows of each outcome, by figure name."""
    return {outcome: f"count_if(`{OUTCOME}` = '{outcome}')" for outcome in OUTCOMES}


def check_audits(table: str, audits: Sequence[Audit]) -> None:
    """Refuse audits whose figure is another number, or would count rows that were there before.

    Raises:
        ConfigError: names the audit.
    """
    accounting.require_own_figures(audits, RowsRead(figures=dict.fromkeys(_OURS, 0)))
    for audit in audits:
        if audit.sql is not None and audit.where is None and not re.search(rf"\b{OUTCOME}\b", audit.sql):
            raise ConfigError(
                f"{table}: audit {audit.name} would measure rows that were there before, too: name the rows it is "
                f"about by where, or by the column {OUTCOME} in its sql"
            )


def totals(source: int | None, state: TableState, figures: Mapping[str, Any]) -> dict[str, int]:
    """Count what the table holds before and after, where the log knows it."""
    brought = {} if source is None else {"source": source}
    rows = [file.get("num_records") for file in state.files()]
    if None in rows:
        return brought
    before: int = sum(rows)  # type: ignore[arg-type]
    out = figures["updated"] + figures["deleted"]
    return {
        **brought,
        "before": before,
        "untouched": before - out,
        "after": before + figures["inserted"] - figures["deleted"],
    }


def accounted(removed: Iterable[KeyedFile], stage: Stage, figures: Mapping[str, Any]) -> Finding:
    """Judge whether every row has an outcome: by the log, by the files written, and by the counts on the way."""
    known = [file.get("num_records") for file, _ in removed]
    read = figures["kept"] + figures["updated"] + figures["deleted"]
    written = figures["kept"] + figures["updated"] + figures["inserted"]
    staged = sum(json.loads(add.stats)["numRecords"] for add in stage.adds)
    taken = figures["inserted"] + figures["unused"]
    faults = []
    if None not in known and sum(known) != read:  # type: ignore[arg-type]
        faults.append(f"the replaced files hold {sum(known)} rows, {read} were read")  # type: ignore[arg-type]
    if staged != written:
        faults.append(f"{written} rows were to be written, {staged} were staged")
    if taken > figures.get("source", taken):
        faults.append(f"{taken} rows of the source matched nothing, it has {figures['source']}")
    shown = {name: figures[name] for name in (*OUTCOMES, "source", "untouched", "before", "after") if name in figures}
    return Finding("rows_are_accounted_for", not faults, figures=shown, note="; ".join(faults))


def counts(source: int | None, figures: Mapping[str, Any]) -> RowCounts:
    """Account for the rows that a change brings: they live on, or nothing was done with them."""
    if source is None:
        return RowCounts()
    written, unused = figures["inserted"] + figures["updated"], figures["unused"]
    return RowCounts(read=source, written=written, filtered=unused, represented=source - unused)


def metrics(source: int | None, figures: Mapping[str, Any]) -> dict[str, int]:
    """Name what happened as Delta does."""
    if source is None:
        return {"numDeletedRows": figures["deleted"], "numCopiedRows": figures["kept"]}
    return {
        "numSourceRows": source,
        "numTargetRowsInserted": figures["inserted"],
        "numTargetRowsUpdated": figures["updated"],
        "numTargetRowsDeleted": figures["deleted"],
        "numTargetRowsCopied": figures["kept"],
        "numOutputRows": figures["kept"] + figures["updated"] + figures["inserted"],
    }
