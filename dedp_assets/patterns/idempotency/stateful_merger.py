"""Stateful Merger: a rerun of a past merge starts from the former version; later merges follow.

Problem: a merge of last Tuesday's increment, run again today, mixes it with all that came after it: rows that never
    were together, totals that count twice.
Solution: each commit says which execution it is and which version it changed. Run again, an execution changes that
    version, whatever compaction did to it, in one commit that takes back the later executions and names them. They are
    behind then, and have to follow in their order: none is run before those that come before it.
Consequences: between the commit and the last one that follows, readers see the table as of a former execution. No
    further back than VACUUM leaves files; a version that is gone is refused before anything changes. What others wrote
    to the table since is taken back, too.
Choose instead: Merger, if columns order the changes of a key; Data Overwrite, if a run owns its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.columns import COMPARED, FLAG, require_columns
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import Delete, Insert, Merge, Target, Update
from dedp_assets.patterns.idempotency._rerun_base import base_before

__all__ = ["merge_execution"]


@demanding(replaces="execution")
@typed
def merge_execution(
    increment: DataFrame,
    into: Target,
    *,
    keys: Sequence[str],
    update: Mapping[str, str] | None = None,
    deleted: str = "",
    due: Collection[str] | None = None,
) -> WriteResult:
    """Merge an execution's increment into the result of earlier executions, in one audited commit.

    Args:
        increment: the columns of the table, one row for each key; and ``deleted`` if it is none of them.
        into: target of the write: a table that declares by which name its executions are told apart (``executed_by``),
            and, as its partition, this name -> the execution. Executions are in the order of these texts, e.g. days.
        keys: columns that identify a row for ever; never NULL.
        update: column -> SQL over ``t`` (the row that is there) and ``s`` (the increment's), for rows that are there;
            without, they become the increment's.
        deleted: BOOLEAN column of the increment, true where the row is removed; empty if none is.
        due: executions that have to be in the rows before it, where it is known; those after this one do not
            count, and those that were taken back have to be there in any case.

    Returns:
        What was done; its reason names the executions that have to follow.

    Raises:
        AmbiguousKeys: if the increment has two rows for one key.
        AuditFailed: if a rule or a constraint refuses a row; the table is as it was.
        ConfigError: if the options do not fit the table.
        Conflict: if a newer upstream version was applied, or other writers do not yield.
        ContractError: if a key or a deletion flag is NULL, or the version before the execution is gone.
        NotReady: if an execution before it is missing, or was taken back and has not followed.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> columns = {"page": Column("STRING"), "views": Column("INT")}
        >>> pages, seen = table(TableSpec("pages", columns, executed_by="day")), "page STRING, views INT"
        >>> merge = {"keys": ["page"], "update": {"views": "t.views + s.views"}}
        >>> for day, views in (("mon", 1), ("tue", 10), ("wed", 100)):
        ...     into = pages.target(run, partition={"day": day})
        ...     _ = merge_execution(frame(seen, ("/a", views)), into, **merge)
        >>> tuesday = pages.target(run, partition={"day": "tue"})
        >>> merge_execution(frame(seen, ("/a", 20)), tuesday, **merge).reason
        '1 rows updated, on the rows of version 1; wed have to follow'
        >>> rows(pages)
        [('/a', 21)]
    """
    into = into.by("idempotency.stateful_merger", "execution", "audits")
    if not into.execution:
        raise ConfigError(
            f"{into.name}: partition must name the execution, under the name that the table declares for it "
            f"(executed_by), not {dict(into.partition)}"
        )
    if not keys:
        raise ConfigError(f"keys must name the columns that identify a row of {into.name}, not none")
    require_columns(increment, keys, COMPARED)
    require_columns(increment, [deleted], FLAG)
    gone = f"s.{identifier(deleted)}" if deleted else "false"
    removal = [Delete(when=gone)] if deleted else []
    return into.table.merge(
        increment,
        Merge(
            keys,
            [*removal, Update(update), Insert(when=f"NOT {gone}")],
            unusable={f"no {c}": f"{identifier(c)} IS NULL" for c in (*keys, deleted) if c},
        ),
        execution=into.execution,
        find_base=base_before(due or ()),
        provenance=into.run,
        audits=into.audits,
    )
