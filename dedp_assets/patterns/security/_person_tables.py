"""Tables of events and of persons: the declarations that keep personal values apart from events."""

from __future__ import annotations

from collections.abc import Sequence

from dedp_assets.patterns.core.columns import spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["person_of", "require_apart", "require_order", "subject_of"]

_OPEN = ("public", "quasi")
"""Classes of columns that a table of events may have."""


def person_of(context: TableSpec) -> str:
    """Return the column with the id of a person: the key of the table of persons.

    Raises:
        ConfigError: for another key than one column.
    """
    if len(context.key) != 1:
        raise ConfigError(f"{context.name} must have one column as its key, the person's id, not {list(context.key)}")
    return context.key[0]


def subject_of(context: TableSpec) -> str:
    """Return the kind of the persons for the suppression list.

    Raises:
        ConfigError: if the column with the id states no kind.
    """
    person = person_of(context)
    if not (kind := context.columns[person].subject):
        raise ConfigError(f'{person} of {context.name} must state its subject, such as subject="user", not none')
    return kind


def require_apart(events: TableSpec, context: TableSpec, shared: Sequence[str]) -> str:
    """Return the column with the person's id; refuse events with personal values, or of other persons.

    Args:
        events: the table of events.
        context: the table of persons.
        shared: columns that both may have, beside the person's id.

    Raises:
        ConfigError: names the columns of events that hold personal values, or might.
    """
    require_distinct("context", [events.name, context.name])
    person, held = person_of(context), events.columns
    if person not in held or held[person].type.upper() != context.columns[person].type.upper():
        kind = context.columns[person].type
        raise ConfigError(f"{events.name} must have the column {person} {kind}, the key of {context.name}")
    closed = {c: held[c].classification or "unclassified" for c in held if held[c].classification not in _OPEN}
    if found := ", ".join(f"{c} ({why})" for c, why in closed.items() if c != person):
        raise ConfigError(
            f"columns of {events.name} must be of the class public or quasi, as events outlive persons, not {found}: "
            f"declare them in {context.name} alone, or classify them"
        )
    known = {c.lower() for c in held}
    if twice := [c for c in context.columns if c.lower() in known and c not in (person, *shared)]:
        raise ConfigError(f"{twice[0]} must be a column of {events.name} or of {context.name}, not of both")
    return person


def require_order(context: TableSpec, newest: Sequence[str]) -> list[str]:
    """Return the order of a person's rows, as the table of persons spells the columns.

    Raises:
        ConfigError: names the columns that the table does not have.
    """
    require_distinct("newest", newest)
    newest = spelled_as(context.columns, newest)
    known = [c for c in context.columns if c not in context.key]
    if not newest or (unknown := [c for c in newest if c not in known]):
        raise ConfigError(
            f"newest must name columns of {context.name} beside its key, such as the time of a change, not "
            f"{unknown if newest else 'none'}: an older row that comes late is known by them"
        )
    return newest
