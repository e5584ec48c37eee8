"""Discovery of declared tables, jobs and sources in the modules of a package."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.declare.starting import LakeJob
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Imported", "declared", "declared_jobs", "imported", "modules_below", "sources"]

D = TypeVar("D")


@dataclass(frozen=True)
class Imported:
    """Modules of a package.

    Attributes:
        modules: the modules that could be imported.
        errors: file of each other module -> the error of the import.
    """

    modules: Sequence[ModuleType]
    errors: Mapping[Path, BaseException]

    def values(self, kind: type[D]) -> list[D]:
        """List the values of a kind in the modules, without repetition."""
        found = [value for module in self.modules for value in vars(module).values() if isinstance(value, kind)]
        return [*{id(value): value for value in found}.values()]


def imported(package: ModuleType) -> Imported:
    """Import all modules below a package; the error of one keeps no other from being imported."""
    modules, errors = list[ModuleType](), dict[Path, BaseException]()
    for folder in package.__path__:
        for path, name in modules_below(package.__name__, folder):
            try:
                modules.append(importlib.import_module(name))
            except (Exception, SystemExit) as error:
                errors[path] = error
    return Imported(modules, errors)


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
    found = imported(package)
    for error in found.errors.values():
        raise error
    return found.values(kind)


def modules_below(package: str, folder: str | Path) -> Iterator[tuple[Path, str]]:
    """Yield file and name of each module below the folder of a package.

    A folder without ``__init__.py`` counts: Dagster loads its modules, so its tables are tables of the project.
    """
    for path in sorted(Path(folder).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if all(part.isidentifier() for part in parts):
            yield path, ".".join((package, *parts)).removesuffix(".__init__")
