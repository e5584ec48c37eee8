"""``dedp run``: one partition of a table, then the partitions that the run makes stale."""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_table
from dedp_assets.commands._runs import compute, require_computable
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.orchestration.instance import Platform

__all__ = ["arguments", "computes", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table and the partition."""
    add_table(parser)
    parser.add_argument("partition", nargs="?", default="", help="partition key, e.g. 2026-01-05")
    parser.add_argument("--force", action="store_true", help="also if nothing it is computed from has changed")


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
    return compute(platform, chosen.table, chosen.partition, {FORCE: "true"} if chosen.force else {})
