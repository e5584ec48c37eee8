"""``dedp status``: troubles first, then the newest commits of each table by partition.

Exit code 1: a trouble needs somebody, or something could not be read; nothing is called right that nobody looked at.

Examples:
    dedp status
    dedp status silver/visits --json
    dedp status --page status.html
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import Grid, console, print_json, say
from dedp_assets.commands._page import collect, print_troubles
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.status_page.making import Maker
from dedp_assets.laptop.status_page.model import Page, as_json, details_as_json
from dedp_assets.laptop.status_page.render import render

__all__ = ["arguments", "run", "status"]

NEEDS = "dagster"
BESIDE = True
_COUNTS = ("version", "read", "= written", "+ dead", "+ duplicate")
_FINE = ("ok", "empty")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, and the forms besides text."""
    add_table(parser, default="all tables")
    add_json(parser)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the status page to a file of HTML instead")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the status, or write the page; 1 if somebody is needed, or something could not be read."""
    return status(settings, table=chosen.table, json=chosen.json, file=chosen.page)


def status(settings: Settings, *, table: str = "", json: bool = False, file: Path | None = None) -> int:
    """Print the page of the home in a form; return the exit code.

    Args:
        settings: where everything is.
        table: the only table to print; empty for all tables.
        json: whether to print for programs.
        file: file of HTML to write instead, in a folder that is there.

    Raises:
        ConfigError: if there is no such table.
    """
    maker, page = collect(settings)
    if table:
        require_table(table, [each.name for each in page.tables])
    if file:
        file.write_text(render(page, served=False), encoding="utf-8")
        say(f"{len(page.open)} troubles; written to {file}")
    elif json:
        details = maker.details(page, table) if table else None
        print_json(details_as_json(details) if details else as_json(page))
    else:
        _print(maker, page, table)
    row = page.table(table)
    fine = page.verdict in _FINE if row is None else row.verdict in _FINE and not page.notices
    return 0 if fine else 1


def _print(maker: Maker, page: Page, table: str) -> None:
    terminal = console()
    print_troubles(terminal, page, table)
    for row in page.tables:
        if table in ("", row.name) and maker.version(row.name) >= 0:
            terminal.print(_grid(maker, row.name))


def _grid(maker: Maker, name: str) -> Grid:
    """Return the newest commit of each partition, with the causes of rewrites since the first commit."""
    grid = Grid("partition", title=f"{name}, version {maker.version(name)}")
    for heading in _COUNTS:
        grid.add_column(heading, justify="right")
    grid.add_column("verdict")
    grid.add_column("rebuilt because of")
    for key, commit in sorted(maker.written(name).items()):
        counts = [str(count) for count in commit.counts.values()] or [""] * (len(_COUNTS) - 1)
        texts = (commit.verdict or commit.operation, ", ".join(commit.rebuilt))
        grid.add_row(key or "all", str(commit.version), *counts, *texts)
    return grid
