"""Declared and observed column lineage of a table, for Dagster's catalogue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import dagster as dg

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage, compare_columns

__all__ = ["column_lineage", "observed_columns"]


def column_lineage(
    table: TableSpec, upstream: Iterable[TableSpec], derived: Mapping[str, Sequence[str]]
) -> dg.TableColumnLineage:
    """Return the upstream columns of each column: from ``derived``, otherwise columns of the same name.

    A column with neither is left out: its origins are known once a run traced the query.

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
            if column in derived or any(column in each.columns for each in tables)
        }
    )


def observed_columns(
    declared: dg.TableColumnLineage,
    observed: ColumnLineage,
    upstream: Collection[str],
    columns: Collection[str],
) -> dict[str, object]:
    """Return the metadata of an observed column lineage, with the declared one where nothing is known.

    Args:
        declared: the lineage by the table's declaration.
        observed: the lineage in the query plan.
        upstream: names of the tables that the declaration is about.
        columns: columns of the table; what is declared of none of them is not compared.
    """
    deps = {
        column: [
            dg.TableColumnDep(dg.AssetKey(table.split("/")), name)
            for table, name in sorted({(each.table, each.column) for each in origin.inputs if each.table in upstream})
        ]
        for column, origin in observed.columns.items()
        if column in columns and origin.inputs
    }
    shown = dg.TableColumnLineage({**declared.deps_by_column, **deps})
    finding = compare_columns(_names_of(declared, deps), observed, upstream=list(upstream))
    opaque = {name: each.opaque for name, each in observed.columns.items() if each.opaque and name in columns}
    chosen = [f"{each.effect} {each}" for each in observed.influences if each.table in upstream]
    found: dict[str, object] = {"dagster/column_lineage": shown} if shown.deps_by_column else {}
    found |= {"rows chosen by": ", ".join(chosen)} if chosen else {}
    found |= {"opaque columns": dg.MetadataValue.json(opaque)} if opaque else {}
    found |= {"not traced": "; ".join(observed.gaps)} if observed.gaps else {}
    return found | ({} if finding.passed else {"lineage differs": finding.note})


def _names_of(
    declared: dg.TableColumnLineage, observed: Mapping[str, Sequence[dg.TableColumnDep]]
) -> dict[str, list[str]]:
    """Return the declared upstream columns by their names.

    A declared name stands for each upstream table that has it: one of them that is observed is enough.
    """
    found = {}
    for column, deps in declared.deps_by_column.items():
        seen = {dep.column_name: dep for dep in observed.get(column, ())}
        chosen = [seen.get(dep.column_name, dep) for dep in deps]
        several = [dep for dep in observed.get(column, ()) if dep in deps]
        found[column] = sorted({f"{dep.asset_key.to_user_string()}.{dep.column_name}" for dep in [*chosen, *several]})
    return found
