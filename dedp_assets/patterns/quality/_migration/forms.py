"""Both forms of rows: a column without a value is computed from the other form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.quality._migration.moves import Form, Migration, Path

__all__ = ["completed", "without_new", "without_old"]


def completed(rows: DataFrame, migration: Migration) -> DataFrame:
    """Give rows the columns of both forms; lazy.

    Raises:
        ConfigError: for rows with neither form of a move, or a field to lift from a column that is no struct.
    """
    for form in migration.forms:
        held = {name.lower(): name for name in rows.columns}
        made = {held.get(name.lower(), name): column for name, column in _completed(rows, form).items()}
        rows = rows.withColumns(made) if made else rows  # over Spark Connect, no columns are refused
    return rows


def without_new(rows: DataFrame, migration: Migration) -> DataFrame:
    """Remove the columns of the new form."""
    return _without(rows, migration.new_columns)


def without_old(rows: DataFrame, migration: Migration) -> DataFrame:
    """Remove the columns and fields of the old form; a struct without a field left goes, too."""
    gone: dict[str, set[str]] = {}
    for root, *inner in migration.old_columns:
        gone.setdefault(root, set()).update(name.lower() for name in inner)
    for root, fields in gone.items():
        kind = _kinds(rows).get(root.lower())
        named = kind.names if isinstance(kind, StructType) and fields else []
        if left := [name for name in named if name.lower() not in fields]:
            leaving = [identifier(name) for name in named if name not in left]
            spelled = next(name for name in rows.columns if name.lower() == root.lower())
            rows = rows.withColumn(spelled, F.col(identifier(root)).dropFields(*leaving)) if leaving else rows
        else:
            rows = _without(rows, [root])
    return rows


def _completed(rows: DataFrame, form: Form) -> dict[str, Column]:
    kinds = _kinds(rows)
    has_new = all(name.lower() in kinds for name in form.news)
    has_old = all(_holds(kinds, old) for old in form.olds)
    if not has_old and not form.news:
        return {old: F.lit(None) for (old,) in form.olds}
    if not (has_old or has_new):
        raise ConfigError(f"rows must have the old or the new columns of a move ({form.what}), not {rows.columns}")
    made = {}
    if has_old:
        for name, sql in form.news.items():
            made[name] = F.expr(f"if({form.no_new}, {sql}, {identifier(name)})" if has_new else sql)
    if form.news and has_new:
        made |= _old_columns(kinds, form, has_old=has_old)
    return made


def _old_columns(kinds: Mapping[str, DataType], form: Form, *, has_old: bool) -> dict[str, Column]:
    if len(form.olds[0]) == 1:
        return {
            old[0]: F.expr(f"if({form.no_old}, {sql}, {identifier(old[0])})" if has_old else sql)
            for old, sql in form.back.items()
        }
    root = form.olds[0][0]
    kind = kinds.get(root.lower())
    if not isinstance(kind, StructType):
        made = F.struct(*[F.expr(sql).alias(old[1]) for old, sql in form.back.items()])
        return {root: F.when(F.expr(f"NOT ({form.no_new})"), made)}
    stored = F.col(identifier(root))
    # A field of no struct is none: where the struct is NULL, one of NULL fields takes its place.
    empty = F.struct(*[F.lit(None).cast(each.dataType).alias(each.name) for each in kind.fields])
    made = F.when(stored.isNull(), empty).otherwise(stored)
    named = {name.lower(): name for name in kind.names}
    for old, sql in form.back.items():
        made = made.withField(identifier(named.get(old[1].lower(), old[1])), F.expr(sql))
    if has_old:
        return {root: F.when(F.expr(f"({form.no_old}) AND NOT ({form.no_new})"), made).otherwise(stored)}
    return {root: F.when(stored.isNotNull() | F.expr(f"NOT ({form.no_new})"), made)}


def _holds(kinds: Mapping[str, DataType], path: Path) -> bool:
    kind = kinds.get(path[0].lower())
    if kind is None or len(path) == 1:
        return kind is not None
    if not isinstance(kind, StructType):
        raise ConfigError(f"{'.'.join(path)} must be a field of a struct column, not of a {kind.simpleString()}")
    return path[1].lower() in {name.lower() for name in kind.names}


def _kinds(rows: DataFrame) -> dict[str, DataType]:
    return {each.name.lower(): each.dataType for each in rows.schema.fields}


def _without(rows: DataFrame, names: Iterable[str]) -> DataFrame:
    gone = {name.lower() for name in names}
    return rows.selectExpr(*[identifier(name) for name in rows.columns if name.lower() not in gone])
