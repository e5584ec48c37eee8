"""Judgement of declared SQL by Spark's analysis, over columns of declared types, where an engine runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from string import Formatter
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.sql.sql_options import reason_of

__all__ = ["analysed_by", "analysed_columns", "analysis_fault"]

_SESSION: ContextVar[SparkSession | None] = ContextVar("session", default=None)
_UNRESOLVED = "UNRESOLVED_COLUMN"


@contextmanager
def analysed_by(session: SparkSession | None) -> Iterator[None]:
    """Let Spark judge the SQL in which nothing else finds a fault; without a session, nothing changes."""
    token = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(token)


def analysis_fault(sql: str, tables: Mapping[str, Collection[str] | None]) -> str:
    """Return why Spark refuses a query; empty without a session, or for unknown types.

    Args:
        sql: the query.
        tables: table -> columns, with types or declarations of columns as values.
    """
    names = _names(sql)
    try:
        _ = _analysed(sql, tables)
    except PySparkException as error:
        unsure = any(_type(each) is None for name in names for each in _values(tables.get(name)))
        is_unresolved = str(error.getCondition() or "").startswith(_UNRESOLVED)
        return "" if unsure and is_unresolved else f"is refused by Spark: {reason_of(error)}"
    return ""


def analysed_columns(sql: str, tables: Mapping[str, Collection[str] | None]) -> dict[str, str] | None:
    """Return the columns of a query with types; ``None`` without a session, or for unknown types."""
    try:
        found = _analysed(sql, tables)
    except PySparkException:
        return None
    return None if found is None else {field.name: field.dataType.simpleString() for field in found.schema.fields}


def _analysed(sql: str, tables: Mapping[str, Collection[str] | None]) -> DataFrame | None:
    session = _SESSION.get()
    used = {name: tables[name] for name in _names(sql) if name in tables}
    if session is None or not all(
        isinstance(each, Mapping) and any(map(_type, each.values())) for each in used.values()
    ):
        return None
    frames: dict[str, Any] = {name: _empty(session, columns) for name, columns in used.items()}  # type: ignore[arg-type]
    texts: dict[str, Any] = dict.fromkeys((name for name in _names(sql) if name not in used), "2026-01-05")
    found = session.sql(sql, **frames, **texts)
    _ = found.schema  # over Spark Connect, nothing is analysed before
    return found


def _empty(session: SparkSession, columns: Mapping[str, Any]) -> DataFrame:
    typed = {name: kind for name, column in columns.items() if (kind := _type(column))}
    shown = ", ".join(f"CAST(NULL AS {kind}) AS {identifier(name)}" for name, kind in typed.items())
    return session.sql(f"SELECT {shown} WHERE false")


def _type(column: object) -> str | None:
    kind = column if isinstance(column, str) else getattr(column, "type", None)
    return kind if isinstance(kind, str) else None


def _values(columns: Collection[str] | None) -> Collection[object]:
    return columns.values() if isinstance(columns, Mapping) else (columns or ())


def _names(sql: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(sql) if name is not None]
