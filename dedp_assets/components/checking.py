"""Checks of the declarations below a folder: each YAML file, and all files with the tables in Python."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg

from dedp_assets.components.defining import defined
from dedp_assets.components.kinds import KINDS, TABLE
from dedp_assets.components.yaml.documents import Document, Unreadable, documents
from dedp_assets.components.yaml.drafts import Draft
from dedp_assets.components.yaml.faults import Fault, Place, Refusal
from dedp_assets.graph.declare import LakeTable
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.suggestions import unknown

__all__ = ["FILES", "KEYS", "Checked", "checked", "completed", "drafts_of", "files_below"]

FILES = ("defs.yaml", "defs.yml", "component.yaml")
"""Names of files that Dagster looks for, one in a folder."""
KEYS = ("type", "attributes", "template_vars_module", "requirements", "post_processing")
NOTHING: Mapping[Place, Refusal] = MappingProxyType({})


@dataclass(frozen=True)
class Checked:
    """The declarations of files.

    Attributes:
        declared: place of a document -> what it declares, of any kind.
        definitions: place of a document -> what Dagster shows of its declaration.
        refused: place of a document, or of a declaration in Python -> name of its table, and what is wrong.
        documents: file -> its documents, where all are of the kinds of this package.
    """

    declared: Mapping[Place, Any] = field(default_factory=dict)
    definitions: Mapping[Place, dg.Definitions] = field(default_factory=dict)
    refused: Mapping[Place, Refusal] = field(default_factory=dict)
    documents: Mapping[str, Sequence[Document]] = field(default_factory=dict)

    @property
    def tables(self) -> list[LakeTable[...]]:
        """Declared tables, in the order of the files."""
        several = (each if isinstance(each, tuple) else (each,) for each in self.declared.values())
        return [each for some in several for each in some if isinstance(each, LakeTable)]

    @property
    def faults(self) -> list[Fault]:
        """Faults of all documents, by file and line."""
        return sorted({fault for _, faults in self.refused.values() for fault in faults})


def files_below(folder: Path) -> list[Path]:
    """List the YAML files of components in and below a folder, one for each folder."""
    found: dict[Path, Path] = {}
    for name in FILES:
        for file in folder.rglob(name):
            found.setdefault(file.parent, file)
    return sorted(found.values())


def checked(
    files: Iterable[Path], tables: Sequence[LakeTable[...]] = (), unsound: Mapping[Place, Refusal] = NOTHING
) -> Checked:
    """Check files against each other, and against the tables that are declared in Python.

    Args:
        files: YAML files of components.
        tables: the tables that are declared in Python.
        unsound: the declarations in Python with a fault.
    """
    drafts, refused = list[Draft](), dict(unsound)
    read = dict[str, Sequence[Document]]()
    for file in files:
        text, wrong = _read(file)
        found, more, all_ours = _drafts_of(text, str(file)) if text is not None else ([], [], False)
        wrong += more
        drafts += found
        if wrong:
            refused[str(file), 0] = ("", wrong)
        elif all_ours:
            read[str(file)] = [each.document for each in found]
    in_python = {spec.name: spec for table in tables for spec in table.tables}
    writers = dict.fromkeys(in_python, "a table in Python")
    specs: dict[str, TableSpec | None] = {**in_python}
    for each in drafts:
        _refuse_second_writers(each, writers)
        specs = {
            **({each.name: None} if each.name and not each.tables else {}),
            **{s.name: s for s in each.tables},
            **specs,
        }
    # A module that cannot be imported may name the tables that it reads, too.
    specs = {**{name: None for name, _ in unsound.values() if name}, **specs}
    made, shown = dict[Place, Any](), dict[Place, dg.Definitions]()
    for each in drafts:
        place = (each.document.file, each.document.line)
        declaration, definitions, wrong = completed(each, specs)
        if definitions is None:
            refused[place] = ("" if each.second else each.name, wrong)
        else:
            made[place], shown[place] = declaration, definitions
    sound = {
        *(spec.name for table in tables for spec in table.tables),
        *(name for each in drafts for name in _sound(each, made)),
    }
    return Checked(made, shown, _with_own_names(refused, sound), read)


def _sound(found: Draft, made: Mapping[Place, Any]) -> list[str]:
    """List the assets of a draft that a declaration was made of."""
    return [name for name, _ in found.written()] if (found.document.file, found.document.line) in made else []


def _with_own_names(refused: Mapping[Place, Refusal], sound: Iterable[str]) -> dict[Place, Refusal]:
    """Leave the name of a faulty document out where another document has the name, since an asset has one."""
    taken, found = set(sound), dict[Place, Refusal]()
    for place, (name, faults) in refused.items():
        found[place] = ("" if name in taken else name, faults)
        taken.add(name)
    return found


def completed(found: Draft, specs: Mapping[str, TableSpec | None]) -> tuple[Any, dg.Definitions | None, list[Fault]]:
    """Make the declaration and the definitions of a draft.

    Args:
        found: the draft.
        specs: every declared table by name; ``None`` for one whose declaration cannot be read.

    Returns:
        Declaration, definitions and faults; for a faulty draft the definitions are ``None``.
    """
    kind = KINDS[found.type]
    declaration, faults = kind.declare(found, specs)
    definitions, more = defined(declaration, found.document, kind.define) if declaration else (None, [])
    return declaration, definitions, [*faults, *more]


def _read(file: Path) -> tuple[str | None, list[Fault]]:
    try:
        return file.read_text(encoding="utf-8"), []
    except (OSError, UnicodeDecodeError) as error:
        return None, [Fault(str(file), 1, 1, "", f"this file cannot be read: {error}")]


def drafts_of(text: str, file: str) -> tuple[list[Draft], list[Fault]]:
    """Return the drafts of a file's text, and the faults of the file as a whole."""
    drafts, faults, _ = _drafts_of(text, file)
    return drafts, faults


def _drafts_of(text: str, file: str) -> tuple[list[Draft], list[Fault], bool]:
    """Return drafts and faults of a text, and whether all documents are of the kinds of this package."""
    try:
        found = documents(text, file)
    except Unreadable as error:
        return [], [Fault.of(error)], False
    if not found:
        return [], [Fault(file, 1, 1, "", f"this file is empty: write type: {TABLE}, and attributes")], False
    drafts, faults = [], list[Fault]()
    for document in found:
        wrong = list(_of_document(document))
        faults += wrong
        if not wrong and document.value["type"] in KINDS:
            drafts.append(KINDS[document.value["type"]].draft(document))
    return drafts, faults, len(drafts) == len(found)


def _of_document(document: Document) -> Iterator[Fault]:
    """Yield the faults of a document that Dagster would refuse for the whole location."""
    value = document.value
    if not isinstance(value, dict):
        yield Fault.at(document, (), "a document must be a mapping with type and attributes")
        return
    for key in value:
        if key not in KEYS:
            yield Fault.at(document, (key,), unknown("key", key, KEYS), key=True)
    kind = value.get("type")
    if kind is None:
        if not any(key not in KEYS for key in value):
            yield Fault.at(document, (), "type is missing")
    elif not isinstance(kind, str) or not _is_known(kind):
        yield Fault.at(document, ("type",), unknown("type", str(kind), KINDS))
    if not isinstance(kind, str) or kind not in KINDS:
        yield from map(Fault.of, document.faults)


def _is_known(kind: str) -> bool:
    if kind.startswith("."):
        return True  # of the project's own modules: Dagster resolves it
    module, _, name = kind.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), name) if module else False
    except Exception:
        return False


def _refuse_second_writers(found: Draft, writers: dict[str, str]) -> None:
    """Note the assets that a draft computes, and refuse assets with another writer."""
    for name, path in found.written():
        fault = Fault.at(found.document, path, f"{name} has two writers: {writers.get(name)} is the other")
        if name in writers:
            found.faults.append(fault)
            found.second = True
        writers.setdefault(name, f"{fault.file}:{fault.line}")
