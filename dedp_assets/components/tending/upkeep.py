"""Maintenance of existing tables: actions on each table in turn, and their results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from dedp_assets.components.chains.operations import StepOperation
from dedp_assets.components.yaml.documents import Path
from dedp_assets.graph.declare.runs import Every, OnRequest, Polls
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.errors import TRANSIENT, ConfigError, PatternError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Access, Finding, Plan, WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table

__all__ = ["FACTS", "Action", "At", "Done", "OnPlan", "Upkeep"]

FACTS = ("table", "ledger", "lake", "now")
"""Parameter names of user functions: the table, the log of the table, the lake, and the start time of the run."""


@dataclass(frozen=True, slots=True)
class OnPlan:
    """A sensor computes the plans among the actions, and requests a run if a plan has partitions.

    Attributes:
        every_seconds: time between two looks.
        description: purpose of the sensor.
        computes: table whose planned partitions are requested; by default the actions run.
        running: whether the sensor is switched on from the beginning.
    """

    every_seconds: int = 300
    description: str = field(default="", kw_only=True)
    computes: TableSpec | None = field(default=None, kw_only=True)
    running: bool = field(default=True, kw_only=True)


@dataclass(frozen=True, slots=True)
class At:
    """The table, lake, time and run of an action.

    Attributes:
        table: the table.
        lake: the lake of the table.
        now: start of the run.
        run: the run that writes; ``None`` for a look that writes nothing.
    """

    table: Table
    lake: Lake
    now: datetime
    run: Provenance | None = None

    def call(self, function: Callable[..., Any]) -> Any:  # noqa: ANN401 - whatever it returns
        """Call a function of the user with the facts named by the parameters."""
        known = dict(zip(FACTS, (self.table, self.table.ledger, self.lake, self.now), strict=True))
        return function(**{name: known[name] for name in inspect.signature(function).parameters})


@dataclass(frozen=True)
class Action:
    """A pattern over one table, with options.

    Attributes:
        path: keys that lead to the action in its file.
        operation: the pattern.
        options: options by name.
        given: function that returns arguments by name that are known only at the time of the call.
    """

    path: Path
    operation: StepOperation
    options: Mapping[str, Any]
    given: Callable[..., Mapping[str, Any]] | None = None

    @property
    def label(self) -> str:
        """Name of the function."""
        return self.operation.function.__name__

    def on(self, at: At) -> WriteResult | Finding | Plan | Access:
        """Call the pattern on one table.

        Raises:
            ConfigError: if ``given`` returns too few or unknown arguments.
        """
        named = {name: at.call(v) if inspect.isfunction(v) else v for name, v in self.options.items()}
        named |= at.call(self.given) if self.given else {}
        if "now" in self.operation.options:
            named.setdefault("now", at.now)
        for name, role in self.operation.over.items():
            if role == "into" and at.run is not None:
                named[name] = at.table.target(at.run)
            elif role in ("table", "rows", "ledger"):
                named[name] = _of_table(at.table, role)
        try:
            bound = inspect.signature(self.operation.function).bind(**named)
        except TypeError as error:
            raise ConfigError(f"given must return the arguments of {self.operation.name}: {error}") from None
        result: WriteResult | Finding | Plan | Access = self.operation.function(*bound.args, **bound.kwargs)
        return result


def _of_table(table: Table, role: str) -> Any:  # noqa: ANN401 - a table, rows or a log
    if role == "rows":
        return table.read()
    return table if role == "table" else table.ledger


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action on a table.

    Attributes:
        table: name of the table.
        action: name of the action's function; empty if no action was tried.
        outcome: one sentence on what was done, found or planned.
        result: what the pattern returned; ``None`` after an error.
        failed: whether an error kept the pattern from returning.
    """

    table: str
    action: str
    outcome: str
    result: WriteResult | Finding | Plan | Access | None = None
    failed: bool = False


@dataclass(frozen=True, eq=False)
class Upkeep:
    """A declared maintenance: actions on tables that others compute, and their start.

    Attributes:
        name: name of the asset, layer/dataset.
        tables: tables that the actions work on, or ``all`` tables of the lake without replicas.
        actions: actions, in order; after an inspection that fails, the later ones leave the table alone.
        when: what starts the actions.
        owner: team or person that answers for the maintenance, ``team:<name>`` or an address.
        description: purpose of the maintenance, in one sentence.
    """

    name: str
    tables: Sequence[TableSpec] | Literal["all"]
    actions: Sequence[Action]
    when: Every | Polls | OnPlan | OnRequest
    owner: str
    description: str = ""

    @property
    def plans(self) -> list[Action]:
        """Actions that plan."""
        return [action for action in self.actions if action.operation.kind == "plan"]

    def stored(self, lake: Lake) -> list[Table]:
        """List the tables in a lake that the actions work on."""
        if self.tables == "all":
            return [lake.stored(name) for name in lake.names() if not lake.ledger(name).state().closed]
        return [lake.table(spec) for spec in self.tables]

    def on(self, at: At) -> Iterator[Done]:
        """Run the actions on one table, up to an error or a failed inspection."""
        if not at.table.ledger.exists():
            yield Done(at.table.name, "", "the table holds nothing yet")
            return
        for action in self.actions:
            try:
                result = action.on(at)
            except (PatternError, *TRANSIENT) as error:
                yield Done(at.table.name, action.label, str(error), failed=True)
                return
            yield Done(at.table.name, action.label, _sentence(result), result)
            if isinstance(result, Finding) and result.refuses:
                return


def _sentence(result: WriteResult | Finding | Plan | Access) -> str:
    if not isinstance(result, Finding):
        return result.reason
    return f"{result.name}: {'passed' if result.passed else 'failed'}" + (f"; {result.note}" if result.note else "")
