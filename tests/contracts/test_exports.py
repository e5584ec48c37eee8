"""Exports: what a module offers is called by the product, or stands in the docs for users of the library."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dedp_assets.resources.environments import CHECKOUT

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
        if (
            isinstance(call, ast.Call)
            and ast.unparse(call.func) == "getattr"
            and isinstance(call.args[1], ast.Constant)
        ):
            yield str(call.args[1].value)


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
