"""The rerun law of write patterns: run, run again, run an old part again, die in the middle and run again: same rows.

What is run is the example that stands in each pattern's header, so that a new pattern is under the law by being there.
"""

from __future__ import annotations

import ast
import doctest
import inspect
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from deltalake import DeltaTable

from dedp_assets.patterns import catalog
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.quality.offline_observer import PROFILE
from tests.examples import NAMES
from tests.faults.failpoints import POINTS, dying
from tests.rotation import rotated

pytestmark = pytest.mark.budget(60, "every write of the library dies and is run again")

WAYS_OUT = {"resnapshot=True": {"resnapshot": True}}
"""What a refusal may ask a person for, by its words: a slot that no log knows of may be somebody else's."""
WRITES = [pattern for pattern in catalog.patterns() if pattern.kind == "write"]


class Example:
    """The example in a pattern's header, statement by statement."""

    def __init__(self, pattern: catalog.Pattern) -> None:
        self.main = pattern.function.__name__
        self.module = vars(pattern.module)
        stated = (inspect.getdoc(pattern.function) or "").rpartition("Example:\n")[2]
        self.statements = doctest.DocTestParser().get_examples(stated)
        self.calls = [statement for statement in self.statements if self.main in names(statement)]

    @property
    def fixtures(self) -> set[str]:
        """The fixtures that it names."""
        return {NAMES[name] for statement in self.statements for name in names(statement) & NAMES.keys()}

    @property
    def mark(self) -> pytest.MarkDecorator:
        """A server makes it slow."""
        return pytest.mark.slow if "database" in self.fixtures else pytest.mark.spark

    def begin(self, request: pytest.FixtureRequest, **named: Any) -> dict[str, Any]:
        """Run what stands before the first call; ``named`` takes the place of fixtures."""
        known = {name: named.get(name) or request.getfixturevalue(name) for name in self.fixtures}
        space = {**self.module, **known}
        for statement in self.statements[: self.statements.index(self.calls[0])]:
            execute(statement, space)
        return space

    def go_on(self, space: dict[str, Any]) -> list[str]:
        """Run everything from the first call on; returns what was refused."""
        refused = []
        for statement in self.statements[self.statements.index(self.calls[0]) :]:
            try:
                execute(statement, space)
            except PatternError as error:
                refused.append(str(error))
        return refused

    def holds(self, space: dict[str, Any]) -> bool:
        """Tell whether the rows are those that the header states."""
        last = self.statements[-1]
        return repr(eval(last.source, space)) == last.want.strip()  # noqa: S307 - the library's own text


def names(statement: doctest.Example) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(statement.source)) if isinstance(node, ast.Name)}


def execute(statement: doctest.Example, space: dict[str, Any]) -> None:
    exec(compile(ast.parse(statement.source), "<example>", "exec"), space)  # noqa: S102 - the library's own text


OF_PROFILES = {"observation", "table_version", "data_version", *(c for c, of in PROFILE.items() if of.type == "BINARY")}
"""Columns of profiles with the observed version, and with sketches, whose bytes are other ones in each run."""


def contents(space: dict[str, Any]) -> dict[str, Counter[str]]:
    """The rows of each table in an example, in no order, by an independent reader."""
    tables = {name: value for name, value in space.items() if isinstance(value, Table) and value.ledger.exists()}
    rows = {name: DeltaTable(str(each.location)).to_pyarrow_table().to_pylist() for name, each in tables.items()}
    found = {
        name: [str({c: v for c, v in row.items() if c not in OF_PROFILES}) for row in of] for name, of in rows.items()
    }
    # A profile is of a version: a rerun that makes one has a profile of its own, which says the same.
    profiles = {name for name, of in rows.items() if of and of[0].keys() >= PROFILE.keys()}
    return {name: Counter({*held} if name in profiles else held) for name, held in found.items()}


@pytest.mark.parametrize("example", [pytest.param(Example(pattern), id=pattern.id) for pattern in WRITES])
def test_a_header_shows_a_write_and_then_the_rows(example):
    """The law needs a call of the pattern, and after it a statement of the rows that come out."""
    assert example.calls
    assert example.statements[-1] not in example.calls
    assert example.statements[-1].want


@pytest.mark.promise("a-write-that-died-and")
@pytest.mark.parametrize(
    ("example", "point"),
    [
        pytest.param(example, point, marks=example.mark, id=f"{example.main}-{point}")
        for number, example in enumerate(map(Example, WRITES))
        for point in rotated(number, POINTS)
    ],
)
def test_a_write_that_died_and_is_run_again_gives_the_same_rows(request, example, point):
    """Right before its commit is there to be seen, or right after; then every call again changes no row of any table.

    Of several calls the first comes after the last, as a backfill does; what is refused changes nothing either.
    """
    space = example.begin(request)
    calls = ast.Module([node for call in example.calls for node in ast.parse(call.source).body], [])
    with dying(point) as failpoint, pytest.raises(Exception, match="killed"):
        exec(compile(calls, "<example>", "exec"), space)  # noqa: S102 - the library's own text
    assert failpoint.reached
    refused = "".join(example.go_on(space))
    if ways_out := [option for told, option in WAYS_OUT.items() if told in refused]:
        pattern = space[example.main]
        space[example.main] = partial(pattern, **ways_out[0])
        example.go_on(space)
        space[example.main] = pattern
    assert example.holds(space)
    before = contents(space)
    for call in example.calls:
        with suppress(PatternError):
            execute(call, space)
    assert contents(space) == before
