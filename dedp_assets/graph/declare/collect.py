"""Discovery of declared tables, jobs and sources in the modules of a package."""

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.declare.starting import LakeJob
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["declared", "declared_jobs", "modules_below", "sources"]

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
    names = (name for folder in package.__path__ for _, name in modules_below(package.__name__, folder))
    modules = map(importlib.import_module, names)
    return [value for module in modules for value in vars(module).values() if isinstance(value, kind)]


def modules_below(package: str, folder: str | Path) -> Iterator[tuple[Path, str]]:
    """Yield file and name of each module below the folder of a package.

    A folder without ``__init__.py`` counts: Dagster loads its modules, so its tables are tables of the project.
    """
    for path in sorted(Path(folder).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if all(part.isidentifier() for part in parts):
            yield path, ".".join((package, *parts)).removesuffix(".__init__")
