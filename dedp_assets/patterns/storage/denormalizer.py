"""Denormalizer: joins are paid once, at the write, and questions scan a single table.

Problem: most questions join the same eight tables, and each of them shuffles the facts again.
Solution: ``join_entities`` of the Normalizer makes rows that hold all attributes (one big table), or dimensions without
    a level below them (star schema); children become an array in their parent. A question is one scan then.
Consequences: a changed attribute rewrites the files that hold it, in one commit. Repeated texts cost little: Parquet
    stores them once per row group. A table that holds everything is about nothing, so its breadth is judged.
Choose instead: Normalizer, if attributes change often, or their value must be stored once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, fields_of, require_columns, require_free, require_rows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.rows import quoted, same
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Merge, Target, Update
from dedp_assets.patterns.storage._entities import Entity, nesting, reference

__all__ = ["nest_children", "spread_entity", "judge_breadth", "Entity"]

MOST_CONJUNCTIONS = 1
"""Greatest number of conjunctions in the name of a table that is about one thing."""
_CONJUNCTIONS = {"and", "or", "plus", "with"}
_WORD = re.compile(r"[A-Z]*[a-z]+|[A-Z]+")
_CHILDREN = f"{RESERVED}children"


@typed
def nest_children(
    parents: DataFrame, children: DataFrame, *, keys: Sequence[str], column: str, order_by: Sequence[str] = ()
) -> DataFrame:
    """Add the array of children to each parent; lazy.

    Args:
        parents: each comes out once; one without children, or with NULL in a key, has an empty array.
        children: rows with the keys of their parent; those without a parent are not in the result.
        keys: columns of both sides that say whose children they are.
        column: the column to add, an ``ARRAY<STRUCT>`` of the children's columns apart from the keys.
        order_by: columns of the children that order an array, first in its structs; then all others do.

    Raises:
        ConfigError: for columns that are not there, that cannot be ordered, or are there already.

    Example:
        >>> visits = frame("visit INT", (1,), (2,))
        >>> views = frame("visit INT, page STRING", (1, "/b"), (1, "/a"))
        >>> rows(nest_children(visits, views, keys=["visit"], column="views").selectExpr("visit", "views.page"))
        [(1, ['/a', '/b']), (2, [])]
    """
    require_distinct("keys=", keys)
    if not keys:
        raise ConfigError("keys must name the columns of both sides that meet, not none")
    require_free(require_rows("nesting", parents), column)
    require_free(require_rows("nesting", children))
    require_columns(parents, keys, COMPARED)
    require_columns(children, [*keys, *order_by], COMPARED)
    require_distinct("order_by=", order_by)
    aside = {name.lower() for name in (*keys, *order_by)}
    nested = [*order_by, *(name for name in children.columns if name.lower() not in aside)]
    require_columns(children, nested, COMPARED)
    if not nested:
        raise ConfigError(f"children must hold columns beside their keys, not {', '.join(children.columns)} alone")
    each = F.struct(*[F.col(identifier(name)) for name in nested])
    grouped = children.groupBy(*map(identifier, keys)).agg(F.array_sort(F.collect_list(each)).alias(_CHILDREN))
    meet = " AND ".join(f"p.{identifier(key)} = c.{identifier(key)}" for key in keys)
    joined = parents.alias("p").join(grouped.alias("c"), F.expr(meet), "left")
    array = F.coalesce(F.col(f"c.{_CHILDREN}"), F.expr("array()")).alias(column)
    return joined.select("p.*", array)


@typed
def spread_entity(changed: DataFrame, into: Target, *, entity: str, unknown: str = "") -> WriteResult:
    """Update an entity's attributes in all referring rows, in one commit.

    Files without such a row stay as they are, and so do rows that have the values already. A row that came before its
    entity gets its attributes now.

    Args:
        changed: the entity's rows that are new or changed, one for each reference, with the columns to update. A
            reference that no row has changes nothing.
        into: target of the write: a table of wide rows that holds the reference (``keep_references``) and declares no
            key. If it names a partition, only the rows of it are updated.
        entity: name of the entity; ``<entity>_id`` is the reference.
        unknown: column of the table that lists the entities of a row that were missing; the entity is taken out.

    Raises:
        AmbiguousKeys: if a reference comes twice.
        AuditFailed: if a rule refuses the updated rows.
        ConfigError: for a column that the table does not have.
        Conflict: if other writers change the same rows and do not yield.

    Example:
        >>> columns = "page STRING, device_id STRING, model STRING"
        >>> wide = table("wide", columns, ("/1", "a", "Pixl"), ("/2", "a", "Pixl"), ("/3", "b", "TV"))
        >>> corrected = frame("device_id STRING, model STRING", ("a", "Pixel"))
        >>> spread_entity(corrected, wide.target(run), entity="device").figures["updated"]
        2
        >>> rows(wide.read().select("page", "model"))
        [('/1', 'Pixel'), ('/2', 'Pixel'), ('/3', 'TV')]
    """
    into = into.by("storage.denormalizer", "partition", "audits")
    table, refers = into.table, reference(entity)
    require_columns(require_free(require_rows(table.name, changed)), [refers], COMPARED)
    attributes = [column for column in changed.columns if column.lower() != refers.lower()]
    held = {column.lower() for column in table.spec.columns}
    if missing := [c for c in (refers, *attributes, *([unknown] if unknown else [])) if c.lower() not in held]:
        raise ConfigError(f"{table.name} must hold {', '.join(missing)}, not only {', '.join(table.spec.columns)}")
    if not attributes:
        raise ConfigError(f"changed must hold columns to update beside {refers}, not {refers} alone")
    values = {column: f"s.{identifier(column)}" for column in attributes}
    fields = fields_of(changed, attributes)
    differs = [f"NOT ({same(f, f't.{identifier(f.name)}', f's.{identifier(f.name)}')})" for f in fields]
    if unknown:
        values[unknown] = f"array_remove(t.{identifier(unknown)}, {quoted(entity)})"
        differs.append(f"array_contains(t.{identifier(unknown)}, {quoted(entity)})")
    merge = Merge([refers], [Update(values, when=" OR ".join(differs))])
    return table.merge(changed, merge, provenance=into.run, partition=into.partition, audits=into.audits)


@typed
def judge_breadth(table: TableSpec, *, entities: Mapping[str, Entity], most: int = 8) -> Finding:
    """Judge the breadth of a table by name and number of entities; reads no row.

    Args:
        table: the declaration of the table.
        entities: the entities of the model; one counts if the table holds a column of it.
        most: the greatest number of entities.

    Returns:
        A warning if the name has two conjunctions or more (``users_and_orders_and_visits``), or there are columns of
        too many entities.
    """
    _ = nesting(entities)
    words = [word.lower() for word in _WORD.findall(table.name)]
    conjunctions = sum(word in _CONJUNCTIONS for word in words)
    held = {column.lower() for column in table.columns}
    named = [name for name, entity in entities.items() if held & {column.lower() for column in entity.all}]
    notes = [f"{table.name} joins several things by {conjunctions} conjunctions"] * (conjunctions > MOST_CONJUNCTIONS)
    if len(named) > most:
        notes.append(f"{table.name} has columns of {', '.join(named)}, more than {most} entities")
    figures = {"conjunctions": conjunctions, "entities": len(named)}
    note = f"{'; '.join(notes)}: split it along the domains that change and are read together" if notes else ""
    return Finding("table_is_about_one_thing", not notes, "warn", figures, note)
