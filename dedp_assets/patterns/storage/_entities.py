"""Entities of a data model: nesting by columns, references by key, join of rows and entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import require_columns, require_free, require_named, require_rows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import identifier, reserved, select_list
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.types.partitions import quoted

__all__ = ["Entity", "join_entities", "nesting", "reference"]


@dataclass(frozen=True, slots=True)
class Entity:
    """Columns of flat rows that describe one thing, to be stored in one table.

    Attributes:
        keys: columns that identify the thing: texts, whole numbers, dates, times.
        columns: further columns, whose values follow from the keys.
    """

    keys: Sequence[str]
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_types(self)
        require_named("Entity.keys", self.keys or [""])
        require_named("Entity.columns", self.columns)
        require_distinct("an entity", self.all)

    @property
    def all(self) -> tuple[str, ...]:
        """Key columns, then the further columns."""
        return (*self.keys, *self.columns)


def reference(name: str) -> str:
    """Return the name of the column that refers to an entity."""
    return f"{name}_id"


def nesting(entities: Mapping[str, Entity]) -> dict[str, str]:
    """Map each entity to the holder of the reference, outer entities first.

    The holder is an entity, or ``""`` for the rows. An entity whose columns are among another's is
    nested in the smallest such one.

    Raises:
        ConfigError: if there are no entities, a name of one is taken, or two share some of their columns.
    """
    if not entities:
        raise ConfigError("entities must name an entity, not none")
    require_named("entities", entities)
    require_distinct("entities=", entities)
    if taken := reserved(map(reference, entities)):
        raise ConfigError(f"entities must have names of their own, not {taken}")
    columns = {name: {column.lower() for column in entity.all} for name, entity in entities.items()}
    found: dict[str, str] = {}
    for name in sorted(entities, key=lambda each: -len(columns[each])):
        for other in found:
            shared = columns[name] & columns[other]
            if shared and not columns[name] < columns[other]:
                raise ConfigError(
                    f"entities must be apart, or one within the other: not {other} and {name}, which share "
                    f"{', '.join(sorted(shared))}"
                )
        outer = [other for other in found if columns[name] < columns[other]]
        found[name] = outer[-1] if outer else ""
    return found


@typed
def join_entities(
    rows: DataFrame,
    parts: Mapping[str, DataFrame],
    *,
    entities: Mapping[str, Entity],
    broadcast: Sequence[str] = (),
    unknown: str = "",
    keep_references: bool = False,
) -> DataFrame:
    """Replace the references of rows by the columns of the entities, with every row kept; lazy.

    An entity is joined to the rows that hold its reference: with the nested entities alone, the rows of an outer entity
    become a dimension of a star schema.

    Args:
        rows: rows with references, or the rows of an entity.
        parts: the rows of each entity, by its name, with one row for each reference: a table that declares the
            reference as its key.
        entities: the entities, as they were taken out.
        broadcast: entities that each task gets as a whole. Of the others Spark broadcasts those that it estimates to be
            small (``spark.sql.autoBroadcastJoinThreshold``).
        unknown: column to add, an ``ARRAY<STRING>`` of the entities whose row is missing, and whose columns are NULL
            therefore: it tells such a row from one that refers to nothing.
        keep_references: whether the references stay beside the columns, so that a changed row of an entity finds its
            rows.

    Returns:
        The columns of ``rows``, with the columns of an entity in the place of its reference.

    Raises:
        ConfigError: for a part or a column that is not there, or is there already.

    Example:
        >>> devices = frame("device_id STRING, model STRING", ("a", "Pixel"))
        >>> visits = frame("page STRING, device_id STRING", ("/1", "a"), ("/2", "b"), ("/3", None))
        >>> entities = {"device": Entity(keys=["model"])}
        >>> rows(join_entities(visits, {"device": devices}, entities=entities, unknown="unknown"))
        [('/1', 'Pixel', []), ('/2', None, ['device']), ('/3', None, [])]
    """
    require_rows("a join of entities", rows)
    outer = nesting(entities)
    if missing := [name for name in entities if name not in parts]:
        raise ConfigError(f"parts must hold {', '.join(missing)}, not only {', '.join(parts) or 'none'}")
    if others := [name for name in broadcast if name not in entities]:
        raise ConfigError(f"broadcast must name some of {', '.join(entities)}, not {', '.join(others)}")
    joined = require_free(rows, unknown) if unknown else rows
    joined = joined.withColumn(unknown, F.expr("CAST(array() AS ARRAY<STRING>)")) if unknown else joined
    for name in outer:
        joined = _joined(joined, name, parts[name], unknown, whole=name in broadcast, keep=keep_references)
    return joined


def _joined(rows: DataFrame, name: str, part: DataFrame, unknown: str, *, whole: bool, keep: bool) -> DataFrame:
    refers = reference(name)
    require_columns(rows, [refers])
    require_columns(part, [refers])
    added = [column for column in part.columns if column.lower() != refers.lower()]
    require_free(rows, *added)
    mine, theirs = f"f.{identifier(refers)}", f"r.{identifier(refers)}"
    listed: dict[str, str] = {}
    for column in rows.columns:
        listed[column] = f"f.{identifier(column)}"
        if column.lower() == refers.lower():
            listed |= {each: f"r.{identifier(each)}" for each in added}
            if not keep:
                del listed[column]
    if unknown:
        orphan = f"{mine} IS NOT NULL AND {theirs} IS NULL"
        listed[unknown] = f"if({orphan}, array_append(f.{identifier(unknown)}, {quoted(name)}), {listed[unknown]})"
    known = (part.hint("broadcast") if whole else part).alias("r")
    return rows.alias("f").join(known, F.expr(f"{mine} = {theirs}"), "left").selectExpr(*select_list(listed))
