"""Data contracts of declared tables, held against published contracts and needs of consumers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

import dagster as dg

from dedp_assets.graph.catalogue.contracts import ContractFolder
from dedp_assets.graph.catalogue.rendering import bounds
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.declare.isolated import OnMarkers
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, ColumnOrigin
from dedp_assets.patterns.governance._allowed import with_allowed
from dedp_assets.patterns.governance._changes import Perspective
from dedp_assets.patterns.governance.contract_testing import Expectation, verify_consumer
from dedp_assets.patterns.governance.data_contract import (
    ChangeRequest,
    Consumer,
    Contract,
    Quality,
    Sla,
    judge_change,
    request_change,
)

__all__ = [
    "FIRST",
    "announcement",
    "declared_contract",
    "judge_declaration",
    "unmet_needs",
    "with_contract",
]

FIRST = "1.0.0"
"""Version of a first published contract."""
_SIDES: Sequence[Perspective] = ("consumer",)
"""Perspectives of a declaration's change: consumers alone, since the owner is the producer."""
_NONE: Mapping[str, ColumnLineage] = MappingProxyType({})
_WEEK = 7

Tables = Sequence[LakeTable[...]]


def with_contract(tables: Tables, folder: ContractFolder, *, layer: str = "gold") -> list[str]:
    """List the declared tables with a contract: all of a layer, and further tables with a document.

    Args:
        tables: the declared tables.
        folder: the published contracts.
        layer: the layer that other teams read.
    """
    names = [spec.name for table in tables for spec in table.tables]
    published = {*folder.names()}
    return sorted(name for name in names if name.startswith(f"{layer}/") or name in published)


def declared_contract(tables: Tables, name: str, version: str = FIRST) -> Contract:
    """Return the contract of a table's declaration.

    Args:
        tables: the declared tables; readers of the table become its consumers.
        name: the table.
        version: version of the contract.

    Raises:
        ConfigError: for a table that is not declared.
    """
    table, spec = _found(tables, name)
    about, due = table.about, table.about.expects.due
    weekdays = () if due is None or len(due.weekdays) == _WEEK else due.weekdays
    promised = due if due is not None and due.at else None
    contract = Contract(
        name=name,
        version=version,
        owner=about.owner,
        columns={each: replace(column, replica="") for each, column in spec.columns.items()},
        partition_by=spec.partition_by,
        key=spec.key,
        comment=spec.comment,
        quality=_quality(table, spec),
        sla=Sla(
            fresh_hours=about.fresh_hours,
            due=promised.at if promised else "",
            zone=promised.zone if promised else "UTC",
            days_after=promised.days_after if promised else 0,
            weekdays=weekdays if promised else (),
        ),
        consumers=[*_consumers(tables, table, spec)],
    )
    return with_allowed(contract)


def judge_declaration(
    tables: Tables, name: str, folder: ContractFolder, now: datetime, observed: Mapping[str, ColumnLineage] = _NONE
) -> Finding | None:
    """Judge a table's declaration against the published contract.

    ``None`` without a contract.

    Args:
        tables: the declared tables.
        name: the table.
        folder: the published contracts, and announced changes.
        now: current time, with time zone.
        observed: table -> observed column lineage.
    """
    old = folder.published(name)
    if old is None:
        return None
    new, lineages = declared_contract(tables, name, old.version), _lineages(tables, observed)
    return judge_change(old, new, lineages, now, request=folder.announced(name), perspectives=_SIDES)


def announcement(
    tables: Tables, name: str, folder: ContractFolder, now: datetime, observed: Mapping[str, ColumnLineage] = _NONE
) -> ChangeRequest:
    """Return the announcement of the breaking changes of a table's declaration.

    Args:
        tables: as :func:`judge_declaration`.
        name: the table.
        folder: the published contracts.
        now: current time, with time zone.
        observed: table -> observed column lineage.

    Raises:
        ConfigError: without a published contract, or a breaking change.
    """
    old = folder.published(name)
    if old is None:
        raise ConfigError(f"{name} must have a published contract before a change is announced: publish it")
    new = declared_contract(tables, name, old.version)
    return request_change(old, new, _lineages(tables, observed), now, perspectives=_SIDES)


def unmet_needs(tables: Tables, folder: ContractFolder) -> list[Finding]:
    """List the needs of tables that start by another team's markers, and that no published contract meets.

    Args:
        tables: the declared tables of the consumers.
        folder: the published contracts of the producers.
    """
    needs = {table.spec.name: each.producer for table in tables for each in table.runs.of(OnMarkers)}
    found = []
    for name, producer in needs.items():
        contract = folder.published(producer.name)
        if contract is not None and not (finding := verify_consumer(contract, _expectation(name, producer))).passed:
            found.append(finding)
    return found


def _lineages(tables: Tables, observed: Mapping[str, ColumnLineage]) -> dict[str, ColumnLineage]:
    """Return the column lineage of each declared table: as declared, and as runs were observed to read."""
    found = {name: _declared(lineage) for table in tables for name, lineage in table.lineage().items()}
    return {name: _merged(each, observed[name]) if name in observed else each for name, each in found.items()}


def _expectation(consumer: str, producer: TableSpec) -> Expectation:
    """Return the needs of a table with declared columns of another team's table."""
    return Expectation(
        consumer=consumer,
        columns={name: column.type for name, column in producer.columns.items()},
        required=[name for name, column in producer.columns.items() if column.required],
        partition_by=producer.partition_by,
    )


def _found(tables: Tables, name: str) -> tuple[LakeTable[...], TableSpec]:
    declared = {spec.name: (table, spec) for table in tables for spec in table.tables}
    require_table(name, declared)
    return declared[name]


def _quality(table: LakeTable[...], spec: TableSpec) -> Quality:
    """Return the promises about rows: constraints, and audits of the function's own table."""
    audits = table.gates.audits if spec == table.spec else ()
    daily = isinstance(table.runs.partitions, dg.DailyPartitionsDefinition)
    volume = [each for each in audits if daily and each.of == "written" and each.sql is None and not each.per]
    least = [int(each.fail_below) for each in volume if each.fail_below is not None]
    most = [int(each.fail_above) for each in volume if each.fail_above is not None]
    return Quality(
        checks=spec.checks,
        rules={audit.name: bounds(audit) for audit in audits},
        daily_rows_min=max(least, default=None),
        daily_rows_max=min(most, default=None),
    )


def _consumers(tables: Tables, mine: LakeTable[...], spec: TableSpec) -> Iterator[Consumer]:
    """Yield the readers of a table: declared tables with the columns read, and readers elsewhere."""
    for table in tables:
        if spec in table.reads.upstream:
            deps = [dep for each in table.lineage().values() for deps in each.deps_by_column.values() for dep in deps]
            read = [dep.column_name for dep in deps if dep.asset_key.path == spec.name.split("/")]
            # The partition columns choose the rows.
            columns = [*dict.fromkeys([*read, *spec.partition_by])] if read else None
            yield Consumer(table.spec.name, table.about.owner, columns)
    if mine.about.used_by and spec == mine.spec:
        # A declaration says "marketing, who pay for it": whom to ask stands before the comma.
        yield Consumer(mine.about.used_by.partition(",")[0])


def _declared(lineage: dg.TableColumnLineage) -> ColumnLineage:
    return ColumnLineage(
        {
            column: ColumnOrigin(tuple(ColumnInput("/".join(dep.asset_key.path), dep.column_name) for dep in deps))
            for column, deps in lineage.deps_by_column.items()
        }
    )


def _merged(declared: ColumnLineage, observed: ColumnLineage) -> ColumnLineage:
    """Return a lineage with the references of two lineages."""
    columns = {**declared.columns}
    for name, origin in observed.columns.items():
        known = columns.get(name, ColumnOrigin())
        columns[name] = ColumnOrigin(tuple(dict.fromkeys([*known.inputs, *origin.inputs])), origin.opaque)
    return ColumnLineage(columns, observed.influences, observed.gaps)
