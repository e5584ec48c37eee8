"""Tables of docs, written from the code by ``python -m tests.contracts.readme FILE ...``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import groupby
from pathlib import Path

from dedp_assets.commands._manual import manuals
from dedp_assets.graph.resources.environments import AlertSettings, Settings, variables_of
from dedp_assets.laptop.doors import DOORS
from dedp_assets.patterns import catalog
from dedp_assets.patterns.catalog import Pattern

__all__ = ["with_tables"]

_PLACE = re.compile(r"(<!-- (\w+): `make format` writes them -->\n).*?(?=<!-- end of \2 -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """Replace the text between each two marks of ``text`` by the table that the marks name.

    Raises:
        ValueError: if no marks are there.
    """
    replaced, times = _PLACE.subn(lambda found: found[1] + "".join(f"{row}\n" for row in _TABLES[found[2]]()), text)
    if not times:
        raise ValueError("the text has no place for a table: put back the two marks around the table")
    return replaced


def _settings() -> list[str]:
    """Write a table row for each setting."""
    lines = ["| Variable | Setting | Default |", "|---|---|---|"]
    for kind in (Settings, AlertSettings):
        defaults = {each.name: each.default for each in fields(kind)}
        for name, known in variables_of(kind).items():
            lines.append(f"| `{known.name}` | {known.about} | {known.default or f'`{defaults[name]}`'} |")
    return lines


def _patterns() -> list[str]:
    """Write a table row for each pattern, chapters in the book's order."""
    lines = ["| Chapter | Pattern | Promise | Functions |", "|---|---|---|---|"]
    for chapter, patterns in groupby(sorted(catalog.patterns(), key=_place), key=lambda p: p.id.partition(".")[0]):
        title = chapter.replace("_", " ").capitalize()
        for pattern in patterns:
            lines.append(f"| {title} | {_cells(pattern)} |")
            title = ""
    return lines


def _place(pattern: Pattern) -> tuple[int, str]:
    """Return a pattern's sort key: the number in the chapter's docstring, then the pattern's id."""
    package = inspect.getdoc(sys.modules[pattern.module.__name__.rpartition(".")[0]]) or ""
    number = re.search(r"\d+", package)
    return int(number[0]) if number else sys.maxsize, pattern.id


def _cells(pattern: Pattern) -> str:
    name, _, promise = pattern.summary.partition(": ")
    main, *others = [n for n in pattern.module.__all__ if inspect.isfunction(getattr(pattern.module, n))]
    functions = ", ".join([f"`{pattern.id}.{main}`", *(f"`{other}`" for other in others)])
    return f"{name} | {promise} | {functions}"


def _doors() -> list[str]:
    """Write a table row for each door of the laptop's servers."""
    head = ["| Door | Needed | With `DEDP_SECURE=on` | What stays open, and why |", "|---|---|---|---|"]
    rows = (f"| {door.name} | {door.opens} | {door.locked or '**no lock**'} | {door.reason} |" for door in DOORS)
    return [*head, *rows]


def _commands() -> list[str]:
    """Write a table row for each command, by its manual."""
    rows = [
        f"| `dedp {name}` | {manual.sentence} | {manual.needs and f'`[{manual.needs}]`'} | {manual.fails} |"
        for name, manual in manuals().items()
    ]
    return ["| Command | Says or does | Extra | What exit code 1 means |", "|---|---|---|---|", *rows]


_TABLES: Mapping[str, Callable[[], list[str]]] = {
    "commands": _commands,
    "doors": _doors,
    "patterns": _patterns,
    "settings": _settings,
}


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        file.write_text(with_tables(file.read_text()))
