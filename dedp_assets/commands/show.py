"""``dedp show``: rows of a table, without Spark, with values by class or policy.

Values of columns that lead to persons, and secrets, are masked; ``--as`` reads by the policy of an audience instead.

Examples:
    dedp show silver/visits
    dedp show silver/visits 2026-01-05 --where "status >= 500" --columns page,status
    dedp show silver/visits --as analysts --version 2026-01-05T10:00Z
    dedp show silver/visits --letters --json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import answer
from dedp_assets.commands._rows import as_lines, as_records
from dedp_assets.commands._tables import require_home, require_known
from dedp_assets.graph.catalogue.row_views import LakeRows, ShownRows
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of

__all__ = ["arguments", "run", "show"]

NEEDS = "dagster"
BESIDE = True

_LIMIT = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the partition, the choice of rows and columns, and the reader."""
    add_table(parser)
    meaning = "value of the first partition column, or COLUMN=VALUE with commas between several"
    parser.add_argument("partition", nargs="?", default="", help=meaning)
    parser.add_argument("--where", default="", metavar="SQL", help='predicate, e.g. "status >= 500"')
    parser.add_argument("--columns", default="", metavar="A,B", help="columns to show; all by default")
    parser.add_argument("--limit", type=int, default=_LIMIT, metavar="N", help=f"most rows; {_LIMIT} by default")
    parser.add_argument("--version", default="", metavar="VERSION|TIME|MILESTONE", help="rows as they were then")
    parser.add_argument("--letters", action="store_true", help="the table's dead letters instead")
    add_reader(parser)
    add_json(parser)


def add_reader(parser: argparse.ArgumentParser) -> None:
    """Add the audience whose policies hold."""
    parser.add_argument("--as", dest="audience", default="", metavar="AUDIENCE", help="read by the audience's policies")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the rows."""
    return show(settings, chosen)


def show(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print rows of a table.

    Args:
        settings: the home's settings.
        chosen: the options.

    Raises:
        ConfigError: if there is no home, or no such table, partition, column, version or policy; or for a predicate
            that names a masked column or cannot be evaluated.
    """
    lake = lake_of(settings)
    require_known(chosen.table, lake.names(replicas=True))
    require_home(settings)
    rows = LakeRows(lake, settings, chosen.audience, require_known)
    shown = rows.rows(
        rows.letters(chosen.table) if chosen.letters else chosen.table,
        partition=chosen.partition,
        columns=[name.strip() for name in chosen.columns.split(",") if name.strip()],
        where=chosen.where,
        limit=chosen.limit,
        version=chosen.version,
    )
    title = f"{shown.table}, version {shown.version}{f', {chosen.partition}' if chosen.partition else ''}"
    content = {
        "table": shown.table,
        "version": shown.version,
        "types": shown.types,
        "masked": sorted(shown.masked),
        "rows": as_records(shown.answer),
        "more": shown.answer.more,
    }
    lines = [title, *as_lines(shown.answer, masked=[*shown.masked])] if shown.answer.rows else [f"{title}: no row"]
    answer(content, *lines, *_remarks(shown, chosen.audience), as_json=chosen.json)
    return 0


def _remarks(shown: ShownRows, audience: str) -> Iterator[str]:
    """Yield remarks about further rows and masked columns."""
    if shown.answer.more:
        yield "There are further rows: --limit."
    if masked := [column for column in shown.answer.columns if column in shown.masked]:
        yield f"Masked: {', '.join(masked)}{'' if audience else '; --as AUDIENCE reads by a policy'}."
