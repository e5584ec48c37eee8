"""``dedp setup``: jars of the Spark engine, and its class-data archive, made ready once."""

from __future__ import annotations

import argparse

from dedp_assets.local import engine
from dedp_assets.resources.environments import Settings

__all__ = ["arguments", "run"]


def arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(settings: Settings, _: argparse.Namespace) -> int:
    """Fetch and record."""
    engine.prepare(settings)
    return 0
