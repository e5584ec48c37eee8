"""The rooms of `delta`: few doors from outside, small modules, faces that offer what is there."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from tests.contracts.test_patterns import offered

PACKAGE = "dedp_assets.patterns.delta"
FACES = (PACKAGE, f"{PACKAGE}.maintenance", f"{PACKAGE}.versions")
ROOM = CHECKOUT / PACKAGE.replace(".", "/")
MODULES = sorted(ROOM.rglob("*.py"))
OUTSIDE = sorted(
    path
    for room in ("dedp_assets", "resources", "sensors")
    for path in (CHECKOUT / room).rglob("*.py")
    if ROOM not in path.parents
)


@cache
def imported(path: Path) -> set[str]:
    """Modules of `delta` that a file imports, the package itself among them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in whole if (CHECKOUT / name.replace(".", "/")).with_suffix(".py").exists()}
            found |= modules | ({node.module} if len(modules) < len(whole) else set())
    return {name for name in found if f"{name}.".startswith(f"{PACKAGE}.")}


def test_few_modules_of_delta_are_imported_from_outside():
    """Whoever uses tables learns one face, and not how the rooms behind it are divided."""
    doors = set().union(*(imported(path) for path in OUTSIDE))
    assert PACKAGE in doors
    assert len(doors) <= 8, sorted(doors)


def test_code_outside_of_delta_commits_through_one_function():
    """What the face offers of the room that commits decides, reads or describes; one function writes to a log."""
    room = f"{PACKAGE}.commit."
    offers = {name for face in FACES for name, module in offered(face).items() if module.startswith(room)}
    checks = {"Decision", "already_applied", "only_spark_changes", "other_rows", "same_write", "serves"}
    assert offers == {"commit_actions", "Operation", "read_actions"} | checks
    assert not {door for path in OUTSIDE for door in imported(path) if door.startswith((room, f"{PACKAGE}.storage."))}


@pytest.mark.parametrize("face", FACES)
def test_a_face_offers_what_its_modules_define(face):
    """Type checkers read the imports, Python asks for a name: both find the same."""
    package = importlib.import_module(face)
    names = offered(face)
    assert set(package.__all__) == set(names)
    for name, module in names.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("face", FACES)
def test_a_name_that_a_face_does_not_offer_is_no_attribute(face):
    """As of any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Tabel'"):
        _ = importlib.import_module(face).Tabel


def test_no_module_of_delta_imports_a_face():
    """Faces stand on the rooms; a room that used one would close a circle."""
    assert [path for path in MODULES if imported(path) & set(FACES)] == []


def test_a_face_imports_the_modules_that_are_asked_for_and_no_others():
    """A reader of logs loads no writer."""
    code = f"import sys; from {PACKAGE} import Ledger; sys.exit('{PACKAGE}.tables' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False).returncode == 0


def test_a_module_of_delta_stays_small():
    """At most 300 lines."""
    assert [module for module in MODULES if len(module.read_text().splitlines()) > 300] == []
