"""Texts of query plans: marks of known columns, lists, and matching brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

__all__ = [
    "ID",
    "MARK",
    "SUBQUERY",
    "Unread",
    "around",
    "closed",
    "closing",
    "columns_of",
    "groups",
    "outside",
    "pieces",
    "short",
]

ID = re.compile(r"#(\d+)L?(?:-T\d+ms)?")
"""Pattern of the text after a column name."""
MARK = re.compile(r"\ue000(\d+)\ue001")
"""Placeholder of an input column, by attribute id."""
SUBQUERY = re.compile(r"\ue002(\d+)\ue003")
"""Placeholder of a subquery, by position among the node's subqueries."""
_COMPLETE = re.compile(r"(?:\ue001|#\d+L?(?:-T\d+ms)?)$")
_OPEN, _CLOSE = "([{", ")]}"
_SHOWN = 60


class Unread(ValueError):
    """A text of a plan that is not understood."""


def pieces(text: str) -> list[str]:
    """Split a list at commas outside of brackets.

    Raises:
        Unread: if brackets do not match.
    """
    cuts = [-2, *outside(text, ", "), len(text)]
    return [text[start + 2 : end] for start, end in pairwise(cuts)] if text else []


def columns_of(text: str) -> list[str]:
    """Split a list of columns: only behind a column does a comma separate two, as names may have commas."""
    found = list[str]()
    for piece in pieces(text):
        if found and not _COMPLETE.search(found[-1]):
            found[-1] += f", {piece}"
        else:
            found.append(piece)
    return found


def groups(text: str) -> list[str]:
    """List the contents of the outermost square brackets.

    Raises:
        Unread: if brackets do not match.
    """
    found, start = list[str](), 0
    while (start := text.find("[", start)) >= 0:
        if (end := closing(text, start)) < 0:
            raise Unread(f"the brackets of {short(text)} do not match")
        found.append(text[start + 1 : end])
        start = end + 1
    return found


def closing(text: str, start: int) -> int:
    """Return the position of the closing bracket for the opening bracket at ``start``; -1 without one."""
    expected = list[str]()
    for place in range(start, len(text)):
        if (each := text[place]) in _OPEN:
            expected.append(_CLOSE[_OPEN.index(each)])
        elif each in _CLOSE:
            if not expected or expected.pop() != each:
                return -1
            if not expected:
                return place
    return -1


def closed(text: str, start: int) -> int:
    if (end := closing(text, start)) < 0:
        raise Unread(f"the brackets of {short(text)} do not match")
    return end


def outside(text: str, separator: str) -> Iterator[int]:
    """Find a separator outside of brackets.

    Raises:
        Unread: if brackets do not match.
    """
    expected = list[str]()
    for place, each in enumerate(text):
        if each in _OPEN:
            expected.append(_CLOSE[_OPEN.index(each)])
        elif each in _CLOSE:
            if not expected or expected.pop() != each:
                raise Unread(f"the brackets of {short(text)} do not match")
        elif not expected and each == separator[0] and text.startswith(separator, place):
            yield place
    if expected:
        raise Unread(f"the brackets of {short(text)} do not match")


def around(text: str, place: int) -> Iterator[int]:
    """Find the open brackets around a place, from the inside out."""
    depth = 0
    for position in range(place - 1, -1, -1):
        if text[position] in _CLOSE:
            depth += 1
        elif text[position] in _OPEN:
            if not depth:
                yield position
            depth = max(0, depth - 1)


def short(text: str) -> str:
    """Return the beginning of a text of a plan, for a message."""
    shown = SUBQUERY.sub("(subquery)", MARK.sub("?", text))
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
