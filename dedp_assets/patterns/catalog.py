"""The catalogue: every pattern of the library, found by walking the modules of the chapters.

The place of a module is the registration of the pattern.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, get_type_hints

from pyspark.sql import DataFrame

import dedp_assets.patterns as library
from dedp_assets.patterns.core.measuring.measurements import Measured
from dedp_assets.patterns.core.results import Access, Finding, Plan, Split, WriteResult

__all__ = ["KINDS", "Pattern", "patterns"]

KINDS = {
    DataFrame: "transform",
    Split: "transform",
    WriteResult: "write",
    Finding: "inspect",
    Measured: "inspect",
    Plan: "plan",
    Access: "access",
}
"""What a pattern's main function returns -> its kind."""
_ROOMS = {"core", "delta", "connectors"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of the library, read from the pattern's module.

    Attributes:
        id: ``chapter.module``.
        kind: ``transform``, ``write``, ``inspect``, ``plan`` or ``access``, from the main function's return type.
        function: the main function, the first name of the module's ``__all__``.
        options: keyword-only parameters of the main function, by name.
        summary: the module's first line.
        module: where it lives.
    """

    id: str
    kind: str
    function: Callable[..., Any]
    options: tuple[str, ...]
    summary: str
    module: ModuleType


def patterns() -> Iterator[Pattern]:
    """List every pattern, by chapter and name."""
    for chapter in pkgutil.iter_modules(library.__path__):
        if chapter.ispkg and chapter.name not in _ROOMS:
            package = importlib.import_module(f"{library.__name__}.{chapter.name}")
            for module in pkgutil.iter_modules(package.__path__):
                if not module.name.startswith("_"):
                    yield _pattern(chapter.name, importlib.import_module(f"{package.__name__}.{module.name}"))


def _pattern(chapter: str, module: ModuleType) -> Pattern:
    name = module.__name__.rpartition(".")[2]
    function = next(f for n in module.__all__ if inspect.isfunction(f := getattr(module, n)))
    returned = get_type_hints(function).get("return")
    if returned not in KINDS:
        raise TypeError(f"{module.__name__}.{function.__name__} returns {returned}, which is no kind of pattern")
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind is keyword)
    summary = (module.__doc__ or "").strip().splitlines()[0]
    return Pattern(f"{chapter}.{name}", KINDS[returned], function, options, summary, module)
