"""Anomaly Detection: records far from the median of their group are flagged, by columns.

Problem: one amount in cents among amounts in euros moves a report, and no volume and no share of NULLs changes.
Solution: a robust z-score of each value: its distance from the median, in median absolute deviations of the group. A
    few outliers move neither, as they do mean and standard deviation. Rows are kept, with score and columns at fault.
Consequences: medians are exact, so the same rows get the same flags, at the price of memory for distinct values of a
    group. The rows are read three times: store rows that are costly to compute. Each column is looked at alone.
Choose instead: Skew Detector, for amounts of rows; Offline Observer, for a distribution that moves as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import COMPARED, Use, require_columns, require_free, require_rows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed

__all__ = ["flag_anomalies", "FLAGS"]

FLAGS = ("is_anomaly", "anomaly_score", "anomaly_columns")
"""Columns that are added to the rows."""

_NUMBER = Use(
    lambda kind: isinstance(kind, (T.NumericType, T.NullType)),
    "is no number: cast it to a number, or name another",
)
_MAD, _MEAN = 1.4826, 1.2533
"""Standard deviation of normally distributed values, in median and in mean absolute deviations."""
_ALL, _ROWS = f"{RESERVED}all", f"{RESERVED}rows"


@typed
def flag_anomalies(
    rows: DataFrame,
    *,
    columns: Sequence[str],
    by: Sequence[str] = (),
    limit: float = 3.5,
    minimum_rows: int = 10,
) -> DataFrame:
    """Flag records with a value far from the median of their group; lazy.

    A NULL and a NaN have no score. Where more than half of a group's values are equal, the mean absolute deviation
    takes the place of the median one; a constant column has no outliers.

    Args:
        rows: the records. All their columns stay, keys among them.
        columns: the columns to look at, numbers of any type.
        by: columns that make a group; all rows are one group without them. NULL is a group of its own.
        limit: the greatest distance from the median that is no anomaly, in robust standard deviations.
        minimum_rows: values of a column that a group needs; with less there is too little to compare with, and the
            column has no score.

    Returns:
        The rows with ``is_anomaly`` (NULL where no column has a score), ``anomaly_score`` (the greatest distance of
        the columns) and ``anomaly_columns`` (names of the columns beyond the limit).

    Raises:
        ConfigError: for columns that are not there, none, or no numbers, for a limit that is not above 0, and fewer
            than two rows of a group.

    Example:
        >>> amounts = frame("id INT, amount DOUBLE", *[(n, 10.0 + n % 3) for n in range(11)], (11, 1100.0), (12, None))
        >>> flagged = flag_anomalies(amounts, columns=["amount"])
        >>> rows(flagged.filter("is_anomaly").select("id", "anomaly_columns"))
        [(11, ['amount'])]
    """
    require_rows("flag_anomalies", rows)
    if not columns:
        raise ConfigError("columns must name the columns to look at, not none")
    require_distinct("columns=", columns)
    require_distinct("by=", by)
    require_columns(require_free(rows, *FLAGS), columns, _NUMBER)
    require_columns(rows, by, COMPARED)
    if limit <= 0:
        raise ConfigError(f"limit must be above 0, not {limit:g}")
    if minimum_rows < 2:
        raise ConfigError(f"minimum_rows must be 2 or more, not {minimum_rows}")
    held = [F.col(identifier(name)) for name in rows.columns]
    numbers = [_number(name).alias(_name("value", n)) for n, name in enumerate(columns)]
    groups = [F.col(identifier(name)).alias(_name("by", n)) for n, name in enumerate(by)]
    valued = rows.select(F.struct(*held).alias(_ALL), *numbers, *groups)
    count = range(len(columns))
    middles = [F.median(_name("value", n)).alias(_name("median", n)) for n in count]
    with_middle = _joined(valued, middles, len(by))
    far = [F.abs(F.col(_name("value", n)) - F.col(_name("median", n))) for n in count]
    spreads = [
        each.alias(_name(what, n))
        for n in count
        for what, each in (("mad", F.median(far[n])), ("mean", F.avg(far[n])), ("count", F.count(far[n])))
    ]
    scored = _joined(with_middle, spreads, len(by))
    scores = [_score(n, far[n], minimum_rows).alias(_name("score", n)) for n in count]
    return _flagged(scored.select(_ALL, *scores), rows.columns, columns, limit)


def _name(what: str, number: int) -> str:
    return f"{RESERVED}{what}_{number}"


def _number(name: str) -> Column:
    """Return a column as DOUBLE, with NULL for NaN."""
    value = F.col(identifier(name)).cast("DOUBLE")
    return F.when(~F.isnan(value), value)


def _joined(rows: DataFrame, measures: Sequence[Column], groups: int) -> DataFrame:
    """Add aggregates of each row's group as columns."""
    keys = [_name("by", n) for n in range(groups)]
    found = rows.groupBy(*keys).agg(*measures) if keys else rows.agg(*measures)
    other = found.withColumnsRenamed({key: f"{key}_" for key in keys})
    if not keys:
        return rows.crossJoin(F.broadcast(other))
    same = [F.col(key).eqNullSafe(F.col(f"{key}_")) for key in keys]
    return rows.join(other, same).drop(*[f"{key}_" for key in keys])


def _score(number: int, far: Column, minimum_rows: int) -> Column:
    """Return the distance of a value from the median in robust standard deviations; NULL without a score."""
    mad, mean, count = (F.col(_name(what, number)) for what in ("mad", "mean", "count"))
    score = (
        F.when(count < minimum_rows, F.lit(None).cast("DOUBLE"))
        .when(far == 0, F.lit(0.0))
        .when(mad > 0, far / (mad * F.lit(_MAD)))
        .when(mean > 0, far / (mean * F.lit(_MEAN)))
    )
    return F.when(~F.isnan(score), score)


def _flagged(scored: DataFrame, held: Sequence[str], columns: Sequence[str], limit: float) -> DataFrame:
    scores = [F.col(_name("score", n)) for n in range(len(columns))]
    greatest = F.array_max(F.array(*scores))
    beyond = [F.when(score > limit, F.lit(name)) for score, name in zip(scores, columns, strict=True)]
    added = [greatest > limit, greatest, F.array_compact(F.array(*beyond))]
    kept = [F.col(f"{_ALL}.{identifier(name)}").alias(name) for name in held]
    return scored.select(*kept, *[each.alias(name) for each, name in zip(added, FLAGS, strict=True)])
