"""Names: how a column is written in SQL, and which names belong to the library.

Every column of a table is the user's. What the library adds to rows on the way (a verdict, a place within a key) and
what it measures (figures) lives under a prefix that no table may use, so neither can meet a column of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["OUTCOME", "RESERVED", "identifier", "reserved", "unused"]

RESERVED = "__dedp_"
"""Prefix of internal columns and figures, in any case: Spark does not tell names apart by case."""

OUTCOME = f"{RESERVED}outcome"
"""Column of a split that says which part a row belongs to."""


def identifier(name: str) -> str:
    """Write a column name as one SQL identifier, whatever characters it has: dots, dashes, blanks, backticks.

    Example:
        >>> identifier("page.url")
        '`page.url`'
    """
    return "`" + name.replace("`", "``") + "`"


def reserved(names: Iterable[str]) -> list[str]:
    """List the names that only the library may give."""
    return [name for name in names if name.lower().startswith(RESERVED)]


def unused(name: str, taken: Iterable[str]) -> str:
    """Lengthen ``name`` until no column in ``taken`` has it: for folders, as a vacuum passes over names like ``_x``.

    Example:
        >>> unused("outcome", ["id", "Outcome"])
        'outcome_'
    """
    others = {other.lower() for other in taken}
    while name.lower() in others:
        name += "_"
    return name
