"""Versioned Dimension: one row per state of a key, with validity period (SCD types 2, 6).

Problem: an order of last year is joined to today's address, and a change that comes late overwrites a newer one.
Solution: one row per state, valid in ``[valid_from, valid_to)`` by the time of the source. The rows of the keys that
    changes touch are computed anew from all changes known of them, in one commit. Columns ``current_<name>`` and
    ``previous_<name>`` make it type 6.
Consequences: the table depends on the set of changes only, not on their order, batches or repetition. Each row keeps
    the instants of the changes that confirm it. A deletion is a version without values. Who reads states of today
    filters by ``is_current``; who joins by key alone multiplies rows: the Static Joiner joins by time.
Choose instead: Current Dimension, if nobody asks how it was; Previous Value Dimension, if one step back is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.columns import COMPARED, require_columns, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Target
from dedp_assets.patterns.modeling._changes import ChangeStream, Dimension, by
from dedp_assets.patterns.modeling._versions import VERSION, versions, with_current, with_previous

__all__ = ["keep_versions", "judge_versions", "AUDITS", "VERSION", "ChangeStream"]

AUDITS = (Audit.none_where("changes_of_one_instant_agree", "valid_to <= valid_from"),)
"""The rule that changes of a key do not contradict each other at one instant."""

_PATTERN = "modeling.versioned_dimension"
_NEXT, _CURRENTS = f"{RESERVED}next", f"{RESERVED}currents"
_FAULTS = {
    "reversed": "valid_to <= valid_from",
    "overlaps": f"valid_to > {_NEXT}",
    "gaps": f"valid_to < {_NEXT} OR valid_to IS NOT NULL AND {_NEXT} IS NULL",
    "unclosed": f"valid_to IS NULL AND {_NEXT} IS NOT NULL",
    "several current": f"is_current AND {_CURRENTS} > 1",
    "wrongly current": "is_current <> (valid_to IS NULL AND NOT is_deleted)",
}


def _dimension(
    table: TableSpec,
    *,
    stream: ChangeStream,
    current: Sequence[str] = (),
    previous: Sequence[str] = (),
    **_: object,
) -> Dimension:
    """Return the table of versions of a stream; refuse a table that does not fit."""
    held = table.columns
    require_distinct("current=", current)
    require_distinct("previous=", previous)
    derived = {f"current_{c}": c for c in spelled_as(held, current)}
    derived |= {f"previous_{c}": c for c in spelled_as(held, previous)}
    if unknown := sorted({*derived.values()} - {*held}):
        raise ConfigError(f"{table.name} has no column {', '.join(unknown)}, of which it could keep another value")
    return Dimension(table, stream.of(table), {**VERSION, **{name: held[c] for name, c in derived.items()}})


@demanding(replaces="table", columns=VERSION, of_options=_dimension)
@typed
def keep_versions(
    changes: DataFrame,
    into: Target,
    *,
    stream: ChangeStream,
    current: Sequence[str] = (),
    previous: Sequence[str] = (),
    rebuild: bool = False,
) -> WriteResult:
    """Apply ``changes`` to a table of versions, in one commit.

    Args:
        changes: any changes, in any order, also such as were applied before.
        into: target of the write: the columns of its table are the keys, those of :data:`VERSION`, and the ones whose
            values are kept.
        stream: the columns of ``changes`` that say what a change is about.
        current: columns ``x`` whose newest value stands in a column ``current_x`` of all versions of a key.
        previous: columns ``x`` whose value before the present one stands in a column ``previous_x``.
        rebuild: whether ``changes`` are all there are, and what the table holds is forgotten.

    Raises:
        AmbiguousKeys: if a key is NULL.
        AuditFailed: if two changes of a key at one instant contradict each other, or one has no event time; or if
            there are no changes to replace what the table holds (``rebuild``).
        ConfigError: if the table or the columns do not fit.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column
        >>> columns = {"id": Column("INT", required=True), "email": Column("STRING"), **VERSION}
        >>> users, emails = table("users", columns), "id INT, email STRING, at TIMESTAMP"
        >>> stream = ChangeStream(keys=["id"], event_time="at")
        >>> later = frame("id INT, email STRING, day STRING", (1, "new", "2026-01-05"))
        >>> _ = keep_versions(later.selectExpr("*", "timestamp(day) AS at"), users.target(run), stream=stream)
        >>> earlier = frame("id INT, email STRING, day STRING", (1, "old", "2026-01-02"))
        >>> _ = keep_versions(earlier.selectExpr("*", "timestamp(day) AS at"), users.target(run), stream=stream)
        >>> rows(users.read().selectExpr("email", "date(valid_from) || ''", "date(valid_to) || ''"))
        [('new', '2026-01-05', None), ('old', '2026-01-02', '2026-01-05')]
    """
    into = into.by(_PATTERN, "audits")
    held = into.table.spec.columns
    dimension = _dimension(into.table.spec, stream=stream, current=current, previous=previous)
    stream, current, previous = dimension.stream, spelled_as(held, current), spelled_as(held, previous)

    def compute(present: DataFrame, new: DataFrame) -> DataFrame:
        rows = versions(present, new, dimension=dimension)
        for column in current:
            rows = with_current(rows, stream.keys, column, f"current_{column}")
        for column in previous:
            rows = with_previous(rows, stream.keys, column, f"previous_{column}")
        return rows.select(*by(held))

    return dimension.write(changes, into.with_audits(*AUDITS), compute, identity=["valid_from"], rebuild=rebuild)


@typed
def judge_versions(dimension: DataFrame, *, keys: Sequence[str]) -> Finding:
    """Judge whether the versions of each key are contiguous: no overlap, no gap, at most one current.

    Args:
        dimension: all versions of some keys, with or without their ``changes``.
        keys: the key columns.

    Raises:
        ConfigError: for a column that is not there.
    """
    require_distinct("keys=", keys)
    require_columns(dimension, [column for column in VERSION if column != "changes"])
    require_columns(dimension, keys, COMPARED)
    by_key = Window.partitionBy(*by(keys))
    seen = dimension.withColumns(
        {
            _NEXT: F.lead("valid_from").over(by_key.orderBy("valid_from", "valid_to")),
            _CURRENTS: F.expr("count_if(is_current)").over(by_key),
        }
    )
    found = seen.agg(*[F.expr(f"count_if({where})").alias(name) for name, where in _FAULTS.items()]).collect()[0]
    faults = {name: count for name, count in found.asDict().items() if count}
    note = ", ".join(f"{name}: {count}" for name, count in faults.items())
    return Finding("versions_are_sound", passed=not faults, figures=found.asDict(), note=note)
