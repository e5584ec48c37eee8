"""Merger: changed rows are inserted, updated or deleted by key; a repeated merge changes nothing.

Problem: a source delivers changes only. Appending them duplicates rows, overwriting by them loses all others.
Solution: rows meet by an immutable key. With columns that order the changes of a key, a newer row is never overwritten
    by an older change, whatever the order of delivery; a deleted key then stays as a row without values, or an older
    change would bring it back. Without such columns batches are merged in order, and one of the past is refused.
Consequences: only files that may hold a key of the changes are rewritten. A row that the source no longer delivers
    stays: deletions have to be said. A key that changes at the source makes two rows of one thing.
Choose instead: Data Overwrite, if a run sees all rows; Stateful Merger, to merge a batch of the past again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, FLAG, require_columns, spelled_as
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.meeting import as_held
from dedp_assets.patterns.delta import (
    Clause,
    Delete,
    Insert,
    Merge,
    Table,
    Target,
    Update,
    differs,
    held_types,
    newer_wins,
    newest_rows,
    places_agree,
    without_place,
)

__all__ = ["merge_changes"]


def _require_fit(table: TableSpec, *, keys: Sequence[str], order_by: Sequence[str] = (), deleted: str = "") -> None:
    """Refuse options that contradict the table or each other."""
    name, held = table.name, table.columns
    keys, order_by, (deleted,) = spelled_as(held, keys), spelled_as(held, order_by), spelled_as(held, [deleted])
    require_distinct("keys=", keys)
    require_distinct("order_by=", order_by)
    if not keys or (unknown := [c for c in (*keys, *order_by) if c not in held]):
        raise ConfigError(f"{name} needs keys and an order among its columns, not {unknown if keys else 'no key'}")
    if deleted in keys or deleted in order_by or set(keys) & set(order_by):
        raise ConfigError(f"{name}: keys, order and deletion flag are different columns")
    if order_by and deleted and deleted not in held:
        raise ConfigError(
            f"{name} does not declare {deleted}: a row that is removed forgets when that was, and an older change "
            "would bring it back. Declare it, and a deletion keeps the row without its values; or merge batches in "
            "their order (no order_by)"
        )
    strict = [c for c in held if held[c].required and c not in {*keys, *order_by, deleted}]
    if deleted in held and strict:
        raise ConfigError(f"{name} requires {', '.join(strict)}, which has no value where a key is deleted")
    if table.executed_by and not order_by:
        raise ConfigError(
            f"{name}: order_by must be given for executions in any order; Stateful Merger takes them in order"
        )


@demanding(replaces="table or execution", of_options=_require_fit)
@typed
def merge_changes(
    changes: DataFrame,
    into: Target,
    *,
    keys: Sequence[str],
    order_by: Sequence[str] = (),
    deleted: str = "",
) -> WriteResult:
    """Merge changes into a table by key, in one audited commit.

    Args:
        changes: the columns of the table, and ``deleted`` if it is none of them.
        into: target of the write. If its table has the column ``deleted``, a deletion keeps the row, without its
            values; otherwise it removes it. Without ``order_by`` the run's ``sequence`` orders the batches; with it, a
            table may declare that executions in any order change it (``executed_by``), and the target names one.
        keys: columns that identify a row for ever; never NULL. Without ``order_by``, a change of technical columns
            alone (:attr:`Column.technical`) leaves a row as it is.
        order_by: columns of the table that order the changes of a key; the greatest counts, in a batch and against
            the row that is there.
        deleted: BOOLEAN column of ``changes``, true where the key is gone since; empty if nothing is deleted.

    Raises:
        AmbiguousKeys: if nothing says which of two changes of a key in ``changes`` counts.
        AuditFailed: if a change has the place of the row that is there, and other values; or a rule refuses a row.
        ConfigError: if the options do not fit the table or each other.
        ContractError: if a key, a place in the order or a deletion flag is NULL, or a batch of the past is merged
            without an order.

    Example:
        >>> users = table("users", "id INT, name STRING, at INT, gone BOOLEAN", (1, "Ada", 7, False))
        >>> changes = frame("id INT, name STRING, at INT, gone BOOLEAN", (1, "A", 3, False), (2, "Bob", 4, False))
        >>> merge_changes(changes, users.target(run), keys=["id"], order_by=["at"], deleted="gone").reason
        '1 rows inserted'
        >>> rows(users)
        [(1, 'Ada', 7, False), (2, 'Bob', 4, False)]
    """
    into = into.by("idempotency.merger", "execution", "audits")
    target, held = into.table, into.table.spec.columns
    keys, order_by, (deleted,) = spelled_as(held, keys), spelled_as(held, order_by), spelled_as(held, [deleted])
    _require_fit(target.spec, keys=keys, order_by=order_by, deleted=deleted)
    require_columns(changes, held)
    require_columns(changes, [*keys, *order_by], COMPARED)
    require_columns(changes, [deleted], FLAG)
    if not order_by:
        _require_newer(into)
    changes = as_held(changes, held_types(target.ensure()), target.name)
    faults = without_place((*keys, *order_by, deleted))
    agree = [places_agree(order_by)] if order_by else []
    selected = _selected(changes, target, keys, order_by, deleted)
    return target.merge(
        newest_rows(selected, keys, order_by, faults.values()) if order_by else selected,
        Merge(keys, _clauses(changes, target, keys, order_by, deleted), unusable=faults),
        execution=into.execution,
        provenance=into.run,
        audits=[*agree, *into.audits],
    )


def _selected(
    changes: DataFrame, target: Table, keys: Sequence[str], order_by: Sequence[str], deleted: str
) -> DataFrame:
    """Select the columns to merge; a deletion that keeps the row carries no values."""
    kept = {*keys, *order_by, deleted}
    empties = f"coalesce({identifier(deleted)}, false)" if deleted in target.spec.columns else "false"
    columns = [
        F.col(identifier(c)).alias(c) if c in kept else F.expr(f"if({empties}, NULL, {identifier(c)})").alias(c)
        for c in target.spec.columns
    ]
    flag = [deleted] if deleted and deleted not in target.spec.columns else []
    return changes.select(*columns, *map(identifier, flag))


def _clauses(
    changes: DataFrame, target: Table, keys: Sequence[str], order_by: Sequence[str], deleted: str
) -> Sequence[Clause]:
    """Return the merge clauses for changes of known keys and of new keys."""
    # Who made a row, and when, is no change of it: the technical columns of a row that stays are its own.
    compared = {*target.spec.content, *target.spec.partition_by, deleted}
    other = differs(changes, [c for c in target.spec.columns if c not in keys and c in compared])
    if order_by:
        return [*newer_wins(order_by, other), Insert()]
    if not deleted:
        return [Update(when=other), Insert()]
    gone = f"s.{identifier(deleted)}"
    removal = [] if deleted in target.spec.columns else [Delete(when=gone)]
    return [*removal, Update(when=other), Insert(when=f"NOT {gone}")]


def _require_newer(into: Target) -> None:
    """Refuse a batch older than the last merged batch."""
    sequence, last = into.run.sequence, into.table.ledger.transactions().applied(into.name, {})
    if sequence is None:
        raise ConfigError(
            f"{into.name}: without order_by, provenance.sequence has to say which batch comes after which"
        )
    if last is not None and sequence < last:
        raise ContractError(
            f"{into.name}: batch {sequence} was merged before batch {last}, and merging it again would "
            "overwrite what came after it: nothing was changed. Name columns that order the changes (order_by), or "
            "rewind the table to what it was before the batch (Stateful Merger)"
        )
