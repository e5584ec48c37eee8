"""Dagster specs of a declared table: assets and checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.links import status_link
from dedp_assets.graph.catalogue.rendering import bounds
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["IN_FILE", "LAUNCHPAD", "asset_key", "asset_spec", "check_specs", "code_of"]

LAUNCHPAD = {
    "force": dg.Field(
        bool,
        default_value=False,
        description="Compute although nothing it is computed from has changed. Other rows than the same inputs gave "
        "before are then published, and the ledger says that somebody asked for it.",
    )
}
"""What may be chosen for a table in the launchpad; the run tag ``dedp/force=true`` asks for it in every table."""

IN_FILE = "is_declared_in_a_file"
"""Attribute of a function made of the steps of a YAML file: the catalogue links to the file instead of code."""
_EVERY_WRITE = {
    "rows_are_accounted_for": "Every row read was written, or is a dead letter, a duplicate or filtered out.",
    "rows_lie_in_their_partition": "No row lies outside of the partition that the run owns.",
    "constraints_hold": "Every row satisfies NOT NULL and CHECK of the stored table, and each further rule of the "
    "write that has no check of its own.",
}
"""Rules that every write of the library holds, and what they say."""


def asset_key(table: TableSpec) -> dg.AssetKey:
    """Return the asset key of a table: layer and name."""
    return dg.AssetKey(table.name.split("/"))


def asset_spec(
    table: TableSpec,
    *,
    patterns: Sequence[Callable[..., Any]],
    owners: Sequence[str],
    code_version: str,
    deps: Sequence[Any] = (),
    partitions: dg.PartitionsDefinition | None = None,
    fresh: timedelta | None = None,
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> dg.AssetSpec:
    """Return a table's asset spec: key, lineage, columns, owners, kinds and patterns.

    Args:
        table: the table.
        patterns: the patterns at work, the main one first.
        owners: who answers for it.
        code_version: version of the code that computes it.
        deps: upstream assets.
        partitions: its partitions in the graph.
        fresh: how long ago its last materialization may be.
        metadata: more to show of it.
    """
    ids = [pattern.__module__.removeprefix("dedp_assets.patterns.") for pattern in patterns]
    named = ", ".join(id_.partition(".")[2].replace("_", " ").title() for id_ in ids)
    columns = [
        dg.TableColumn(name, c.type.lower(), c.comment, dg.TableColumnConstraints(nullable=not c.required))
        for name, c in table.columns.items()
    ]
    return dg.AssetSpec(
        table.name.split("/"),
        deps=deps,
        description=f"{table.comment}\n\nPatterns at work: {named}.",
        metadata={
            "dagster/column_schema": dg.TableSchema(
                columns, constraints=dg.TableConstraints(other=[f"{n}: {p}" for n, p in table.checks.items()])
            ),
            "dagster/table_name": table.name.replace("/", "."),
            "partitioned_by": ", ".join(table.partition_by) or "nothing",
            **({"event_time": table.event_time} if table.event_time else {}),
            "patterns": ", ".join(ids),
            **status_link(table.name),
            **metadata,
        },
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=fresh) if fresh else None,
        group_name=table.name.split("/")[0],
        code_version=code_version,
        owners=owners,
        tags={"dedp/pattern": ids[0], "dedp/chapter": ids[0].partition(".")[0]},
        kinds={"spark", "deltalake", table.name.split("/")[0]},
        partitions_def=partitions,
    )


def code_of(function: Callable[..., Any]) -> dg.CodeReferencesMetadataValue:
    """Return a reference to the source lines of a function, for the catalogue's link to the code.

    Dagster adds the reference to a YAML file itself.
    """
    if IN_FILE in vars(function):
        return dg.CodeReferencesMetadataValue(code_references=[])
    written = inspect.unwrap(function)
    line, file = inspect.getsourcelines(written)[1], inspect.getsourcefile(written)
    return dg.CodeReferencesMetadataValue(
        code_references=[dg.LocalFileCodeReference(file_path=str(file), line_number=line)]
    )


def check_specs(
    table: TableSpec,
    audits: Sequence[Audit],
    checks: Mapping[str, str] | None = None,
    reports: Mapping[str, str] | None = None,
    *,
    partitions: dg.PartitionsDefinition | None = None,
) -> list[dg.AssetCheckSpec]:
    """Return the check specs of a table: one check per audit, and the checks of every write.

    Args:
        table: the table.
        audits: rules over its rows.
        checks: further checks that block, by name, with what they say.
        reports: checks that say something and block nothing.
        partitions: the table's partitions in the graph.
    """
    blocking = {**_EVERY_WRITE, **{audit.name: bounds(audit) for audit in audits}, **(checks or {})}
    return [
        dg.AssetCheckSpec(
            name,
            asset=asset_key(table),
            description=description,
            blocking=name in blocking,
            partitions_def=partitions,
        )
        for name, description in {**(reports or {}), **blocking}.items()
    ]
