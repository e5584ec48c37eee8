"""``dedp layout``: declared layout of a table against the stored one, the rewrite, and advice.

Exit code 1: the table lies otherwise than it is declared, also after --apply.

Examples:
    dedp layout silver/visits
    dedp layout silver/visits --advise --json
    dedp layout silver/visits --apply
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Set
from textwrap import indent
from typing import TYPE_CHECKING

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import answer
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
    """Add the table, the options for rewrite and advice, and the form for programs."""
    add_table(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--apply", action="store_true", help="rewrite the table as declared; readers and rows stay")
    what.add_argument("--advise", action="store_true", help="what another layout would save; changes nothing")
    add_json(parser)


def computes(chosen: argparse.Namespace) -> bool:
    """Return whether the command rewrites files."""
    return bool(chosen.apply)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the layout, or rewrite the table."""
    return layout(settings, chosen.table, apply=chosen.apply, advise=chosen.advise, as_json=chosen.json)


def layout(settings: Settings, name: str, *, apply: bool = False, advise: bool = False, as_json: bool = False) -> int:
    """Print a table's layout with differences from the declaration, the result of a rewrite, or advice.

    Args:
        settings: the home's settings.
        name: the table.
        apply: whether the table is rewritten.
        advise: whether proposals are printed instead.
        as_json: whether to print for programs.

    Returns:
        0; 1 for a table that lies otherwise than declared.

    Raises:
        ConfigError: if there is no such table, or no home.
    """
    lake = lake_of(settings)
    table, lines = opened_if_stored(settings, lake, name, as_json=as_json), list[str]()
    if table is None:
        return 0
    if advise:
        return _advise(lake, table, as_json=as_json)
    if apply:
        done = apply_layout(table, Provenance(asset=name, run_id="dedp layout", at=Clock().now()))
        lines.append(f"{name}: {done.reason}")
    found = layout_differences(table)
    stated = as_plain(table.spec.layout)
    by = f"partitioned by {', '.join(table.spec.partition_by) or 'nothing'}"
    lines.append(f"{name}: {by}, {', '.join(f'{k}: {v}' for k, v in stated.items()) or 'no layout declared'}")
    lines += [f"  {each}" for each in found]
    if found:
        lines.append(f"  the rewrite changes no row: dedp layout {name} --apply")
    content = {"table": name, "partition_by": table.spec.partition_by, "layout": stated}
    answer({**content, "differences": [*map(str, found)]}, *lines, as_json=as_json)
    return 1 if found else 0


def _advise(lake: Lake, table: Table, *, as_json: bool) -> int:
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
    lines = [f"{table.name}: {held}; {by} in the lineage of {quantity(len(lineages), 'tables')}"]
    few = f"no order of up to {FEW_FILES} files is worth a rewrite" if files <= FEW_FILES else ""
    idle = "" if found else few or _without_gain(filters, used)
    lines += [indent(str(advice), "  ") for advice in found] or [f"  nothing to gain: {idle}"]
    figures = {"files": files, "bytes": size, "partitions": len(stored), "filters": filters}
    answer({"table": table.name, **figures, "advice": found, "nothing_to_gain": idle}, *lines, as_json=as_json)
    return 0


def _without_gain(filters: Mapping[str, int], used: Set[str]) -> str:
    """Return the reason why no proposal is made for a table of many files."""
    if not used:
        return "no traced query reads the table"
    return "files are large, and filters open few of them" if filters else "no traced query filters by a column"
