"""Filter Interceptor: the rows dropped by a filter are counted by condition.

Problem: a wrong filter does not fail. The engine merges its conditions into one, so nobody sees which of them drops
    90 % of the rows where 15 % are usual.
Solution: take each row's verdict on every condition, count the verdicts where the rows are read, and go on with those
    that stay as after any filter. A row stays if all are true; NULL drops it like false. Counted are the rows that one
    drops (``rejected``), drops first (``first rejected``: their sum is the filtered rows), is NULL of (``unknown``).
Consequences: a row that is dropped is asked all conditions, and no file is skipped by them. A cast in a condition has
    to be error-safe (``try_cast``). Counts are one commit's: nothing adds up over reruns and retried tasks.
Choose instead: Dead-Letter, if a row that breaks a rule is an error that somebody has to look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.columns import require_columns, require_free
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import OUTCOME, identifier, reserved
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import Decoded, Measures, quoted
from dedp_assets.patterns.core.sql.sql_options import naming_options, require_repeatable, truth
from dedp_assets.patterns.delta import Ledger, audits_of_usual
from dedp_assets.patterns.error_management._verdicts import (
    AT_ONCE,
    BINS,
    EARLIER,
    VERDICTS,
    column_of,
    counts,
    first,
    group_of,
    rejected,
    up_to,
)

__all__ = ["intercept_filters", "filter_measures", "filter_audits"]

_MOST = 31


@typed
def intercept_filters(rows: DataFrame | Split, *, conditions: Mapping[str, str], identity: Sequence[str] = ()) -> Split:
    """Split rows into ``valid`` (every condition true) and ``filtered``; lazy, for batches and streams.

    Args:
        rows: the rows; of a split, its ``valid`` part is filtered and the other parts pass through.
        conditions: name -> SQL predicate that a row has to satisfy to stay, in the order in which they are blamed.
        identity: columns that identify one row, to account for the rows by identity; those of the split, if empty.

    Returns:
        The columns of ``rows``; filtered ones also have ``filtered_by``, the first condition that is not true.

    Raises:
        ConfigError: for no or over 31 conditions, one that Spark cannot evaluate twice alike, or a column added here.

    Example:
        >>> from dedp_assets.patterns.core.rows import RowsRead, tally
        >>> people = frame("id INT, age INT, country STRING", (1, 20, "US"), (2, 17, "FR"), (3, None, "US"))
        >>> adults = {"adult": "age > 17", "american": "country = 'US'"}
        >>> split = intercept_filters(people, conditions=adults)
        >>> rows(split["filtered"].select("id", "filtered_by"))
        [(2, 'adult'), (3, 'adult')]
        >>> kept, seen = tally(split, identity=["id"], measures=filter_measures(adults))
        >>> target = table("adults", "id INT, age INT, country STRING")
        >>> _ = target.stage(kept, provenance=run, rows_read=RowsRead(tally=seen)).publish()
        >>> {name: n for name, n in target.ledger.commit(1).record.figures.items() if name.startswith("rejected")}
        {'rejected by adult': 2, 'rejected by american': 1}
    """
    _require_conditions(conditions)
    require_distinct("identity=", identity)
    split = Split.of(rows)
    require_columns(split.rows, identity)
    require_free(split, *(() if "filtered" in split.parts else ("filtered_by",)))
    if column_of(conditions, 0) in split.rows.columns:
        raise ConfigError(
            f"the rows were filtered by conditions {', '.join(conditions)} before: give these other names"
        )
    require_repeatable(split.rows, "condition", conditions)
    before = identifier(split.outcome) if split.outcome else "'valid'"
    # True is 1 and false 0, so that NULL is told from both; AND takes nothing but a predicate.
    bits = [
        f"coalesce(CAST(({sql}) AND true AS BIGINT) ^ 1L, 3L) * {rejected(place)}L"
        for place, sql in enumerate(conditions.values())
    ]
    # Most rows stay, and cost what a plain filter does; only the others are asked condition by condition.
    stays = " AND ".join(map(truth, conditions.values()))
    verdicts = f"CASE WHEN NOT {before} <=> 'valid' OR ({stays}) THEN 0L ELSE {' | '.join(bits)} END"
    named = [f"WHEN {first(place)} THEN {quoted(name)}" for place, name in enumerate(conditions)]
    named += ["ELSE filtered_by"] if "filtered" in split.parts else []
    with naming_options(split.rows, "condition", {name: truth(sql) for name, sql in conditions.items()}):
        judged = split.rows.withColumn(VERDICTS, F.expr(verdicts)).withColumns(
            {
                OUTCOME: F.expr(f"if({VERDICTS} = 0, {before}, 'filtered')"),
                "filtered_by": F.expr(f"CASE {' '.join(named)} END"),
                **{
                    column_of(conditions, start): F.expr(group_of(start))
                    for start in range(0, len(conditions), AT_ONCE)
                },
            }
        )
    filtered = (*split.parts["valid"], "filtered_by")
    return Split(judged, {**split.parts, "filtered": filtered}, identity=tuple(identity) or split.identity)


@typed
def filter_measures(conditions: Mapping[str, str]) -> Measures:
    """Return the figures to observe over the split's rows in a tally.

    A histogram with a bin for every verdict on five conditions is exact, and costs a fraction of fifteen counts.

    Args:
        conditions: the ones that the rows were split by.

    Returns:
        ``rejected by``, ``first rejected by`` and ``unknown to`` of five conditions -> the aggregate that says them.

    Raises:
        ConfigError: as :func:`intercept_filters`.
    """
    _require_conditions(conditions)
    names, found = list(conditions), dict[str | tuple[str, ...], str]()
    for start in range(0, len(names), AT_ONCE):
        group = dict(enumerate(names[start : start + AT_ONCE]))
        masks = {
            **{f"rejected by {name}": (rejected(place), None) for place, name in group.items()},
            **{f"first rejected by {name}": (up_to(place, EARLIER), rejected(place)) for place, name in group.items()},
            **{f"unknown to {name}": (2 * rejected(place), None) for place, name in group.items()},
        }
        histogram = f"histogram_numeric({column_of(conditions, start)}, {BINS})"
        found[tuple(masks)] = Decoded(histogram, partial(counts, list(masks.values())))
    return found


@typed
def filter_audits(
    ledger: Ledger,
    partition: Mapping[str, str] | None = None,
    *,
    conditions: Mapping[str, str],
    tolerance: float = 0.25,
    window_seconds: float = 0,
    last: int = 7,
) -> tuple[Audit, ...]:
    """Return an audit for each condition that bounds the share of dropped rows by the usual share.

    Usual is what the partition's own last commit says, or else the median of the partitions before it: a rebuild of
    an old one is no measure for the present. Without history, any share passes.

    Args:
        ledger: the target's.
        partition: partition that is about to be written, one column; ``None`` for a table that is appended to.
        conditions: the ones that the rows were split by.
        tolerance: how far the share may lie from the usual one, in shares (0.25: 25 percentage points).
        window_seconds: length of the windows of processing time whose shares are compared, for appends; each commit by
            itself, if 0.
        last: how many partitions or windows to look back.

    Raises:
        ConfigError: for a tolerance that is not between 0 and 1, and as :func:`intercept_filters`.
    """
    _require_conditions(conditions)
    return audits_of_usual(
        ledger,
        {f"{name}_drops_as_usual": f"rejected by {name}" for name in conditions},
        partition=partition,
        tolerance=tolerance,
        window_seconds=window_seconds,
        last=last,
    )


def _require_conditions(conditions: Mapping[str, str]) -> None:
    if not 0 < len(conditions) <= _MOST or "" in conditions or reserved(conditions):
        raise ConfigError(f"give 1 to {_MOST} conditions with names of their own, not {list(conditions)}")
