"""``dedp letters``: dead letters of every table by status and class, and of refused partitions."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dedp_assets.graph.checks.letters import count_letters, refused_letters
from dedp_assets.resources.environments import Settings
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.spark import SparkEngine

__all__ = ["letters"]


def letters(settings: Settings) -> int:
    """Print the dead letters of every table, with counts from the tables' logs, and of refused partitions."""
    lake, console = Lake(root=str(settings.lakehouse), engine=SparkEngine()), Console(width=150)
    grid = Grid("table", "status", "error class", title="Dead letters", title_justify="left")
    for heading in ("letters", "partitions"):
        grid.add_column(heading, justify="right")
    grid.add_column("oldest, UTC")
    for found in count_letters(lake):
        oldest = f"{found.oldest:%Y-%m-%d %H:%M}" if found.oldest else ""
        counts = (str(found.letters), str(found.partitions))
        grid.add_row(found.table, found.status, escape(found.error_class), *counts, oldest)
    refused = _refused(lake)
    if grid.row_count or not refused.row_count:
        console.print(grid if grid.row_count else "There are no dead letters.")
    if refused.row_count:
        console.print(refused)
    return 0


def _refused(lake: Lake) -> Grid:
    """Return the reasons of dead letters in refused partitions, each with a masked record."""
    title = "Dead letters of refused partitions, the most frequent reasons"
    grid = Grid("table", "partition", "letters", "reason", "example", title=title, title_justify="left")
    for table, key, note in refused_letters(lake):
        for number, each in enumerate(note.letters):
            of = (table, key) if number == 0 else ("", "")
            grid.add_row(*of, str(each.letters), escape(each.reason), escape(each.example))
        if note.stage:
            grid.add_row("", "", "", "", escape(f"all of them as Parquet: {note.stage}"))
    return grid
