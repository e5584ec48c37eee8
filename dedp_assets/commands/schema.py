"""``dedp schema``: JSON schema of declarations in YAML, for an editor: > .dedp/schema.json.

Examples:
    dedp schema > .dedp/schema.json
"""

from __future__ import annotations

import argparse

from dedp_assets.components.commands import schema
from dedp_assets.graph.resources.environments import Settings

__all__ = ["arguments", "run"]

NEEDS = "dagster"


def arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(_: Settings, __: argparse.Namespace) -> int:
    """Print the schema."""
    return schema()
