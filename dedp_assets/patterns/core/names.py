"""Names: how a column is written in SQL, and which names belong to the library.

Every column of a table is the user's. What the library adds to rows on the way (a verdict, a place within a key) and
what it measures (figures) lives under a prefix that no table may use, so neither can meet a column of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["OUTCOME", "RESERVED", "SUBSTITUTED", "half_character", "identifier", "require_name", "reserved", "unused"]

RESERVED = "__dedp_"
"""Prefix of internal columns and figures, in any case: Spark does not tell names apart by case."""

OUTCOME = f"{RESERVED}outcome"
"""Column of a split that says which part a row belongs to."""

SUBSTITUTED = "${"
"""What begins a reference to a setting or a variable of the environment: Spark replaces it before it parses SQL."""


def identifier(name: str) -> str:
    """Write a column name as one SQL identifier, whatever characters it has: dots, dashes, blanks, backticks.

    Raises:
        ConfigError: for a name that Spark would read as something else, or cannot be told.

    Example:
        >>> identifier("page.url")
        '`page.url`'
    """
    require_name(name)
    return "`" + name.replace("`", "``") + "`"


def require_name(name: str) -> None:
    """Refuse a name that no SQL text can hold: Spark replaces ``${x}`` in every SQL text, and has no way around it.

    Raises:
        ConfigError: names the column.
    """
    if SUBSTITUTED in name:
        raise ConfigError(
            f"a column must have a name without {SUBSTITUTED}, which Spark replaces, not {name!r}: rename it"
        )
    if half := half_character(name):
        raise ConfigError(f"a column must have a name of whole characters, not {name!r} with {half}: rename it")


def half_character(text: str) -> str:
    """Name the first half of a character (a lone surrogate) in a text, which no file can hold; empty if it has none.

    Example:
        >>> half_character("a" + chr(0xD800)), half_character("a")
        ('U+D800', '')
    """
    return next((f"U+{ord(each):04X}" for each in text if "\ud800" <= each <= "\udfff"), "")


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
