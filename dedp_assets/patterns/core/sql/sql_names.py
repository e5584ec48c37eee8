"""Names in statements of Spark SQL: functions and columns that nothing has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.sql.suggestions import suggestion

__all__ = [
    "Tables",
    "aggregates",
    "ambiguous_column",
    "expressions",
    "sources_of",
    "ungrouped_column",
    "unknown_column",
    "unknown_function",
]

Tables = Mapping[str, Collection[str] | None]
"""Table, as a statement quotes it -> its columns, where they are known."""

_WORDS = """
    all and any approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate as between bigint
    binary boolean by case cast char collations cube date dec decimal distinct div double else end except exists
    extract filter first float from from_avro from_protobuf grouping having identifier if in int intersect interval is
    join last lateral len like luhn_check map measure minus mod not numeric on or order over partition percentile_cont
    percentile_disc range rlike rollup safe_cast schema_of_avro select sets smallint some space sql_keywords string
    struct table then time timestamp timestampadd timestampdiff tinyint to_avro to_protobuf try_cast union unnest
    using values varchar variant_explode variant_explode_outer when where window with within
"""
"""Words before a parenthesis that are no functions of ``pyspark.sql.functions``."""
_MAKERS = ("inline", "stack", "json_tuple", "variant_explode", "pivot", "unpivot", "select transform")
"""Words of queries whose columns have names that only Spark knows."""
_NEAR = 0.75
_PLAIN = re.compile(r"[^\W\d]\w*")
_HIDDEN = ("_metadata", "__dedp")
_IMPLIED = re.compile(r"col\d*|key|value|pos|id|all|c\d+|(session_)?window|current_\w+|(session_)?user|localtimestamp")
"""Names that Spark gives columns of generators, and words in the place of a column."""


def expressions() -> Any:  # noqa: ANN401 - a module
    """Return sqlglot's module of expressions."""
    return optional("sqlglot").exp


def unknown_function(text: str, tree: Any) -> str:  # noqa: ANN401 - sqlglot's tree
    """Return the fault of a function that another engine has, or that is a misspelt one of Spark."""
    exp, known = expressions(), _functions()
    for node in tree.find_all(exp.Func):
        start, end = node.meta.get("start"), node.meta.get("end")
        name = "" if start is None or end is None else text[start : end + 1].lower()
        if not _PLAIN.fullmatch(name) or name in known:
            continue
        near = get_close_matches(name, known, 1, _NEAR)
        # A function that nobody knows may be one of an extension of Spark.
        if near or not isinstance(node, exp.Anonymous):
            return f"calls an unknown function {name}" + (f": did you mean {near[0]}?" if near else "")
    return ""


@cache
def _functions() -> frozenset[str]:
    """Return the names of Spark's functions in lower case."""
    from pyspark.sql import functions  # noqa: PLC0415 - not without a declaration in SQL

    return frozenset([*(name.lower() for name in dir(functions) if name[0] != "_"), *_WORDS.split()])


def unknown_column(tree: Any, tables: Tables, columns: Collection[str] = ()) -> str:  # noqa: ANN401 - as above
    """Return the fault of a column that nothing in a statement has, as far as all columns are known.

    Args:
        tree: the statement.
        tables: columns of the tables in braces.
        columns: columns that are there without a table.
    """
    exp = expressions()
    written = tree.sql(dialect="spark").lower()
    if any(word in written for word in _MAKERS):
        return ""
    sources, derived = sources_of(tree, tables)
    known = _lower(
        *columns, *_made(tree, {*sources, *derived}), *(name for some in sources.values() for name in some or ())
    )
    of_struct = [c for c in tree.find_all(exp.Column) if c.is_star and c.table.lower() not in {*sources, *derived}]
    unsure = None in sources.values() or bool(of_struct)
    for column in tree.find_all(exp.Column):
        first, *more = [part.name for part in column.parts]
        there = sources.get(first.lower()) if more else None
        if there is not None:
            first, known_here = more[0], _lower(*there)
        elif unsure or (more and first.lower() in sources):
            continue
        else:
            first, known_here = (more[0], known) if more and first.lower() in derived else (first, known)
        if not _is_known(first, known_here):
            return f"names an unknown column {first}{suggestion(first.lower(), known_here)}"
    return ""


def ungrouped_column(tree: Any) -> str:  # noqa: ANN401 - as above
    """Return the fault of a column beside aggregates that the query does not group by."""
    exp = expressions()
    for select in [] if tree.find(exp.Pivot) else tree.find_all(exp.Select):
        if (grouped := _grouped(select)) is None:
            continue
        known = grouped | _lower(*(each.alias for each in select.selects if each.alias))
        for number, each in enumerate(select.selects, 1):
            if not {str(number), each.alias.lower()} & grouped and (column := _outside(each, select, known)):
                return f"names {column} beside aggregates: GROUP BY {column}"
    return ""


def ambiguous_column(tree: Any, tables: Tables) -> str:  # noqa: ANN401 - as above
    """Return the fault of a column without a table that two joined tables have."""
    exp = expressions()
    for select in tree.find_all(exp.Select):
        joins, of_all = select.args.get("joins") or [], select.args.get("from_")
        if not joins or not of_all or any(each.kind in ("SEMI", "ANTI") or each.method for each in joins):
            continue
        joined = [each.this for each in (of_all, *joins) if isinstance(each.this, exp.Table)]
        having = {each.alias_or_name: _lower(*(tables.get(each.name) or ())) for each in joined}
        merged = _lower(*(name.name for each in joins for name in each.args.get("using") or ()))
        judged = [*select.selects, select.args.get("where"), *(each.args.get("on") for each in joins)]
        for column in (found for each in judged if each for found in each.find_all(exp.Column)):
            name = column.name.lower()
            owners = [table for table, known in having.items() if name in known - merged]
            is_plain = len(column.parts) == 1 and column.find_ancestor(exp.Select, exp.Lambda) is select
            if is_plain and len(owners) > 1:
                return f"names {name}, which {owners[0]} and {owners[1]} have: {owners[0]}.{name}"
    return ""


def aggregates() -> tuple[type, ...]:
    """Return the expressions that make one value of many rows, or may do so."""
    exp = expressions()
    return (exp.AggFunc, exp.Anonymous, exp.AnonymousAggFunc, exp.Filter, exp.WithinGroup, exp.Window)


def _outside(node: Any, select: Any, known: set[str]) -> str:  # noqa: ANN401 - as above
    """Return the first unknown column of an expression outside of aggregates; empty without a fault."""
    exp = expressions()
    for column in node.find_all(exp.Column):
        names = _lower(*(part.name for part in column.parts))
        made = column.is_star or names & known or any(_IMPLIED.fullmatch(name) for name in names)
        if not made and column.find_ancestor(exp.Select, *aggregates()) is select:
            return str(column.name)
    return ""


def _grouped(select: Any) -> set[str] | None:  # noqa: ANN401 - as above
    """Return the names and positions in a query's GROUP BY.

    ``None`` stands for a query without groups and aggregates, and for GROUP BY ALL.
    """
    exp = expressions()
    if group := select.args.get("group"):
        if group.args.get("all"):
            return None
        return _lower(*(part.name for each in group.find_all(exp.Column, exp.Literal) for part in _parts(each)))
    of_all = (
        found for each in select.selects for found in each.find_all(exp.AggFunc)
        if found.find_ancestor(exp.Select, exp.Window) is select
    )  # fmt: skip
    return None if next(of_all, None) is None else set()


def _parts(node: Any) -> list[Any]:  # noqa: ANN401 - as above
    return node.parts if isinstance(node, expressions().Column) else [node]


def _lower(*names: str) -> set[str]:
    return {name.lower() for name in names}


def _is_known(name: str, known: Collection[str]) -> bool:
    """Return whether a name is one of the known columns, or may be one that Spark makes."""
    lower = name.lower()
    return lower in known or lower.startswith(_HIDDEN) or bool(_IMPLIED.fullmatch(lower)) or not _PLAIN.fullmatch(lower)


def sources_of(tree: Any, tables: Tables) -> tuple[dict[str, Collection[str] | None], set[str]]:  # noqa: ANN401 - as above
    """Return the columns of each table by name or alias, and the names of derived tables."""
    exp = expressions()
    derived = _lower(*(each.alias for each in tree.find_all(exp.Subquery, exp.UDTF, exp.CTE) if each.alias))
    found: dict[str, Collection[str] | None] = {}
    for table in tree.find_all(exp.Table):
        name = table.alias_or_name.lower()
        if table.name.lower() in derived:
            derived.add(name)
        else:
            found[name] = tables.get(table.name) if name not in found else None
    return found, derived


def _made(tree: Any, named: Collection[str]) -> Iterator[str]:  # noqa: ANN401 - as above
    """Yield the names that a statement makes: aliases, fields of structs, parameters of lambdas.

    Args:
        tree: the statement.
        named: names of tables and of what stands for one.
    """
    exp = expressions()
    for node in tree.find_all(exp.Alias, exp.TableAlias, exp.Dot, exp.Column, exp.PropertyEQ, exp.Lambda, exp.Window):
        if isinstance(node, exp.Column):
            yield from (part.name for part in node.parts[1 + (node.parts[0].name.lower() in named) :])
        elif isinstance(node, exp.TableAlias):
            yield from (each.name for each in node.columns)
        elif isinstance(node, exp.Lambda):
            yield from (each.name for each in node.expressions)
        else:
            yield node.alias_or_name
