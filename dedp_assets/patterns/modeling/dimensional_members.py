"""Dimensional Members: dimensions with surrogate keys, an unknown member, and a calendar.

Problem: a user has several versions, so that facts cannot refer to one by the natural key; a fact whose user is not
    there refers to nothing; and each report has a week of its own.
Solution: each row gets a key, the hash of natural key and start of validity: the same in every run, backfill and time
    zone. One row more stands for what is unknown. ``list_dates`` has a row for each day of a range.
Consequences: a change that comes late splits a version, and both starts keep their keys; if it moves a start, the key
    is another one, and facts are repaired (``relink_facts``). Keys are texts of 64 characters.
Choose instead: Keyed Idempotency, for keys of facts; Normalizer, for entities without history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import (
    COMPARED,
    fields_of,
    require_columns,
    require_free,
    require_rows,
    spelled_as,
)
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import key_of, require_distinct
from dedp_assets.patterns.core.names import identifier, select_list
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.modeling._links import UNKNOWN, UNKNOWN_NUMBER

__all__ = ["add_members", "list_dates", "DATES", "UNKNOWN", "UNKNOWN_NUMBER"]

_BEGINNING = "1900-01-01T00:00:00Z"
_MOST_DAYS = 100_000
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

DATES: Mapping[str, Column] = {
    "date_key": Column("INT", "day as yyyymmdd; -1 for an unknown day", required=True, classification="public"),
    "date": Column("DATE", "the day; NULL for an unknown one", classification="public"),
    "year": Column("INT", "year of the calendar", classification="public"),
    "quarter": Column("INT", "quarter of the year, 1 to 4", classification="public"),
    "month": Column("INT", "month of the year, 1 to 12", classification="public"),
    "month_name": Column("STRING", "English name of the month", classification="public"),
    "day_of_month": Column("INT", "day of the month, 1 to 31", classification="public"),
    "day_of_week": Column("INT", "day of the ISO week, 1 is Monday", classification="public"),
    "day_name": Column("STRING", "English name of the day", classification="public"),
    "iso_year": Column("INT", "year of the ISO week", classification="public"),
    "iso_week": Column("INT", "ISO week, 1 to 53: week 1 has the year's first Thursday", classification="public"),
    "fiscal_year": Column("INT", "year in which the fiscal year ends", classification="public"),
    "fiscal_quarter": Column("INT", "quarter of the fiscal year, 1 to 4", classification="public"),
    "is_weekend": Column("BOOLEAN", "whether it is a Saturday or a Sunday", classification="public"),
    "holiday": Column("STRING", "name of the public holiday; NULL on other days", classification="public"),
}
"""Columns of a dimension of days."""


@typed
def add_members(
    rows: DataFrame, *, key: str, natural: Sequence[str], valid_from: str = "", unknown: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the rows of a dimension with a surrogate key, and the unknown member; lazy.

    Args:
        rows: rows of a dimension, one for each natural key, or one for each version of one
            (:func:`~dedp_assets.patterns.modeling.versioned_dimension.keep_versions`).
        key: the column to add, in front: the :func:`~dedp_assets.patterns.core.keys.key_of` natural key and start.
        natural: columns of the natural key: texts, whole numbers, dates, times.
        valid_from: column with the start of a version, if the rows are versions; ``is_current`` and ``is_deleted``
            are those of a version that always holds, then, in the unknown member.
        unknown: text column -> its text in the unknown member; all other columns are NULL in it.

    Returns:
        The rows, each once, and one with the key :data:`UNKNOWN`, which meets no natural key.

    Raises:
        ConfigError: for a column that is not there, is there already, or is of a type that cannot be used so.

    Example:
        >>> plans = frame("plan STRING, name STRING", ("b", "Basic"))
        >>> members = add_members(plans, key="plan_key", natural=["plan"], unknown={"name": "unknown plan"})
        >>> rows(members.selectExpr("left(plan_key, 7)", "plan", "name"))
        [('198e607', 'b', 'Basic'), ('unknown', None, 'unknown plan')]
    """
    require_distinct("natural=", natural)
    if not natural:
        raise ConfigError("natural must name the columns of the natural key, not none")
    require_free(require_rows("a dimension", rows), key)
    starts = [valid_from] if valid_from else []
    texts = dict(unknown or {})
    require_columns(rows, [*natural, *starts], COMPARED)
    if wrong := [f.name for f in fields_of(rows, texts) if not isinstance(f.dataType, T.StringType)]:
        raise ConfigError(f"unknown must state texts of text columns, not of {', '.join(wrong)}")
    held = dict(zip(spelled_as(rows.columns, texts), map(quoted, texts.values()), strict=True))
    if starts:
        always = {valid_from: f"CAST({quoted(_BEGINNING)} AS TIMESTAMP)", "is_current": "true", "is_deleted": "false"}
        held |= dict(zip(spelled_as(rows.columns, always), always.values(), strict=True))
    member = {key: quoted(UNKNOWN)}
    member |= {f.name: f"CAST({held.get(f.name, 'NULL')} AS {f.dataType.simpleString()})" for f in rows.schema.fields}
    keyed = {key: key_of(rows, [*map(identifier, [*natural, *starts])])}
    keyed |= {column: identifier(column) for column in rows.columns}
    one = rows.sparkSession.range(1).selectExpr(*select_list(member))
    return rows.selectExpr(*select_list(keyed)).unionAll(one)


@typed
def list_dates(
    session: SparkSession, *, first: date, last: date, fiscal_month: int = 1, holidays: Mapping[str, str] | None = None
) -> DataFrame:
    """Return a row of :data:`DATES` for each day of a range, and the unknown day; lazy.

    Args:
        session: Spark.
        first: first day.
        last: last day, at most 100,000 days later.
        fiscal_month: month in which the fiscal year begins, 1 to 12; its number is that of the year
            in which it ends.
        holidays: day such as ``2026-12-25`` -> name of the holiday.

    Raises:
        ConfigError: for a range that ends before it begins or is too long, a month that is none, or a holiday that is
            no day.
    """
    if not 0 <= (last - first).days <= _MOST_DAYS:
        raise ConfigError(f"last must be a day from {first} on, within {_MOST_DAYS} days, not {last}")
    if not 1 <= fiscal_month <= 12:
        raise ConfigError(f"fiscal_month must be a month from 1 to 12, not {fiscal_month}")
    named = "".join(f" WHEN {_date(_day(day))} THEN {quoted(name)}" for day, name in (holidays or {}).items())
    range_of = f"sequence({_date(first)}, {_date(last)})"
    # The month within the fiscal year, from 0.
    fiscal = f"pmod(month(date) - {fiscal_month}, 12)"
    values = {
        "date_key": "year(date) * 10000 + month(date) * 100 + day(date)",
        "date": "date",
        "year": "year(date)",
        "quarter": "quarter(date)",
        "month": "month(date)",
        "month_name": f"element_at({_texts(_MONTHS)}, month(date))",
        "day_of_month": "day(date)",
        "day_of_week": "weekday(date) + 1",
        "day_name": f"element_at({_texts(_DAYS)}, weekday(date) + 1)",
        "iso_year": "extract(YEAROFWEEK FROM date)",
        "iso_week": "weekofyear(date)",
        "fiscal_year": f"year(add_months(date, {(13 - fiscal_month) % 12}))",
        "fiscal_quarter": f"{fiscal} DIV 3 + 1",
        "is_weekend": "weekday(date) >= 5",
        "holiday": f"CASE date{named} END" if named else "NULL",
    }
    unknown = {**dict.fromkeys(values, "NULL"), "date_key": str(UNKNOWN_NUMBER)}
    days = session.range(1).selectExpr(f"explode({range_of}) AS date")
    listed, member = ({c: f"CAST({sql} AS {DATES[c].type})" for c, sql in each.items()} for each in (values, unknown))
    return days.selectExpr(*select_list(listed)).unionAll(session.range(1).selectExpr(*select_list(member)))


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"holidays must name days as 2026-12-25, not {text!r}") from None


def _date(day: date) -> str:
    return f"CAST({quoted(day.isoformat())} AS DATE)"


def _texts(words: Sequence[str]) -> str:
    return f"array({', '.join(map(quoted, words))})"
