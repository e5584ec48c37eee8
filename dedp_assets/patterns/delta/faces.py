"""Lazy package exports: names imported from submodules on first access."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from functools import cache
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from typing import Any, cast

__all__ = ["lazily"]


def lazily(package: ModuleSpec) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package from the type-checking imports in the package's source.

    Args:
        package: the package's ``__spec__``.
    """

    @cache
    def modules() -> dict[str, str]:
        source = cast(InspectLoader, package.loader).get_source(package.name) or ""
        found = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ImportFrom)]
        own = [each for each in found if str(each.module).startswith(f"{package.name}.")]
        return {alias.name: str(each.module) for each in own for alias in each.names}

    def look_up(name: str) -> Any:  # noqa: ANN401 - a class or a function
        if module := None if name.startswith("__") else modules().get(name):
            return getattr(importlib.import_module(module), name)
        raise AttributeError(f"module {package.name!r} has no attribute {name!r}")

    return look_up
