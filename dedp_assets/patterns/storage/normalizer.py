"""Normalizer: flat rows become rows with references, and one table per entity.

Problem: each visit repeats the name of its device. The text is stored a million times, and a correction that misses
    one visit leaves two names for one device.
Solution: the columns of an entity are stored once, under a reference that is the hash of its key: it is the same in
    every run, backfill and concurrent run. Entities nest (third normal form, snowflake schema).
Consequences: a question joins as many tables as it has entities; small ones are broadcast. A key with two values is
    refused by whoever writes the entity's table by its key.
Choose instead: Denormalizer, if most questions need the joins and attributes rarely change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import IDENTICAL, require_columns, require_free, require_rows, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import key_of
from dedp_assets.patterns.core.names import RESERVED, identifier, select_list
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.storage._entities import Entity, join_entities, nesting, reference

__all__ = ["normalize", "judge_dependencies", "join_entities", "Entity"]

_ENTITY, _KEYS, _EXAMPLE, _LEAST, _MOST = (
    f"{RESERVED}{name}" for name in ("entity", "keys", "example", "least", "most")
)


@typed
def normalize(rows: DataFrame, *, entities: Mapping[str, Entity], of: str = "") -> DataFrame:
    """Return the rows with references in place of the entities' columns, or the rows of one entity; lazy.

    Args:
        rows: flat rows.
        entities: name -> its columns. An entity whose columns are among another's is nested in it: the outer entity's
            rows hold its reference.
        of: the entity whose rows to return; empty for the rows with references.

    Returns:
        The rows, each as often as before, or the distinct rows of an entity. ``<name>_id`` is the reference to an
        entity, the :func:`~dedp_assets.patterns.core.keys.key_of` its key columns; NULL where all of the entity's
        columns are NULL. In all other rows NULL is a value of its own.

    Raises:
        ConfigError: for columns that are not there, or cannot be compared byte by byte, for a key of a type without one
            text for each value, and for entities that share some of their columns.

    Example:
        >>> seen = [("/1", "mobile", "Pixel"), ("/2", "mobile", "Pixel"), ("/3", None, None)]
        >>> visits = frame("page STRING, kind STRING, model STRING", *seen)
        >>> entities = {"device": Entity(keys=["kind", "model"])}
        >>> devices = normalize(visits, entities=entities, of="device")
        >>> rows(devices.select("kind", "model"))
        [('mobile', 'Pixel')]
        >>> rows(join_entities(normalize(visits, entities=entities), {"device": devices}, entities=entities))
        [('/1', 'mobile', 'Pixel'), ('/2', 'mobile', 'Pixel'), ('/3', None, None)]
    """
    outer = _nesting_in(rows, entities)
    if of and of not in entities:
        raise ConfigError(f"of must be one of {', '.join(entities)}, not {of}")
    require_free(rows, *map(reference, entities))
    inner = [name for name, holder in outer.items() if holder == of]
    place = {column.lower(): name for name in inner for column in entities[name].all}
    listed = {reference(of): _reference_to(rows, entities[of])} if of else {}
    for column in spelled_as(rows.columns, entities[of].all) if of else rows.columns:
        name = place.get(column.lower())
        if name is None:
            listed[column] = identifier(column)
        elif reference(name) not in listed:
            listed[reference(name)] = _reference_to(rows, entities[name])
    found = rows.selectExpr(*select_list(listed))
    return found.filter(f"{identifier(reference(of))} IS NOT NULL").distinct() if of else found


@typed
def judge_dependencies(
    rows: DataFrame, *, entities: Mapping[str, Entity], name: str = "attributes_follow_from_their_key"
) -> Finding:
    """Judge whether each key of an entity has one value in each of the entity's columns; one job.

    Args:
        rows: flat rows, or the rows of entities, whose key is their reference then.
        entities: name -> its columns. Rows in which all of them are NULL refer to nothing, and are not judged.
        name: of the finding.

    Returns:
        The finding, with the number of keys that have several values, by entity, and an example of each.

    Raises:
        ConfigError: as :func:`normalize`.
    """
    _nesting_in(rows, entities)
    faults = [_ambiguous(rows, name, entity) for name, entity in entities.items() if entity.columns]
    if not faults:
        return Finding(name, passed=True, note="no entity has columns beside its key")
    figures = dict.fromkeys(entities, 0)
    notes = []
    for entity, keys, example in sorted(map(tuple, reduce(DataFrame.unionAll, faults).collect())):
        figures[entity] = keys
        notes += [f"{keys} keys of {entity} have several values, e.g. {example}"] if keys else []
    return Finding(name, passed=not notes, figures=figures, note="; ".join(notes))


def _nesting_in(rows: DataFrame, entities: Mapping[str, Entity]) -> dict[str, str]:
    outer, named = nesting(entities), [column for entity in entities.values() for column in entity.all]
    require_columns(require_free(require_rows("a data model", rows)), named, IDENTICAL)
    return outer


def _reference_to(rows: DataFrame, entity: Entity) -> str:
    return f"if({_nothing(entity.all)}, NULL, {key_of(rows, [*map(identifier, entity.keys)])})"


def _nothing(columns: Iterable[str]) -> str:
    return " AND ".join(f"{identifier(column)} IS NULL" for column in columns)


def _ambiguous(rows: DataFrame, name: str, entity: Entity) -> DataFrame:
    """Count the keys with several values, in one row with the least key as an example."""
    values = F.struct(*map(identifier, entity.columns))
    keys = [*map(identifier, entity.keys)]
    by_key = rows.filter(f"NOT ({_nothing(entity.all)})").groupBy(*keys)
    several = by_key.agg(F.min(values).alias(_LEAST), F.max(values).alias(_MOST)).filter(f"{_LEAST} <> {_MOST}")
    example = F.min(F.to_json(F.struct(*keys), {"ignoreNullFields": "false"}))
    return several.agg(F.lit(name).alias(_ENTITY), F.count("*").alias(_KEYS), example.alias(_EXAMPLE))
