"""``dedp layout``: declared layout of a table against the stored one, the rewrite, and advice."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Set
from textwrap import indent
from typing import TYPE_CHECKING

from dedp_assets.commands._arguments import add_table
from dedp_assets.commands._output import say
from dedp_assets.commands._tables import opened_if_stored
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import Lake, lake_of
from dedp_assets.graph.run.column_traces import traced_tables
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.running.digests import as_plain
from dedp_assets.patterns.delta.maintenance import FEW_FILES, advise_layout, apply_layout, layout_differences

if TYPE_CHECKING:
    from dedp_assets.patterns.delta import Table

__all__ = ["arguments", "computes", "layout", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, and the options for rewrite and advice."""
    add_table(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--apply", action="store_true", help="rewrite the table as declared; readers and rows stay")
    what.add_argument("--advise", action="store_true", help="what another layout would save; changes nothing")


def computes(chosen: argparse.Namespace) -> bool:
    """Return whether the command rewrites files."""
    return bool(chosen.apply)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the layout, or rewrite the table."""
    return layout(settings, chosen.table, apply=chosen.apply, advise=chosen.advise)


def layout(settings: Settings, name: str, *, apply: bool = False, advise: bool = False) -> int:
    """Print a table's layout with differences from the declaration, the result of a rewrite, or advice.

    Args:
        settings: the home's settings.
        name: the table.
        apply: whether the table is rewritten.
        advise: whether proposals are printed instead.

    Returns:
        0; 1 for a table that lies otherwise than declared.

    Raises:
        ConfigError: if there is no such table, or no home.
    """
    lake = lake_of(settings)
    table = opened_if_stored(settings, lake, name)
    if table is None:
        return 0
    if advise:
        return _advise(lake, table)
    if apply:
        done = apply_layout(table, Provenance(asset=name, run_id="dedp layout", at=Clock().now()))
        say(f"{name}: {done.reason}")
    found = layout_differences(table)
    stated = as_plain(table.spec.layout)
    by = f"partitioned by {', '.join(table.spec.partition_by) or 'nothing'}"
    say(f"{name}: {by}, {', '.join(f'{k}: {v}' for k, v in stated.items()) or 'no layout declared'}")
    for each in found:
        say(f"  {each}")
    if found:
        say(f"  the rewrite changes no row: dedp layout {name} --apply")
    return 1 if found else 0


def _advise(lake: Lake, table: Table) -> int:
    """Print proposals, by the filters in the column lineage of all tables."""
    lineages = traced_tables(lake, lake.names()).values()
    used = {each.column for lineage in lineages for each in lineage.influences if each.table == table.name}
    filters = Counter(
        each.column
        for lineage in lineages
        for each in {(i.table, i.column): i for i in lineage.influences if i.effect == "FILTER"}.values()
        if each.table == table.name
    )
    found = advise_layout(table.ledger, filters)
    stored = list(table.ledger.state().statistics().values())
    files, size = sum(each.files for each in stored), sum(each.bytes for each in stored)
    held = f"{quantity(files, 'files')} of {quantity(size, 'bytes')} in {quantity(len(stored), 'partitions')}"
    by = f"filters by {quantity(len(filters), 'columns')} ({', '.join(sorted(filters)) or 'none'})"
    say(f"{table.name}: {held}; {by} in the lineage of {quantity(len(lineages), 'tables')}")
    for advice in found:
        say(indent(str(advice), "  "))
    if not found:
        few = f"no order of up to {FEW_FILES} files is worth a rewrite" if files <= FEW_FILES else ""
        say(f"  nothing to gain: {few or _without_gain(filters, used)}")
    return 0


def _without_gain(filters: Mapping[str, int], used: Set[str]) -> str:
    """Return the reason why no proposal is made for a table of many files."""
    if not used:
        return "no traced query reads the table"
    return "files are large, and filters open few of them" if filters else "no traced query filters by a column"
