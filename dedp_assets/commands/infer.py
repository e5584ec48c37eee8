"""``dedp infer``: columns of a landing's files, written beside the declaration in YAML.

Exit code 1: the files cannot be columns as they are.

Examples:
    dedp infer defs/bronze/orders
    dedp infer defs/bronze/orders --again  # replaces columns.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dedp_assets.commands._output import note
from dedp_assets.components.inference.inferring import infer
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.masking import shown
from dedp_assets.patterns.core.errors import ContractError

__all__ = ["arguments", "run"]

NEEDS = "dagster"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the declaration."""
    parser.add_argument("folder", type=Path, help="folder with the declaration")
    parser.add_argument("--again", action="store_true", help="replace columns that are written down")


def run(_: Settings, chosen: argparse.Namespace) -> int:
    """Write the columns; 1 for files that no columns can be inferred from."""
    try:
        return infer(chosen.folder, again=chosen.again)
    except ContractError as error:
        note(f"dedp infer: {shown(str(error))}")
        return 1
