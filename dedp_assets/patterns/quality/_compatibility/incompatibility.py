"""Obstacles to reading data of one schema by another, and pairs of types that are judged once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

__all__ = ["Pairs", "Problem", "at", "below", "all_problems"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Obstacle to reading data of one schema by another.

    Attributes:
        path: field, with dots between the names of nested fields; empty for the schema as a whole.
        rule: broken rule, in snake case.
        message: one sentence without the path.
    """

    path: str
    rule: str
    message: str


_AGAIN = Problem("", "", "it holds a type that cannot be read, as said of that type")


class Pairs:
    """Verdicts on pairs of types: each pair is looked at once, also where a type holds itself.

    Args:
        failing: pairs that an earlier walk found unreadable.
    """

    def __init__(self, failing: frozenset[tuple[int, int]] = frozenset()) -> None:
        self._failing = failing
        self._known: dict[tuple[int, int], list[Problem] | None] = {}
        self._kept: list[object] = []  # an id is one object's own only as long as the object lives
        self.assumed = False
        """``True`` after a recursive pair was assumed to be readable."""

    @property
    def found(self) -> frozenset[tuple[int, int]]:
        """Known pairs of unreadable types."""
        return frozenset(pair for pair, problems in self._known.items() if problems)

    def judged(self, reader: object, writer: object, compare: Callable[[], list[Problem]]) -> list[Problem]:
        """Return the problems of a pair of types; a repeated pair has one summary."""
        pair = id(reader), id(writer)
        if pair not in self._known:
            self._kept += (reader, writer)
            self._known[pair] = None
            self._known[pair] = found = compare()
            return found
        known = self._known[pair]
        if known is not None:
            first = [problem for problem in known if problem.rule] or known
            return [replace(problem, rule=problem.rule or "holds_unreadable_type") for problem in first[:1]]
        self.assumed = self.assumed or pair not in self._failing
        return [_AGAIN] if pair in self._failing else []


def all_problems(walk: Callable[[Pairs], list[Problem]]) -> list[Problem]:
    """Return the problems at the fixed point of a walk through recursive types."""
    pairs = Pairs()
    found = walk(pairs)
    while pairs.assumed and pairs.found:
        before = pairs.found
        pairs = Pairs(before)
        found = walk(pairs)
        if pairs.found == before:
            break
    return [problem for problem in found if problem.rule]


def at(path: str, name: str) -> str:
    """Return the path of a part: a field, ``[]`` for items of an array, ``{}`` for values of a map."""
    joined = f"{path}{name}" if name.startswith(("[", "{")) else f"{path}.{name}"
    return joined.strip(".")


def below(name: str, found: Iterable[Problem]) -> list[Problem]:
    """Return the problems of a part as problems of the whole."""
    return [replace(problem, path=_joined(name, problem.path)) for problem in found]


def _joined(name: str, path: str) -> str:
    return at(name, path) if path else name
