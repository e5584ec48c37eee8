"""Adoption: the declaration of a table of another tool, and the features outside of the declaration.

Read from the log alone, without Spark, and nothing is changed. Names and texts of the table stand in the sentences as
Python literals, so that none of them can pass for words of the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TIMES, TableSpec
from dedp_assets.patterns.delta.commit import file_exchange, spark_writer
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import constraints, require_open
from dedp_assets.patterns.delta.snapshots.stored_spec import (
    clustered_by,
    field_rest,
    require_table,
    stored_spec,
    table_name,
)
from dedp_assets.patterns.delta.storage.locations import Location

__all__ = ["Adoption", "adoption_of"]

_OF_THIS_TABLE = ("delta.columnMapping.maxColumnId", "delta.rowTracking.materialized")
"""Beginnings of properties that Delta sets for one table, and that mean nothing for another."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """The declaration of an existing table, and the features outside of the declaration.

    Attributes:
        spec: the declaration that ``Table.at`` reads.
        location: the table's folder.
        version: the table's version that was read.
        newest: the last partition by its values in the log's spelling; empty without partitions or rows.
        left_out: what the table has and the declaration does not, a sentence each.
        unknown: what a declaration can say and the log does not, a sentence each.
        writes: how writes to the table are committed, and which are refused, a sentence each.
        refused: why no rows can be written to the table; empty if they can.
    """

    spec: TableSpec
    location: str
    version: int
    newest: Mapping[str, str]
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]
    writes: tuple[str, ...]
    refused: str = ""


def adoption_of(location: Location, *, name: str = "") -> Adoption:
    """Read the declaration of an existing table, and list the features outside of the declaration.

    Args:
        location: where the table lies.
        name: ``layer/dataset``; by default the last two names of the location.

    Raises:
        ConfigError: if there is no table, or no declaration can state it.
        ContractError: if the table cannot be read.
    """
    ledger = Ledger(location, name=name or table_name(location))
    require_table(ledger)
    state = ledger.state()
    spec = stored_spec(ledger.name, state)
    refused = _refused(spec.name, state)
    order = state.partition_columns
    partitions = [{column: value for column, value in key if value is not None} for _, key in state.keyed_files()]
    named = [{column: each[column] for column in order} for each in partitions if len(each) == len(order)]
    return Adoption(
        spec,
        ledger.store.address,
        state.version,
        max(named, key=lambda each: [*each.values()], default={}),
        tuple(_left_out(ledger, state)),
        tuple(_unknown(spec)),
        (refused,) if refused else tuple(_writes(state)),
        refused,
    )


def _left_out(ledger: Ledger, state: TableState) -> Iterator[str]:
    for name, field in state.columns.items():
        yield from field_rest(name, field)
    if clustered := [".".join(path) for path in clustered_by(ledger, state)]:
        yield f"it is clustered by {clustered}: each write keeps that, and no table of a declaration is clustered"
    if own := [key for key in state.properties if key.startswith(_OF_THIS_TABLE)]:
        yield f"the properties {own} are of this table alone: leave them out of the declaration of a new one"
    yield from _without_statistics(state)


def _without_statistics(state: TableState) -> Iterator[str]:
    """List the columns of which no active file has statistics, and the files without any."""
    try:
        files = pa.table(state.snapshot.get_add_actions(flatten=False))
    except DeltaError:
        return
    if not files.num_rows:
        return
    if nameless := files["num_records"].null_count:
        yield f"{nameless} of {files.num_rows} files have no statistics in the log: reads skip none of them"
    counted = files["null_count"].combine_chunks() if "null_count" in files.column_names else None
    named = {field.name: counted.field(n) for n, field in enumerate(counted.type)} if counted is not None else {}
    blind = []
    for name, field in state.columns.items():
        physical = field.get("metadata", {}).get("delta.columnMapping.physicalName", name)
        found = named.get(physical if state.mapped else name)
        if name not in state.partition_columns and not (found is not None and _is_known(found)):
            blind.append(name)
    if blind:
        yield f"no file has statistics of {blind}: a condition on them skips no file"


def _is_known(counts: Any) -> bool:  # noqa: ANN401 - pyarrow is not typed
    """Return whether any file has a NULL count for a column or a nested field."""
    if pa.types.is_struct(counts.type):
        return any(_is_known(counts.field(n)) for n in range(counts.type.num_fields))
    return bool(pc.any(pc.is_valid(counts)).as_py())


def _unknown(spec: TableSpec) -> Iterator[str]:
    if not spec.key:
        yield "key: the columns that tell its rows apart"
    if not spec.event_time and any(column.type in TIMES for column in spec.columns.values()):
        yield "event_time: the column with the time at which the event of a row happened"
    yield "order: the column that says which of two changes of a row is newer (order_by of a merge)"
    if not any(column.classification for column in spec.columns.values()):
        yield 'classification: which columns are personal (Column(..., classification="personal"))'
    yield "owner, readers and greatest age (About(owner=..., used_by=..., fresh_hours=...) of a table of the graph)"
    if any(column.type == "STRING" for name, column in spec.columns.items() if name in spec.partition_by):
        yield "partitions: what the texts that it is partitioned by mean, e.g. days"


def _refused(name: str, state: TableState) -> str:
    """Return the reason why rows cannot be written to the table; empty for a writable table."""
    try:
        require_open(name, state)
        constraints(name, state)
        spark_writer.require_stated(name, state)
    except ConfigError as error:
        return str(error)
    return ""


def _writes(state: TableState) -> Iterator[str]:
    if by_spark := file_exchange.unserved(state):
        yield f"{', '.join(by_spark)}: Spark's own writer commits the audited rows, under the table's lock"
    else:
        yield "audited rows are published by the log alone, without Spark's writer"
    if state.properties.get("delta.appendOnly", "").lower() == "true":
        yield "delta.appendOnly: rows are appended, none is replaced, merged or deleted"
    elif why := file_exchange.only_spark_changes(state):
        yield f"merges and deletes are Delta's own statements, without audits, as it has {why}"
