"""Sequences of tables: steps of one job with separate retries, and the consequence of a failed step.

Dagster orders the steps of a run and executes a failed run again from the failure on. What it does not know is a step
whose failure stops later steps that do not read it: those wait for it by a dependency of their own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg

from dedp_assets.graph.outcomes.run_tags import DEGRADED
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.flow.local_sequencer import SequenceStep, StepState, plan_steps

__all__ = ["InSequence", "faults_of_sequence"]


@dataclass(frozen=True, slots=True)
class InSequence:
    """The sequence that a table is a step of, declared once for all tables of the sequence.

    Attributes:
        name: name of the sequence.
        steps: the tables in order, each with the earlier ones that it reads and the consequence of its failure.
    """

    name: str
    steps: Sequence[SequenceStep]

    def __post_init__(self) -> None:
        plan_steps(self.steps, states={}, inputs={})

    def waits_for(self, table: str) -> tuple[str, ...]:
        """List the earlier steps, not read by the table, whose failure stops the table's step."""
        read = set(self._step(table).after)
        for step in reversed(self._until(table)):
            read |= set(step.after) if step.name in read else set()
        return tuple(s.name for s in self._until(table) if s.on_failure == "stop" and s.name not in read)

    def sentence(self, table: str, failure: str) -> str:
        """Return the sentence of a failed step: degraded or stopped, and the fate of the later steps."""
        done = {step.name: StepState("done") for step in self._until(table)}
        plan = plan_steps(self.steps, states={**done, table: StepState("failed")}, inputs={}, retry_failed=False)
        later = {"goes on": list(plan.partitions), "blocked": [name for name in plan.held if name != table]}
        texts = [f"{what}: {', '.join(names)}" for what, names in later.items() if names]
        return "; ".join([f"{plan.reason.partition(':')[0]}: {failure}", *texts])

    def degrades(self, table: str) -> bool:
        """Return whether later steps go on after a failure of a table's step."""
        return self._step(table).on_failure == "continue"

    @contextmanager
    def failing(self, context: dg.AssetExecutionContext, table: str) -> Iterator[None]:
        """Run the block as a step: a failure names the blocked steps, and a degraded run is tagged."""
        try:
            yield
        except dg.Failure as failed:
            if self.degrades(table):
                context.instance.add_run_tags(context.run.run_id, {DEGRADED: table})
            text = self.sentence(table, failed.description or "")
            raise dg.Failure(text, failed.metadata, failed.allow_retries) from failed.__cause__

    def _step(self, table: str) -> SequenceStep:
        return next(step for step in self.steps if step.name == table)

    def _until(self, table: str) -> Sequence[SequenceStep]:
        return self.steps[: self.steps.index(self._step(table))]


def faults_of_sequence(table: str, upstream: Sequence[TableSpec], sequence: InSequence | None) -> Iterator[str]:
    """Yield the faults of a sequence that lacks the table, or contradicts the table's reads."""
    if sequence is None:
        return
    named = {step.name: set(step.after) for step in sequence.steps}
    if table not in named:
        yield f"sequence must have a step {table}, not only {', '.join(named) or 'nothing'}"
    elif named[table] != (read := {spec.name for spec in upstream} & {*named}):
        yield f"sequence must say after={sorted(read)} as Reads does, not {sorted(named[table])}"
