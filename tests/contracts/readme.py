"""README's table of patterns, written from the catalogue by ``python -m tests.contracts.readme``."""

from __future__ import annotations

import inspect
import re
import sys
from itertools import groupby
from pathlib import Path

from dedp_assets.patterns import catalog
from dedp_assets.patterns.catalog import Pattern

__all__ = ["with_table"]

_TABLE = re.compile(r"(?<=<!-- patterns: `make format` writes them -->\n).*?(?=<!-- end of patterns -->)", re.DOTALL)
_HEAD = ["| Chapter | Pattern | Promise | Functions |", "|---|---|---|---|"]


def with_table(text: str) -> str:
    """Replace the text between the marks of ``text`` by the table of all patterns.

    Raises:
        ValueError: if the marks are not there.
    """
    table = "\n".join([*_HEAD, *_rows()]) + "\n"
    replaced, times = _TABLE.subn(lambda _: table, text)
    if times != 1:
        raise ValueError("README has no place for the table of patterns: put back the two marks around it")
    return replaced


def _rows() -> list[str]:
    """Write a table row for each pattern, chapters in the book's order."""
    lines: list[str] = []
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


if __name__ == "__main__":
    readme = Path(sys.argv[1])
    readme.write_text(with_table(readme.read_text()))
