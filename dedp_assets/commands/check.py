"""``dedp check``: faults of declarations in YAML and Python, and of contracts, without Spark.

Exit code 1: a declaration in YAML or Python, or a contract, has a fault.

Examples:
    dedp check
    dedp check --json
    dedp check --format github
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Collection
from pathlib import Path

from dedp_assets.commands import contract
from dedp_assets.commands._arguments import add_json
from dedp_assets.components.commands import check
from dedp_assets.components.defining import first_sentence
from dedp_assets.components.modules import Unloadable
from dedp_assets.components.yaml.faults import Fault
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.masking import shown
from dedp_assets.project import project

__all__ = ["arguments", "run"]

NEEDS = "dagster"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder, and the form of the faults."""
    parser.add_argument("folder", nargs="?", type=Path, help="folder (default: the project's definitions)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=["text", "json", "github"], default="text", help="how faults are written")
    add_json(form, dest="format", action="store_const", const="json")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the faults."""
    known, resources = _location(chosen.folder)
    faulty = check(chosen.folder, known, resources, style=chosen.format)
    # A list of faults for a program has no place for contracts, and a folder alone has none.
    if faulty or chosen.folder or chosen.format != "text" or not project().contracts().names():
        return faulty
    return contract.check(settings, Clock().now())


def _location(folder: Path | None) -> tuple[list[Fault], Collection[str] | None]:
    """Load the project's definitions; return their faults, and the names of the resources."""
    try:
        code = project(folder)
        file = code.entry().__file__
    except Unloadable as error:
        return [error.fault], None
    except ValueError:  # without a project, the files alone are checked
        return [], None
    logging.disable()  # the faults of the declarations are printed once, by the check
    try:
        loaded = code.definitions()
        loaded.get_repository_def()
    except Unloadable as error:
        return [error.fault], None
    except Exception as error:
        return [Fault(str(file), 1, 1, "", shown(first_sentence(error)))], None
    finally:
        logging.disable(logging.NOTSET)
    return [], [*(loaded.resources or ())]
