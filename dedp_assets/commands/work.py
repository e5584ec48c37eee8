"""``dedp work``: steps of the case study's applications, in the database and by published visits.

Examples:
    dedp work --steps 20
"""

from __future__ import annotations

import argparse

from dedp_assets.case_study.workload import work
from dedp_assets.graph.resources.environments import Settings

__all__ = ["arguments", "run"]

NEEDS = "local"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the number of steps."""
    parser.add_argument("--steps", type=int, default=1, help="how many steps of the seeded workload (default 1)")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Do the steps."""
    return work(settings, steps=chosen.steps)
