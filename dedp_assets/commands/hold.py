"""``dedp hold``: legal holds of a table's partitions, to list, put and release.

A held partition neither moves to a storage tier nor expires until each who holds it has released it.

Examples:
    dedp hold silver/visits
    dedp hold silver/visits event_date=2026-01-05 --by legal --because "case 17"
    dedp hold silver/visits event_date=2026-01-05 --by legal --release
"""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import answer
from dedp_assets.commands._tables import require_home, require_known
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.delta import holds, shown_holds
from dedp_assets.patterns.delta.maintenance import hold_partition

__all__ = ["arguments", "computes", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the partition, the holder, and the form for programs."""
    add_table(parser)
    parser.add_argument("partition", nargs="?", default="", metavar="COLUMN=VALUE", help="partition to hold")
    parser.add_argument("--by", default="", help="who holds or releases the partition, such as legal")
    parser.add_argument("--because", default="", help="why")
    parser.add_argument("--release", action="store_true", help="give up the hold of --by")
    add_json(parser)


def computes(_: argparse.Namespace) -> bool:
    """Return that nothing is computed: a hold is a line of the log."""
    return False


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Put or release a hold, and print the holds of the table.

    Raises:
        ConfigError: for an unknown table, a partition without rows, or a hold without a holder and a reason.
    """
    lake, now = lake_of(settings), Clock().now()
    require_known(chosen.table, lake.names())
    require_home(settings)
    table, lines = lake.stored(chosen.table), list[str]()
    if chosen.partition:
        by = Provenance(asset=table.name, run_id=f"hold-{now:%Y%m%dT%H%M%S}", at=now)
        held = {"by": chosen.by, "because": chosen.because, "release": chosen.release}
        lines.append(hold_partition(table, _partition(chosen.partition), by, **held).reason)
    elif chosen.release or chosen.by or chosen.because:
        raise ConfigError(
            f"a partition must be stated, not an empty one: `dedp hold {table.name} day=2026-01-05 --by legal "
            "--because 'case 17'`"
        )
    standing = holds(table.ledger)
    lines.append(shown_holds(standing) or f"{table.name}: no partition is on legal hold")
    answer(standing, *lines, as_json=chosen.json)
    return 0


def _partition(stated: str) -> dict[str, str]:
    """Read ``column=value``, or several with commas.

    Raises:
        ConfigError: for a part without a column and a value.
    """
    pairs = [part.partition("=") for part in stated.split(",")]
    if wrong := [column for column, equal, value in pairs if not (column and equal and value)]:
        text = f"a partition must be column=value, such as day=2026-01-05, not {wrong[0] or stated}"
        raise ConfigError(f"{text}: dedp hold TABLE day=2026-01-05 --by legal --because CASE-17")
    return {column.strip(): value.strip() for column, _, value in pairs}
