"""Steps: the chain of operations of a file as the one function that ``lake_table`` decorates.

A step takes the rows of the step before it; the first one takes those of the upstream table. Upstream tables are known
by the name of their dataset, earlier results by their ``as``, and the partition by its columns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dedp_assets.components.chains.operations import Beside, Earlier, StepOperation
from dedp_assets.components.yaml.documents import Path
from dedp_assets.graph.catalogue.specs import IN_FILE
from dedp_assets.graph.declare import Pinned, Target
from dedp_assets.graph.declare.queries import fields_of, taking
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.rows import Tally
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["INTO", "PREVIOUS", "ROWS", "Chain", "ChainStep", "computing"]

ROWS, INTO = "rows", "into"
"""Names, in SQL and Python, of the rows of the step before, and of the target."""
PREVIOUS = "previous"
"""Name of the rows that the previous partition hands over, of a table in order."""


@dataclass(frozen=True)
class ChainStep:
    """One operation of a chain.

    Attributes:
        path: keys that lead to the step in its file.
        sql: query, for a step in SQL.
        function: what a step in Python calls.
        operation: the operation of the library, for any other step.
        options: options of the operation by name.
        takes: name of what it takes instead of the rows of the step before.
        result: name of its result.
    """

    path: Path
    sql: str = ""
    function: Callable[..., Any] | None = None
    operation: StepOperation | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    takes: str = ""
    result: str = ""

    @property
    def name(self) -> str:
        """Name of the operation."""
        return self.operation.name if self.operation else "sql" if self.sql else "python"

    @property
    def tables_beside(self) -> Sequence[str]:
        """Further tables among the options, by name."""
        listed = [v.values() if isinstance(v, Mapping) else [v] for v in self.options.values()]
        return [each for values in listed for each in values if isinstance(each, Beside)]

    @property
    def is_aside(self) -> bool:
        """``True`` if the next step takes the rows of the step before, and not the result."""
        return self.operation is not None and self.operation.is_aside


@dataclass(frozen=True)
class Chain:
    """The steps of a table.

    Attributes:
        table: name of the table.
        steps: the steps, in order.
        upstream: name of an upstream table in the steps -> its declaration, in the order of the declaration.
        beside: further tables that the steps write.
        checks: names of the checks that the declaration has, for verdicts of inspections.
        first: whether the first step takes the rows of the first upstream table, as the only one that is no reference.
    """

    table: str
    steps: Sequence[ChainStep]
    upstream: Mapping[str, TableSpec]
    beside: Sequence[TableSpec] = ()
    checks: frozenset[str] = frozenset()
    first: bool = True

    @property
    def patterns(self) -> tuple[Callable[..., Any], ...]:
        """The patterns at work: the last step's first, then the others in order."""
        named = [s.operation for s in (self.steps[-1], *self.steps[:-1]) if s.operation and "." in s.operation.name]
        return tuple(dict.fromkeys(each.function for each in named))

    def patterns_beside(self, table: TableSpec) -> tuple[Callable[..., Any], ...]:
        """Return the patterns at work in a further table: of the steps that name the table, or else all."""
        named = [s.operation for s in self.steps if s.operation and table.name in s.tables_beside]
        return tuple(each.function for each in named) or self.patterns

    def run(self, pinned: Sequence[Pinned], targets: Sequence[Target]) -> WriteResult:
        """Compute and publish one partition.

        Args:
            pinned: upstream tables, in the order of the declaration.
            targets: the table's target, then those of the tables beside it.
        """
        return _Run(self, dict(zip(self.upstream, pinned, strict=True)), list(targets)).result()


def computing(chain: Chain, *, description: str) -> Callable[..., WriteResult]:
    """Return the function that ``lake_table`` decorates, with a parameter for each table."""
    names = [f"upstream_{n}" for n in range(len(chain.upstream))]
    targets = [f"target_{n}" for n in range(1 + len(chain.beside))]
    compute = taking(
        {**dict.fromkeys(names, Pinned), **dict.fromkeys(targets, Target)},
        lambda given: chain.run([given[name] for name in names], [given[name] for name in targets]),
    )
    vars(compute)[IN_FILE] = True
    compute.__name__ = chain.table.rpartition("/")[2]
    compute.__doc__ = description
    return compute


class _Run:
    """One run of a chain: the named results, and the facts about the rows read for the target."""

    def __init__(self, chain: Chain, pinned: Mapping[str, Pinned], targets: Sequence[Target]) -> None:
        self._chain, self._pinned = chain, pinned
        self._into = targets[0]
        self._beside = {target.name: target for target in targets[1:]}
        self._named: dict[str, Any] = {}
        self._tally: Tally | None = None
        self._facts: dict[str, Any] = {}
        self._findings: list[Finding] = []

    def result(self) -> WriteResult:
        rows: Any = self._first()
        for step in self._chain.steps:
            result = self._step(step, self._value(step.takes) if step.takes else rows)
            # The verdict of an inspection, a plan and facts about the rows read are no rows to go on with.
            rows = rows if step.is_aside else result
        if not isinstance(rows, WriteResult):
            returned = f"a {type(rows).__name__}, as {self._chain.steps[-1].name} does"
            raise ConfigError(f"{self._chain.table}: the last step must write, not return {returned}")
        return rows

    def _first(self) -> Any:  # noqa: ANN401 - rows, or nothing
        return next(iter(self._pinned.values())).rows() if self._chain.first else None

    def _step(self, step: ChainStep, rows: Any) -> Any:  # noqa: ANN401 - whatever steps return
        if step.sql:
            result = self._query(step.sql, rows)
        elif step.function:
            result = self._python(step.function, rows)
        elif step.operation:
            result = self._call(step, step.operation, rows)
        if step.name == "account":
            self._facts = result
        if step.name == "tally":
            result, self._tally = result
        if step.result:
            self._named[step.result] = result
        if isinstance(result, Finding):
            self._note(result)
        return result

    def _note(self, finding: Finding) -> None:
        """Note a verdict for the target, a check of the table that the declaration must have."""
        if finding.name not in self._chain.checks:
            raise ConfigError(
                f"{self._chain.table}: gates.checks must have {finding.name}, which an inspection returns"
            )
        self._findings.append(finding)

    def _query(self, sql: str, rows: Any) -> Any:  # noqa: ANN401 - a frame
        used = {name: self._value(name, rows) for name in fields_of(sql)}
        return self._into.table.session.sql(sql, **used)

    def _python(self, function: Callable[..., Any], rows: Any) -> Any:  # noqa: ANN401 - whatever it returns
        given = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if name in self._pinned and parameter.annotation in (Pinned, "Pinned"):
                given[name] = self._pinned[name]
            elif parameter.default is parameter.empty or self._has(name):
                given[name] = self._value(name, rows)
        return function(**given)

    def _call(self, step: ChainStep, operation: StepOperation, rows: Any) -> Any:  # noqa: ANN401 - as the operation
        options = {name: self._filled(value) for name, value in step.options.items()}
        data: dict[str, Any] = {}
        for name, role in operation.data.items():
            if role == "rows":
                data[name] = rows
            elif role == "into":
                data[name] = self._target()
            elif role == "ledger":
                data[name] = self._into.table.ledger
            elif role == "upstream":
                data[name] = self._pinned
            elif role == "branches":
                data[name] = self._upstream(step).branches
            elif role == "table":
                pinned = self._upstream(step)
                data[name] = pinned.table
                options = {**_snapshot(pinned, operation), **options}
            else:
                data[name] = options.pop(name, {} if role in ("besides", "frames") else None)
        return operation.function(*data.values(), **options)

    def _upstream(self, step: ChainStep) -> Pinned:
        return self._pinned[step.takes] if step.takes else next(iter(self._pinned.values()))

    def _filled(self, value: Any) -> Any:  # noqa: ANN401 - any option
        if isinstance(value, Beside):
            return self._beside[value]
        if isinstance(value, Mapping) and value and all(isinstance(each, Earlier | Beside) for each in value.values()):
            return {name: self._filled(each) for name, each in value.items()}
        return self._value(value) if isinstance(value, Earlier) else value

    def _target(self) -> Target:
        if not (self._tally or self._facts or self._findings):
            return self._into
        return self._into.reading(self._tally, **self._facts, findings=self._findings)

    def _has(self, name: str) -> bool:
        return name in (ROWS, INTO, *self._named, *self._pinned) or name in self._into.partition

    def _value(self, name: str, rows: Any = None) -> Any:  # noqa: ANN401 - whatever has the name
        if name == ROWS:
            return rows
        if name == INTO:
            return self._target()
        if name in self._named:
            return self._named[name]
        return self._pinned[name].rows() if name in self._pinned else self._other(name)

    def _other(self, name: str) -> Any:  # noqa: ANN401 - a target, or a text
        beside = {each.rpartition("/")[2]: target for each, target in self._beside.items()}
        return beside[name] if name in beside else self._into.partition[name]


def _snapshot(pinned: Pinned, operation: StepOperation) -> dict[str, Any]:
    """Return the options by which an operation over a table reads the pinned snapshot and no later one."""
    pins = {"version": pinned.version, "partitions": pinned.partitions}
    return {name: value for name, value in pins.items() if name in operation.options}
