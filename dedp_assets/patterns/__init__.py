"""The library: one data engineering design pattern per module, on PySpark and Delta, without Dagster.

``dedp_assets.patterns.catalog`` lists them; they stand on ``core`` (words and rules),
``delta`` (tables) and ``connectors`` (systems that data comes from).

This package is also the face of the library: ``from dedp_assets.patterns import Table, TableSpec, overwrite_partition``
imports every public function of a pattern, and what a script needs beside them. The names stand in ``__init__.pyi``,
which type checkers and editors read and ``make format`` writes; a module is imported when its name is asked for first.
"""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path
from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    if module := _modules().get(name):
        return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules()})


@cache
def _modules() -> dict[str, str]:
    """Map exported names to their modules."""
    found = ast.parse(Path(__file__).with_suffix(".pyi").read_text())
    imports = [statement for statement in found.body if isinstance(statement, ast.ImportFrom)]
    return {alias.name: str(statement.module) for statement in imports for alias in statement.names}
