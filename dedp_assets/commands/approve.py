"""``dedp approve``: publish of a partition whose audit was a false positive, in a person's name.

Exit code 1: the partition, or a partition that follows from it, was refused or failed.

Examples:
    dedp approve gold/daily_visitors 2026-01-05 --by Ada --because "the shop was closed"
    dedp approve gold/daily_visitors 2026-01-05 --by Ada --because "a holiday" --audit visitors_as_usual
"""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._runs import compute, require_computable
from dedp_assets.graph.outcomes.run_tags import (
    APPROVED_AUDITS,
    APPROVED_BECAUSE,
    APPROVED_BY,
    CAUSE,
    COMPARE,
    FORCE,
)
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.patterns.core.records import Approval

__all__ = ["arguments", "computes", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the partition, the person, the reason, and the form for programs."""
    add_table(parser)
    parser.add_argument("partition", nargs="?", default="", help="partition key, e.g. 2026-01-05")
    parser.add_argument("--by", required=True, help="who decides")
    parser.add_argument("--audit", action="append", default=[], help="audit that is meant; some ask for their name")
    parser.add_argument("--because", required=True, help="why it is a false positive")
    add_json(parser)


def computes(_: argparse.Namespace) -> bool:
    """Return that the command computes."""
    return True


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Compute the partition under the approval, then the partitions that the run makes stale.

    The exit code is 1 if one of these partitions is refused or fails.
    """
    Approval(chosen.by, chosen.because)  # refuses an empty name or reason
    require_computable(chosen.table)
    platform = Platform(settings)
    platform.require_partition(chosen.table, chosen.partition)
    refused = platform.require_approvable(chosen.table, chosen.partition)
    # What was asked of the refused run is asked again: a run without force would take a partition as it is.
    asked = {tag: refused[tag] for tag in (FORCE, COMPARE) if tag in refused}
    named = {APPROVED_AUDITS: ",".join(chosen.audit)} if chosen.audit else {}
    tags = {**asked, APPROVED_BY: chosen.by, APPROVED_BECAUSE: chosen.because, CAUSE: "approval", **named}
    return compute(platform, chosen.table, [chosen.partition], tags, as_json=chosen.json)
