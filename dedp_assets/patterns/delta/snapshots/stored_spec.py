"""Declaration of a stored table, read from the table's log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.schema import DECLARED, Column, TableSpec
from dedp_assets.patterns.delta.log.table_state import TableState

__all__ = ["stored_spec"]

_CONSTRAINT = "delta.constraints."
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
_NAMES = {"byte": "TINYINT", "integer": "INT", "long": "BIGINT", "short": "SMALLINT"}


class StoredSpec(TableSpec):
    """The declaration of a stored table, which never alters the table."""

    __slots__ = ()

    def table_properties(self) -> dict[str, str]:
        """List the properties that the table has."""
        return dict(self.properties)


def stored_spec(name: str, state: TableState) -> TableSpec:
    """Read the declaration of a stored table: columns, partitions, constraints and properties.

    What Delta has no place for (keys, executions, which columns are personal) stands in a property of the library's own
    (:data:`~dedp_assets.patterns.core.schema.DECLARED`), which tables of other tools do not have.

    Args:
        name: what messages and transaction ids call the table.
        state: the table.
    """
    ours: Mapping[str, Any] = json.loads(state.properties.get(DECLARED, "{}"))
    tags = ours.get("columns", {})
    rules = {key[len(_CONSTRAINT) :]: rule for key, rule in state.properties.items() if key.startswith(_CONSTRAINT)}
    return StoredSpec(
        name,
        {column: _column(field, tags.get(column, {})) for column, field in state.columns.items()},
        partition_by=state.partition_columns,
        checks=rules,
        properties={key: value for key, value in state.properties.items() if not key.startswith(_CONSTRAINT)},
        one_channel_per=ours.get("one_channel_per", ""),
        key=tuple(ours.get("key", ())),
        executed_by=ours.get("executed_by", ""),
    )


def _column(field: Mapping[str, Any], tags: Mapping[str, Any]) -> Column:
    metadata = field.get("metadata", {})
    kind = str(metadata.get(_LENGTH, "")).upper() or _type(field["type"])
    return Column(kind, str(metadata.get("comment", "")), required=not field["nullable"], **tags)


def _type(kind: Any) -> str:  # noqa: ANN401 - a type in Spark's JSON form
    """Write a type of the log as SQL."""
    if isinstance(kind, str):
        return _NAMES.get(kind, kind.upper())
    if kind["type"] == "array":
        return f"ARRAY<{_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"MAP<{_type(kind['keyType'])}, {_type(kind['valueType'])}>"
    fields = [f"{identifier(each['name'])}: {_type(each['type'])}" for each in kind["fields"]]
    return f"STRUCT<{', '.join(fields)}>"
