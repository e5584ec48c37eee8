"""Parts of an expression in a plan: conditions, windows, and calls of functions without a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dedp_assets.patterns.core.column_lineage import Effect
from dedp_assets.patterns.observability._plans.texts import Unread, around, closed, pieces, short

__all__ = ["UDF", "Region", "effect_at", "regions_of"]

UDF = re.compile(r"\)#\d+L?")
"""Pattern of the end of a Python function call in a plan: closing bracket and result id."""
_CASES = re.compile(r"\bCASE WHEN |\bWHEN | THEN | ELSE | END\b")
_DECIDING: Sequence[tuple[str, Effect]] = (
    (r"\bif \(", "CONDITIONAL"),
    (r" FILTER \(", "CONDITIONAL"),
    (r" windowspecdefinition\(", "WINDOW"),
)
_CHOOSING = re.compile(r"\b(?:pivotfirst|nvl2)\(")
"""Functions whose first argument decides between the others."""
_RANKING = re.compile(r"\b(?:row_number|rank|dense_rank|percent_rank|cume_dist|ntile)\(")


@dataclass(frozen=True)
class Region:
    """A part of an expression.

    Attributes:
        start: where it begins in the text.
        end: where it ends.
        effect: what it decides; ``None`` for a call.
        function: name of a function whose code no plan shows.
    """

    start: int
    end: int
    effect: Effect | None
    function: str = ""


def regions_of(text: str) -> list[Region]:
    """List the parts of an expression that choose values, and the calls of functions without a plan.

    Raises:
        Unread: if they do not fit together.
    """
    return [*_conditions(text), *_deciding(text), *_ranking(text), *_calls(text)]


def _deciding(text: str) -> Iterator[Region]:
    """List conditions, filters of aggregates, partitions and orders of windows, and arguments that choose."""
    for head, effect in _DECIDING:
        for found in re.finditer(head, text):
            yield Region(found.start(), closed(text, found.end() - 1), effect)
    for found in _CHOOSING.finditer(text):
        arguments = text[found.end() : closed(text, found.end() - 1)]
        yield Region(found.end(), found.end() + len(pieces(arguments)[0]), "CONDITIONAL")


def _ranking(text: str) -> Iterator[Region]:
    """List the calls of functions that number the rows of a window: the arguments are an order."""
    for found in _RANKING.finditer(text) if " windowspecdefinition(" in text else ():
        yield Region(found.start(), closed(text, found.end() - 1), "WINDOW")


def _calls(text: str) -> Iterator[Region]:
    """List the calls of functions whose code no plan shows."""
    for found in UDF.finditer(text):
        start = next(around(text, found.start()), None)
        name = re.search(r"[^\s(,]+$", text[:start]) if start is not None else None
        if start is None or name is None:
            raise Unread(f"{short(text)} calls what has no name")
        yield Region(start, found.start(), None, name[0])


def _conditions(text: str) -> Iterator[Region]:
    """List the conditions of CASE expressions, nested or not."""
    opened = list[int | None]()  # of each CASE, the beginning of the condition that is open
    for found in _CASES.finditer(text):
        word = found[0].split()[0]
        if word == "CASE":
            opened.append(found.end())
            continue
        if not opened:  # a text with such a word
            continue
        begun = opened.pop()
        if (word == "THEN") != (begun is not None):
            raise Unread(f"the CASE of {short(text)} is not understood")
        if begun is not None:
            yield Region(begun, found.start(), "CONDITIONAL")
        if word != "END":
            opened.append(found.end() if word == "WHEN" else None)
    if opened:
        raise Unread(f"the CASE of {short(text)} is not understood")


def effect_at(regions: Sequence[Region], place: int) -> Effect | None:
    """Return the effect of the smallest part that decides and holds a place."""
    found = [each for each in regions if each.effect and each.start <= place < each.end]
    return min(found, key=lambda each: each.end - each.start).effect if found else None
