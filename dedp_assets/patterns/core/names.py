"""Names: column names as SQL identifiers, and names reserved for the library.

Every column of a table is the user's. What the library adds to rows on the way (a verdict, a place within a key) and
what it measures (figures) lives under a prefix that no table may use, so neither can meet a column of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dedp_assets.patterns.core.errors import ConfigError

__all__ = [
    "NAMED_ROWS",
    "OUTCOME",
    "RESERVED",
    "SUBSTITUTED",
    "half_character",
    "printable",
    "identifier",
    "require_name",
    "reserved",
    "select_list",
    "unused",
]

RESERVED = "__dedp_"
"""Prefix of internal columns and figures, in any case: Spark does not tell names apart by case."""

NAMED_ROWS = "table "
"""Prefix of a table's alias in query plans; the blank keeps aliases of queries apart."""

OUTCOME = f"{RESERVED}outcome"
"""Column of a split that says which part a row belongs to."""

SUBSTITUTED = "${"
"""What begins a reference to a setting or a variable of the environment: Spark replaces it before it parses SQL."""


def identifier(name: str) -> str:
    """Write a column name as a quoted SQL identifier, with any dots, dashes, blanks and backticks.

    Raises:
        ConfigError: for a name that Spark would read as something else, or cannot be told.

    Example:
        >>> identifier("page.url")
        '`page.url`'
    """
    require_name(name)
    return "`" + name.replace("`", "``") + "`"


def select_list(columns: Mapping[str, str]) -> list[str]:
    """Write the select list of columns, name -> SQL, for ``selectExpr``.

    A text crosses to the JVM in one call, an expression object and the column that it becomes in about eight. The SQL
    is the library's own: a comment at its end would hide the name.

    Example:
        >>> select_list({"id": "`id`", "the day": "DATE '2026-01-05'"})
        ['`id`', "DATE '2026-01-05' AS `the day`"]
    """
    return [sql if sql == identifier(name) else f"{sql} AS {identifier(name)}" for name, sql in columns.items()]


def require_name(name: str) -> None:
    """Refuse a column name with ``${``, which Spark substitutes in SQL, or with a lone surrogate.

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
    """Return the first lone surrogate of a text, as ``U+D800``; empty for a text without lone surrogates.

    Example:
        >>> half_character("a" + chr(0xD800)), half_character("a")
        ('U+D800', '')
    """
    if text.isascii():  # most texts, of which there may be hundreds of thousands
        return ""
    return next((f"U+{ord(each):04X}" for each in text if "\ud800" <= each <= "\udfff"), "")


def printable(name: str) -> str:
    r"""Return a text with escapes for bytes that are not valid UTF-8, and for lone surrogates.

    Example:
        >>> printable("a" + chr(0xDCFF) + ".csv")
        'a\\xff.csv'
    """
    return "".join(_escaped(each) if "\ud800" <= each <= "\udfff" else each for each in name)


def _escaped(half: str) -> str:
    """Escape a lone surrogate: as the byte of Python's ``surrogateescape``, or by code point."""
    return f"\\x{ord(half) - 0xDC00:02x}" if "\udc80" <= half <= "\udcff" else f"\\u{ord(half):04x}"


def reserved(names: Iterable[str]) -> list[str]:
    """List the names that only the library may give."""
    return [name for name in names if name.lower().startswith(RESERVED)]


def unused(name: str, taken: Iterable[str]) -> str:
    """Lengthen ``name`` until no column in ``taken`` has the name, case aside.

    A suffix and not a prefix, because a vacuum passes over folders with names like ``_x``.

    Example:
        >>> unused("outcome", ["id", "Outcome"])
        'outcome_'
    """
    others = {other.lower() for other in taken}
    while name.lower() in others:
        name += "_"
    return name
