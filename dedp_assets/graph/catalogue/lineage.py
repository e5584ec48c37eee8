"""Column lineage: the upstream columns that each column of a table is computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["column_lineage"]


def column_lineage(
    table: TableSpec, upstream: Iterable[TableSpec], derived: Mapping[str, Sequence[str]]
) -> dg.TableColumnLineage:
    """Return the upstream columns of each column: from ``derived``, otherwise columns of the same name.

    Args:
        table: the table.
        upstream: the tables it is computed from.
        derived: column -> names of upstream columns; a name stands for every upstream table that has it.

    Raises:
        ConfigError: if ``derived`` names an upstream column that is not there.
    """
    tables = tuple(upstream)
    known = {name for each in tables for name in each.columns}
    if strange := sorted({name for names in derived.values() for name in names} - known):
        raise ConfigError(f"{table.name}: derived= names {', '.join(strange)}, which no upstream table has")
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(dg.AssetKey(each.name.split("/")), name)
                for each in tables
                for name in derived.get(column, (column,))
                if name in each.columns
            ]
            for column in table.columns
        }
    )
