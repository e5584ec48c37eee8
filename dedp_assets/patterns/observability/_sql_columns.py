"""Column lineage of SQL that is not run, for reviews and for the impact of a change.

The text of a statement says less than a plan: what is not certain is opaque. Statements that write are read as the
queries whose columns they store; of a statement that cannot be parsed, the tables alone are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dedp_assets.patterns.core.column_lineage import (
    ColumnInput,
    ColumnLineage,
    ColumnOrigin,
    Effect,
    Influence,
    Transformation,
)
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.observability._plans.values import (
    CONSTANT,
    Cause,
    Value,
    combined,
    influences_of,
    opaque,
    positional,
)

__all__ = ["EVERY", "trace_sql"]

EVERY = "*"
"""Column of a lineage that knows tables only, on both sides."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_TABLE = re.compile(r"\b(?:FROM|JOIN|USING)\s+(`[^`]+`|[\w.]+)", re.IGNORECASE)
_Columns = tuple[list[tuple[str, Value]], frozenset[Cause]]
_CLAUSES: Sequence[tuple[str, Effect]] = (
    ("where", "FILTER"),
    ("having", "FILTER"),
    ("qualify", "FILTER"),
    ("group", "GROUP_BY"),
    ("order", "SORT"),
)


def trace_sql(sql: str, schemas: Mapping[str, Mapping[str, str]]) -> ColumnLineage:
    """Trace the columns that a statement returns or writes, by the text alone.

    Args:
        sql: one statement in Spark's SQL; a placeholder such as ``{visits}`` is the table ``visits``.
        schemas: table, as the statement spells it -> column -> SQL type.

    Returns:
        Inputs of each column. Of a text that cannot be parsed: one column :data:`EVERY`, opaque, with the tables.
    """
    text = _PLACEHOLDER.sub(r"`\1`", sql)
    sqlglot = optional("sqlglot")
    try:
        queries = list(_queries(sqlglot.parse_one(text, dialect="spark")))
        found = [_traced(each, schemas) for each in queries]
    except (sqlglot.errors.SqlglotError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        return _tables_only(text, str(error).partition("\n")[0])
    names = list(dict.fromkeys(name for columns, _ in found for name, _ in columns))
    values = {name: combined([v for columns, _ in found for n, v in columns if n == name]) for name in names}
    causes = frozenset[Cause]().union(*(each for _, each in found), *(each.indirect for each in values.values()))
    influences = {Influence(t, path[0], effect, ".".join(path[1:])) for (t, path), effect in causes}
    return ColumnLineage({name: _origin(value) for name, value in values.items()}, tuple(sorted(influences)))


def _origin(value: Value) -> ColumnOrigin:
    inputs = [ColumnInput(t, path[0], kind, ".".join(path[1:])) for (t, path), kind in value.direct.items()]
    return ColumnOrigin(tuple(sorted(inputs)), "; ".join(sorted(value.unknown)))


def _tables_only(text: str, why: str) -> ColumnLineage:
    tables = sorted({found[1].strip("`") for found in _TABLE.finditer(text)})
    inputs = tuple(ColumnInput(table, EVERY, "TRANSFORMATION") for table in tables)
    reason = f"the statement is not understood, its tables alone are known: {why}"
    return ColumnLineage({EVERY: ColumnOrigin(inputs, reason)}, gaps=(reason,))


def _queries(tree: Any) -> Iterator[Any]:  # noqa: ANN401 - sqlglot is optional
    """List the queries whose columns a statement returns or writes."""
    exp = optional("sqlglot").exp
    if isinstance(tree, exp.Merge):
        yield from _of_merge(exp, tree)
    elif isinstance(tree, exp.Update):
        assigned = [exp.alias_(each.expression, each.this.name) for each in tree.expressions]
        yield exp.select(*assigned).from_(tree.this).where(tree.args["where"].this if tree.args.get("where") else None)
    elif isinstance(tree, exp.Insert):
        named = [each.name for each in tree.this.expressions] if isinstance(tree.this, exp.Schema) else []
        yield _renamed(exp, tree.expression, named)
    elif isinstance(tree, exp.Create) and tree.expression is not None:
        yield tree.expression
    elif isinstance(tree, exp.Query):
        yield tree
    else:
        raise ValueError(f"{type(tree).__name__} writes no columns of a query")


def _renamed(exp: Any, query: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - as above
    if not names:
        return query
    if len(query.selects) != len(names) or any(each.is_star for each in query.selects):
        raise ValueError("the columns of an INSERT cannot be counted")
    renamed = [exp.alias_(each.unalias(), name, quoted=True) for each, name in zip(query.selects, names, strict=True)]
    return query.select(*renamed, append=False)


def _of_merge(exp: Any, tree: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    """List a query for each clause of a MERGE: the written values, of the rows of both sides that meet."""
    for when in tree.args["whens"].expressions:
        then = when.args["then"]
        if isinstance(then, exp.Update):
            values = [(each.this.name, each.expression) for each in then.expressions if isinstance(each, exp.EQ)]
            every = not values
        elif isinstance(then, exp.Insert):
            pairs = zip(then.this.expressions, then.expression.expressions, strict=True) if then.expression else ()
            values = [(column.name, value) for column, value in pairs]
            every = not values
        else:
            continue
        source = tree.args["using"]
        shown = [exp.column(EVERY, table=source.alias_or_name)] if every else []
        shown += [exp.alias_(value.copy(), name, quoted=True) for name, value in values]
        query = exp.select(*shown).from_(source.copy()).join(tree.this.copy(), on=tree.args["on"].copy())
        yield query.where(when.args["condition"].copy()) if when.args.get("condition") else query


def _traced(
    query: Any,  # noqa: ANN401 - as above
    schemas: Mapping[str, Mapping[str, str]],
) -> _Columns:
    sqlglot = optional("sqlglot")
    exp = sqlglot.exp
    known = {name.replace("`", "").lower(): name for name in schemas}
    ctes = {each.alias.lower() for each in query.find_all(exp.CTE)}
    short = dict[str, str]()
    for table in list(query.find_all(exp.Table)):
        name = ".".join(part.name for part in table.parts)
        if name.lower() not in known or name.lower() in ctes:
            continue
        number = f"t{len(short)}"
        short[number] = known[name.lower()]
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        for part, value in {"this": exp.to_identifier(number), "db": None, "catalog": None, "alias": alias}.items():
            table.set(part, value)
    from sqlglot.optimizer.qualify import qualify  # noqa: PLC0415 - optional
    from sqlglot.optimizer.scope import build_scope  # noqa: PLC0415 - optional

    columns: dict[str, object] = {number: dict(schemas[name]) for number, name in short.items()}
    tree = qualify(query, schema=columns, dialect="spark", validate_qualify_columns=True)
    scope = build_scope(tree)
    if scope is None:
        raise ValueError("the statement is no query")
    return _Reader(exp, short).rows(scope)


class _Reader:
    """Reader of the queries in a statement.

    Args:
        exp: sqlglot's expressions.
        tables: name of a table in the tree -> name of the table.
    """

    def __init__(self, exp: Any, tables: Mapping[str, str]) -> None:  # noqa: ANN401 - as above
        self.exp, self.tables = exp, tables
        self._read: dict[int, _Columns] = {}

    def rows(self, scope: Any) -> _Columns:  # noqa: ANN401 - as above
        """Return the columns of a query with origins, and the influences on the rows."""
        if id(scope) not in self._read:
            self._read[id(scope)] = self._rows(scope)
        return self._read[id(scope)]

    def _rows(self, scope: Any) -> _Columns:  # noqa: ANN401 - as above
        tree = scope.expression
        if isinstance(tree, self.exp.SetOperation):
            (left, first), (right, second) = (self.rows(each) for each in scope.set_operation_scopes)
            named = [(name, positional([v, right[n][1]])) for n, (name, v) in enumerate(left)]
            if isinstance(tree, self.exp.Union):
                return named, first | second
            chosen = (influences_of(value, "FILTER") for _, value in (*left, *right))
            return left, (first | second).union(*chosen)
        columns = [(each.alias_or_name, self.value(each, scope)) for each in tree.selects]
        inner = [each for each in scope.sources.values() if not isinstance(each, self.exp.Table) and not each.is_udtf]
        causes = frozenset[Cause]().union(*(self.rows(each)[1] for each in inner))
        decided = [(tree.args.get(clause), effect) for clause, effect in _CLAUSES]
        decided += [(each.args.get("on"), "JOIN") for each in tree.args.get("joins") or ()]
        found = [influences_of(self.value(each, scope), effect) for each, effect in decided if each is not None]
        distinct = [influences_of(value, "GROUP_BY") for _, value in columns if tree.args.get("distinct")]
        return columns, causes.union(*found, *distinct)

    def value(self, node: Any, scope: Any) -> Value:  # noqa: ANN401 - as above
        """Return the origin of an expression's value."""
        exp = self.exp
        if isinstance(node, exp.Alias | exp.Paren):
            return self.value(node.this, scope)
        if isinstance(node, exp.Column):
            return self._column(node, scope)
        if isinstance(node, exp.Dot):
            base = self.value(node.this, scope)
            return base.field(node.name) if base.plain else opaque("a field of a computed struct is not followed")
        if isinstance(node, exp.Subquery | exp.Exists | exp.Query):
            return self._subquery(node, scope)
        direct, deciding = self._parts(node)
        kind: Transformation = "AGGREGATION" if isinstance(node, exp.AggFunc) else "TRANSFORMATION"
        values = [self.value(each, scope).changed(kind) for each in direct]
        causes = [influences_of(self.value(each, scope), effect) for each, effect in deciding]
        return combined([*values, Value(indirect=frozenset[Cause]().union(*causes))])

    def _parts(self, node: Any) -> tuple[list[Any], list[tuple[Any, Effect]]]:  # noqa: ANN401 - as above
        """List the parts of an expression that are in the value, and the parts that choose a value."""
        exp = self.exp
        if isinstance(node, exp.Window):
            order = node.args.get("order")
            deciding = [*(node.args.get("partition_by") or ()), *(order.expressions if order else ())]
            return [node.this], [(each, "WINDOW") for each in deciding]
        if isinstance(node, exp.If):
            ends = [node.args.get("true"), node.args.get("false")]
            return [each for each in ends if each is not None], [(node.this, "CONDITIONAL")]
        if isinstance(node, exp.Filter):
            return [node.this], [(node.expression, "CONDITIONAL")]
        return list(node.iter_expressions()), []

    def _column(self, node: Any, scope: Any) -> Value:  # noqa: ANN401 - as above
        holder = scope
        while node.table not in holder.sources and holder.parent is not None:  # of the query around a subquery
            holder = holder.parent
        source = holder.sources.get(node.table)
        if isinstance(source, self.exp.Table):
            if source.name not in self.tables:
                return opaque(f"the columns of {source.name} are not known")
            return Value({(self.tables[source.name], (node.name,)): "IDENTITY"}, plain=True)
        if source is None:
            return opaque(f"{node.sql()} is not resolved")
        if source.is_udtf:
            return combined(
                [
                    self.value(each, scope).changed("TRANSFORMATION")
                    for each in source.expression.find_all(self.exp.Column)
                ]
            )
        found = dict(self.rows(source)[0])
        return found.get(node.name) or opaque(f"{node.sql()} is not resolved")

    def _subquery(self, node: Any, scope: Any) -> Value:  # noqa: ANN401 - as above
        query = node.this if isinstance(node, self.exp.Subquery | self.exp.Exists) else node
        inner = next((each for each in scope.subquery_scopes if each.expression is query), None)
        if inner is None:
            return opaque("a subquery is not resolved")
        columns, causes = self.rows(inner)
        first = CONSTANT if isinstance(node, self.exp.Exists) else columns[0][1]
        return Value(first.direct, first.indirect | causes, first.unknown)
