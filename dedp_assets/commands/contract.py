"""``dedp contract``: promises of tables to their readers, in published versions.

Exit code 1: a contract has a fault (check), or a change is not agreed (publish).

Examples:
    dedp contract check --json
    dedp contract diff gold/daily_visitors
    dedp contract announce gold/daily_visitors
    dedp contract acknowledge gold/daily_visitors --by dashboards
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import yaml

from dedp_assets.commands._arguments import add_json, add_table, add_tables
from dedp_assets.commands._output import answer, note
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
            add_tables(added, "those to look at (default: all with a contract)")
        elif action != "check":
            add_table(added)
        if action == "acknowledge":
            added.add_argument("--by", required=True, help="who agrees, by the name in the announcement")
        add_json(added)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Run the action of the command: show, diff, check, publish, announce or acknowledge."""
    named = getattr(chosen, "table", [])
    for table in [named] if isinstance(named, str) else named:
        require_table(table, [spec.name for each in project().tables() for spec in each.tables])
    now, as_json = Clock().now(), chosen.json
    if chosen.action == "show":
        return show(chosen.table, as_json=as_json)
    if chosen.action == "acknowledge":
        return acknowledge(now, chosen.table, chosen.by, as_json=as_json)
    if chosen.action == "announce":
        return announce(settings, now, chosen.table, as_json=as_json)
    if chosen.action == "check":
        return check(settings, now, as_json=as_json)
    return (diff if chosen.action == "diff" else publish)(settings, now, chosen.table, as_json=as_json)


def show(table: str, *, as_json: bool = False) -> int:
    """Print the declared contract of a table as a document of the standard (ODCS).

    Args:
        table: ``layer/dataset``.
        as_json: whether the document is JSON, as the standard allows, in place of YAML.
    """
    published = project().contracts().published(table)
    version = published.version if published else FIRST
    document = contract_document(declared_contract(project().tables(), table, version))
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).rstrip()
    answer(document, text, as_json=as_json)
    return 0


def diff(settings: Settings, now: datetime, tables: Sequence[str] = (), *, as_json: bool = False) -> int:
    """Print the differences between the declarations of tables and their published contracts.

    Args:
        settings: where everything is.
        now: current time, with time zone.
        tables: the tables; all by default.
        as_json: whether to print for programs.
    """
    work = _Contracts(settings, now)
    found = {name: work.judge(name) for name in tables or work.names}
    lines = [line for name, each in found.items() for line in _lines(name, each)]
    answer([_as_dict(name, each) for name, each in found.items()], *lines, as_json=as_json)
    return 0


def publish(settings: Settings, now: datetime, tables: Sequence[str] = (), *, as_json: bool = False) -> int:
    """Write the documents of contracts that are new or whose change is agreed.

    Args:
        settings: where everything is.
        now: current time, with time zone.
        tables: the tables; all by default.
        as_json: whether to print for programs.

    Returns:
        1 if a change is not agreed, otherwise 0.
    """
    work, lines, documents = _Contracts(settings, now), list[str](), list[dict[str, Any]]()
    for name in tables or work.names:
        found = work.judge(name)
        published = ""
        if found is not None and not found.passed:
            lines += _lines(name, found)
        elif found is None or found.figures["differences"]:
            published = found.figures["version"] if found else FIRST
            contract = declared_contract(work.tables, name, published)
            work.folder.publish(replace(contract, published_at=now.replace(microsecond=0)))
            lines.append(f"{name}: {published} is published")
        documents.append({**_as_dict(name, found), "published": published})
    answer(documents, *lines, as_json=as_json)
    return 1 if any(each["passed"] is False for each in documents) else 0


def check(settings: Settings, now: datetime, *, as_json: bool = False) -> int:
    """Check that each contract is published as declared, and meets the needs of consumers.

    Args:
        settings: where everything is.
        now: current time, with time zone.
        as_json: whether to print for programs.

    Returns:
        1 with a fault, otherwise 0.
    """
    work = _Contracts(settings, now)
    judged = {name: work.judge(name) for name in work.names}
    wrong = {name: found for name, found in judged.items() if found is None or found.figures["differences"]}
    gone = [name for name in work.folder.names() if name not in work.names]
    needs = [each.note for each in unmet_needs(work.tables, work.folder)]
    lines = [line for name, found in wrong.items() for line in _lines(name, found)]
    lines += [f"{name}: has a published contract and is not declared: {_GONE}" for name in gone]
    different = [_as_dict(name, found) for name, found in wrong.items()]
    content = {"contracts": len(work.names), "different": different, "not_declared": gone, "unmet_needs": needs}
    answer(content, *lines, *needs, as_json=as_json)
    faults = len(wrong) + len(gone) + len(needs)
    note(f"contracts: {len(work.names)}, faults: {faults}")
    return 1 if faults else 0


def announce(settings: Settings, now: datetime, table: str, *, as_json: bool = False) -> int:
    """Announce the breaking changes of a table's declaration to the affected consumers.

    Args:
        settings: where everything is.
        now: current time, with time zone.
        table: ``layer/dataset``.
        as_json: whether to print for programs.
    """
    work = _Contracts(settings, now)
    request = announcement(work.tables, table, work.folder, now, work.observed)
    file = work.folder.announce(request)
    until = f"to acknowledge until {request.deadline:%Y-%m-%d}: {', '.join(request.affected) or 'nobody'}"
    changes = [f"{table}: {change}" for change in request.changes]
    content = {"table": table, "changes": [*map(str, request.changes)], "affected": request.affected}
    answer(
        {**content, "deadline": request.deadline, "file": str(file)},
        *changes,
        until,
        f"announced in {file}",
        as_json=as_json,
    )
    return 0


def acknowledge(now: datetime, table: str, by: str, *, as_json: bool = False) -> int:
    """Note that a consumer agrees to the announced change of a table's contract.

    Args:
        now: current time, with time zone.
        table: ``layer/dataset``.
        by: who agrees, by the name in the announcement.
        as_json: whether to print for programs.

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
    then = f"{', '.join(left)} left" if left else f"dedp contract publish {table}"
    answer({"table": table, "by": by, "left": left}, f"{table}: {by} agrees: {then}", as_json=as_json)
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


def _as_dict(name: str, found: Finding | None) -> dict[str, Any]:
    """Return the verdict on a contract as JSON values; ``passed`` is ``None`` for an unpublished contract."""
    if found is None:
        return {"table": name, "passed": None, "differences": []}
    return {"table": name, "passed": found.passed, "note": found.note, **found.figures}


def _lines(name: str, found: Finding | None) -> Iterator[str]:
    """Yield the differences of a contract with a mark at breaking differences, and the next command."""
    if found is None:
        yield f"{name}: no contract is published: dedp contract publish {name}"
        return
    breaking = {*found.figures["breaking"]}
    yield from (f"{name}: {'BREAKING ' * (each in breaking)}{each}" for each in found.figures["differences"])
    if not found.figures["differences"]:
        yield f"{name}: {found.figures['version']}, as published"
    elif found.passed:
        yield f"{name}: agreed as {found.figures['version']}: dedp contract publish {name}"
    elif found.figures["deadline"]:
        yield f"{name}: {found.note}"
    else:
        yield f"{name}: affected: {', '.join(found.figures['affected'])}: dedp contract announce {name}"
