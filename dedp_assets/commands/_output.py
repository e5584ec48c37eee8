"""Output of commands: lines and tables for people on the standard output, notes on the error output."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from dedp_assets.patterns.core.errors import printable

__all__ = ["Grid", "coloured", "console", "note", "print_json", "say"]

_WIDTH = 150


class _Console(Console):
    """Console that shows control characters, and whose caller handles a closed output."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - of rich
        """Return a text with escapes in place of control characters."""
        return super().render_str(printable(text), **options)

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


def console() -> Console:
    """Return the console for tables and coloured text.

    Texts are printed as they are: a bracket of a user is no markup, and colours come from :func:`coloured`.
    """
    return _Console(width=_WIDTH, markup=False, emoji=False)


def coloured(*parts: str | tuple[str, str]) -> Text:
    """Return a line of plain parts, and of parts with a style such as ``bold`` or ``red``."""
    return Text.assemble(*[printable(p) if isinstance(p, str) else (printable(p[0]), p[1]) for p in parts])


def say(text: str) -> None:
    """Print a line."""
    print(printable(text))  # noqa: T201


def print_json(content: Any) -> None:  # noqa: ANN401 - any JSON values
    """Print a document for programs."""
    print(json.dumps(content, indent=2))  # noqa: T201


def note(text: str) -> None:
    """Print a line on the error output."""
    print(printable(text), file=sys.stderr)  # noqa: T201
