"""Declaration of a stored table, read from the table's log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dedp_assets.patterns.core.classes import CLASSES
from dedp_assets.patterns.core.column import TAGS, Column
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.layout import TableLayout
from dedp_assets.patterns.core.schema import DECLARED, TableSpec
from dedp_assets.patterns.core.types.partitions import sql_type
from dedp_assets.patterns.core.types.sql_types import sql_of
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.storage.locations import Location, store_at
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["clustered_by", "field_rest", "require_table", "stored_spec", "table_name"]

_CONSTRAINT = "delta.constraints."
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
_RESTS = {
    "CURRENT_DEFAULT": "has a default, which no row of the library leaves to the table",
    "__COLLATIONS": "is compared by a collation",
    "delta.generationExpression": "is generated; rows state its value, which is checked",
    "delta.invariants": "has an invariant, which is judged with every write",
    "delta.typeChanges": "was widened",
}
"""Metadata key of a schema field -> sentence for the feature of the column."""
_KEPT = {"comment", "EXISTS_DEFAULT", _LENGTH}
_NUMBERED = ("delta.columnMapping.", "delta.identity.")
_SIZED = re.compile(r"(?:var)?char\(\d+\)")


def stored_spec(name: str, state: TableState) -> TableSpec:
    """Read the declaration of a stored table: columns, partitions, constraints, comment and properties.

    What Delta has no place for (keys, executions, the event time, classes of columns) stands in a property of
    the library's own (:data:`~dedp_assets.patterns.core.schema.DECLARED`), which tables of other tools do not have.
    Nothing in it alters the table (``TableSpec.adopted``).

    Args:
        name: what messages and transaction ids call the table.
        state: the table.

    Raises:
        ContractError: if the library's own property cannot be read.
        ConfigError: if the table is one that no declaration can state; names why.
    """
    ours = _beyond_delta(name, state.properties.get(DECLARED, "{}"))
    rules = {key[len(_CONSTRAINT) :]: rule for key, rule in state.properties.items() if key.startswith(_CONSTRAINT)}
    properties = {key: value for key, value in state.properties.items() if not key.startswith(_CONSTRAINT)}
    tags = ours.get("columns", {})
    spec = TableSpec(
        name,
        {column: _column(field, tags.get(column, {})) for column, field in state.columns.items()},
        partition_by=state.partition_columns,
        checks=rules,
        comment=state.description,
        properties=properties,
        one_channel_per=ours.get("one_channel_per", ""),
        key=tuple(ours.get("key", ())),
        executed_by=ours.get("executed_by", ""),
        event_time=ours.get("event_time", ""),
        adopted=True,
    )
    with suppress(ConfigError, TypeError, LookupError):  # of a column that somebody dropped: no layout is declared
        spec = replace(spec, layout=TableLayout.of(ours.get("layout", {})))
    # Stated by the declaration itself, and as it is stored: the property says nothing more.
    if spec.beyond_delta() == properties.get(DECLARED):
        return replace(spec, properties={key: value for key, value in properties.items() if key != DECLARED})
    return spec


def table_name(location: Location) -> str:
    """Return the name of a table by the location: the last two names, ``layer/dataset``."""
    return "/".join(store_at(location).address.rsplit("/", 2)[1:])


def field_rest(name: str, field: Mapping[str, Any]) -> Iterator[str]:
    """List the parts of a column in the log that a :class:`Column` does not hold, a sentence each."""
    stated = dict(field.get("metadata", {}))
    sized = str(stated.get(_LENGTH, ""))
    if sized and not _SIZED.fullmatch(sized):
        yield f"{name!r} has lengths inside of it: {sized!r}"
    if "delta.identity.start" in stated:
        counting = [stated.get(f"delta.identity.{key}") for key in ("start", "step")]
        yield f"{name!r} is counted by the table (IDENTITY, from {counting[0]!r} by {counting[1]!r})"
    for key, text in _RESTS.items():
        if key in stated:
            yield f"{name!r} {text}: {stated[key]!r}"
    others = {k: v for k, v in stated.items() if k not in _KEPT and k not in _RESTS and not k.startswith(_NUMBERED)}
    if others:
        yield f"{name!r} has further metadata: {others!r}"
    yield from _inside(name, field["type"])


def _inside(path: str, kind: Any) -> Iterator[str]:  # noqa: ANN401 - a type in Spark's JSON form
    """List comments and NOT NULL inside of a column."""
    if isinstance(kind, str):
        return
    for part, never in (("elementType", "containsNull"), ("keyType", ""), ("valueType", "valueContainsNull")):
        if part in kind:
            if never and kind.get(never) is False:
                yield f"{path!r} has no NULL among its {'elements' if part == 'elementType' else 'values'}"
            yield from _inside(path, kind[part])
    for field in kind.get("fields", ()):
        inner = f"{path}.{field['name']}"
        if not field["nullable"]:
            yield f"{inner!r} is NOT NULL: the table judges that with every write"
        yield from field_rest(inner, field)
        if comment := field.get("metadata", {}).get("comment"):
            yield f"{inner!r} has the comment {comment!r}"


def clustered_by(ledger: Ledger, state: TableState) -> list[tuple[str, ...]]:
    """Return the paths of a table's clustering columns (liquid clustering); empty if none."""
    if "clustering" not in state.features:
        return []
    physical = {
        field.get("metadata", {}).get("delta.columnMapping.physicalName", name): name
        for name, field in state.columns.items()
    }
    domains = ledger.actions("domainMetadata", until=state.version)
    stated = [each for each in domains if each.get("domain") == "delta.clustering"]
    if not stated or stated[-1].get("removed"):
        return []
    try:
        columns = json.loads(str(stated[-1].get("configuration")))["clusteringColumns"]
        return [(physical.get(path[0], path[0]), *path[1:]) for path in columns]
    except (ValueError, LookupError, TypeError):
        return []


def require_table(ledger: Ledger) -> None:
    """Refuse a location without a Delta table.

    Raises:
        ConfigError: says what lies there instead, and what to do.
    """
    store = ledger.store
    if not store.exists("") and ledger.exists():
        return
    around = next((above for above in _above(store) if "_delta_log" in above.list()), None)
    if store.exists(""):
        found = "is a file, and a table is a folder: name the folder that holds its _delta_log"
    elif around is not None or store.name == "_delta_log":
        found = f"lies inside of the table {(around or store.above()).address}: name that folder"
    elif "_delta_log" in store.list():
        found = "has a _delta_log without a commit: the table was never made, or its log is lost"
    elif any(file.path.endswith(".parquet") for file in store.files()):
        found = (
            "holds Parquet files and no Delta log: make it a table where it lies (deltalake.convert_to_deltalake, or "
            "CONVERT TO DELTA in Spark), or load its rows into one (TableSpec)"
        )
    elif strange := store.list():
        found = f"holds {strange[0]!r} and no Delta log, so no table: name another location"
    else:
        found = "holds no table: declare one (TableSpec), or name another location"
    raise ConfigError(f"{store.address} {found}")


def _above(store: Store) -> Iterator[Store]:
    """List the stores of the folders above, from the nearest."""
    while (above := store.above()).address != store.address:
        yield above
        store = above


def _beyond_delta(name: str, stored: str) -> Mapping[str, Any]:
    """Read the library's own property."""
    try:
        ours = json.loads(stored)
        tags = {column: _tags(stated) for column, stated in ours.get("columns", {}).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ContractError(
            f"{name}: its property {DECLARED} cannot be read ({error}): unset it, and declare the table again"
        ) from None
    return {**ours, "columns": tags}


def _tags(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a column; former releases wrote ``personal`` for the class of that name."""
    former = {"classification": "personal"} if stated.get("personal") else {}
    known = {tag: stated[tag] for tag in TAGS if tag in stated}
    if known.get("classification", "") not in CLASSES:
        # Of a later release, or another hand: a class that nobody here knows keeps its values.
        known["classification"] = "secret"
        known.pop("replica", None)
    return {**former, **known, **({"purpose": tuple(known["purpose"])} if "purpose" in known else {})}


def _column(field: Mapping[str, Any], tags: Mapping[str, Any]) -> Column:
    stated = field.get("metadata", {})
    # Lengths inside of a column stand in one text with the names of fields, which capitals would change.
    sized = str(stated.get(_LENGTH, ""))
    kind = sized.upper() if _SIZED.fullmatch(sized) else sql_of(field["type"], sql_type)
    return Column(kind, str(stated.get("comment", "")), required=not field["nullable"], **tags)
