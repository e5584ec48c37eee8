"""Refusal of tables with columns that may not leave, or without a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dedp_assets.patterns.core.classes import CLASSES, Place, shown
from dedp_assets.patterns.core.column import Column
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["EXPORTS", "is_export", "require_classified", "require_may_leave", "require_open_partitions"]

EXPORTS = ("export", "serving")
"""Layers of tables that others than the platform's teams read."""


def is_export(table: str) -> bool:
    """Return whether other readers than the platform's teams read a table, by layer.

    Args:
        table: ``layer/dataset``.
    """
    return table.partition("/")[0] in EXPORTS


def require_classified(table: str, columns: Mapping[str, Column], *, to: str) -> None:
    """Refuse columns without a class, before a value leaves.

    Args:
        table: name of the table in errors.
        columns: its columns.
        to: the place in errors, such as the name of an export.

    Raises:
        ConfigError: names the table, the columns and the declaration that is missing.
    """
    if missing := [name for name, column in columns.items() if not column.classification]:
        first = missing[0]
        raise ConfigError(
            f"{table}: columns {missing} must have a class before they come to {to}, not none: declare what they hold, "
            f'such as "{first}": Column("{columns[first].type}", classification="public"). '
            f"Classes: {', '.join(each for each in CLASSES if each)}; `dedp classify {table}` proposes them"
        )


def require_may_leave(
    table: str, columns: Mapping[str, Column], place: Place, *, to: str, may_hold_personal: bool = False, instead: str
) -> None:
    """Refuse columns of classes that may not come to a place, before any value does.

    A secret never leaves. Where the place takes no values of columns of no class, such columns are refused, because
    nobody said what they hold.

    Args:
        table: name of the table in errors.
        columns: its columns.
        place: kind of the place, as in the table of ``core.classes``.
        to: the place in errors, such as the name of a replica.
        may_hold_personal: whether the place may hold values that lead to persons, by a permission.
        instead: the remedy for personal columns, as an imperative.

    Raises:
        ConfigError: names the table, the columns and the declaration that is missing.
    """
    if secret := [name for name, column in columns.items() if column.classification == "secret"]:
        raise ConfigError(f"{table}: columns {secret} are secret and must not come to {to}: hand out a table without")
    if shown("", place) == "nothing":
        require_classified(table, columns, to=to)
    held = [name for name, column in columns.items() if column.shown(place) in ("pseudonym", "nothing")]
    if held and not may_hold_personal:
        kinds = ", ".join(dict.fromkeys(columns[name].classification for name in held))
        raise ConfigError(f"{table} declares columns {held} as {kinds}, which {to} may not hold: {instead}")


def require_open_partitions(table: str, columns: Mapping[str, Column], partition_by: Sequence[str]) -> None:
    """Refuse to create a table with partition columns of classes that keep values out of the log.

    A table that exists stays as it is: a class that is declared later is better than none.

    Args:
        table: name of the table in errors.
        columns: its columns.
        partition_by: its partition columns.

    Raises:
        ConfigError: names the partition columns.
    """
    if held := [name for name in partition_by if not columns[name].shows("log")]:
        raise ConfigError(
            f"{table}: partition_by must name columns whose class lets values into the log, not {held}: they stand in "
            "the names of folders, which no deletion reaches. Partition by a bucket of the key (Layout)"
        )
