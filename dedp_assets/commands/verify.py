"""``dedp verify``: comparison of tables with their logs, and of captured tables with their source.

Exit code 1: a table is not as its log says, or a copy not as its source.

Examples:
    dedp verify
    dedp verify silver/visits --json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import print_json, say
from dedp_assets.commands._progress import counted
from dedp_assets.commands._tables import require_home, require_known
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import Lake, lake_of
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.delta import Ledger, Partition, Verification, verify_table

__all__ = ["arguments", "computes", "run", "verify"]

NEEDS = "dagster"
BESIDE = True

_CAPTURED = ("bronze/users",)
"""Tables that are copies of a database's table."""

_BACKUP = "put it back from a backup"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, and the form for programs."""
    add_table(parser, default="all tables")
    add_json(parser)


def computes(chosen: argparse.Namespace) -> bool:
    """Return whether the command compares a captured table with the source database."""
    return _is_captured(chosen.table)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the faults."""
    return verify(settings, chosen.table, as_json=chosen.json)


def verify(settings: Settings, table: str = "", *, as_json: bool = False) -> int:
    """Print the faults of a table, or of all tables, with remedies.

    A captured table that is named is held against its source, too; anything else starts no engine.

    Raises:
        ConfigError: if there is no such table, or no home.
        NotReady: if the table's source does not answer.
    """
    lake = lake_of(settings)
    names = lake.names(replicas=True)
    if table:
        require_known(table, names)
    require_home(settings)
    ledgers = [ledger for ledger in map(lake.ledger, [table] if table else names) if ledger.exists()]
    documents, sound = list[dict[str, Any]](), True
    for ledger in counted(ledgers, "tables"):
        found = verify_table(ledger)
        sound &= found.sound
        if as_json:
            documents.append(_as_dict(ledger, found))
        else:
            _print(_lines(ledger, found))
    if sound and _is_captured(table):
        compared, lines = _compared(lake, table)
        sound = compared.passed
        _print(lines if not as_json else ())
        documents = [{**each, "source": compared.figures} for each in documents]
    if as_json:
        print_json(documents)
    return 0 if sound else 1


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _is_captured(table: str) -> bool:
    """Return whether a table is a copy of a database's table."""
    if table not in _CAPTURED:
        return False
    from dedp_assets.project import project  # noqa: PLC0415

    return project().is_case_study


def _compared(lake: Lake, table: str) -> tuple[Finding, list[str]]:
    """Compare a captured table with the database table; return the finding, and lines with the cost."""
    # Dagster and the graph are loaded only if a captured table was named.
    from dedp_assets.case_study.defs.bronze.users import compare_users  # noqa: PLC0415
    from dedp_assets.graph.systems.postgres import OperationalDatabase  # noqa: PLC0415

    found = compare_users(lake, OperationalDatabase())
    figures = found.figures
    text = "equal" if found.passed else f"{_counted(figures['differing_ranges'], 'range')} differ"
    lines = [
        f"{table}: {_counted(figures['rows'], 'row')}, {_counted(figures['rows_of_the_source'], 'row')} in its source "
        f"as of {figures['position']}, {_counted(figures['ranges'], 'range')}, {figures['keys_left_out']} keys changed "
        f"meanwhile, {figures['bytes_read']} bytes read in {figures['seconds']} s: {text}"
    ]
    return found, lines if found.passed else [*lines, f"  {found.note}: dedp run {table} --force"]


def _as_dict(ledger: Ledger, found: Verification) -> dict[str, Any]:
    """Return a verification as JSON values, with the remedy for each lost file."""
    named = {"table": found.table, "version": found.version, "files": found.files, "sound": found.sound}
    remedy = cache(partial(_remedy, ledger))
    lost = [
        {"file": str(each), "partition": dict(each.partition), "remedy": remedy(each.partition)} for each in found.lost
    ]
    return {**named, "faults": [*map(str, found.faults)], "lost": lost}


def _lines(ledger: Ledger, found: Verification) -> Iterator[str]:
    text = "sound" if found.sound else _counted(len(found.faults) + len(found.lost), "fault")
    files = _counted(found.files, "data file")
    version = f"version {found.version}, {files}" if found.version >= 0 else "cannot be read"
    yield f"{found.table}: {version}: {text}"
    for fault in found.faults:
        yield f"  {fault}"
    remedy = cache(partial(_remedy, ledger))
    for lost in found.lost:
        where = slice_name({column: value or "NULL" for column, value in lost.partition})
        yield f"  {lost} ({where}): {remedy(lost.partition)}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _remedy(ledger: Ledger, lost: Partition) -> str:
    """Return the remedy for lost files of a partition: a command, or the backup."""
    # The graph is loaded only if something is lost.
    from dedp_assets.project import project  # noqa: PLC0415

    graph = project().definitions().resolve_asset_graph()
    known = {"/".join(key.path): graph.get(key) for key in graph.get_all_asset_keys()}.get(ledger.name)
    if known is None:
        return f"{_BACKUP}, or let whoever made the table write it again"
    partition = dict(lost)
    last = ledger.latest(partition)
    record = last.record if last else None
    if record and partition and not record.partition:
        origin = f"by {record.channel}" if record.channel else "once"
        return f"{_BACKUP}; its rows came {origin}, no run computes them again"
    key = partition[ledger.state().partition_columns[0]] if known.partitions_def else None
    return " ".join(["dedp run", ledger.name, *([key] if key else [])])
