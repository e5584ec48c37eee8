"""``dedp letters``: dead letters by table, status and class, and of refused partitions, without Spark."""

from __future__ import annotations

import argparse

from dedp_assets.commands._output import Grid, console, note
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.checks.letters import count_letters, refused_letters
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import Lake, lake_of

__all__ = ["arguments", "letters", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(settings: Settings, _: argparse.Namespace) -> int:
    """Print the dead letters."""
    return letters(settings)


def letters(settings: Settings) -> int:
    """Print the dead letters of every table, with counts from the tables' logs, and of refused partitions.

    Raises:
        ConfigError: if there is no home.
    """
    require_home(settings)
    lake = lake_of(settings)
    grid = Grid("table", "status", "error class", title="Dead letters")
    for heading in ("letters", "partitions"):
        grid.add_column(heading, justify="right")
    grid.add_column("oldest, UTC")
    errors = TableErrors()
    for found in count_letters(lake, errors):
        oldest = f"{found.oldest:%Y-%m-%d %H:%M}" if found.oldest else ""
        counts = (str(found.letters), str(found.partitions))
        grid.add_row(found.table, found.status, found.error_class, *counts, oldest)
    terminal, refused = console(), _refused(lake)
    if grid.row_count or not (refused.row_count or errors):
        terminal.print(grid if grid.row_count else "There are no dead letters.")
    if refused.row_count:
        terminal.print(refused)
    for error in errors.values():
        note(f"dedp letters: {error}")
    return 3 if errors else 0


def _refused(lake: Lake) -> Grid:
    """Return the reasons of dead letters in refused partitions, each with a masked record."""
    title = "Dead letters of refused partitions, the most frequent reasons"
    grid = Grid("table", "partition", "letters", "reason", "example", title=title)
    for table, key, refusal in refused_letters(lake):
        for number, each in enumerate(refusal.letters):
            of = (table, key) if number == 0 else ("", "")
            grid.add_row(*of, str(each.letters), each.reason, each.example)
        if refusal.stage:
            grid.add_row("", "", "", "", f"all of them as Parquet: {refusal.stage}")
    return grid
