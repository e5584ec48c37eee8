"""Declarations in a project's Python modules, and the faults of unloadable modules and tables."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from weakref import WeakKeyDictionary

import dagster as dg

from dedp_assets.components.defining import definitions_of, first_sentence
from dedp_assets.components.yaml.faults import Fault, Place, Refusal
from dedp_assets.graph.declare import LakeJob, LakeTable, Pinned, Request, Step, Target
from dedp_assets.graph.declare.collect import imported
from dedp_assets.graph.declare.starting import starting
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.graph.resources.masking import shown
from dedp_assets.patterns.core.errors import ConfigError, error_line
from dedp_assets.patterns.core.extras import extra_of, needs
from dedp_assets.patterns.core.sql.suggestions import suggestion

__all__ = ["InPython", "Unloadable", "fault_of_import", "in_modules", "tree_of"]

_PLATFORM = CHECKOUT / "dedp_assets"
_SPEC = re.compile(r"""\bTableSpec\(\s*(?:name\s*=\s*)?["'](\w+/\w+)["']""", re.ASCII)
"""A declared table in the text of a module that cannot be imported."""
_TYPES = ", ".join(kind.__name__ for kind in (Pinned, Target, Step, Request))
_REASONS: WeakKeyDictionary[object, str] = WeakKeyDictionary()
"""Declared table or job -> Dagster's reason for a refusal, empty for a sound declaration. A load asks three times."""
_MISSPELT = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")


class Unloadable(ConfigError):
    """A module of a project without which nothing of the project can be loaded.

    Attributes:
        fault: file, line and reason.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True)
class InPython:
    """The declarations in the modules of a package.

    Attributes:
        tables: sound tables, by name.
        jobs: declared jobs, by name.
        refused: place of a module or table with a fault -> name of a table, as far as it is known, and the faults.
    """

    tables: Sequence[LakeTable[...]] = ()
    jobs: Sequence[LakeJob] = ()
    refused: Mapping[Place, Refusal] = field(default_factory=dict)


def tree_of(path_within_project: Path) -> dg.ComponentTree:
    """Return Dagster's tree of a project's definitions.

    Raises:
        Unloadable: if the package of the definitions cannot be imported.
    """
    try:
        return dg.ComponentTree.for_project(path_within_project)
    except Exception as error:
        if fault := fault_of_import(error, path_within_project):
            raise Unloadable(fault) from error
        raise


def in_modules(package: ModuleType, resources: Collection[str] | None = None) -> InPython:
    """Collect the sound declarations below a package, and the faults of the others.

    Args:
        package: the package.
        resources: names of the project's resources; ``None`` if nobody knows them.
    """
    found, root = imported(package), Path(next(iter(package.__path__))).parent
    refused = dict[Place, Refusal]()
    for file, error in found.errors.items():
        fault = fault_of_import(error, root) or Fault(str(file), 1, 1, "", _sentence(error))
        for number, name in enumerate(_named_in(file) or [""]):
            refused[str(file), -number] = (name, [fault])
    sound, writers = dict[str, LakeTable[...]](), dict[str, LakeTable[...]]()
    for table in found.values(LakeTable):
        faults = [*_second_writers(table, writers)] or [
            *_of_resources(table, resources),
            *_undefined(table, table.spec.name, table.function),
        ]
        if faults:
            refused[_place(table.function)] = ("" if table.spec.name in writers else table.spec.name, faults)
        else:
            sound[table.spec.name] = table
        writers = {**{spec.name: table for spec in table.tables}, **writers}
    jobs = dict[str, LakeJob]()
    for job in found.values(LakeJob):
        if job.function and (faults := [*_undefined(job, job.job.name, job.function)]):
            refused[_place(job.function)] = ("", faults)
        else:
            jobs[job.job.name] = job
    return InPython([sound[name] for name in sorted(sound)], [jobs[name] for name in sorted(jobs)], refused)


def fault_of_import(error: BaseException, folder: Path, *, itself: bool = False) -> Fault | None:
    """Return the fault in a project's code behind an error, at the last line in a folder.

    ``None`` for an error of other code alone.

    Args:
        error: the error.
        folder: the folder with the code of the project.
        itself: whether the error must have been raised there, and not in code that is called from there.
    """
    if isinstance(error, SyntaxError) and error.filename and _lies_in(error.filename, folder):
        place = (str(error.filename), error.lineno or 1, error.offset or 1)
        return Fault(*place, "", f"this is no Python: {error.msg}")
    raised = traceback.extract_tb(error.__traceback__)
    frames = [each for each in raised if _lies_in(each.filename, folder)]
    if not frames or (itself and frames[-1] != raised[-1]):
        return None
    return Fault(frames[-1].filename, frames[-1].lineno or 1, 1, "", _sentence(error))


def _lies_in(file: str, folder: Path) -> bool:
    """Return whether a file in a folder is the project's code, and not an installed package's."""
    path = Path(file)
    foreign = path.is_relative_to(_PLATFORM) and not folder.is_relative_to(_PLATFORM)
    return path.is_relative_to(folder) and not foreign and "site-packages" not in path.relative_to(folder).parts


def _sentence(error: BaseException) -> str:
    """Return the reason of a failed import in one line, with the nearest option of a misspelt name."""
    if isinstance(error, ModuleNotFoundError) and (extra := extra_of(error.name)):
        return f"{error.name} {needs(extra)}"
    return shown(f"{error_line(error)}{_nearest_option(error)}")


def _nearest_option(error: BaseException) -> str:
    misspelt = _MISSPELT.search(str(error)) if isinstance(error, TypeError) else None
    if misspelt is None:
        return ""
    # The called function stands in the module that calls it, under its name.
    for frame, _ in reversed([*traceback.walk_tb(error.__traceback__)]):
        called = {**frame.f_globals, **frame.f_locals}.get(misspelt[1])
        if callable(called):
            return suggestion(misspelt[2], inspect.signature(called).parameters)
    return ""


def _named_in(file: Path) -> list[str]:
    """List the tables that the text of a module declares."""
    return [*dict.fromkeys(_SPEC.findall(file.read_bytes().decode("utf-8", "replace")))]


def _second_writers(table: LakeTable[...], writers: Mapping[str, LakeTable[...]]) -> Iterator[Fault]:
    """Yield the fault of each table that another function writes as well."""
    for spec in table.tables:
        if spec.name in writers:
            file, line = _place(writers[spec.name].function)
            place = (*_place(table.function), 1, table.spec.name)
            yield Fault(*place, f"{spec.name} has two writers: {file}:{line} is the other")


def _of_resources(table: LakeTable[...], known: Collection[str] | None) -> Iterator[Fault]:
    """Yield the fault of each parameter that is neither typed as an input or output, nor a resource."""
    for name in sorted(table.resources() - {*known}) if known is not None else ():
        near = suggestion(name, known or ())
        sentence = f"{name} must be a resource of the project, or a parameter with its type ({_TYPES}){near}"
        yield Fault(*_place(table.function), 1, table.spec.name, sentence)


def _undefined(each: LakeTable[...] | LakeJob, name: str, function: Callable[..., object]) -> Iterator[Fault]:
    """Yield the fault of a table or job that Dagster refuses, by the name, owner or schedule."""
    if each not in _REASONS:
        try:
            definitions_of([each]) if isinstance(each, LakeTable) else starting([each])
            _REASONS[each] = ""
        except Exception as error:
            _REASONS[each] = shown(first_sentence(error))
    if reason := _REASONS[each]:
        yield Fault(*_place(function), 1, name, reason)


def _place(function: Callable[..., object]) -> Place:
    code = inspect.unwrap(function).__code__
    return code.co_filename, code.co_firstlineno
