"""``dedp classify``: proposed classes of a table's columns beside the declared classes.

Exit code 1: a column looks personal and is of no class, or public.

Examples:
    dedp classify silver/visits
    dedp classify silver/visits --json
"""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import Grid, answer
from dedp_assets.commands._tables import opened_if_stored
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.governance.column_classifier import propose_classes

__all__ = ["arguments", "classify", "computes", "run"]

NEEDS = "dagster"
BESIDE = True
_ROW = ("column", "declared", "proposed", "evidence")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, and the form for programs."""
    add_table(parser)
    add_json(parser)


def computes(_: argparse.Namespace) -> bool:
    """Return that the command computes: a sample of rows."""
    return True


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the proposals."""
    return classify(settings, chosen.table, as_json=chosen.json)


def classify(settings: Settings, name: str, *, as_json: bool = False) -> int:
    """Print declared and proposed class of each column with evidence in counts, without a value.

    Args:
        settings: the home's settings.
        name: the table.
        as_json: whether to print for programs.

    Returns:
        0; 1 if a column looks like more than it is declared as.

    Raises:
        ConfigError: if there is no such table, or no home.
    """
    lake = lake_of(settings)
    table = opened_if_stored(settings, lake, name, as_json=as_json)
    if table is None:
        return 0
    proposed = {each.column: each for each in propose_classes(table.read())}
    grid, found = Grid(*_ROW, title=f"Classes of {name}"), []
    for column, declared in table.spec.columns.items():
        each = proposed.get(column)
        row = (column, declared.classification, each.classification if each else "", each.evidence if each else "")
        grid.add_row(*row)
        found.append({**dict(zip(_ROW, row, strict=True)), "open": bool(each and not each.is_answered(declared))})
    open_ = sum(bool(each["open"]) for each in found)
    how = 'in Python Column(..., classification="personal"), in YAML classification: personal'
    answer(found, grid, f"to look at: {open_}; {how}", as_json=as_json)
    return 1 if open_ else 0
