"""``dedp setup``: jars and class-data archive of the Spark engine, made ready once.

Examples:
    dedp setup
"""

from __future__ import annotations

import argparse

from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.servers import engine

__all__ = ["arguments", "run"]


def arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(settings: Settings, _: argparse.Namespace) -> int:
    """Fetch and record."""
    engine.prepare(settings)
    return 0
