"""Observed column lineage of a table, traced after the publish.

A trace plans the query another time, so that its result is kept in the lake, for a version of the code and of all
columns. Losing it costs one more trace.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame

from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage
from dedp_assets.patterns.delta import Store, Table
from dedp_assets.patterns.observability.fine_grained_tracker import trace_columns

__all__ = ["ColumnTraces", "identity_of", "traced_last", "traced_tables"]

_FILE = "columns.json"
_READER = 2
"""Version of the plan reader, part of the identity of stored lineage: a new version traces again."""


@dataclass
class ColumnTraces:
    """The traces of the tables that one step writes.

    Attributes:
        stores: table name -> folder of its stored lineage.
        identity: of the code and of all columns.
        upstream: names of the tables that the step reads.
    """

    stores: Mapping[str, Store]
    identity: str
    upstream: Collection[str]
    _rows: dict[str, Callable[[], DataFrame]] = field(default_factory=dict)
    _known: dict[str, ColumnLineage] = field(default_factory=dict)

    def watch(self, tables: Iterable[Table], upstream: Iterable[Table]) -> None:
        """Remember the rows that are written to tables, to be traced later: a plan and no row is kept.

        What is stored already costs nothing: neither are rows remembered, nor have plans names of tables.
        """
        written = list(tables)
        missing = {table.name for table in written if self.upstream and self._stored(table.name) is None}
        for table in (*written, *upstream):
            table.named_in_plans = bool(missing)
        for table in written:
            if table.name in missing:
                table.on_rows = partial(self._rows.__setitem__, table.name)

    def of(self, table: str) -> ColumnLineage | None:
        """Return the stored lineage of a table, otherwise the lineage traced from the written rows.

        Returns:
            The lineage; ``None`` if it is not stored and nothing was written.
        """
        if (stored := self._stored(table)) is not None:
            return stored
        if (rows := self._rows.get(table)) is None:
            return None
        lineage = trace_columns(rows())
        held = {"identity": self.identity, "lineage": lineage.to_json()}
        self.stores[table].put(_FILE, json.dumps(held).encode())
        return lineage

    def _stored(self, table: str) -> ColumnLineage | None:
        if table not in self._known:
            with suppress(OSError, ValueError, KeyError, TypeError, ConfigError):
                held = json.loads(self.stores[table].read(_FILE))
                if held["identity"] == self.identity:
                    self._known[table] = ColumnLineage.from_json(held["lineage"])
        return self._known.get(table)


def traced_last(store: Store) -> ColumnLineage | None:
    """Return the stored lineage of a table, of this or earlier code.

    ``None`` if nothing is stored.

    Args:
        store: folder of the stored lineage.
    """
    with suppress(OSError, ValueError, KeyError, TypeError, ConfigError):
        return ColumnLineage.from_json(json.loads(store.read(_FILE))["lineage"])
    return None


def traced_tables(lake: Lake, names: Iterable[str]) -> dict[str, ColumnLineage]:
    """Return the stored lineage of tables; tables without lineage are left out.

    Args:
        lake: where the tables are.
        names: the tables.
    """
    return {name: found for name in names if (found := traced_last(lake.column_lineage(name))) is not None}


def identity_of(code_version: str, *tables: TableSpec) -> str:
    """Return the identity of a step's lineage: equal for the same code, and equal columns of all tables."""
    columns = {table.name: {name: each.type for name, each in table.columns.items()} for table in tables}
    text = json.dumps([_READER, code_version, columns], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
