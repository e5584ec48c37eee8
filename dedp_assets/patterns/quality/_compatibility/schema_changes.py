"""Schema and properties of a table before, in, and after a migration, in the form of the log."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dedp_assets.patterns.core.column import STORED
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.schema import DECLARED, DROPPED, without_comments
from dedp_assets.patterns.core.types.ddl import LENGTH, field
from dedp_assets.patterns.core.types.nesting import inside, outer
from dedp_assets.patterns.delta import TableState, serves
from dedp_assets.patterns.quality._migration.moves import Form, Migration, Path

__all__ = ["CONSTRAINT", "STATE", "require_possible", "with_new", "without_old"]

STATE = "dedp.migration."
"""Prefix of the table properties with the states of migrations; the migration's name follows."""
CONSTRAINT = "delta.constraints."
"""Prefix of the table properties that hold CHECK constraints."""
_STATISTICS = "delta.dataSkippingStatsColumns"
_ROLES = ("key", "event_time")
"""Options of a declaration with column names."""
_SUBJECT, _SUBJECT_BY = _OF_PERSONS = ("subject", "subject_by")
_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
"""Type -> required table feature."""


def require_possible(table: str, state: TableState, migration: Migration) -> None:
    """Refuse a migration that the table cannot make, before anything is declared.

    Raises:
        ConfigError: names the column, and why.
    """
    if not serves(state):
        raise ConfigError(
            f"{table} has features that only Spark writes, such as column mapping: rename and drop its columns by "
            "ALTER TABLE, which moves no row there"
        )
    for old in migration.old_columns:
        _require_movable(table, state, old)
    ours = json.loads(state.properties.get(DECLARED, "{}"))
    roles = {name.lower() for role in (*_ROLES, "executed_by") for name in _listed(ours.get(role, ()))}
    renamed = {name.lower() for name in migration.rename}
    if bound := [old[0] for old in migration.old_columns if old[0].lower() in roles - renamed]:
        raise ConfigError(f"{table}: {bound[0]} tells rows apart or is their time: it must be renamed, not moved")
    _ = added_fields(table, state, migration)
    spent = json.loads(state.properties.get(DROPPED, "[]"))
    if again := [name for name in migration.new_columns if name.lower() in spent]:
        raise ConfigError(
            f"{table}: a new column must have a name that its files do not hold, not {again[0]}, which was dropped "
            "and would come back with the old values"
        )
    for name, text in _others(state, migration):
        held = {str(value).lower() for value in _texts(json.loads(text)["moves"])}
        if both := [".".join(old) for old in migration.old_columns if ".".join(old).lower() in held]:
            raise ConfigError(f"{table}: {both[0]} must be in one migration at a time, and {name} is under way")


def with_new(metadata: Mapping[str, Any], table: str, state: TableState, migration: Migration) -> dict[str, Any]:
    """Return the metadata of a table with the new columns beside the old."""
    schema = json.loads(metadata["schemaString"])
    schema["fields"] += added_fields(table, state, migration).values()
    properties = _redeclared(metadata.get("configuration") or {}, migration)
    return {**metadata, "schemaString": json.dumps(schema, ensure_ascii=False), "configuration": properties}


def without_old(metadata: Mapping[str, Any], migration: Migration, rules: Collection[str] = ()) -> dict[str, Any]:
    """Return the metadata of a table without the old columns and their constraints, and note the names."""
    schema = json.loads(metadata["schemaString"])
    fields = list(_left(schema["fields"], migration))
    gone = {each["name"].lower() for each in schema["fields"]} - {each["name"].lower() for each in fields}
    schema["fields"] = fields
    properties = _without_statistics(metadata.get("configuration") or {}, gone)
    properties = _redeclared(properties, migration, gone)
    for rule in rules:
        del properties[f"{CONSTRAINT}{rule}"]
    properties[DROPPED] = json.dumps(sorted({*json.loads(properties.get(DROPPED, "[]")), *gone}))
    return {**metadata, "schemaString": json.dumps(schema, ensure_ascii=False), "configuration": properties}


def added_fields(table: str, state: TableState, migration: Migration) -> dict[str, dict[str, Any]]:
    """Return the new columns that the table lacks, as fields of the log's schema.

    Raises:
        ConfigError: for a column that has the name and another type, and for a type that asks for a feature.
    """
    held, found = {name.lower(): each for name, each in state.columns.items()}, {}
    for name, new in _new_fields(state, migration):
        kinds = map(outer, inside(new["type"])) if new else ()
        if new is None or not {_FEATURES[kind] for kind in kinds if kind in _FEATURES} <= state.features:
            raise ConfigError(f"{table}: {name} must be of a type that every table holds, not of another")
        there = held.get(name.lower())
        if there is not None and without_comments(there["type"]) != without_comments(new["type"]):
            raise ConfigError(f"{table}: {name} must be a new column or a {new['type']}, not a {there['type']}")
        if there is None:
            found[name] = new
    return found


def _new_fields(state: TableState, migration: Migration) -> Iterator[tuple[str, dict[str, Any] | None]]:
    for old, new in migration.rename.items():
        yield new, _beside(_field(state, (old,)), new)
    for rule in migration.retype.values():
        yield rule.to, field(rule.to, rule.type)
    for parts in migration.split.values():
        yield from ((name, field(name, "STRING")) for name in parts.into)
    for struct, fields in migration.nest.items():
        inside = [_beside(_field(state, (old,)), name) for name, old in fields.items()]
        yield struct, {"name": struct, "type": {"type": "struct", "fields": inside}, "nullable": True, "metadata": {}}
    for path, new in migration.lift.items():
        yield new, _beside(_field(state, tuple(path.split("."))), new)


def _beside(held: Mapping[str, Any], name: str) -> dict[str, Any]:
    kept = {key: value for key, value in held.get("metadata", {}).items() if key in ("comment", LENGTH)}
    return {"name": name, "type": held["type"], "nullable": True, "metadata": kept}


def _field(state: TableState, path: Path) -> Mapping[str, Any]:
    """Find a column or a field of the schema; return an empty mapping if absent."""
    fields: Any = state.columns.values()
    found: Mapping[str, Any] = {}
    for part in path:
        found = next((each for each in fields if each["name"].lower() == part.lower()), {})
        kind = found.get("type")
        fields = kind["fields"] if isinstance(kind, dict) and kind["type"] == "struct" else ()
    return found


def _require_movable(table: str, state: TableState, old: Path) -> None:
    name, held = ".".join(old), _field(state, old)
    if not held:
        raise ConfigError(f"{table}: a move must be of its columns {list(state.columns)}, not of {name}")
    if old[0].lower() in {column.lower() for column in state.partition_columns}:
        raise ConfigError(f"{table} is partitioned by {name}, which no move reaches: write a new table")
    if any(key.startswith(("delta.identity", "delta.generation")) for key in held.get("metadata", {})):
        raise ConfigError(f"{table}: a move must be of a column that its writers fill, not of {name}, which Delta does")
    if any(each in ("map", "variant") for each in map(outer, inside(held["type"]))):
        raise ConfigError(f"{table}: a move must be of values that can be compared, not of {name}, a MAP or VARIANT")


def _left(fields: list[dict[str, Any]], migration: Migration) -> Iterator[dict[str, Any]]:
    """List the fields that stay, without nested old fields; a struct without fields goes as well."""
    gone = {tuple(part.lower() for part in old) for old in migration.old_columns}
    for each in fields:
        name, kind = each["name"].lower(), each["type"]
        if (name,) in gone:
            continue
        if any(path[0] == name for path in gone):
            inner = [inside for inside in kind["fields"] if (name, inside["name"].lower()) not in gone]
            if not inner:
                continue
            each = {**each, "type": {**kind, "fields": inner}}  # noqa: PLW2901
        yield each


def _without_statistics(properties: Mapping[str, str], gone: Collection[str]) -> dict[str, str]:
    """Return the properties without the statistics options of removed columns."""
    listed = properties.get(_STATISTICS)
    if listed is None:
        return dict(properties)
    others = {key: value for key, value in properties.items() if key != _STATISTICS}
    kept = ",".join(name for name in listed.split(",") if name.strip().strip("`").lower() not in gone)
    return {**others, _STATISTICS: kept} if kept else {**others, "delta.dataSkippingNumIndexedCols": "0"}


def _redeclared(
    properties: Mapping[str, str], migration: Migration, gone: Collection[str] | None = None
) -> dict[str, str]:
    """Return the properties with the tags of old columns on new columns; ``gone`` columns lose their tags."""
    if DECLARED not in properties:
        return dict(properties)
    ours, renamed = json.loads(properties[DECLARED]), {old.lower(): new for old, new in migration.rename.items()}
    columns: dict[str, Any] = dict(ours.pop("columns", {}))
    tags = {name.lower(): each for name, each in columns.items()}
    for form in migration.forms:
        held = {tag: value for old in form.olds for tag, value in tags.get(old[0].lower(), {}).items() if tag in STORED}
        plain = {tag: value for tag, value in held.items() if tag not in _OF_PERSONS}
        persons = _persons(form, tags)
        for place, new in enumerate(form.news):
            stated = {**plain, **(persons if place == 0 else {}), **columns.get(new, {})}
            columns |= {new: stated} if stated else {}
    if gone is not None:
        columns = {name: _over_new(each, migration) for name, each in columns.items() if name.lower() not in gone}
        for role in _ROLES:
            named = ours.get(role)
            if isinstance(named, list):
                ours[role] = [renamed.get(name.lower(), name) for name in named]
            elif named:
                ours[role] = renamed.get(named.lower(), named)
    stated = {**ours, **({"columns": columns} if columns else {})}
    return {**properties, DECLARED: json.dumps(stated, sort_keys=True)}


def _persons(form: Form, tags: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the tags of persons for the first new column of a move, by the old column that names persons.

    Raises:
        ConfigError: for a move of two columns that name persons: the new column can name one.
    """
    named = [old for old in form.olds if tags.get(old[0].lower(), {}).get(_SUBJECT)]
    if len({old[0] for old in named}) > 1:
        raise ConfigError(
            f"{form.what}: at most one of the old columns must name persons (subject), not "
            f"{', '.join(old[0] for old in named)}: move them one by one"
        )
    if not named or not form.news:
        return {}
    old = tags[named[0][0].lower()]
    by = _moved(old.get(_SUBJECT_BY) or identifier(named[0][0]), form.back)
    return {_SUBJECT: old[_SUBJECT], **({_SUBJECT_BY: by} if by != identifier(next(iter(form.news))) else {})}


def _over_new(tags: Mapping[str, str], migration: Migration) -> dict[str, str]:
    """Return the tags of a column that stays, with new columns in the expression of persons' ids."""
    by = tags.get(_SUBJECT_BY, "")
    for form in migration.forms:
        by = _moved(by, form.back)
    return {**tags, **({_SUBJECT_BY: by} if by else {})}


def _moved(expression: str, back: Mapping[Path, str]) -> str:
    """Return an SQL expression with the new form in place of old columns and fields; texts stay."""
    for old, new in back.items():
        path = r"\s*\.\s*".join(rf"(?:`{re.escape(part)}`|\b{re.escape(part)}\b)" for part in old)
        pattern = re.compile(rf"('(?:[^'\\]|\\.|'')*')|(?<![\w.`]){path}(?!\s*\(|`)", re.IGNORECASE)
        expression = pattern.sub(lambda found, new=new: found[1] or new, expression)  # type: ignore[misc]
    return expression


def _listed(named: str | Collection[str]) -> Collection[str]:
    return [named] if isinstance(named, str) else named


def _others(state: TableState, migration: Migration) -> Iterator[tuple[str, str]]:
    """List the further unfinished migrations of the table, each with the stored state."""
    for key, text in state.properties.items():
        name = key.removeprefix(STATE)
        if name not in (key, migration.name) and json.loads(text)["phase"] != "removed":
            yield name, text


def _texts(value: Any) -> Iterator[Any]:  # noqa: ANN401 - plain values
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    else:
        yield value
