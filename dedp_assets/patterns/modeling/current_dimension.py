"""Current Dimension: one row per key, with the values of the newest change (SCD types 1, 4).

Problem: readers want things as they are now, and an older change that comes late overwrites a newer one.
Solution: each key has the values of its change with the greatest event time, whatever the order of delivery. With a
    versioned dimension beside it, filled from the same changes, it is type 4: two tables, and the history holds the
    current state, too, so that one join finds every state.
Consequences: what was before is gone. A deleted key stays as a row without values, or an older change would bring it
    back: readers filter by ``NOT is_deleted``. Two tables are two commits, of which each is right by itself.
Choose instead: Versioned Dimension, if somebody asks how it was; Merger, if changes come in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Target, same_run
from dedp_assets.patterns.modeling._changes import (
    AT,
    CHANGE,
    GONE,
    SEQUENCE,
    ChangeStream,
    Dimension,
    by,
    effective_changes,
)
from dedp_assets.patterns.modeling.versioned_dimension import keep_versions

__all__ = ["keep_newest", "keep_current_and_history", "AUDITS", "NEWEST", "ChangeStream"]

NEWEST: Mapping[str, Column] = {
    "is_deleted": Column(
        "BOOLEAN", "whether the key was deleted; its row has no values", required=True, classification="public"
    ),
    "last_change": Column(CHANGE, "the change that the row is as of", required=True, classification="public"),
}
"""Columns of a table of newest states, beside its keys and the ones whose values are kept."""

AUDITS = (Audit.none_where("changes_of_one_instant_agree", "last_change.at IS NULL"),)
"""The rule that two newest changes of a key do not contradict each other at one instant, and that each has one."""

_NEWEST, _STATES = f"{RESERVED}newest", f"{RESERVED}states"
_PATTERN = "modeling.current_dimension"


def _dimension(table: TableSpec, *, stream: ChangeStream, **_: object) -> Dimension:
    """Return the table of the newest states of a stream; refuse a table that does not fit."""
    return Dimension(table, stream.of(table), NEWEST)


@demanding(replaces="table", columns=NEWEST, of_options=_dimension)
@typed
def keep_newest(changes: DataFrame, into: Target, *, stream: ChangeStream, rebuild: bool = False) -> WriteResult:
    """Apply ``changes`` to a table of current states, in one commit.

    Args:
        changes: any changes, in any order, also such as were applied before.
        into: target of the write: the columns of its table are the keys, those of :data:`NEWEST`, and the ones whose
            values are kept.
        stream: the columns of ``changes`` that say what a change is about.
        rebuild: whether ``changes`` are all there are, and what the table holds is forgotten.

    Raises:
        AmbiguousKeys: if a key is NULL.
        AuditFailed: if the two newest changes of a key contradict each other, or a change has no event time; or if
            there are no changes to replace what the table holds (``rebuild``).
        ConfigError: if the table or the columns do not fit.

    Example:
        >>> columns = {"id": Column("INT", required=True), "email": Column("STRING"), **NEWEST}
        >>> users, emails = table("users", columns), "id INT, email STRING, day STRING"
        >>> stream = ChangeStream(keys=["id"], event_time="at")
        >>> changes = frame(emails, (1, "new", "2026-01-05"), (1, "old", "2026-01-02"))
        >>> dated = changes.selectExpr("*", "timestamp(day) AS at")
        >>> _ = keep_newest(dated, users.target(run), stream=stream)
        >>> rows(users.read().select("id", "email"))
        [(1, 'new')]
    """
    into = into.by(_PATTERN, "audits")
    spec, dimension = into.table.spec, _dimension(into.table.spec, stream=stream)
    stream = dimension.stream
    by_key = Window.partitionBy(*by(stream.keys))
    # Without an instant, or with two states at the newest one, a row says so and is refused.
    when = f"struct(if({_STATES} = 1, {AT}, NULL) AS at, {SEQUENCE} AS sequence) AS last_change"

    def compute(present: DataFrame, new: DataFrame) -> DataFrame:
        known = present.selectExpr(
            *map(identifier, [*stream.keys, *dimension.tracked]),
            f"last_change.at AS {AT}",
            f"last_change.sequence AS {SEQUENCE}",
            f"is_deleted AS {GONE}",
        )
        found = effective_changes(known.unionByName(new), stream.keys, dimension.tracked)
        newest = found.withColumn(_NEWEST, F.max(AT).over(by_key)).filter(f"{AT} IS NULL OR {AT} = {_NEWEST}")
        rows = newest.withColumn(_STATES, F.count("*").over(by_key))
        return rows.selectExpr("*", f"{GONE} AS is_deleted", when).select(*by(spec.columns))

    return dimension.write(changes, into.with_audits(*AUDITS), compute, identity=[], rebuild=rebuild)


@demanding(replaces="table", columns=NEWEST)
@typed
def keep_current_and_history(
    changes: DataFrame,
    into: Target,
    history: Target,
    *,
    stream: ChangeStream,
    rebuild: bool = False,
) -> WriteResult:
    """Apply ``changes`` to a table of current states and a table of versions (SCD type 4).

    One commit for each table.

    Args:
        changes: any changes, in any order, also such as were applied before.
        into: target of :func:`keep_newest`.
        history: target of :func:`~dedp_assets.patterns.modeling.versioned_dimension.keep_versions`; it holds the
            current versions, too.
        stream: the columns of ``changes`` that say what a change is about.
        rebuild: whether ``changes`` are all there are, and what the tables hold is forgotten.

    Returns:
        What became of ``history``, and beside it of ``into``.
    """
    same_run(into, history)
    versions = keep_versions(changes, history, stream=stream, rebuild=rebuild)
    newest = keep_newest(changes, into, stream=stream, rebuild=rebuild)
    return replace(versions, beside=(newest,))
