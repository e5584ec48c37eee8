"""``dedp contract``: promises of tables to their readers, in published versions."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import yaml

from dedp_assets.commands._output import note, say
from dedp_assets.graph.catalogue.contracts import ContractFolder
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.checks.contracts import (
    FIRST,
    announcement,
    declared_contract,
    judge_declaration,
    unmet_needs,
    with_contract,
)
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.run.column_traces import traced_tables
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.governance._documents import contract_document
from dedp_assets.project import project

if TYPE_CHECKING:
    from dedp_assets.graph.declare import LakeTable
    from dedp_assets.patterns.core.results import Finding
    from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage

__all__ = ["acknowledge", "announce", "arguments", "check", "diff", "publish", "run", "show"]

NEEDS = "dagster"
BESIDE = True
_ACTIONS = {
    "show": "print the contract of a table, as a document of the Open Data Contract Standard",
    "diff": "what declarations say other than the published contracts",
    "check": "whether contracts are published as declared, and meet what consumers need",
    "publish": "write new contracts, and changed ones that are agreed",
    "announce": "announce the breaking changes of a table to the affected consumers",
    "acknowledge": "agree to an announced change",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    for action, described_as in _ACTIONS.items():
        added = actions.add_parser(action, help=described_as)
        if action in ("diff", "publish"):
            added.add_argument("table", nargs="*", help="layer/dataset (default: all with a contract)")
        elif action != "check":
            added.add_argument("table", help="layer/dataset, e.g. gold/daily_visitors")
        if action == "acknowledge":
            added.add_argument("--by", required=True, help="who agrees, by the name in the announcement")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Run the action of the command: show, diff, check, publish, announce or acknowledge."""
    named = getattr(chosen, "table", [])
    for table in [named] if isinstance(named, str) else named:
        require_table(table, [spec.name for each in project().tables() for spec in each.tables])
    now = Clock().now()
    if chosen.action == "show":
        return show(chosen.table)
    if chosen.action == "acknowledge":
        return acknowledge(now, chosen.table, chosen.by)
    if chosen.action == "announce":
        return announce(settings, now, chosen.table)
    if chosen.action == "check":
        return check(settings, now)
    return (diff if chosen.action == "diff" else publish)(settings, now, chosen.table)


def show(table: str) -> int:
    """Print the declared contract of a table as a document of the standard (ODCS).

    Args:
        table: ``layer/dataset``.
    """
    published = project().contracts().published(table)
    version = published.version if published else FIRST
    contract = declared_contract(project().tables(), table, version)
    say(yaml.safe_dump(contract_document(contract), sort_keys=False, allow_unicode=True, width=120).rstrip())
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
            say(f"{name}: {version} is published")
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
        say(f"{name}: has a published contract and is not declared: {_GONE}")
    needs = unmet_needs(work.tables, work.folder)
    for each in needs:
        say(each.note)
    faults += len(gone) + len(needs)
    note(f"contracts: {len(work.names)}, faults: {faults}")
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
        say(f"{table}: {change}")
    say(f"to acknowledge until {request.deadline:%Y-%m-%d}: {', '.join(request.affected) or 'nobody'}")
    say(f"announced in {file}")
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
    say(f"{table}: {by} agrees; " + (f"{', '.join(left)} left" if left else f"dedp contract publish {table}"))
    return 0


_GONE = "a table that is removed takes its readers along: announce it to them, then delete the document"


class _Contracts:
    """The declared tables, published contracts and observed lineage of the project."""

    def __init__(self, settings: Settings, now: datetime) -> None:
        self.tables: Sequence[LakeTable[...]] = project().tables()
        self.folder: ContractFolder = project().contracts()
        self.names = with_contract(self.tables, self.folder)
        self.now = now
        lake = lake_of(settings)
        self.observed: Mapping[str, ColumnLineage] = traced_tables(
            lake, [spec.name for table in self.tables for spec in table.tables]
        )

    def judge(self, name: str) -> Finding | None:
        return judge_declaration(self.tables, name, self.folder, self.now, self.observed)


def _print(name: str, found: Finding | None) -> None:
    """Print the differences of a contract with a mark at breaking differences, and the next command."""
    if found is None:
        say(f"{name}: no contract is published: dedp contract publish {name}")
        return
    breaking = {*found.figures["breaking"]}
    for each in found.figures["differences"]:
        say(f"{name}: {'BREAKING ' if each in breaking else ''}{each}")
    if not found.figures["differences"]:
        say(f"{name}: {found.figures['version']}, as published")
    elif found.passed:
        say(f"{name}: agreed as {found.figures['version']}: dedp contract publish {name}")
    elif found.figures["deadline"]:
        say(f"{name}: {found.note}")
    else:
        say(f"{name}: affected: {', '.join(found.figures['affected'])}: dedp contract announce {name}")
