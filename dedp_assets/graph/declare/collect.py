"""Discovery of declared tables, jobs and sources in the modules of a package."""

import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType
from typing import TypeVar

from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.declare.starting import LakeJob
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["declared", "declared_jobs", "sources"]

D = TypeVar("D")


def declared(package: ModuleType) -> list[LakeTable[...]]:
    """Collect the declared tables of all modules below a package, by name."""
    found = {table.spec.name: table for table in _found(package, LakeTable)}
    return [found[name] for name in sorted(found)]


def declared_jobs(package: ModuleType) -> list[LakeJob]:
    """Collect the declared jobs of all modules below a package, by name."""
    found = {each.job.name: each for each in _found(package, LakeJob)}
    return [found[name] for name in sorted(found)]


def sources(tables: Iterable[LakeTable[...]]) -> list[Source]:
    """List the sources of the declared tables by name, without repetition.

    Raises:
        ConfigError: if two differing ones have the same name.
    """
    found: dict[str, Source] = {}
    for source in (source for table in tables for source in table.reads.sources):
        if found.setdefault(source.name, source) != source:
            raise ConfigError(f"{source.name} is declared twice as a source, and differently: import the one declared")
    return [found[name] for name in sorted(found)]


def _found(package: ModuleType, kind: type[D]) -> list[D]:
    names = [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    return [value for value in values if isinstance(value, kind)]
