"""The lake as a Dagster resource: tables by name below one root."""

from pathlib import Path
from typing import Any

import dagster as dg
from dagster_deltalake import DeltaTableResource, LocalConfig
from deltalake import DeltaTable
from pydantic import Field

from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta.log import Ledger
from dedp_assets.patterns.delta.tables import Table
from resources.spark import SparkEngine

__all__ = ["Lake"]


class Lake(dg.ConfigurableResource[Any]):
    """The Delta tables at ``<root>/<layer>/<dataset>``; Spark starts when rows are touched."""

    root: str = Field(description="Folder of the lakehouse.")
    engine: dg.ResourceDependency[SparkEngine]

    def table(self, spec: TableSpec) -> Table:
        """Open the table that ``spec`` declares."""
        return Table(spec, Path(self.root) / spec.name, lambda: self.engine.session)

    def names(self, *, replicas: bool = False) -> list[str]:
        """List the names of the lake's own tables, sorted; a link belongs to somebody else, as a replica does."""
        found = [log.parent for log in Path(self.root).glob("*/*/_delta_log")]
        folders = [folder for folder in found if replicas or not folder.is_symlink()]
        return sorted("/".join(folder.parts[-2:]) for folder in folders)

    def stored(self, name: str) -> Table:
        """Open the table ``name`` as it is stored, to read and to maintain it: only a write needs a declaration."""
        return self.table(TableSpec(name, {}))

    def ledger(self, name: str) -> Ledger:
        """Open the log of the table ``name``, without Spark."""
        return Ledger(Path(self.root) / name, name=name)

    def delta(self, name: str, *, version: int | None = None) -> DeltaTable:
        """Open the table ``name`` for a reader without Spark (pyarrow, pandas, DuckDB)."""
        url = str(Path(self.root) / name)
        return DeltaTableResource(url=url, storage_options=LocalConfig(), version=version).load()
