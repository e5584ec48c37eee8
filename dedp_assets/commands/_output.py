"""Output of commands: lines, tables and documents on the standard output, notes on the error output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any

from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from dedp_assets.patterns.core.errors import printable

__all__ = ["Grid", "answer", "coloured", "console", "note", "print_json", "say"]

_WIDTH = 150


class _Console(Console):
    """Console that shows control characters, and whose caller handles a closed output."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - of rich
        """Return a text with escapes in place of control characters."""
        return super().render_str(printable(text), **options)

    @property
    def file(self) -> IO[str]:
        """The present stream; of the standard output a progress bar takes the lines."""
        return super().file if self.stderr or self._file else sys.stdout

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def on_broken_pipe(self) -> None:
        """Raise the error again."""
        raise BrokenPipeError


class Grid(Table):
    """Table of texts under headings, in which a long word, such as a path, is folded and never cut.

    Args:
        headings: of the columns to the left; further ones by ``add_column``.
        title: line above the table.
    """

    def __init__(self, *headings: str, title: str = "") -> None:
        columns = [Column(heading, overflow="fold") for heading in headings]
        super().__init__(*columns, title=title, title_justify="left")


def console(*, errors: bool = False) -> Console:
    """Return the console for tables and coloured text; ``NO_COLOR`` leaves out the colours.

    Texts are printed as they are: a bracket of a user is no markup, and colours come from :func:`coloured`.

    Args:
        errors: whether the console is the error output.
    """
    shown = (sys.stderr if errors else sys.stdout).isatty()
    return _Console(stderr=errors, width=None if shown else _WIDTH, markup=False, emoji=False)


def coloured(*parts: str | tuple[str, str]) -> Text:
    """Return a line of plain parts, and of parts with a style such as ``bold`` or ``red``."""
    return Text.assemble(*[printable(p) if isinstance(p, str) else (printable(p[0]), p[1]) for p in parts])


def say(text: str) -> None:
    """Print a line."""
    print(printable(text))  # noqa: T201


def answer(content: Any, *lines: RenderableType, as_json: bool) -> None:  # noqa: ANN401 - as of print_json
    """Print the answer of a command, for people or for programs.

    Args:
        content: the document for programs.
        lines: lines, tables and trees for people.
        as_json: whether ``--json`` was given.
    """
    if as_json:
        print_json(content)
        return
    for each in lines:
        say(each) if isinstance(each, str) else console().print(each)


def print_json(content: Any) -> None:  # noqa: ANN401 - any JSON values, records and times
    """Print one document for programs, with times in ISO 8601."""
    print(json.dumps(content, indent=2, default=_plain))  # noqa: T201


def _plain(value: object) -> object:
    """Return a record, a time, a path or a set as JSON values."""
    if isinstance(value, date):  # or a time
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [*value] if isinstance(value, Iterable) and not isinstance(value, Path) else str(value)


def note(text: str) -> None:
    """Print a line on the error output."""
    print(printable(text), file=sys.stderr)  # noqa: T201
