"""Tables: readability of rows by queries of another schema, and changes of a stored table.

Backward, the new columns are read from files of old rows, where an added column is NULL or its default. Forward, an old
query reads a table with the new columns: a column that it names must still be there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.core.types.meeting import fits
from dedp_assets.patterns.core.types.nesting import Kind, outer
from dedp_assets.patterns.core.types.schema_changes import SchemaChange, data_type
from dedp_assets.patterns.core.types.widening import is_widening
from dedp_assets.patterns.quality._compatibility.incompatibility import Problem

__all__ = ["Fields", "backward", "forward", "in_place", "of_rows", "read"]

_Broken: TypeAlias = tuple[str, str] | None
_Rules: TypeAlias = Mapping[str, Callable[[SchemaChange], _Broken]]
Fields: TypeAlias = Sequence[Mapping[str, Any]]
_TEXT = re.compile(r"(?:var)?char\(\d+\)|string")
_STEPS = (
    "rename or drop in steps: declare the new column beside it, fill both for a grace period, and remove it by the "
    "Schema Migrator once lineage shows no reader"
)


def read(text: str) -> Fields:
    """Read the schema of a Spark table in JSON.

    Raises:
        ValueError: for a text that is none.
    """
    stated = parse_json(text)
    fields = stated.get("fields") if isinstance(stated, dict) and stated.get("type") == "struct" else None
    if not isinstance(fields, list):
        raise ValueError(f"it must be a struct with fields, not {text[:60]}")  # noqa: TRY004 - a text
    for each in fields:
        if not isinstance(each, dict) or not {"name", "type", "nullable"} <= each.keys():
            raise ValueError(f"a field must have name, type and nullable, not {each!r}")
    return fields


def backward(changes: Sequence[SchemaChange]) -> list[Problem]:
    """List the obstacles to reading earlier rows by later columns."""
    return [*_by_rule(changes, _BACKWARD), *_renames(changes)]


def forward(changes: Sequence[SchemaChange]) -> list[Problem]:
    """List the obstacles to queries over earlier columns in a table with later columns."""
    return list(_by_rule(changes, _FORWARD))


def of_rows(changes: Iterable[SchemaChange]) -> Iterator[SchemaChange]:
    """List the changes that rows ask of a table, without differences that a write casts."""
    for change in changes:
        if change.kind == "added":
            yield replace(change, required=False)
        elif change.kind == "removed" or (change.kind == "retyped" and not _fits(change.after, change.before)):
            yield change


def in_place(changes: Sequence[SchemaChange], *, widens: bool, additions: bool, fixed: Sequence[str]) -> list[Problem]:
    """List the changes that a stored table cannot make, or may not.

    Args:
        changes: differences between the stored and the wanted columns.
        widens: whether the table has ``delta.enableTypeWidening``.
        additions: whether columns may be added.
        fixed: partition columns, which keep their type.
    """
    rules: _Rules = {
        "added": _not_addable if additions else _unknown,
        "removed": lambda _: ("column_removed", f"a stored column is neither dropped nor renamed; {_STEPS}"),
        "retyped": partial(_not_widened, widens=widens, fixed=fixed),
        "null_forbidden": lambda _: ("null_forbidden", "stored rows may have NULL there: write a new table"),
    }
    return list(_by_rule(changes, rules))


def _renamed(changes: Sequence[SchemaChange]) -> dict[str, str]:
    """Map removed fields to fields added in the same place with the same type: likely the new names."""
    added = [change for change in changes if change.kind == "added" and not change.has_default]
    pairs = dict[str, str]()
    for gone in (change for change in changes if change.kind == "removed"):
        alike = [c.name for c in added if c.path[:-1] == gone.path[:-1] and c.after == gone.before]
        pairs |= {gone.name: alike[0]} if len(alike) == 1 else {}
    return pairs


def _by_rule(changes: Sequence[SchemaChange], rules: _Rules) -> Iterator[Problem]:
    for change in changes:
        broken = rules[change.kind](change) if change.kind in rules else None
        if broken:
            yield Problem(change.name, *broken)


def _renames(changes: Sequence[SchemaChange]) -> Iterator[Problem]:
    for old, new in _renamed(changes).items():
        message = f"looks like {old} under another name, and old rows would have NULL there: {_STEPS}"
        yield Problem(new, "column_renamed", message)


def _fits(given: Kind, held: Kind) -> bool:
    are_texts = all(isinstance(kind, str) and _TEXT.fullmatch(kind) for kind in (given, held))
    return are_texts or fits(data_type(given), data_type(held))


def _unknown(_: SchemaChange) -> _Broken:
    return "column_unknown", "the table has no such column; new_columns=True allows one that may be NULL"


def _not_addable(change: SchemaChange) -> _Broken:
    message = "stored rows have no value for it: add it as one that may be NULL"
    return ("required_column_added", message) if change.required else None


def _not_widened(change: SchemaChange, *, widens: bool, fixed: Sequence[str]) -> _Broken:
    possible = is_widening(change.before, change.after, "delta") and change.path[0] not in fixed
    if possible and widens:
        return None
    message = f"{outer(change.before)} cannot become {outer(change.after)} in the stored table"
    return "type_changed", f"{message} without the property delta.enableTypeWidening=true" if possible else message


def _unfilled(change: SchemaChange) -> _Broken:
    if not change.required or change.has_default:
        return None
    return "column_without_default", "it is required, and old rows have neither a value nor a default for it"


def _unread(change: SchemaChange, *, back: bool) -> _Broken:
    given, asked = (change.before, change.after) if back else (change.after, change.before)
    message = f"values of {outer(given)} cannot all be read as {outer(asked)}"
    return None if is_widening(given, asked, "files") else ("type_changed", message)


_BACKWARD: _Rules = {
    "added": _unfilled,
    "retyped": partial(_unread, back=True),
    "null_forbidden": lambda _: ("null_forbidden", "old rows may have NULL there, new readers expect none"),
}
_FORWARD: _Rules = {
    "removed": lambda _: ("column_removed", "old queries that name it no longer run"),
    "retyped": partial(_unread, back=False),
    "null_allowed": lambda _: ("null_allowed", "new rows may have NULL there, old readers expect none"),
}
