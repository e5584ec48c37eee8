"""``dedp classify``: proposed classes of a table's columns beside the declared classes."""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_table
from dedp_assets.commands._output import Grid, console, say
from dedp_assets.commands._tables import opened_if_stored
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.governance.column_classifier import propose_classes

__all__ = ["arguments", "classify", "computes", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table."""
    add_table(parser)


def computes(_: argparse.Namespace) -> bool:
    """Return that the command computes: a sample of rows."""
    return True


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the proposals."""
    return classify(settings, chosen.table)


def classify(settings: Settings, name: str) -> int:
    """Print declared and proposed class of each column with evidence in counts, without a value.

    Args:
        settings: the home's settings.
        name: the table.

    Returns:
        0; 1 if a column looks like more than it is declared as.

    Raises:
        ConfigError: if there is no such table, or no home.
    """
    lake = lake_of(settings)
    table = opened_if_stored(settings, lake, name)
    if table is None:
        return 0
    proposed = {each.column: each for each in propose_classes(table.read())}
    grid, open_ = Grid("column", "declared", "proposed", "evidence", title=f"Classes of {name}"), 0
    for column, declared in table.spec.columns.items():
        found = proposed.get(column)
        open_ += found is not None and not found.is_answered(declared)
        grid.add_row(
            column, declared.classification, found.classification if found else "", found.evidence if found else ""
        )
    console().print(grid)
    say(f'to look at: {open_}; in Python Column(..., classification="personal"), in YAML classification: personal')
    return 1 if open_ else 0
