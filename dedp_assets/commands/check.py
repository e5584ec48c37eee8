"""``dedp check``: faults of declarations in YAML, and of contracts, without Spark."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from dedp_assets.commands import contract
from dedp_assets.components.commands import check
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.project import project

__all__ = ["arguments", "run"]

NEEDS = "dagster"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder, and the form of the faults."""
    parser.add_argument("folder", nargs="?", type=Path, help="folder (default: the project's definitions)")
    parser.add_argument("--format", choices=["text", "json", "github"], default="text", help="how faults are written")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the faults."""
    with suppress(ValueError):  # without a project, the files alone are checked
        project(chosen.folder).be_importable()
    faulty = check(chosen.folder, style=chosen.format)
    # A list of faults for a program has no place for contracts, and a folder alone has none.
    if faulty or chosen.folder or chosen.format != "text" or not project().contracts().names():
        return faulty
    return contract.check(settings, Clock().now())
