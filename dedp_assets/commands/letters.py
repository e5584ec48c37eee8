"""``dedp letters``: dead letters of every table, by status and error class, without starting Spark."""

from __future__ import annotations

import argparse

from rich.table import Table as Grid

from dedp_assets.commands._output import console
from dedp_assets.graph.checks.letters import count_letters
from dedp_assets.resources.environments import Settings
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.spark import SparkEngine

__all__ = ["arguments", "letters", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(settings: Settings, _: argparse.Namespace) -> int:
    """Print the dead letters."""
    return letters(settings)


def letters(settings: Settings) -> int:
    """Print the dead letters of every table, with counts from the tables' logs."""
    grid = Grid("table", "status", "error class", title="Dead letters", title_justify="left")
    for heading in ("letters", "partitions"):
        grid.add_column(heading, justify="right")
    grid.add_column("oldest, UTC")
    for found in count_letters(Lake(root=str(settings.lakehouse), engine=SparkEngine())):
        oldest = f"{found.oldest:%Y-%m-%d %H:%M}" if found.oldest else ""
        counts = (str(found.letters), str(found.partitions))
        grid.add_row(found.table, found.status, found.error_class, *counts, oldest)
    console().print(grid if grid.row_count else "There are no dead letters.")
    return 0
