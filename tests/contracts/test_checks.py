"""Checks of a run: those that are declared and those that a run yields are one set, whatever pattern writes, and how.

Dagster fails a step that yields another check than the declared ones, or lacks one, after the rows are committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest

from dedp_assets.graph.declare import About, Inputs, OnRequest, Reads, Request, Runs, Step, lake_table
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Target
from tests.contracts.test_rerun_law import WRITES, Example
from tests.examples import tables_in
from tests.rotation import rotated

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(60, "every write of the library in runs of the graph"),
]
WAYS = {
    "by metadata alone": {},
    "by deletion vectors": {"delta.enableDeletionVectors": "true"},
    "by Spark's writer or Delta's statement, with a change feed": {
        "delta.enableInCommitTimestamps": "true",
        "delta.enableChangeDataFeed": "true",
    },
}
"""How the rows of a table are committed -> properties of the table."""

EXAMPLES = [example for example in map(Example, WRITES) if "database" not in example.fixtures]
"""Those of the patterns that write tables of the lake."""
PAIRS = [
    pytest.param(example, way, id=f"{example.main}-{way}")
    for number, example in enumerate(EXAMPLES)
    for way in rotated(number, [*WAYS])
]


class Graph:
    """Calls of a pattern as runs of a table that declares the pattern, and no audit and no check.

    Args:
        root: folder of the lake.
        plain: whether the example's tables are as its header makes them: no option of its calls is wrong then.
    """

    def __init__(self, root: Any, *, plain: bool) -> None:
        self.plain = plain
        self.lake = Lake(root=str(root), engine=SparkEngine())
        self.ended: list[tuple[str, str]] = []
        self.faults: list[str] = []

    def running(self, pattern: Any) -> Any:
        """The pattern, whose calls run in the graph, and return or raise what the pattern does."""

        @wraps(pattern)
        def call(*given: Any, **options: Any) -> WriteResult:
            into = next(targets((*given, *options.values())))
            outcome: list[Any] = []

            def compute(step: Step, own: Target) -> WriteResult:
                try:
                    outcome.append(pattern(*given, **options))
                except Exception as error:
                    outcome.append(error)
                    raise
                return outcome[-1]

            self._run(pattern, into, compute, outcome)
            if isinstance(outcome[0], Exception):
                raise outcome[0]
            return outcome[0]

        return call

    def _run(self, pattern: Any, into: Target, compute: Any, outcome: list[Any]) -> None:
        def unread(request: Request) -> Inputs:
            return Inputs({"rows": uuid4().hex})

        keys = [*into.partition.values()] if len(into.partition) == 1 else []
        declared = lake_table(
            into.table.spec,
            reads=Reads(inputs=unread),
            runs=Runs(dg.StaticPartitionsDefinition(keys) if keys else None, OnRequest()),
            about=About("team:x"),
            patterns=[pattern],
            code_version="1",
        )(compute)
        asset = declared.definition()
        with dg.DagsterInstance.ephemeral() as instance:
            done = dg.materialize(
                [asset],
                partition_key=keys[0] if keys else None,
                resources={"lake": self.lake, "clock": Clock()},
                instance=instance,
                raise_on_error=False,
            )
        self._judge({check.name for check in asset.check_keys}, done, outcome[0])

    def _judge(self, declared: set[str], done: Any, outcome: Any) -> None:
        judged = {check.check_name for check in done.get_asset_check_evaluations()}
        failed = [event.step_failure_data for event in done.get_step_failure_events()]
        if isinstance(outcome, ConfigError) and self.plain:
            self.faults += [f"an example's call is right, and was refused: {outcome}"]
        if isinstance(outcome, Exception):
            told = failed[0].user_failure_data.description if failed and failed[0].user_failure_data else str(failed)
            sentence = str(outcome).split("\n", 1)[0][:60].rstrip(".")
            self.faults += [] if sentence in told or " ".join(sentence.split()) in told else [f"{told} of {outcome!r}"]
        else:
            self.faults += [str(data.error) for data in failed]
        strange = judged - declared
        lacking = declared - judged if isinstance(outcome, WriteResult) and outcome.applied else set()
        self.faults += [f"{what}: {names}" for what, names in (("strange", strange), ("lacking", lacking)) if names]
        self.ended.append((type(outcome).__name__, "" if isinstance(outcome, WriteResult) else str(outcome)))


def targets(given: Any) -> Iterator[Target]:
    """The targets in the arguments of a call."""
    if isinstance(given, Target):
        yield given
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        for part in given:
            yield from targets(part)
    elif is_dataclass(given):
        for field in fields(given):
            yield from targets(getattr(given, field.name))


@pytest.mark.parametrize(("example", "way"), PAIRS)
def test_each_write_yields_the_declared_checks_and_no_other(request, monkeypatch, example, way, spark, frame, tmp_path):
    """In a table that lists none of the pattern's own audits; a refusal keeps its sentence."""
    monkeypatch.setenv("DEDP_UNDECLARED", "allow")  # the tables of an example stand beside the table, undeclared
    graph = Graph(tmp_path, plain=not WAYS[way])
    properties = {"table": tables_in(spark, frame, tmp_path, **WAYS[way])} if "table" in example.fixtures else {}
    space = example.begin(request, **properties)
    space[example.main] = graph.running(space[example.main])
    with suppress(IndexError, NotReady):  # rows that a refused call did not write
        example.go_on(space)
    assert graph.ended
    assert graph.faults == []
