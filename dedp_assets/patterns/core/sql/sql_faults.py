"""Faults of Spark SQL in declarations, found by sqlglot without Spark.

Only what Spark refuses for certain is a fault: text that is no SQL, a column that nothing in the statement has, a
function of another engine. What sqlglot does not know is left to Spark, and so is everything without sqlglot.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from string import Formatter
from typing import Any, Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.sql.sql_analysis import analysed_columns, analysis_fault
from dedp_assets.patterns.core.sql.sql_arities import wrong_arity
from dedp_assets.patterns.core.sql.sql_names import (
    Tables,
    aggregates,
    ambiguous_column,
    expressions,
    sources_of,
    ungrouped_column,
    unknown_column,
    unknown_function,
)

__all__ = ["Kind", "expression_fault", "query_columns", "query_fault"]

Kind = Literal["value", "predicate", "aggregate", "figure"]
"""Meaning of an expression: a value of a row, true or false of a row, an aggregate, one that is observed in a pass."""
_SPARKS_OWN = (
    (re.compile(r">>>"), ">>"),
    (re.compile(r"\b([xX]) +'"), r"\1'"),
    (re.compile(r"(\bBY\s+)window\s*\(", re.IGNORECASE), r"\1session_window("),
)
"""Spelling of Spark that sqlglot does not know -> one that it does, where nothing of the judgement depends on it."""
_SPARK_ALONE = re.compile(
    r"lateral\s+view|pivot|tablesample|match_recognize|\|>|\b\d+\s+(?:year|month|week|day|hour|minute|second)s?\b",
    re.IGNORECASE,
)
"""Syntax that sqlglot reads in part: what it does not understand beside it may be right."""
_IN_QUOTES = re.compile(r"['\"]({\w+})['\"]")
_SELECT, _PROBE, _SHOWN = "SELECT ", " AS __dedp_value", 40
_BY_CHANCE = (
    "rand", "randn", "random", "uuid", "shuffle", "randstr", "uniform", "monotonically_increasing_id",
    "spark_partition_id",
)  # fmt: skip
"""Functions whose values a rerun does not repeat."""
_CHANGES = ("Insert", "Update", "Delete", "Merge", "Create", "Drop", "Alter", "TruncateTable", "Use", "Set")


def query_fault(sql: str, tables: Tables) -> str:
    """Return the fault of a query with names in braces; or no text.

    Args:
        sql: the query, as a step says it.
        tables: what stands for rows in braces; any other name in braces is a text.
    """
    if quoted := _IN_QUOTES.search(sql):
        return f"must have no quotes around {quoted[1]}, which is a text with quotes of its own"
    text = _unbraced(sql, tables)
    try:
        statements = _parsed(text)
    except ConfigError as error:
        return str(error)
    if len(statements) > 1:
        return f"has {len(statements)} statements, and one query is a step"
    for tree in filter(None, statements):
        if type(tree).__name__ in _CHANGES:
            return f"must be a query, not {type(tree).__name__.upper()}"
        found = _of_braces(tree, tables) or unknown_function(text, tree) or unknown_column(tree, tables)
        found = found or ambiguous_column(tree, tables) or _of_shape(tree) or ungrouped_column(tree)
        return found or analysis_fault(sql, tables)
    return analysis_fault(sql, tables)


def _of_braces(tree: Any, tables: Tables) -> str:  # noqa: ANN401 - sqlglot's tree
    """Return the fault of rows that are named without braces."""
    exp = expressions()
    made = {each.alias for each in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if table.name in tables and not table.this.args.get("quoted") and table.name not in made:
            return f"must name rows in braces, {{{table.name}}}, not {table.name}"
    return ""


def _of_shape(tree: Any) -> str:  # noqa: ANN401 - as above
    """Return the fault of SQL that sqlglot parses and Spark refuses; empty for sound SQL."""
    exp = expressions()
    for within in tree.find_all(exp.In):
        if not any(within.args.get(each) for each in ("expressions", "query", "unnest", "field")):
            return f"must have values in {within.sql(dialect='spark')}"
    for where in tree.find_all(exp.Where):
        for found in where.find_all(exp.AggFunc):
            if found.find_ancestor(exp.Where, exp.Window, exp.Lambda, exp.Select) is where:
                return f"must have {found.sql(dialect='spark')}, a figure of many rows, in HAVING, not in WHERE"
    for both in tree.find_all(exp.SetOperation):
        widths = [_width(both.left), _width(both.right)]
        if None not in widths and widths[0] != widths[1]:
            return f"must have as many columns on both sides of {both.key.upper()}, not {widths[0]} and {widths[1]}"
    return ""


def _of_chance(tree: Any) -> str:  # noqa: ANN401 - as above
    """Return the fault of an expression by which a rerun gives other rows; empty for a sound one."""
    for found in tree.find_all(expressions().Func):
        if (name := found.sql(dialect="spark").partition("(")[0].lower()) in _BY_CHANCE:
            return f"must give the same in each run, not {name}(), which differs from run to run"
    return ""


def _width(query: Any) -> int | None:  # noqa: ANN401 - as above
    """Return the number of a query's columns; ``None`` where a column may stand for several."""
    exp = expressions()
    selects = query.unnest().selects if isinstance(query, exp.Query) else []
    several = (exp.Star, exp.UDTF, exp.Anonymous, exp.Inline, exp.Explode, exp.Posexplode, exp.Aliases)
    return None if any(each.is_star or each.find(*several) for each in selects) else len(selects) or None


def query_columns(sql: str, tables: Tables) -> Mapping[str, str | None] | None:
    """Return the columns of a sound query, with types by Spark; ``None`` without names for all."""
    named = analysed_columns(sql, tables) or _named(sql, tables)
    return named if isinstance(named, dict) or named is None else dict.fromkeys(named)


def _named(sql: str, tables: Tables) -> list[str] | None:
    try:
        (tree,) = _parsed(_unbraced(sql, tables))
    except (ConfigError, ValueError):
        return None
    if tree is None:
        return None
    exp = expressions()
    if not isinstance(tree, exp.Select) or tree.find(exp.Pivot, exp.Lateral):
        return None
    sources, derived = sources_of(tree, tables)
    named: list[str] = []
    for each in tree.selects:
        if type(each) is exp.Star and not each.args.get("except_") and len(sources) == 1 and not derived:
            (there,) = sources.values()
            if there is None:
                return None
            named += there
        elif isinstance(each, exp.Alias) or (isinstance(each, exp.Column) and not each.is_star):
            named.append(each.alias_or_name)
        else:
            return None
    return named


def expression_fault(sql: str, columns: Collection[str] | None, kind: Kind = "value") -> str:
    """Return the fault of an expression over the columns of rows; or no text.

    Args:
        sql: the expression.
        columns: columns that there are, perhaps with declarations; ``None`` if nobody knows them.
        kind: meaning of the expression.
    """
    text = _respelt(f"{_SELECT}{sql}{_PROBE}")
    try:
        (tree,) = _parsed(text)
    except ConfigError as error:
        return str(error)
    except ValueError:
        return f"must be one expression, not {sql.strip()}"
    if tree is None:
        return ""
    exp = expressions()
    if not isinstance(tree, exp.Select) or len(tree.selects) != 1 or tree.args.get("from_") or not sql.strip():
        return f"must be one expression, not {sql.strip() or 'empty'}"
    (node,) = tree.selects
    if not isinstance(node, exp.Alias):
        return "must have no comment at its end"
    found = unknown_function(text, tree) or (unknown_column(tree, {}, columns) if columns else "")
    found = found or _of_chance(tree) or _of_shape(tree) or _RULES[kind](node.this)
    found = found or (_of_type(node.this, columns) if kind == "predicate" else "")
    plain = sql.replace("{", "{{").replace("}", "}}")
    asked = f"if({plain}, true, false)" if kind == "predicate" else plain
    return found or analysis_fault(f"{_SELECT}{asked} FROM {{rows}}", {"rows": columns})


def _parsed(text: str) -> list[Any]:
    """Return the statements of a text; no statement of one that only Spark can judge.

    Raises:
        ConfigError: for a text that is no SQL.
    """
    try:
        sqlglot = optional("sqlglot")
    except ConfigError:
        return [None]
    if (found := _statements(sqlglot, text)) is None:
        return [None]
    _require_no_comma_too_many(sqlglot, text)
    for each in found:
        for select in each.find_all(sqlglot.exp.Select):
            select.set("hint", None)  # words of hints are no columns
    # Of a pipe, names of one step are columns of the next.
    return [None if isinstance(each, sqlglot.exp.Command) or "|>" in text else each for each in found]


def _statements(sqlglot: Any, text: str) -> list[Any] | None:  # noqa: ANN401 - a module
    """Return the statements of a text, or ``None`` for syntax unknown to sqlglot.

    Raises:
        ConfigError: for a text that is no SQL, or has a call that Spark refuses.
    """
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        if fault := wrong_arity(sqlglot.tokenize(text, read="spark")):
            raise ConfigError(fault)
        return [each for each in sqlglot.parse(text, dialect="spark") if each is not None]
    except sqlglot.errors.ParseError as error:
        if _SPARK_ALONE.search(text):
            return None
        first = error.errors[0] if error.errors else {}
        before = first.get("start_context", "").removeprefix(_SELECT).rstrip()
        raise ConfigError(f"is no SQL after {before[-_SHOWN:]!r}" if before else "is no SQL") from None
    except sqlglot.errors.TokenError:
        raise ConfigError("is no SQL: a quotation mark or a comment is not closed") from None
    except (RecursionError, IndexError):  # IndexError: of a map with a key and no value
        return None


def _require_no_comma_too_many(sqlglot: Any, text: str) -> None:  # noqa: ANN401 - a module
    """Refuse a comma that nothing follows, over which sqlglot passes.

    Raises:
        ConfigError: for such a text.
    """
    for comma, after in pairwise(sqlglot.tokenize(text, read="spark")):
        if comma.token_type.name == "COMMA" and after.token_type.name in ("FROM", "R_PAREN"):
            before = text[: comma.start].removeprefix(_SELECT).rstrip()
            raise ConfigError(f"has a comma too many after {before[-_SHOWN:]!r}")


def _respelt(text: str) -> str:
    """Return a text with spellings that sqlglot knows."""
    for spelling, known in _SPARKS_OWN:
        text = spelling.sub(known, text)
    return text


def _unbraced(sql: str, tables: Tables) -> str:
    """Return a query with quoted names of tables, and texts, in the place of names in braces."""
    parts = []
    for text, name, _, _ in Formatter().parse(sql):
        parts.append(text)
        if name is not None:
            parts.append(f"`{name}`" if name in tables else "'2026-01-05'")
    return _respelt("".join(parts))


def _of_predicate(node: Any) -> str:  # noqa: ANN401 - as above
    """Return the fault of an expression that is no predicate of one row."""
    exp = expressions()
    plain = node.unnest()
    of_numbers = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Neg)
    if isinstance(plain, (exp.Literal, *of_numbers)):
        return "must be true or false of a row"
    if several := plain.find(exp.Explode, exp.Posexplode, exp.Inline):
        return f"must be true or false of a row, not with {several.sql(dialect='spark')}, which makes several rows"
    for found in plain.find_all(exp.AggFunc):
        if found.find_ancestor(exp.Window, exp.Lambda, exp.Subquery, exp.Exists) is None:
            return f"must be true or false of one row, not with {found.sql(dialect='spark')}, a figure of all rows"
    return ""


def _of_type(node: Any, columns: Collection[str] | None) -> str:  # noqa: ANN401 - as above
    """Return the fault of a column that is neither true nor false."""
    plain = node.unnest()
    if not isinstance(columns, Mapping) or not isinstance(plain, expressions().Column):
        return ""
    kind = getattr(columns.get(plain.sql(dialect="spark")), "type", "BOOLEAN").upper()
    return "" if kind in ("BOOLEAN", "VARIANT") else f"must be true or false of a row, not {plain.name}, a {kind}"


def _of_aggregate(node: Any) -> str:  # noqa: ANN401 - as above
    """Return the fault of an expression that is no figure of all rows."""
    exp = expressions()
    for column in node.find_all(exp.Column):
        if column.find_ancestor(*aggregates(), exp.Subquery, exp.Exists) is None:
            return f"must be an aggregate of rows, such as sum({column.name}), not {column.sql(dialect='spark')}"
    return ""


def _of_figure(node: Any) -> str:  # noqa: ANN401 - as above
    """Return the fault of an expression that is no figure of one pass over the rows."""
    return _of_aggregate(node) or (
        "must have no DISTINCT, as it is observed" if node.find(expressions().Distinct) else ""
    )


_RULES: Mapping[Kind, Callable[[Any], str]] = {
    "value": lambda _: "", "predicate": _of_predicate, "aggregate": _of_aggregate, "figure": _of_figure,
}  # fmt: skip
