"""``dedp explain``: origin of a partition's rows: runs, inputs, files, code, approvals, restores.

With ``--row`` the way of one row down to the line of a landing file, or where a row ended that is not in the partition.
With ``--against`` the rows that came, went and changed since a version, or that would with the refused rows in their
place (``--against refused``). Everything is read from the tables' logs and
files, without Spark. Values are shown by the classes of the columns, as examples of dead letters are.

Exit code 1: the row of --row is not in the partition, or the rows differ from those of --against.

Examples:
    dedp explain gold/daily_visitors 2026-01-05
    dedp explain silver/visits 2026-01-05 --row visit_id=1767571896_0
    dedp explain silver/visits 2026-01-05 --against 3
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._explained import differences_grid, endings_grid, origin_tree, trail_tree
from dedp_assets.commands._output import answer
from dedp_assets.commands._tables import require_home, require_known
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.observe.origins.asked import Asked, compared, row_wanted
from dedp_assets.graph.observe.origins.endings import Endings
from dedp_assets.graph.observe.origins.trails import Trails
from dedp_assets.graph.observe.origins.tree import Origins
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.project import project

__all__ = ["arguments", "explain", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the partition, the row, the version, and the form for programs."""
    add_table(parser)
    parser.add_argument("partition", nargs="?", default="", help="partition key, e.g. 2026-01-05")
    asked = parser.add_mutually_exclusive_group()
    row = "row to follow; a value alone is of the declared key, and further ones narrow the row down"
    asked.add_argument("--row", action="append", default=[], metavar="COLUMN=VALUE", help=row)
    asked.add_argument(
        "--against",
        default="",
        metavar="VERSION|TIME|MILESTONE|refused",
        help="version, or refused rows, to compare the rows with",
    )
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the explanation; return 1 for a missing row, or for rows that differ."""
    return explain(settings, chosen.table, chosen.partition, row=chosen.row, against=chosen.against, json=chosen.json)


def explain(
    settings: Settings,
    table: str,
    partition: str = "",
    *,
    row: Sequence[str] = (),
    against: str = "",
    json: bool = False,
) -> int:
    """Print the origin of a partition's rows, the trail of a row, or the differences from a version.

    Args:
        settings: where everything is.
        table: the table.
        partition: key of the partition; empty for a table without partitions.
        row: ``column=value`` of one row, or the value of the declared key.
        against: version, instant, milestone or refused rows to compare with; empty for no comparison.
        json: whether to print for programs.

    Returns:
        1 if the row is not in the partition, or the rows differ.

    Raises:
        ConfigError: for an unknown table, partition or column, a table without rows, or a version that is gone.
        NotReady: if there is no such version or milestone.
    """
    lake = lake_of(settings)
    require_known(table, lake.names())
    require_home(settings)
    trails = Trails(Origins(lake, _declared()))
    if not lake.ledger(table).exists():
        why = trails.origins.refused(table, partition) or "nothing is stored"
        raise ConfigError(f"{table} has no rows yet, as {why}: `dedp plan {table}`")
    asked = Asked.of(trails.stored, table, partition)
    if row:
        return _explain_row(trails, asked, row, json=json)
    if against:
        found = compared(trails.stored, asked, against)
        answer({**asked.as_dict(), **found}, *differences_grid(asked, found), as_json=json)
        return 0 if found["differences"].is_empty else 1
    origin = trails.origins.of(table, asked.values, asked.key)
    answer({**asked.as_dict(), "origin": origin}, origin_tree(origin), as_json=json)
    return 0


def _explain_row(trails: Trails, asked: Asked, row: Sequence[str], *, json: bool) -> int:
    """Print the trail of a row, or where a missing row ended."""
    wanted = row_wanted(trails.stored, asked, row)
    trail = trails.of(asked.table, [asked.values], asked.version, [wanted])
    ends = [] if trail else Endings(trails).of(asked.table, asked.values, wanted)
    named = trails.stored.named(asked.table, wanted)
    shown = [trail_tree(trail, [*wanted])] if trail else endings_grid(asked, named, ends)
    answer({**asked.as_dict(), "row": named, "trail": trail, "ended": ends}, *shown, as_json=json)
    return 0 if trail else 1


def _declared() -> list[LakeTable[...]]:
    """Return the project's tables; none for a project that does not load, as other commands report that."""
    with suppress(Exception):
        return project().tables()
    return []
