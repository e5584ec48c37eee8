"""Partition values of log entries: column names, types and spelling."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.types.partitions import logged, text

__all__ = [
    "Partition",
    "JSON",
    "Naming",
    "declared_in",
    "named_all",
    "naming_of_schema",
    "partition_name",
    "spelled_value",
]

Partition = tuple[tuple[str, str | None], ...]
"""Partition values spelled as in the log, ordered by column name: ``(("day", None), ("landed_on", "2026-01-05"))``."""

Naming = Mapping[str, tuple[str, str]]
"""Partition column as the files' log entries call it -> its name in the schema and its type."""

JSON = json.JSONDecoder()


def partition_name(key: Partition) -> str:
    """Return a partition's name in plans: ``event_date=2026-01-05``, or ``all`` for a whole table.

    A missing value reads NULL.
    """
    return slice_name(dict(key))


def spelled_value(value: object, kind: str) -> str | None:
    """Spell a partition value as the log does."""
    try:
        return None if value == "" else text(value, kind)
    except ValueError:
        # A table that the library would not declare: its values still tell its partitions apart.
        return str(value)


def _named(values: Mapping[str, str | None], naming: Naming) -> Partition:
    """Read the partition values of a log entry, by the names and in the spelling that every entry shares.

    Spark leaves NULL out of what it took from the table's state, as a RESTORE does.
    """
    known = naming if naming.keys() == values.keys() else {**{c: (c, "string") for c in values}, **naming}
    if len(known) == 1:
        ((column, (name, kind)),) = known.items()
        return ((name, logged(values.get(column), kind)),)
    return tuple(sorted([(name, logged(values.get(column), kind)) for column, (name, kind) in known.items()]))


def declared_in(raw: bytes, before: Naming) -> Naming:
    """Read the naming of partition columns from a commit's metadata action; ``before`` if absent."""
    declared = [meta for line in raw.splitlines() if line and (meta := json.loads(line).get("metaData"))]
    return naming_of_schema(declared[-1]["schemaString"], declared[-1]["partitionColumns"]) if declared else before


def naming_of_schema(schema: str, partition_by: Sequence[str]) -> Naming:
    """Map names of partition columns in log entries to names and types in the schema."""
    fields = {field["name"]: field for field in json.loads(schema)["fields"]}
    return {
        fields[c].get("metadata", {}).get("delta.columnMapping.physicalName", c): (c, str(fields[c]["type"]))
        for c in partition_by
    }


def named_all(changed: AbstractSet[Partition | None], naming: Callable[[], Naming]) -> frozenset[Partition]:
    """Convert the partition values of log entries to partitions."""
    known = naming() if changed - {None} else {}
    return frozenset([_named(dict(values), known) for values in changed if values is not None])
