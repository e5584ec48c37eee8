"""``dedp contract``: data contracts of the declared tables, published as documents of the project."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import yaml

from dedp_assets.graph.catalogue.contracts import ContractFolder
from dedp_assets.graph.checks.contracts import (
    FIRST,
    announcement,
    declared_contract,
    judge_declaration,
    unmet_needs,
    with_contract,
)
from dedp_assets.graph.run.column_traces import traced_tables
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.governance._documents import contract_document
from dedp_assets.project import project
from dedp_assets.resources.environments import Settings
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.spark import SparkEngine

if TYPE_CHECKING:
    from dedp_assets.graph.declare import LakeTable
    from dedp_assets.patterns.core.column_lineage import ColumnLineage
    from dedp_assets.patterns.core.results import Finding

__all__ = ["acknowledge", "announce", "check", "diff", "publish", "show"]


def show(table: str) -> int:
    """Print the declared contract of a table as a document of the standard (ODCS).

    Args:
        table: ``layer/dataset``.
    """
    published = project().contracts().published(table)
    version = published.version if published else FIRST
    contract = declared_contract(project().tables(), table, version)
    _say(yaml.safe_dump(contract_document(contract), sort_keys=False, allow_unicode=True, width=120).rstrip())
    return 0


def diff(settings: Settings, now: datetime, tables: Sequence[str] = ()) -> int:
    """Print the differences between the declarations of tables and their published contracts.

    Args:
        settings: where everything is.
        now: current time, with time zone.
        tables: the tables; all by default.
    """
    work = _Contracts(settings, now)
    for name in tables or work.names:
        _print(name, work.judge(name))
    return 0


def publish(settings: Settings, now: datetime, tables: Sequence[str] = ()) -> int:
    """Write the documents of contracts that are new or whose change is agreed.

    Args:
        settings: where everything is.
        now: current time, with time zone.
        tables: the tables; all by default.

    Returns:
        1 if a change is not agreed, otherwise 0.
    """
    work = _Contracts(settings, now)
    refused = 0
    for name in tables or work.names:
        found = work.judge(name)
        if found is not None and not found.passed:
            _print(name, found)
            refused = 1
        elif found is None or found.figures["differences"]:
            version = found.figures["version"] if found else FIRST
            contract = declared_contract(work.tables, name, version)
            work.folder.publish(replace(contract, published_at=now.replace(microsecond=0)))
            _say(f"{name}: {version} is published")
    return refused


def check(settings: Settings, now: datetime) -> int:
    """Check that each contract is published as declared, and meets the needs of consumers.

    Args:
        settings: where everything is.
        now: current time, with time zone.

    Returns:
        1 with a fault, otherwise 0.
    """
    work = _Contracts(settings, now)
    faults = 0
    for name in work.names:
        found = work.judge(name)
        if found is None or found.figures["differences"]:
            _print(name, found)
            faults += 1
    gone = [name for name in work.folder.names() if name not in work.names]
    for name in gone:
        _say(f"{name}: has a published contract and is not declared: {_GONE}")
    needs = unmet_needs(work.tables, work.folder)
    for each in needs:
        _say(each.note)
    faults += len(gone) + len(needs)
    print(f"contracts: {len(work.names)}, faults: {faults}", file=sys.stderr)  # noqa: T201
    return 1 if faults else 0


def announce(settings: Settings, now: datetime, table: str) -> int:
    """Announce the breaking changes of a table's declaration to the affected consumers.

    Args:
        settings: where everything is.
        now: current time, with time zone.
        table: ``layer/dataset``.
    """
    work = _Contracts(settings, now)
    request = announcement(work.tables, table, work.folder, now, work.observed)
    file = work.folder.announce(request)
    for change in request.changes:
        _say(f"{table}: {change}")
    _say(f"to acknowledge until {request.deadline:%Y-%m-%d}: {', '.join(request.affected) or 'nobody'}")
    _say(f"announced in {file}")
    return 0


def acknowledge(now: datetime, table: str, by: str) -> int:
    """Note that a consumer agrees to the announced change of a table's contract.

    Args:
        now: current time, with time zone.
        table: ``layer/dataset``.
        by: who agrees, by the name in the announcement.

    Raises:
        ConfigError: without an announcement, or for somebody who is not asked.
    """
    folder = project().contracts()
    request = folder.announced(table)
    if request is None:
        raise ConfigError(f"{table} must have an announced change to acknowledge: dedp contract announce {table}")
    agreed = request.acknowledged_by(by, now)
    folder.announce(agreed)
    left = [each for each in agreed.affected if each not in agreed.acknowledged]
    _say(f"{table}: {by} agrees; " + (f"{', '.join(left)} left" if left else f"dedp contract publish {table}"))
    return 0


_GONE = "a table that is removed takes its readers along: announce it to them, then delete the document"


class _Contracts:
    """The declared tables, published contracts and observed lineage of the project."""

    def __init__(self, settings: Settings, now: datetime) -> None:
        self.tables: Sequence[LakeTable[...]] = project().tables()
        self.folder: ContractFolder = project().contracts()
        self.names = with_contract(self.tables, self.folder)
        self.now = now
        lake = Lake(root=str(settings.lakehouse), engine=SparkEngine())
        self.observed: Mapping[str, ColumnLineage] = traced_tables(
            lake, [spec.name for table in self.tables for spec in table.tables]
        )

    def judge(self, name: str) -> Finding | None:
        return judge_declaration(self.tables, name, self.folder, self.now, self.observed)


def _print(name: str, found: Finding | None) -> None:
    """Print the differences of a contract with a mark at breaking differences, and the next command."""
    if found is None:
        _say(f"{name}: no contract is published: dedp contract publish {name}")
        return
    breaking = {*found.figures["breaking"]}
    for each in found.figures["differences"]:
        _say(f"{name}: {'BREAKING ' if each in breaking else ''}{each}")
    if not found.figures["differences"]:
        _say(f"{name}: {found.figures['version']}, as published")
    elif found.passed:
        _say(f"{name}: agreed as {found.figures['version']}: dedp contract publish {name}")
    elif found.figures["deadline"]:
        _say(f"{name}: {found.note}")
    else:
        _say(f"{name}: affected: {', '.join(found.figures['affected'])}: dedp contract announce {name}")


def _say(text: str) -> None:
    print(text)  # noqa: T201
