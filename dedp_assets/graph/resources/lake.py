"""The lake as a Dagster resource: tables by name below a root."""

from contextlib import suppress
from typing import Any

import dagster as dg
from dagster_deltalake import DeltaTableResource, LocalConfig
from deltalake import DeltaTable
from pydantic import Field

from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.graph.resources.keys import masking_key
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.resources.stored_names import stored_names
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Ledger, Store, SuppressionList, Table, store_at

__all__ = ["Lake", "lake_of"]

_DEMO = "_demo"
"""File in the root, outside of all tables."""


class Lake(dg.ConfigurableResource[Any]):
    """The Delta tables at ``<root>/<layer>/<dataset>``; Spark starts when rows are touched."""

    root: str = Field(description="Location of the lakehouse: a path or a URI.")
    lineage: str = Field(default="", description="Folder for the events of lineage; without one, none are noted.")
    exports: str = Field(default="", description="Folder for plain files for other systems; by default in the root.")
    engine: dg.ResourceDependency[SparkEngine]

    def table(self, spec: TableSpec) -> Table:
        """Open the table that ``spec`` declares."""
        return self._suppressing(Table(spec, self._uri_of(spec.name), lambda: self.engine.session))

    def names(self, *, replicas: bool = False) -> list[str]:
        """List the names of the lake's own tables, sorted; links to replicas only with ``replicas``."""
        return stored_names(self.root, replicas=replicas)

    def stored(self, name: str) -> Table:
        """Open the table ``name`` by the declaration in the log, for reads and maintenance.

        Nothing is altered. A table that no declaration can state, or that is not there, is opened without columns.
        """
        if self.ledger(name).exists():
            with suppress(ConfigError, ContractError):
                return self._suppressing(Table.at(self._uri_of(name), lambda: self.engine.session, name=name))
        return self.table(TableSpec(name, {}))

    def ledger(self, name: str) -> Ledger:
        """Open the log of the table ``name``, without Spark."""
        return Ledger(self._uri_of(name), name=name)

    def checkpoint(self, name: str) -> str:
        """Return the checkpoint folder of the query that appends to the table ``name``, outside of all tables."""
        return self._uri_of(f"_checkpoints/{name}")

    def files(self, name: str) -> str:
        """Return the folder with plain files of the table ``name`` for other systems, outside of all tables."""
        return f"{self.exports}/{name}" if self.exports else self._uri_of(f"_files/{name}")

    def tier(self, name: str) -> str:
        """Return the place of a storage tier, outside of all tables; the place is made if need be."""
        place = self.files(f"tiers/{name}")
        store_at(place).put(".tier", b"")
        return place

    def suppression(self) -> SuppressionList:
        """Open the list of erased persons, whose rows no write of this lake brings back."""
        return SuppressionList(store_at(self._uri_of("_suppressed")), lambda: masking_key(settings()))

    def _suppressing(self, table: Table) -> Table:
        table.suppression = self.suppression()
        return table

    def refused(self, name: str) -> Store:
        """Open the folder with the notes on refused partitions of the table ``name``, outside of all tables."""
        return store_at(self._uri_of(f"_refused/{name}"))

    def refusing(self) -> list[str]:
        """List the names of the tables with a folder for notes on refused partitions, sorted."""
        root = store_at(self._uri_of("_refused"))
        return sorted(f"{layer}/{dataset}" for layer in root.list() for dataset in root.list(layer))

    def column_lineage(self, name: str) -> Store:
        """Open the folder with the observed column lineage of the table ``name``, outside of all tables."""
        return store_at(self._uri_of(f"_lineage/{name}"))

    def mark_demo(self) -> None:
        """Mark the lake as the demo's."""
        store_at(self.root).put(_DEMO, b"")

    def is_demo(self) -> bool:
        """Return whether the demo filled the lake: nothing arrives after the demo, and nothing is due."""
        return store_at(self.root).exists(_DEMO)

    def delta(self, name: str, *, version: int | None = None) -> DeltaTable:
        """Open the table ``name`` for a reader without Spark (pyarrow, pandas, DuckDB)."""
        address = store_at(self._uri_of(name)).address
        return DeltaTableResource(url=address, storage_options=LocalConfig(), version=version).load()

    def _uri_of(self, name: str) -> str:
        return store_at(self.root).uri_of(name)


def lake_of(chosen: Settings, engine: SparkEngine | None = None) -> Lake:
    """Open the lake of the settings, with the home's folder for events of lineage.

    Plain files of a lake in a bucket are put into the home: a folder is exchanged as a whole, which no bucket can do.

    Args:
        chosen: the settings.
        engine: Spark engine for rows; by default the settings' one.
    """
    return Lake(
        root=chosen.lake,
        lineage=str(chosen.home / "lineage"),
        exports=str(chosen.home / "exports") if chosen.in_bucket else "",
        engine=engine or SparkEngine(remote=chosen.remote or ""),
    )
