"""Differences of a partition's rows between two versions: rows in, out, and changed by column."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dedp_assets.graph.observe.origins.stored_rows import MOST_SHOWN, Row

__all__ = ["Differences", "Keys", "differences_of"]

_MISSING = "no such column"
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """Number of rows, and the first of their keys in order.

    Attributes:
        count: number of rows.
        keys: at most ten keys, each a value for each key column.
    """

    count: int = 0
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences of two sets of rows.

    Attributes:
        key: columns by which rows are the same row; empty where whole rows are compared.
        rows: number of rows before and after.
        came: rows whose key is there after and not before.
        went: rows whose key is there before and not after.
        changed: rows with another value in a column.
        columns: column -> the rows in which its value changed.
    """

    key: tuple[str, ...]
    rows: tuple[int, int]
    came: Keys
    went: Keys
    changed: Keys
    columns: Mapping[str, Keys] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether both have the same rows."""
        return not (self.came.count or self.went.count or self.changed.count)


def differences_of(before: Iterable[Row], after: Iterable[Row], *, key: Sequence[str]) -> Differences:
    """Compare rows by key; equal rows are no difference, however often a key repeats.

    Of a key with several rows, what is left without the equal rows is paired in order of the values.

    Args:
        before: rows of the earlier version.
        after: rows of the later version.
        key: columns that tell rows apart; none compares whole rows.
    """
    old, new = list(before), list(after)
    columns = list(dict.fromkeys(name for row in [*old[:1], *new[:1]] for name in row))
    by = tuple(key) or tuple(columns)
    came, went, changed = list[Key](), list[Key](), list[Key]()
    of_column = defaultdict[str, list[Key]](list)
    mine, theirs = _by_key(old, columns, by), _by_key(new, columns, by)
    for each in mine.keys() | theirs.keys():
        gone, there = _apart(mine.get(each, []), theirs.get(each, []))
        shared = min(len(gone), len(there))
        came += [each] * (len(there) - shared)
        went += [each] * (len(gone) - shared)
        for one, other in zip(gone[:shared], there[:shared], strict=True):
            changed.append(each)
            for column, value, now in zip(columns, one, other, strict=True):
                if value != now:
                    of_column[column].append(each)
    return Differences(
        tuple(key),
        (len(old), len(new)),
        _keys(came),
        _keys(went),
        _keys(changed),
        {column: _keys(of_column[column]) for column in columns if of_column[column]},
    )


def _by_key(rows: Sequence[Row], columns: Sequence[str], by: Sequence[str]) -> dict[Key, list[Key]]:
    found = defaultdict[Key, list[Key]](list)
    for row in rows:
        found[tuple(_comparable(row.get(c, _MISSING)) for c in by)].append(
            tuple(_comparable(row.get(c, _MISSING)) for c in columns)
        )
    return found


def _apart(one: Sequence[Key], other: Sequence[Key]) -> tuple[list[Key], list[Key]]:
    """Return the rows of each side without the rows that both have, in order."""
    left, right = Counter(one), Counter(other)
    return tuple(sorted(each.elements(), key=repr) for each in (left - right, right - left))  # type: ignore[return-value]


def _comparable(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Return a value to compare by: NaN equals NaN, and a value with parts is a text."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0  # noqa: PLR0124 - NaN alone is unlike itself
    return repr(value) if isinstance(value, list | dict) else value


def _keys(found: Sequence[Key]) -> Keys:
    return Keys(len(found), tuple(sorted(found, key=repr)[:MOST_SHOWN]))
