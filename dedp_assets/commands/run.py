"""``dedp run``: one partition of a table, then the partitions that the run makes stale.

Exit code 1: the partition, or a partition that follows from it, was refused or failed.

Examples:
    dedp run silver/visits 2026-01-05
    dedp run bronze/devices --force  # a table without partitions
"""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._runs import compute, require_computable
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.orchestration.instance import Platform

__all__ = ["arguments", "computes", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the partition, and the form for programs."""
    add_table(parser)
    parser.add_argument("partition", nargs="?", default="", help="partition key, e.g. 2026-01-05")
    parser.add_argument("--force", action="store_true", help="also if nothing it is computed from has changed")
    add_json(parser)


def computes(_: argparse.Namespace) -> bool:
    """Return that the command computes."""
    return True


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Compute the partition, then the partitions that the run makes stale.

    The exit code is 1 if one of these partitions is refused or fails.
    """
    require_computable(chosen.table)
    platform = Platform(settings)
    platform.require_partition(chosen.table, chosen.partition)
    tags = {FORCE: "true"} if chosen.force else {}
    return compute(platform, chosen.table, [chosen.partition], tags, as_json=chosen.json)
