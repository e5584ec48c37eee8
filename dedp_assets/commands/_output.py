"""Output of commands: lines and tables for people on the standard output, notes on the error output."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

__all__ = ["console", "note", "print_json", "say"]

_WIDTH = 150


class _Console(Console):
    """A console that leaves a closed output to its caller."""

    def on_broken_pipe(self) -> None:
        """Raise the error again."""
        raise BrokenPipeError


def console() -> Console:
    """Return the console for tables and coloured text."""
    return _Console(width=_WIDTH)


def say(text: str) -> None:
    """Print a line."""
    print(text)  # noqa: T201


def print_json(content: Any) -> None:  # noqa: ANN401 - any JSON values
    """Print a document for programs."""
    print(json.dumps(content, indent=2))  # noqa: T201


def note(text: str) -> None:
    """Print a line beside the output, on the error output."""
    print(text, file=sys.stderr)  # noqa: T201
