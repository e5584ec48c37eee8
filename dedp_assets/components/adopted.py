"""Declaration of an existing table as a file: the table from the log, and placeholders for the rest."""

from __future__ import annotations

import re
from typing import Any

import yaml

from dedp_assets.components.checking import completed, drafts_of
from dedp_assets.components.kinds import TABLE
from dedp_assets.graph.declare import Inputs, Request
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.running.digests import as_plain
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta import Adoption

__all__ = ["as_yaml", "no_inputs"]

_WIDTH = 120
_FIRST_LINE = "# yaml-language-server: $schema=../../../../.dedp/schema.json\n"
"""The schema of the project, from the folder of a table in its definitions."""
_NO_QUERY = "write the query of {name} in its steps"
"""Error of a run before somebody did: nothing replaces the rows that are there."""
_KEY = re.compile(r"[\w-]+")


def no_inputs(request: Request) -> Inputs:  # noqa: ARG001 - of every function that finds inputs
    """Find no inputs, for an adopted table that no upstream table is declared for yet."""
    return Inputs({})


def as_yaml(adoption: Adoption, *, ascii_only: bool = False) -> str:
    """Write a declaration as a document, whose query is a placeholder that fails.

    Args:
        adoption: the table.
        ascii_only: whether other letters are written as escapes.

    Raises:
        ConfigError: if no document can state the table, as with a name that is no asset key.
    """
    stated = {"type": TABLE, "attributes": _attributes(adoption)}
    text: str = yaml.dump(stated, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=not ascii_only)
    drafts, faults = drafts_of(text, adoption.spec.name)
    for each in drafts:
        faults += completed(each, {})[2]
    if faults:
        raise ConfigError(f"{adoption.spec.name} cannot be declared in a file as it is: {faults[0].message}")
    return _FIRST_LINE + text


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes lists of plain values and small mappings in a line, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - as PyYAML's
        """Return whether equal parts are written in full."""
        return True

    def represent_scalar(self, tag: Any, value: Any, style: Any = None) -> Any:  # noqa: ANN401
        """Represent a plain value; of a text with control characters, these are escapes."""
        return super().represent_scalar(tag, value, style=style if str(value).isprintable() else '"')

    def represent_sequence(self, tag: Any, sequence: Any, flow_style: Any = None) -> Any:  # noqa: ANN401
        """Represent a list, in a line if all elements are plain values."""
        plain = not any(isinstance(each, (dict, list)) for each in sequence)
        return super().represent_sequence(tag, sequence, flow_style=plain if flow_style is None else flow_style)

    def represent_mapping(self, tag: Any, mapping: Any, flow_style: Any = None) -> Any:  # noqa: ANN401, ARG002
        """Represent a mapping; that of a column in one line."""
        column = "type" in mapping and "attributes" not in mapping
        return super().represent_mapping(tag, mapping, flow_style=column or not mapping)


def _attributes(adoption: Adoption) -> dict[str, Any]:
    writer = "idempotency.data_overwrite" if adoption.spec.partition_by else "ingestion.full_loader"
    return {
        "table": as_plain(adoption.spec),
        "reads": {"inputs": f"{__name__}:{no_inputs.__name__}"},
        "runs": {**_partitions(adoption), "when": {"on_request": {}}},
        "about": {"owner": "team:data"},
        "code_version": "1",
        "steps": [{"sql": _query(adoption)}, {writer: {}}],
    }


def _query(adoption: Adoption) -> str:
    """Write a query with the columns of the table that fails until somebody replaces the query."""
    error = _NO_QUERY.format(name=adoption.spec.name)
    columns = ", ".join(f"NULL AS {identifier(column)}" for column in adoption.spec.columns)
    query = f"SELECT {columns} WHERE raise_error({quoted(error)})"
    return query.replace("{", "{{").replace("}", "}}")  # a name in braces is an input


def _partitions(adoption: Adoption) -> dict[str, Any]:
    """Return the partitions: days for a first column of dates, or else the newest key alone."""
    spec = adoption.spec
    if not spec.partition_by:
        return {}
    column = spec.partition_by[0]
    if spec.columns[column].type.upper() == "DATE":
        return {"partitions": {"daily": {}}}
    newest = str(adoption.newest.get(column, ""))
    return {"partitions": {"static": {"keys": [newest if _KEY.fullmatch(newest) else "a_key"]}}}
