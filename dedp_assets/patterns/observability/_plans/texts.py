"""Texts of query plans: marks of known columns, lists, and matching brackets.

Spark prints texts without quotes, so that a bracket or a comma may be part of one. What is a bracket of the plan and
what is one of a text is not always to be seen: then all readings are looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import combinations, pairwise

from dedp_assets.patterns.core.types.exact import PARTS_OF_NUMBERS

__all__ = [
    "ID", "MARK", "SUBQUERY", "Ambiguous", "UnreadablePlan", "closing", "flat", "inside", "items",
    "lists", "pieces", "readings", "short",
]  # fmt: skip

ID = re.compile(r"#(\d+)L?(?:-T\d+ms)?")
"""Pattern of the text after a column name."""
MARK = re.compile(r"\ue000(\d+)\ue001")
"""Placeholder of an input column, by attribute id."""
SUBQUERY = re.compile(r"\ue002(\d+)\ue003")
"""Placeholder of a subquery, by position among the node's subqueries."""
_HIDDEN, _DROPPED = "\0", "\ue004"
_OPEN, _CLOSE = "([", ")]"
_SHOWN = 60
_MOST_ODD, _MOST_WAYS, _MOST_READINGS = 6, 2_000, 400
_EXACT = re.compile(rf"\\A\(\?:[^\ue000-\ue004]*?\)\\z|{'|'.join(map(re.escape, PARTS_OF_NUMBERS))}")
"""Patterns of exact conversions, which are texts without a column."""
_ID = r"#\d+L?(?:-T\d+ms)?(?=, |$)"
_ITEM = re.compile(rf"\ue000\d+\ue001(?=, |$)|(?:(?! AS |[(\[]).)*?{_ID}|.*? AS (?:(?! AS ).)*?{_ID}", re.DOTALL)
"""A column, or an expression with a name; only behind an id does a comma separate two, as names and texts have some."""
_ENDED = (*",) .[]#", "\ue000", "\ue002", "")


class UnreadablePlan(ValueError):
    """A text of a plan that is not understood."""


class Ambiguous(UnreadablePlan):
    """A text of a plan with several meanings, however the brackets are read."""


def items(text: str) -> list[tuple[str, bool]]:
    """Split a list of columns and named expressions into texts, each with whether the cut is doubtful.

    Raises:
        UnreadablePlan: for another list.
    """
    found, start = list[str](), 0
    while start < len(text):
        item = _ITEM.match(text, start)
        if item is None:
            raise UnreadablePlan(f"{short(text[start:])} is no column")
        found.append(item[0])
        start = item.end() + 2
    # A text that looks like a name and an id cuts an expression in two.
    cuts = {number for number, pair in enumerate(pairwise(found)) if _is_cut(*pair)}
    return [(each, number in cuts or number - 1 in cuts) for number, each in enumerate(found)]


def lists(text: str, count: int) -> list[str]:
    """Return the contents of lists in square brackets, side by side.

    Raises:
        UnreadablePlan: if there are not so many, or not only one way to tell them apart.
    """
    inner = text[text.find("[") + 1 : text.rfind("]")]
    found = inner.split("], [")
    if len(found) != count or "[" not in text:
        raise UnreadablePlan(f"the brackets of {short(text)} do not match")
    return found


def pieces(text: str) -> list[str]:
    """Split a list at commas outside of brackets.

    Raises:
        UnreadablePlan: if brackets do not match.
    """
    cuts = [-2, *(found.start() for found in re.finditer(", ", flat(text))), len(text)]
    return [text[start + 2 : end] for start, end in pairwise(cuts)] if text else []


def inside(text: str) -> str:
    """Return the text between the first opening and the last closing square bracket."""
    return text[text.find("[") + 1 : text.rfind("]")]


def flat(text: str) -> str:
    """Return a text with the insides of brackets hidden, at the same positions.

    Raises:
        UnreadablePlan: if brackets do not match.
    """
    found, expected = list[str](), list[str]()
    for each in text:
        if each in _CLOSE and (not expected or expected.pop() != each):
            raise UnreadablePlan(f"the brackets of {short(text)} do not match")
        found.append(_HIDDEN if expected else each)
        if each in _OPEN:
            expected.append(_CLOSE[_OPEN.index(each)])
    if expected:
        raise UnreadablePlan(f"the brackets of {short(text)} do not match")
    return "".join(found)


def closing(text: str, start: int) -> int:
    """Return the position of the closing bracket for the opening bracket at ``start``.

    Raises:
        UnreadablePlan: without one.
    """
    expected = list[str]()
    for place in range(start, len(text)):
        if (each := text[place]) in _OPEN:
            expected.append(_CLOSE[_OPEN.index(each)])
        elif each in _CLOSE:
            if not expected or expected.pop() != each:
                break
            if not expected:
                return place
    raise UnreadablePlan(f"the brackets of {short(text)} do not match")


def readings(text: str) -> Iterator[str]:
    """Yield the readings of a text with matching brackets: whole, and without brackets of literals.

    Brackets that stand where Spark puts none are left out in every way. If that is not enough, any one or two are.

    Raises:
        Ambiguous: if there are too many ways: of a part of them, those that agree say nothing.
    """
    text = _EXACT.sub(_DROPPED, text)
    odd = [place for place in range(len(text)) if _is_odd(text, place)]
    counts, found = range(min(len(odd), _MOST_ODD) + 1), False
    if sum(math.comb(len(odd), count) for count in counts) > _MOST_WAYS:
        raise Ambiguous(f"{short(text)} has too many brackets in texts")
    for places in (places for count in counts for places in combinations(odd, count)):
        if _matches(reading := _without(text, places)):
            found = True
            yield reading
    if not found:
        yield from _of_any_brackets(text)


def _of_any_brackets(text: str) -> Iterator[str]:
    """Yield the readings without any one bracket, or without any two."""
    brackets = [place for place, each in enumerate(text) if each in _OPEN + _CLOSE]
    for count in (1, 2):
        some = combinations(brackets, count) if math.comb(len(brackets), count) <= _MOST_READINGS else ()
        if found := [reading for places in some if _matches(reading := _without(text, places))]:
            yield from found
            return


def short(text: str) -> str:
    """Return the beginning of a text of a plan, for a message."""
    shown = SUBQUERY.sub("(subquery)", MARK.sub("?", text)).replace(_DROPPED, "?")
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


def _is_odd(text: str, place: int) -> bool:
    """Return whether a bracket stands where Spark puts none, and may be one of a literal."""
    each, before, after = text[place], text[place - 1 : place], text[place + 1 : place + 2]
    if each in _OPEN:
        return after in (*",)]", "") and not (before.isalnum() or before in ("_", "$"))
    if each in _CLOSE:
        opened = before in tuple(_OPEN)
        head = text[max(place - 2, 0) : max(place - 1, 0)]
        is_call = before + each == "()" and (head.isalnum() or head in ("_", "$"))
        return before == " " or (opened and not is_call) or after not in _ENDED
    return False


def _is_cut(one: str, other: str) -> bool:
    """Return whether two items may be one."""
    if not (_explained(one) or _explained(other)):
        return _matches(f"{one}, {other}")
    return not _matches(one.rpartition(" AS ")[2]) and not _matches(other)


def _explained(text: str) -> bool:
    """Return whether brackets match, or one that does not may be one of a text."""
    return _matches(text) or any(_is_odd(text, place) for place in range(len(text)))


def _matches(text: str) -> bool:
    try:
        flat(text)
    except UnreadablePlan:
        return False
    return True


def _without(text: str, places: tuple[int, ...]) -> str:
    return "".join(_DROPPED if place in places else each for place, each in enumerate(text))
