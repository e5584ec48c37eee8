"""Predicates and masks of policies as SQL of PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.masking import Mask
from dedp_assets.patterns.core.policies import ColumnMask

if TYPE_CHECKING:
    from psycopg import sql
else:
    sql = optional("psycopg.sql")

__all__ = ["shown_column", "truth_of"]


def truth_of(predicate: str) -> Any:  # noqa: ANN401 - of psycopg
    """Write a predicate as one value, also if the text has an unmatched parenthesis."""
    return sql.SQL(f"CASE WHEN {predicate} THEN true ELSE false END")


def shown_column(column: str, mask: ColumnMask | None, kind: str, *, is_text: bool) -> Any:  # noqa: ANN401 - of psycopg
    """Write a column of a view.

    Args:
        column: its name.
        mask: its mask, if it has one.
        kind: its type.
        is_text: whether that is a type of texts.

    Raises:
        ConfigError: for a mask of texts of a column of another type.
    """
    value = sql.Identifier(column)
    if mask is None:
        return value
    if mask.by not in ("null", "constant") and not is_text:
        raise ConfigError(f"mask of {column} by {mask.by} takes a text and no {kind}: mask by null or a constant")
    shown = "CASE WHEN {unless} THEN {value} WHEN {value} IS NOT NULL THEN CAST({masked} AS {kind}) END AS {value}"
    parts = {"unless": truth_of(mask.unless or "false"), "masked": _masked(value, mask), "kind": sql.SQL(kind)}
    return sql.SQL(shown).format(value=value, **parts)


def _masked(value: Any, mask: ColumnMask) -> Any:  # noqa: ANN401 - of psycopg
    """Write the mask of a value that is not NULL; the same text as of Spark."""
    if mask.by == "null":
        return sql.SQL("NULL")
    if mask.by == "constant":
        return sql.Literal(mask.value)
    if mask.by == "partial":
        return sql.SQL("CASE WHEN char_length({0}) >= 6 THEN left({0}, 3) || '***' ELSE '***' END").format(value)
    shape = Mask(mask.value)
    like = shape.pattern(r"\U{:08x}")
    form = rf"\A(?:{like})\Z"
    parts = map(sql.Literal, (form, shape.hidden[: shape.shown_from], shape.shown_from + 1, shape.hidden))
    made = 'CASE WHEN {value} COLLATE "C" ~ {} THEN {} || substr({value}, {}) ELSE {} END'
    return sql.SQL(made).format(*parts, value=value)
