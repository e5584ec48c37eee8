"""Pages of the site: Markdown text by path, with the helpers that every kind of page is written with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHECKOUT", "Page", "fenced", "folded", "linked", "table"]

CHECKOUT = Path(__file__).resolve().parents[2]
"""Folder of the repository."""
_MARKED = re.compile(r"``([^`]+)``")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


@dataclass(frozen=True)
class Page:
    """A page of the site.

    Attributes:
        path: place below the folder of pages, with ``/``.
        title: name in the navigation.
        text: Markdown.
    """

    path: str
    title: str
    text: str


def fenced(text: str, language: str) -> str:
    """Write a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def folded(title: str, text: str) -> str:
    """Write a block that a reader unfolds."""
    inside = "\n".join(f"    {line}" if line else "" for line in text.rstrip().splitlines())
    return f'??? note "{title}"\n\n{inside}\n'


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table; a bar in a cell is escaped."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_outside_of_code(str(cell), '|', '&#124;') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def linked(text: str) -> str:
    """Write the text of a docstring as Markdown: marks of reStructuredText become those of Markdown."""
    return _outside_of_code(_ROLE.sub(r"`\1`", _MARKED.sub(r"`\1`", text)), "<", "&lt;")


def _outside_of_code(text: str, sign: str, escape: str) -> str:
    """Replace a sign that Markdown reads, except in code, where every sign is shown as it is."""
    parts = text.split("`")
    return "`".join(part if number % 2 else part.replace(sign, escape) for number, part in enumerate(parts))
