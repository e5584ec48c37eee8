"""Operations: possible contents of a step, with the model of the options.

Every pattern of the catalogue is one, by ``chapter.module``, and each of its companions that returns what a pattern
may, by ``chapter.module.function``. Two more serve the row accounting: ``tally`` and ``account``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pyspark.sql import DataFrame

from dedp_assets.components.yaml.model import (
    Name,
    Options,
    PythonName,
    create,
    field_of,
    help_of,
    options_of,
    stands_for,
)
from dedp_assets.graph.declare import Pinned
from dedp_assets.patterns.catalog import KINDS, Pattern, patterns
from dedp_assets.patterns.core.deprecation import deprecation_of
from dedp_assets.patterns.core.results import Access, Finding, Plan, Split
from dedp_assets.patterns.core.rows import tally
from dedp_assets.patterns.delta import Ledger, Table, Target
from dedp_assets.patterns.flow._branches import BranchState

__all__ = ["Beside", "Earlier", "StepOperation", "account", "operations"]

Role = Literal[
    "rows", "table", "upstream", "branches", "into", "ledger", "beside", "besides", "earlier", "frames", "object"
]
"""Argument of a positional parameter: the rows of the step before, an upstream table, all upstream tables by name, the
branches of an upstream table with a fan-in, the target, the log of the target, a further table to write, several of
these by name, an earlier result by name, several of these, or a Python object."""


_MAPPINGS: Mapping[Any, Role] = {
    (Mapping[str, Pinned],): "upstream",
    (Mapping[str, BranchState],): "branches",
    (Mapping[str, DataFrame],): "frames",
    (Mapping[str, Target],): "besides",
}


class Earlier(Name):
    """Name of an upstream table or of an earlier step."""

    __slots__ = ()


class Beside(Name):
    """Name of a further table that the steps write, ``layer/dataset``."""

    __slots__ = ()


stands_for(Plan, lambda: Earlier)
stands_for(Finding, lambda: Earlier)
stands_for(Access, lambda: Earlier)


@dataclass(frozen=True)
class StepOperation:
    """A function that may stand in a step.

    Attributes:
        name: key of the step.
        function: what the step calls.
        kind: ``transform``, ``write``, ``inspect``, ``plan`` or ``access``.
        summary: what it promises.
    """

    name: str
    function: Callable[..., Any]
    kind: str
    summary: str

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        return get_type_hints(inspect.unwrap(self.function))

    @property
    def returns(self) -> Any:  # noqa: ANN401 - a type
        """Type of the result."""
        return self._hints.get("return")

    @property
    def is_aside(self) -> bool:
        """``True`` if the result is no rows: the next step takes the rows of the step before."""
        return self.kind in ("inspect", "plan", "access") or self.name == "account"

    @cached_property
    def data(self) -> Mapping[str, Role]:
        """Positional parameter -> role of the argument."""
        found = dict[str, Role]()
        for name in self._named(of_data=True):
            found[name] = _role(name, _members(self._hints[name]), first=not found)
        return found

    @cached_property
    def over(self) -> Mapping[str, Role]:
        """Positional parameter -> role of the argument over one table, which stands for any table."""
        of_table: dict[str, Role] = {n: "table" for n in self.data if Table in _members(self._hints[n])}
        given: dict[str, Role] = {
            n: "object" for n, role in self.data.items() if role in ("besides", "branches", "frames")
        }
        return {**self.data, **of_table, **given}

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Keyword-only parameters."""
        return self._named(of_data=False)

    @cached_property
    def splits(self) -> bool:
        """``True`` if the rows may be a split."""
        first = next(iter(self.data), "")
        return bool(first) and Split in _members(self._hints[first])

    @cached_property
    def model(self) -> type[Options]:
        """Model of the options, and of the data that a step names."""
        named: dict[str, Any] = {
            "beside": Beside,
            "besides": Mapping[str, Beside],
            "earlier": Earlier,
            "frames": Mapping[str, Earlier],
            "object": PythonName,
        }
        helps, hints = help_of(self.function), self._hints
        parameters = inspect.signature(self.function).parameters
        fields = {}
        for name, role in self.data.items():
            if role in named:
                default = parameters[name].default
                # Of data that Python calls `None`, as of a first run, a file says nothing.
                default = None if default is inspect.Parameter.empty and NoneType in _members(hints[name]) else default
                fields[name] = (named[role], field_of(str, default, helps.get(name, ""))[1])
        fields |= options_of(self.function, self.options)
        return create(self.name, fields, self.summary)

    def _named(self, *, of_data: bool) -> tuple[str, ...]:
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(each.name for each in parameters if (each.kind is not each.KEYWORD_ONLY) == of_data)


def account(upstream: Mapping[str, Pinned], *, read: str = "", represented: str = "") -> dict[str, Any]:
    """State the rows read, for the row accounting of a table with other rows than the upstream table.

    Args:
        upstream: the upstream tables by name.
        read: upstream table whose rows count as read; the table's log counts them.
        represented: figure that says how many of the rows read the written rows stand for.

    Returns:
        Facts for ``Target.reading``: ``figures`` (``read``, in rows) and ``represented``.
    """
    return {"figures": {"read": upstream[read].count()} if read else {}, "represented": represented}


@cache
def operations() -> Mapping[str, StepOperation]:
    """Return every operation by name."""
    found = {each.name: each for pattern in patterns() for each in _of_pattern(pattern)}
    found["tally"] = StepOperation("tally", tally, "transform", (tally.__doc__ or "").splitlines()[0])
    found["account"] = StepOperation("account", account, "transform", (account.__doc__ or "").splitlines()[0])
    return found


def _of_pattern(pattern: Pattern) -> Iterator[StepOperation]:
    yield StepOperation(pattern.id, pattern.function, pattern.kind, _summary(pattern.function, pattern.summary))
    for name in pattern.module.__all__:
        function = getattr(pattern.module, name)
        if inspect.isfunction(function) and function is not pattern.function and (kind := _kind(function)):
            summary = _summary(function, (inspect.getdoc(function) or "").splitlines()[0])
            yield StepOperation(f"{pattern.id}.{name}", function, kind, summary)


def _summary(function: Callable[..., Any], text: str) -> str:
    """Return the help of a step for editors, with the end of a deprecated function."""
    end = deprecation_of(function)
    return f"{text} ({end})" if end else text


def _kind(function: Callable[..., Any]) -> str:
    """Return the kind of a companion; empty for one that no step can call."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters):
        return ""
    returned: Any = get_type_hints(inspect.unwrap(function)).get("return")
    return KINDS.get(returned, "")


def _members(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type
    return tuple(get_args(kind)) if get_origin(kind) in (Union, UnionType) else (kind,)


def _role(name: str, kinds: tuple[Any, ...], *, first: bool) -> Role:
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    if kinds in _MAPPINGS:
        return _MAPPINGS[kinds]
    if Target in kinds:
        return "into" if name == "into" else "beside"
    if Ledger in kinds:
        return "ledger"
    if first and Table in kinds:
        return "table"
    if {DataFrame, Split} & set(kinds):
        return "rows" if first else "earlier"
    return "earlier" if {Access, Finding, Plan} & set(kinds) else "object"
