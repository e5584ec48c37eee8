"""Names that modules give: each export has a caller in the product or a line in the docs; each class has its own."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from dedp_assets.graph.resources.environments import CHECKOUT

ROOMS = ("dedp_assets", "resources", "sensors")
MODULES = {file: ast.parse(file.read_text()) for room in ROOMS for file in sorted((CHECKOUT / room).rglob("*.py"))}
DOCS = "\n".join(file.read_text() for file in [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").glob("*.md")])
PAGES = "\n".join(ast.get_docstring(tree) or "" for file, tree in MODULES.items() if "/patterns/" in str(file))
"""Docstrings of modules, which the site of the docs shows."""
SETTINGS = "\n".join(file.read_text() for file in (CHECKOUT / "dedp_assets").rglob("*.yaml"))


def exported(tree: ast.Module) -> list[str]:
    """The names of a module's ``__all__``."""
    named = [each for each in tree.body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__"]
    return [name for each in named for name in ast.literal_eval(each.value)]


def used(tree: ast.Module) -> set[str]:
    """The names that a module reads, apart from imports that it only hands on."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return names | {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} | {*found_by_name(tree)}


def found_by_name(tree: ast.Module) -> Iterator[str]:
    """The names that a module reads of others by ``getattr``."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "getattr":
            yield ast.unparse(call.args[1]).strip("'")


def registered(tree: ast.Module) -> set[str]:
    """Functions that Dagster or Python finds by a decorator, a name or a module's place."""
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef) and each.decorator_list and
            ast.unparse(each.decorator_list[0]).startswith(("dg.", "lake_"))}  # fmt: skip


def test_an_export_has_a_caller_in_the_product_or_a_line_in_the_docs():
    """A name that only tests read is code without a use."""
    read = set().union(*map(used, MODULES.values()))
    idle = [
        f"{file.relative_to(CHECKOUT)}: {name}"
        for file, tree in MODULES.items()
        for name in {*exported(tree)} - read - registered(tree)
        if not re.search(rf"\b{name}\b", f"{DOCS}{PAGES}{SETTINGS}")
    ]
    assert idle == []


def shared_names(modules: Mapping[Path, ast.Module]) -> dict[str, list[str]]:
    """Class name -> the places of its classes, for every name that two classes bear, inner ones included."""
    places = defaultdict(list)
    for file, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file}:{node.lineno}")
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def test_no_two_classes_of_the_product_bear_one_name():
    """Whoever reads a class name in an error, an import or a review knows which class is meant."""
    shared = shared_names({file.relative_to(CHECKOUT): tree for file, tree in MODULES.items()})
    assert not shared, "name one class of each by what it is: " + "; ".join(
        f"{name} in {', '.join(places)}" for name, places in shared.items()
    )


def test_a_class_name_in_two_modules_or_twice_in_one_is_found():
    """The contract can fail: for classes of modules, private ones, and ones inside a function."""
    inner = "def f():\n    class _Seen: ...\n"
    modules = {
        "a.py": "class Span: ...\nclass _Seen: ...",
        "b.py": f"class Span: ...\n{inner}",
        "c.py": "class Own: ...",
    }
    shared = shared_names({Path(file): ast.parse(text) for file, text in modules.items()})
    assert shared == {"Span": ["a.py:1", "b.py:1"], "_Seen": ["a.py:2", "b.py:3"]}
