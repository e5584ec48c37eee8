"""``dedp cost``: cost of commits by table, day and cause, without starting Spark.

Examples:
    dedp cost --since 7d
    dedp cost silver/visits --since 2026-01-05 --json
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from dedp_assets.commands._arguments import add_json, add_table, day
from dedp_assets.commands._output import Grid, console, print_json, say
from dedp_assets.commands._tables import require_home, require_known
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.measuring.costs import Cost, total
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta import Commit

__all__ = ["Spent", "arguments", "cost", "run", "spent"]

NEEDS = "dagster"
BESIDE = True

_MB = 1e6
_SHOWN: dict[str, Callable[[Cost], float | None]] = {
    "seconds": lambda of: of.seconds,
    "waiting": lambda of: of.waiting_seconds,
    "CPU s": lambda of: of.cpu_seconds,
    "rows read": lambda of: of.rows_read,
    "MB read": lambda of: None if of.bytes_read is None else of.bytes_read / _MB,
    "rows written": lambda of: of.rows_written,
    "MB written": lambda of: None if of.bytes_written is None else of.bytes_written / _MB,
    "requests": lambda of: of.requests,
    "attempts": lambda of: of.attempts,
}
"""Heading -> figure of a cost, ``None`` if unknown.

Requests are shown where a table lies in a bucket.
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """Cost of the commits of a table on a day for a cause.

    Attributes:
        table: name of the table.
        partition: what the commits wrote, where they are told apart by it; otherwise empty.
        day: UTC day of the commits.
        cause: why the runs happened, as in their commit records.
        commits: number of commits.
        measured: those with a measured cost: older ones have what their files say.
        cost: sum of their costs.
    """

    table: str
    partition: str
    day: date
    cause: str
    commits: int
    measured: int
    cost: Cost

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values; unknown figures are absent."""
        named = {"table": self.table, "partition": self.partition, "day": self.day.isoformat(), "cause": self.cause}
        return {**named, "commits": self.commits, "measured": self.measured, "cost": self.cost.known}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, whose cost is also by partition, and the first day."""
    add_table(parser, default="all tables")
    parser.add_argument("--since", type=day, metavar="DAY", help="first UTC day of commits to count")
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the cost."""
    return cost(settings, chosen.table, since=chosen.since, as_json=chosen.json)


def cost(settings: Settings, table: str = "", *, since: date | None = None, as_json: bool = False) -> int:
    """Print the cost of commits by table, or of one table by partition; refuse damaged logs.

    Args:
        settings: where everything is.
        table: the table to look at; all of them if empty.
        since: first UTC day of commits to count.
        as_json: whether to print for programs.

    Raises:
        ConfigError: if there is no such table, or no home.
        ContractError: if logs are damaged, after everything else was printed.
    """
    lake = lake_of(settings)
    names = lake.names(replicas=True)
    if table:
        require_known(table, names)
    require_home(settings)
    found: list[Spent] = []
    damaged: list[str] = []
    for name in names if not table else {table} & {*names}:
        try:
            found += spent(name, lake.ledger(name).commits(), by_partition=bool(table), since=since)
        except ContractError as error:
            damaged.append(str(error))
    found.sort(key=_dearest)
    _print(found, since=since, as_json=as_json)
    if damaged:
        raise ContractError("; ".join(damaged))
    return 0


def spent(table: str, commits: Iterable[Commit], *, by_partition: bool, since: date | None = None) -> list[Spent]:
    """Sum up the costs of commits with a record by day and cause, and by partition on request.

    Args:
        table: name of the table.
        commits: its commits.
        by_partition: whether the partitions are told apart.
        since: first UTC day of commits to count.
    """
    groups: dict[tuple[str, date, str], list[tuple[bool, Cost]]] = {}
    for commit in commits:
        record, day = commit.record or commit.maintenance, commit.timestamp.date()
        if record is None or (since and day < since):
            continue
        partition = slice_name(record.partition) if by_partition else ""
        known = record.cost or Cost()
        group = groups.setdefault((partition, day, record.cause), [])
        group.append((known.seconds is not None, _cost_of(commit, known)))
    return [
        Spent(table, *key, len(costs), sum(measured for measured, _ in costs), total(each for _, each in costs))
        for key, costs in groups.items()
    ]


def _cost_of(commit: Commit, known: Cost) -> Cost:
    """Return the cost of a commit, with the added files by the log where the record lacks the files."""
    if known.files_written is not None:
        return known
    files = len(commit.files_added)
    return replace(known, files_written=files, rows_written=commit.rows_added, bytes_written=commit.bytes_added)


def _dearest(each: Spent) -> tuple[object, ...]:
    of = each.cost
    return (-(of.seconds or 0), -(of.bytes_written or 0), each.table, each.day, each.partition, each.cause)


def _print(found: list[Spent], *, since: date | None, as_json: bool) -> None:
    if as_json:
        print_json([each.as_dict() for each in found])
        return
    if not found:
        say(f"No commit {f'since {since} ' if since else ''}has a record.")
        return
    named = any(each.partition for each in found)
    grid = Grid("table", *["partition"] * named, "day", "cause", title="Cost")
    whole = total(each.cost for each in found)
    shown = {heading: figure for heading, figure in _SHOWN.items() if heading != "requests" or figure(whole)}
    for heading in ("commits", *shown):
        grid.add_column(heading, justify="right")
    for each in found:
        where = [each.table, *[each.partition] * named, each.day.isoformat(), each.cause]
        grid.add_row(*where, str(each.commits), *_cells(each.cost, shown))
    grid.add_section()
    commits = str(sum(each.commits for each in found))
    grid.add_row("all", *[""] * (2 + named), commits, *_cells(whole, shown))
    console().print(grid)


def _cells(of: Cost, shown: Mapping[str, Callable[[Cost], float | None]]) -> Iterator[str]:
    """Yield the figures as text; an unknown figure is empty."""
    for figure in shown.values():
        value = figure(of)
        yield "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
