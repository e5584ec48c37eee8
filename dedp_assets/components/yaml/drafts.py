"""Drafts: validated documents before the other declarations are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dedp_assets.components.yaml.documents import Document, Path
from dedp_assets.components.yaml.faults import Fault
from dedp_assets.graph.catalogue.table_names import is_table_name
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["ROOT", "Draft", "fault_of_rule", "faults_of_name"]

ROOT: Path = ("attributes",)
"""Path of the attributes in a document."""


@dataclass
class Draft:
    """A declaration before other declarations are known.

    Attributes:
        document: the YAML document.
        attributes: its validated attributes; ``None`` if they have faults.
        tables: the tables that it declares, the main one first; empty if they have faults themselves.
        faults: what is wrong with the document by itself.
        second: whether a table of it has another writer.
    """

    document: Document
    attributes: Any = None
    tables: tuple[TableSpec, ...] = ()
    faults: list[Fault] = field(default_factory=list)
    second: bool = False

    @property
    def type(self) -> str:
        """Type of the component."""
        return str(self.document.value["type"])

    @property
    def name(self) -> str:
        """Name of the table, or of the component's asset; empty if unreadable."""
        return _text(self.document.value, *ROOT, "table", "name") or _text(self.document.value, *ROOT, "name")

    def written(self) -> Iterator[tuple[str, Path]]:
        """Yield the names of the assets that the declaration computes, with paths."""
        if not self.tables and (name := _text(self.document.value, *ROOT, "name")):
            yield name, (*ROOT, "name")
        for number, spec in enumerate(self.tables):
            yield spec.name, (*ROOT, "table", "name") if number == 0 else (*ROOT, "beside", number - 1, "name")


def fault_of_rule(error: ConfigError, document: Document) -> Fault:
    """Return the fault of a declaration that breaks a rule, at the option that the sentence names first."""
    sentence = str(error)
    words = sentence.partition(": ")[2] or sentence
    option = words.partition(" ")[0].rpartition(".")[2].strip(",=:")
    places = [path for path in document.marks if path and path[-1] == option and path[:1] == ROOT]
    return Fault.at(document, min(places, key=len, default=ROOT), sentence)


def faults_of_name(document: Document, option: str, name: str) -> Iterator[Fault]:
    """Yield the fault of a name of a table or an asset that is not ``layer/dataset``."""
    if not is_table_name(name) or name.count("/") != 1:
        yield Fault.at(document, (*ROOT, option), f"{option} must be layer/dataset, not {name!r}")


def _text(value: Any, *path: str | int) -> str:  # noqa: ANN401 - any document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
