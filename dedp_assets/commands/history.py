"""``dedp history``: place and size of the run history, or a copy at another place.

Examples:
    dedp history --json
    dedp history --to own
"""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import answer
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.orchestration.history import history

__all__ = ["arguments", "run"]

NEEDS = "local"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the other place, and the form for programs."""
    parser.add_argument("--to", default="", metavar="PLACE", help="sqlite, own (PostgreSQL of `dedp up`), or a URL")
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the place, or copy the history."""
    content, text = history(settings, to=chosen.to)
    answer(content, text, as_json=chosen.json)
    return 0
