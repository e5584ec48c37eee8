"""``dedp history``: place and size of the run history, or a copy at another place."""

from __future__ import annotations

import argparse

from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.orchestration.history import history

__all__ = ["arguments", "run"]

NEEDS = "local"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the other place."""
    parser.add_argument("--to", default="", metavar="PLACE", help="sqlite, own (PostgreSQL of `dedp up`), or a URL")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the place, or copy the history."""
    return history(settings, to=chosen.to)
