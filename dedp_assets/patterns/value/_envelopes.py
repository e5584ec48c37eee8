"""Layouts of an envelope: places of a record's own columns and of the computed columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.names import identifier

__all__ = ["COMPUTED", "MARK", "RAW", "Layout", "laid_out", "parts_of"]

Layout: TypeAlias = Literal["raw_flat", "computed_flat", "flat"]
"""How an envelope lies in one table.

=================  =========================  =======================================
layout             the record's columns       computed columns
=================  =========================  =======================================
``raw_flat``       as they are                fields of the struct :data:`COMPUTED`
``computed_flat``  fields of :data:`RAW`      as they are named
``flat``           as they are                named with :data:`MARK` before
=================  =========================  =======================================

The fourth layout is two tables, ``wrapper.Separated``.
"""

RAW = "raw"
"""Struct with the record's own columns."""
COMPUTED = "computed"
"""Struct with the computed columns."""
MARK = "computed_"
"""What begins the name of a computed column where nothing else tells it from the record's."""


def parts_of(wrapped: DataFrame, layout: Layout) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return the record's columns and the computed columns of an envelope, by name."""
    struct = {"raw_flat": COMPUTED, "computed_flat": RAW}.get(_known(layout))
    if struct is None:
        plain, nested = (
            {name: F.col(identifier(name)) for name in wrapped.columns if not name.startswith(MARK)},
            {name.removeprefix(MARK): F.col(identifier(name)) for name in wrapped.columns if name.startswith(MARK)},
        )
    else:
        fields = getattr(wrapped.schema[struct].dataType, "names", []) if struct in wrapped.columns else []
        plain = {name: F.col(identifier(name)) for name in wrapped.columns if name != struct}
        nested = {name: F.col(f"{struct}.{identifier(name)}") for name in fields}
    raw, computed = (nested, plain) if struct == RAW else (plain, nested)
    if not raw or not computed:
        raise SchemaMismatch(f"{wrapped.columns} is no envelope of the layout {layout}: name the one that it has")
    named = [{name: column.alias(name) for name, column in part.items()} for part in (raw, computed)]
    return named[0], named[1]


def _known(layout: str) -> str:
    if layout not in get_args(Layout):
        raise ConfigError(f"{layout!r} is no layout: choose one of {', '.join(get_args(Layout))}")
    return layout


def laid_out(both: DataFrame, raw: Sequence[str], computed: Sequence[str], layout: Layout) -> DataFrame:
    """Lay out a struct of record columns and a struct of computed columns as an envelope."""
    _known(layout)
    plain = [F.col(f"{RAW}.{identifier(name)}").alias(name) for name in raw]
    named = [F.col(f"{COMPUTED}.{identifier(name)}") for name in computed]
    if layout == "raw_flat":
        return both.select(*plain, COMPUTED)
    if layout == "computed_flat":
        return both.select(*[column.alias(name) for name, column in zip(computed, named, strict=True)], RAW)
    marked = [column.alias(f"{MARK}{name}") for name, column in zip(computed, named, strict=True)]
    return both.select(*plain, *marked)
