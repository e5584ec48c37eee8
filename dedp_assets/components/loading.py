"""Loading of a location's folder of definitions, with an asset of the faults for each bad file."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg

from dedp_assets.components.checking import FILES, Checked, checked, completed, files_below
from dedp_assets.components.defining import all_refused, refused
from dedp_assets.components.kinds import KINDS
from dedp_assets.components.modules import InPython, in_modules, tree_of
from dedp_assets.components.yaml.documents import documents
from dedp_assets.components.yaml.faults import Fault
from dedp_assets.components.yaml.reading import handed_on
from dedp_assets.graph.declare import LakeTable
from dedp_assets.graph.declare.collect import modules_below

__all__ = ["FolderDefinitions", "component_in", "component_of", "load"]

Parts = tuple[Any, dg.Definitions]
"""Declaration of a document (``None`` for a faulty one), and Dagster's definitions of tables or faults."""
_CHECKED: ContextVar[Checked | None] = ContextVar("checked", default=None)
"""The declarations of the location that loads."""
_LOG = logging.getLogger("dagster")


@dataclass(frozen=True)
class FolderDefinitions:
    """Contents of a folder of definitions.

    Attributes:
        definitions: what Dagster finds in Python and YAML, tables in YAML and faults included, tables in Python not.
        tables: the tables that are declared in YAML.
        faults: what is wrong with files.
        in_python: the declarations in Python.
    """

    definitions: dg.Definitions
    tables: Sequence[LakeTable[...]]
    faults: Sequence[Fault]
    in_python: InPython


def load(path_within_project: Path, resources: Collection[str] | None = None) -> FolderDefinitions:
    """Load a project's folder of definitions, as ``dg.load_from_defs_folder`` does, without bad files.

    A file that Dagster cannot load takes the location down there. Here the folders are then loaded one by one: what
    parent folders say in ``post_processing`` is lost until the file is mended.

    Args:
        path_within_project: a path in the project.
        resources: names of the project's resources; ``None`` if nobody knows them.
    """
    tree = tree_of(path_within_project)
    files, python = files_below(tree.defs_module_path), in_modules(tree.defs_module, resources)
    found = checked(files, python.tables, python.refused)
    for fault in found.faults:
        _LOG.error("%s", fault)
    token = _CHECKED.set(found)
    try:
        with handed_on(found.documents):
            definitions = _whole(tree, found) or _piecewise(tree, found, files)
    finally:
        _CHECKED.reset(token)
    merged = dg.Definitions.merge(definitions, all_refused(found.refused[place] for place in python.refused))
    return FolderDefinitions(merged, found.tables, found.faults, python)


def component_in(file: str, line: int, context: dg.ComponentLoadContext) -> Parts:
    """Return the declaration of the document at a line of a file, and the definitions or the faults."""
    found = _CHECKED.get() or _checked_of(context.component_tree)
    if (file, line) in found.declared:
        return found.declared[file, line], found.definitions[file, line]
    unread = Fault(file, line, 1, "", "this document was changed while it was loaded: load it again")
    return None, refused(*found.refused.get((file, line), ("", [unread])))


def component_of(kind: str, stated: Any) -> Parts:  # noqa: ANN401 - attributes
    """Return the declaration of attributes that stand in no file, and the definitions or the faults.

    Args:
        kind: type of the component.
        stated: the attributes.
    """
    (document,) = documents(json.dumps({"type": kind, "attributes": stated}), "<attributes>")
    found = KINDS[kind].draft(document)
    declaration, definitions, faults = completed(found, {})
    return (declaration, definitions) if definitions else (None, refused(found.name, faults))


_LATEST: list[tuple[Any, Checked]] = []


def _checked_of(tree: dg.ComponentTree) -> Checked:
    """Check the declarations of a tree that Dagster loads by itself, once for all components."""
    if not _LATEST or _LATEST[0][0] is not tree:
        python = in_modules(tree.defs_module)
        _LATEST[:] = [(tree, checked(files_below(tree.defs_module_path), python.tables, python.refused))]
    return _LATEST[0][1]


def _whole(tree: dg.ComponentTree, found: Checked) -> dg.Definitions | None:
    """Load everything at once; nothing if a file cannot be loaded by Dagster."""
    if any(line <= 0 for _, line in found.refused):
        return None
    try:
        return tree.build_defs()
    except Exception as error:
        if not files_below(tree.defs_module_path):
            raise
        _LOG.error("folders are loaded one by one: %s", _sentence(error))
        return None


def _piecewise(tree: dg.ComponentTree, found: Checked, files: Sequence[Path]) -> dg.Definitions:
    """Load each folder with a YAML file by itself, and all modules in Python."""
    unread = {file for file, line in found.refused if line <= 0}
    loaded = [dg.load_definitions_from_modules(list(_modules(tree, files, unread)))]
    for file in files:
        if str(file) in unread:
            loaded += _without_dagster(str(file), found)
            continue
        parts = file.parent.relative_to(tree.defs_module_path).parts
        try:
            module = importlib.import_module(".".join((tree.defs_module_name, *parts)))
            alone = dg.ComponentTree.from_module(defs_module=module, project_root=tree.project_root)
            loaded.append(alone.build_defs_at_path(file.parent))
        except Exception as error:
            fault = Fault(str(file), 1, 1, "", _sentence(error))
            _LOG.error("%s", fault)
            loaded.append(refused("", [fault]))
    return dg.Definitions.merge(*loaded)


def _without_dagster(file: str, found: Checked) -> list[dg.Definitions]:
    """Return the tables and the faults of a file that Dagster cannot load."""
    sound = [each for place, each in found.definitions.items() if place[0] == file]
    return [*sound, *(refused(*each) for place, each in found.refused.items() if place[0] == file)]


def _modules(tree: dg.ComponentTree, files: Sequence[Path], unread: Collection[str]) -> Iterator[ModuleType]:
    """Yield the importable Python modules outside of folders with a YAML file."""
    yaml = {file.parent for file in files}
    for path, name in modules_below(tree.defs_module_name, tree.defs_module_path):
        if not yaml & set(path.parents) and path.name not in FILES and str(path) not in unread:
            yield importlib.import_module(name)


def _sentence(error: Exception) -> str:
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
