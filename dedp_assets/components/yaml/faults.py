"""Faults of declarations: one record with file, line, path, message and the nearest right name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Literal

from pydantic_core import ErrorDetails

from dedp_assets.components.yaml.documents import Document, Path, Unreadable
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.sql.suggestions import among, unknown

__all__ = ["Fault", "Misfit", "Place", "Refusal", "faults_of", "rendered"]

_REPLACED = {"personal": "personal is a class now: write classification: personal"}
"""Option of a former release -> sentence about the spelling of today."""
Format = Literal["text", "json", "github"]


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """A fault of a declaration.

    Attributes:
        file: file of the declaration.
        line: line in the file, from 1.
        column: column in the line, from 1.
        path: keys that lead to the fault, with dots between them.
        message: what is wrong, with the nearest right name if there is one.
    """

    file: str
    line: int
    column: int
    path: str
    message: str

    @classmethod
    def at(cls, document: Document, path: Path, message: str, *, key: bool = False) -> Fault:
        """Return the fault at a path of a document, or at the nearest existing part of the path.

        Args:
            document: the document.
            path: keys that lead to the fault.
            message: what is wrong.
            key: whether the fault is the last key of the path and not its value.
        """
        mark = document.mark(path, key=key)
        return cls(document.file, mark.line, mark.column, ".".join(map(str, path)), message)

    @classmethod
    def of(cls, error: Unreadable) -> Fault:
        """Return the fault of a text that is no YAML, or not the YAML of a declaration."""
        return cls(error.file, error.mark.line, error.mark.column, ".".join(map(str, error.path)), error.message)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


Place = tuple[str, int]
"""File and line of a declaration; a line of 0 or less stands for a file that Dagster could not load, either."""
Refusal = tuple[str, Sequence[Fault]]
"""Faults of a declaration, after the name of the declared table; the name is empty if unknown."""


class Misfit(ConfigError):
    """A part of a document that no declaration can be made of.

    Attributes:
        path: keys that lead to the part.
        key: whether the last key of the path is at fault and not its value.
    """

    def __init__(self, path: Path, message: str, *, key: bool = False) -> None:
        super().__init__(message)
        self.path, self.key = path, key

    def fault(self, document: Document) -> Fault:
        """Return the fault with the place in a document."""
        return Fault.at(document, self.path, str(self), key=self.key)


def rendered(faults: Iterable[Fault], style: Format) -> str:
    """Write faults for people, for programs, or as annotations of a pull request."""
    if style == "json":
        return json.dumps({"format_version": 1, "faults": [asdict(fault) for fault in faults]}, indent=2)
    return "\n".join(_annotation(fault) if style == "github" else str(fault) for fault in faults)


def faults_of(
    errors: Iterable[ErrorDetails], document: Document, prefix: Path, known: Mapping[Path, Any]
) -> list[Fault]:
    """Return the faults behind pydantic's errors, one for each mistake.

    A required option under a misspelt name is one mistake and two errors.

    Args:
        errors: pydantic's errors.
        document: the validated document.
        prefix: path of the validated part.
        known: path of a mapping -> the names that it may have.
    """
    found = [(_within(document, (*prefix, *error["loc"]), error["type"]), error) for error in errors]
    missing = {path: path[-1] for path, error in found if error["type"] == "missing"}
    strange = {path for path, error in found if error["type"] == "extra_forbidden"}
    # What YAML reads as something else is a fault of the document already, at the same place.
    misread = {each.path for each in document.faults}
    faults = []
    for path, error in found:
        siblings = [str(name) for other, name in missing.items() if other[:-1] == path[:-1]]
        if error["type"] == "extra_forbidden":
            if replaced := _REPLACED.get(str(path[-1])):
                faults.append(Fault.at(document, path, replaced, key=True))
                continue
            names = siblings if among(str(path[-1]), siblings) else known.get(path[:-1], ())
            faults.append(Fault.at(document, path, unknown("option", str(path[-1]), names), key=True))
        elif path not in misread and (error["type"] != "missing" or not _is_misspelt(path, strange)):
            faults.append(Fault.at(document, path, _sentence(error, path)))
    return list(dict.fromkeys(faults))


def _is_misspelt(path: Path, strange: Iterable[Path]) -> bool:
    others = [str(other[-1]) for other in strange if other[:-1] == path[:-1]]
    return any(among(other, [str(path[-1])]) for other in others)


def _within(document: Document, loc: Path, kind: str) -> Path:
    """Return an error's place without pydantic's tags for alternatives and keys."""
    path: Path = ()
    for part in loc:
        if document.holds((*path, part)) or (kind == "missing" and part == loc[-1]):
            path = (*path, part)
    return path


_WANTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "date_type": "a date, like 2026-01-05",
    "date_parsing": "a date, like 2026-01-05",
    "date_from_datetime_parsing": "a date, like 2026-01-05",
    "datetime_type": "a time with its zone, like 2026-01-05T12:00:00Z",
    "datetime_parsing": "a time with its zone, like 2026-01-05T12:00:00Z",
    "datetime_from_date_parsing": "a time with its zone, like 2026-01-05T12:00:00Z",
    "timezone_aware": "a time with its zone, like 2026-01-05T12:00:00Z",
}


def _sentence(error: ErrorDetails, path: Path) -> str:
    # An element of a list has the name of the list.
    name = next((part for part in reversed(path) if isinstance(part, str)), "the document")
    kind, value = error["type"], error["input"]
    if kind == "missing":
        return f"{name} is missing"
    if value is None:
        return f"{name} is empty: give it a value, or leave the key out"
    if kind == "one_of":
        return f"{name} {error['msg']}"
    wanted, hint = _wanted(error)
    return f"{name} must be {wanted}, not {_shown(value)}{hint}" if wanted else f"{name}: {error['msg']}"


def _wanted(error: ErrorDetails) -> tuple[str, str]:
    """Return the valid values and a hint; empty texts for a rule in pydantic's own words."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "literal_error":
        return context["expected"], _of_literals(value, context["expected"])
    if kind == "union_tag_invalid":
        return context["expected_tags"].replace("'", "").replace(", ", " or "), ""
    if kind == "string_pattern_mismatch":
        return "package.module:name" if ":" in context["pattern"] else "a text that is not empty", ""
    quoted = kind == "string_type" and isinstance(value, int | float)
    return _WANTED.get(kind, ""), ": write it in quotes" if quoted else ""


def _of_literals(value: object, wanted: str) -> str:
    near = get_close_matches(str(value), wanted.replace("'", "").replace(" or ", ", ").split(", "), 1)
    return f": did you mean {near[0]}?" if near else ""


def _shown(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    return str(value).lower() if isinstance(value, bool) else f"{value!r:.60}"


def _annotation(fault: Fault) -> str:
    text = f"{fault.path}: {fault.message}" if fault.path else fault.message
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::error file={fault.file},line={fault.line},col={fault.column}::{escaped}"
