"""Wrapper: an envelope holds the untouched record and computed columns, marked as computed.

Problem: providers deliver the same events in different shapes. Consumers need common columns, and whoever looks for a
    fault, or computes again with a better parser, needs the record as it came.
Solution: put an envelope around each record: its columns as they are, and computed ones that are marked. Where shapes
    differ, each has an expression of its own for a column. Four layouts, each of which converts into the others.
Consequences: an attribute is there twice, so the envelope stays in silver; a query that reads computed columns does not
    read the record's. An expression has to be error-safe (``try_variant_get``): a record that it cannot read keeps its
    row, with NULL.
Choose instead: Metadata Decorator, if what is added is about the processing and for nobody else to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import fields_of, require_columns, require_free, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.sql.sql_options import naming_options
from dedp_assets.patterns.core.types.meeting import equal
from dedp_assets.patterns.value._envelopes import COMPUTED, MARK, RAW, Layout, laid_out, parts_of

__all__ = ["wrap_records", "change_layout", "separate", "Layout", "Separated", "RAW", "COMPUTED", "MARK"]

_RECORD, _OTHER = f"{RESERVED}record", f"{RESERVED}other"


@dataclass(frozen=True, slots=True)
class Separated:
    """An envelope as two tables that a unique key joins.

    Attributes:
        raw: the records, with the columns they have.
        computed: the key and the computed columns.
        key: columns of the record that tell the records apart; NULL is a value.
    """

    raw: DataFrame
    computed: DataFrame
    key: tuple[str, ...]

    def joined(self, *, layout: Layout = "computed_flat") -> DataFrame:
        """Join the two tables into an envelope again; lazy.

        A record without computed columns has NULL in place of the values.
        """
        record, other = self.raw.alias(_RECORD), self.computed.alias(_OTHER)
        sides = ("the records", "the computed columns")
        pairs = zip(fields_of(self.raw, self.key), fields_of(self.computed, self.key), strict=True)
        same = []
        for one, two in pairs:
            key = identifier(one.name)
            same.append(equal(one, two, (f"{_RECORD}.{key}", f"{_OTHER}.{key}"), sides=sides, null=True))
        names = [name for name in self.computed.columns if name not in self.key]
        raw = F.struct(*[_of(_RECORD, name) for name in self.raw.columns])
        computed = F.struct(*[_of(_OTHER, name) for name in names])
        both = record.join(other, F.expr(" AND ".join(same)), "left").select(raw.alias(RAW), computed.alias(COMPUTED))
        return laid_out(both, self.raw.columns, names, layout)


@typed
def wrap_records(
    rows: DataFrame,
    *,
    computed: Mapping[str, str | Mapping[str, str]],
    by: str = "",
    layout: Layout = "computed_flat",
) -> DataFrame:
    """Wrap each record in an envelope with computed columns; lazy, one output row per record.

    Args:
        rows: the records; every column of theirs is kept as it is.
        computed: column -> SQL expression over the record's columns; or the expression for each shape, by its name:
            a record of no such shape has NULL there.
        by: column of the record that names its shape, where shapes differ.
        layout: how the envelope lies in the table.

    Returns:
        The envelope. Its names fit every layout, so that each converts into the others.

    Raises:
        ConfigError: without a computed column, for an expression that Spark cannot evaluate, for a name that would mean
            two things in one of the layouts, or if expressions are given by shape and no column says which.

    Example:
        >>> lines = frame("line STRING, site STRING", ('{"user": "u1"}', "a"), ('{"u_id": 7}', "b"), ("{", "a"))
        >>> field = "try_variant_get(try_parse_json(line), '$.{}', 'string')".format
        >>> users = {"a": field("user"), "b": field("u_id")}
        >>> wrap_records(lines, computed={"user_id": users}, by="site").select("user_id", "raw.line").show()
        +-------+--------------+
        |user_id|          line|
        +-------+--------------+
        |     u1|{"user": "u1"}|
        |      7|   {"u_id": 7}|
        |   NULL|             {|
        +-------+--------------+
        <BLANKLINE>
    """
    require_columns(rows, [by])
    require_free(rows, COMPUTED)
    _require_clear(rows.columns, list(computed))
    expressions = {name: _expression(name, sql, by) for name, sql in computed.items()}
    record = F.struct(*map(identifier, rows.columns)).alias(RAW)
    with naming_options(rows, "computed column", {name: f"struct({sql})" for name, sql in expressions.items()}):
        made = [F.expr(sql).alias(name) for name, sql in expressions.items()]
        # Inside of a struct no expression can give more rows than it was given.
        both = rows.select(record, F.struct(*made).alias(COMPUTED))
    return laid_out(both, rows.columns, list(computed), layout)


@typed
def change_layout(wrapped: DataFrame, *, layout: Layout, to: Layout) -> DataFrame:
    """Give an envelope another layout, with the same values and the same order of columns; lazy.

    Args:
        wrapped: the envelope.
        layout: the layout that it has.
        to: the layout that it gets.

    Raises:
        SchemaMismatch: if these are no columns of that layout.
    """
    raw, computed = parts_of(wrapped, layout)
    both = wrapped.select(F.struct(*raw.values()).alias(RAW), F.struct(*computed.values()).alias(COMPUTED))
    return laid_out(both, list(raw), list(computed), to)


@typed
def separate(wrapped: DataFrame, *, key: Sequence[str], layout: Layout = "computed_flat") -> Separated:
    """Divide an envelope into a table of records and a table of computed columns; lazy.

    Args:
        wrapped: the envelope.
        key: columns of the record that are unique together: whoever writes the tables lets an audit hold that.
        layout: the layout that it has.

    Raises:
        ConfigError: without a key, if it is none of the record's columns, or a computed column has its name.
        SchemaMismatch: if these are no columns of that layout.
    """
    raw, computed = parts_of(wrapped, layout)
    require_distinct("key=", key)
    key = spelled_as(raw, key)
    if not key or (missing := [name for name in key if name not in raw]):
        raise ConfigError(f"name columns of the record as key, not {missing if key else 'none'}: it has {list(raw)}")
    if met := _met(key, computed):
        raise ConfigError(f"{', '.join(met)} is a key and a computed column: give the computed one another name")
    columns = [*(raw[name] for name in key), *computed.values()]
    return Separated(wrapped.select(*raw.values()), wrapped.select(*columns), tuple(key))


def _of(side: str, name: str) -> Column:
    return F.col(f"{side}.{identifier(name)}")


def _expression(name: str, sql: str | Mapping[str, str], by: str) -> str:
    """Return the SQL expression of a computed column, by record shape where shapes differ."""
    if isinstance(sql, str):
        return sql
    if not by or not sql:
        raise ConfigError(f"{name} has an expression for each shape: name the column that says which (by=)")
    cases = " ".join(f"WHEN {quoted(shape)} THEN {each}" for shape, each in sql.items())
    return f"CASE {identifier(by)} {cases} END"


def _require_clear(raw: Sequence[str], computed: Sequence[str]) -> None:
    """Refuse column names that would be ambiguous in a layout."""
    marked = [name for name in raw if name.lower().startswith(MARK)]
    same = [name for names in (raw, computed) for name in names if [n.lower() for n in names].count(name.lower()) > 1]
    if wrong := [*marked, *_met(computed, [RAW]), *same]:
        raise ConfigError(
            f"{', '.join(wrong)} would mean two things in one of the layouts: no column of the record begins with "
            f"{MARK}, no computed one is called {RAW}, and none is there twice"
        )
    if not computed:
        raise ConfigError("computed must name the columns to compute: without any there is nothing to wrap")


def _met(names: Iterable[str], others: Iterable[str]) -> list[str]:
    taken = {name.lower() for name in others}
    return [name for name in names if name.lower() in taken]
