"""Local Sequencer: a job in ordered steps, so that a failure repeats one step only.

Problem: one job reads, asks a paid service, computes and exports, and a failure of the export repeats it all.
Solution: split the job where a repetition is expensive or transactions differ. Each step stores its result with the
    identity of its inputs, and the next run begins at the first step that is not current.
Consequences: each boundary costs a start and a stored result; two changes that must be atomic stay in one step. A step
    whose failure is of no consequence for later ones lets them go on: the run is degraded, and fails all the same.
Choose instead: Isolated Sequencer, if the later steps belong to another team; one task, if the steps are all cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Finding, Plan

__all__ = ["plan_steps", "judge_steps", "chain_steps", "SequenceStep", "StepState"]

Outcome = Literal["done", "failed", "not run"]


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """A step of a sequence.

    Attributes:
        name: name of the step, for example of the table that it writes.
        after: names of the earlier steps that it reads the results of.
        on_failure: ``stop``: no later step runs; ``continue``: later steps run that do not read its result.
        code_version: version of the step's code.
    """

    name: str
    after: Sequence[str] = ()
    on_failure: Literal["stop", "continue"] = "stop"
    code_version: str = "1"

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True, slots=True)
class StepState:
    """The last execution of a step.

    Attributes:
        outcome: how it ended.
        inputs: identity of the inputs that it was computed from.
        code_version: version of the code that computed it.
    """

    outcome: Outcome = "not run"
    inputs: str = ""
    code_version: str = "1"

    def __post_init__(self) -> None:
        require_types(self)


@typed
def plan_steps(
    steps: Iterable[SequenceStep],
    *,
    states: Mapping[str, StepState],
    inputs: Mapping[str, str],
    retry_failed: bool = True,
) -> Plan:
    """Choose the steps to run, in order: from the first step that is not current.

    A step is current if it was done from the same inputs by the same code, and so were the steps that it reads.

    Args:
        steps: the steps, in order.
        states: step -> its last execution; a step without one was not run.
        inputs: step -> identity of the inputs that it would read now; without one, those that it was computed from.
        retry_failed: whether failed steps run again, as in the next run; otherwise they are final, as in a run that
            goes on, and hold the steps that they block.

    Returns:
        A plan whose partitions are the steps to run, whose causes say why, and whose ``held`` says of each step that
        did not succeed or is blocked why; the reason begins with ``degraded`` or ``stopped`` if a step failed for good.

    Raises:
        ConfigError: for a step that is there twice, or comes after a step that is not before it.

    Example:
        >>> steps = [SequenceStep("enrich"), SequenceStep("measure", ["enrich"]), SequenceStep("export", ["measure"])]
        >>> done = StepState("done", inputs="v7")
        >>> states = {"enrich": done, "measure": done, "export": StepState("failed", inputs="v7")}
        >>> plan_steps(steps, states=states, inputs={"enrich": "v7"}).causes
        {'export': 'failed'}
        >>> plan_steps(steps, states=states, inputs={"enrich": "v8"}).partitions
        ('enrich', 'measure', 'export')
    """
    listed = _in_order(steps)
    run: dict[str, str] = {}
    held: dict[str, str] = {}
    stopped = ""
    for step in listed:
        cause = _cause(step, states.get(step.name, StepState()), inputs, {*run, *held})
        if not cause:
            continue
        blocked = [name for name in step.after if name in held]
        if cause == "failed" and not retry_failed:
            held[step.name] = "failed"
            stopped = stopped or (step.name if step.on_failure == "stop" else "")
        elif blocked or stopped:
            held[step.name] = f"reads {', '.join(blocked)}" if blocked else f"{stopped} failed and stops later steps"
        else:
            run[step.name] = cause
    failed = [name for name, why in held.items() if why == "failed"]
    state = f"{'stopped' if stopped else 'degraded'}: {', '.join(failed)} failed; " if failed else ""
    reason = f"{state}{len(run)} of {len(listed)} steps to run, {len(held) - len(failed)} blocked"
    return Plan(tuple(run), reason, causes=run, held=held, cursor={n: inputs[n] for n in run if n in inputs})


@typed
def judge_steps(steps: Iterable[SequenceStep], *, states: Mapping[str, StepState]) -> Finding:
    """Judge whether every step of a run is done; a failed step makes the run degraded or stopped.

    Args:
        steps: the steps, in order.
        states: step -> its execution in the run; a step without one was not run.

    Raises:
        ConfigError: as :func:`plan_steps`.
    """
    listed = _in_order(steps)
    named: dict[Outcome, list[str]] = {"done": [], "failed": [], "not run": []}
    for step in listed:
        named[states.get(step.name, StepState()).outcome].append(step.name)
    stops = any(step.on_failure == "stop" for step in listed if step.name in named["failed"])
    texts = [f"{', '.join(names)} {outcome}" for outcome in ("failed", "not run", "done") if (names := named[outcome])]
    state = ("stopped: " if stops else "degraded: ") if named["failed"] else ""
    return Finding(
        "every_step_is_done",
        passed=not (named["failed"] or named["not run"]),
        figures={outcome.replace(" ", "_"): len(names) for outcome, names in named.items()},
        note=state + "; ".join(texts),
    )


@typed
def chain_steps(rows: DataFrame, *, steps: Sequence[Callable[[DataFrame], DataFrame]]) -> DataFrame:
    """Compute all steps in one task, each from the rows of the previous step; lazy.

    Args:
        rows: the rows of the first step.
        steps: a function for each step, in order, the same as in tasks of their own.

    Raises:
        ConfigError: without a step, or for a step that returns no rows.
    """
    if not steps:
        raise ConfigError("steps must be one function or more, not none")
    return reduce(_applied, steps, rows)


def _applied(rows: DataFrame, step: Callable[[DataFrame], DataFrame]) -> DataFrame:
    found = step(rows)
    if not isinstance(found, DataFrame):
        raise ConfigError(f"steps must return rows, not {type(found).__name__}: {getattr(step, '__name__', step)}")
    return found


def _in_order(steps: Iterable[SequenceStep]) -> Sequence[SequenceStep]:
    listed, before = tuple(steps), set[str]()
    for step in listed:
        if strange := [name for name in step.after if name not in before]:
            raise ConfigError(f"steps must come after earlier steps, not {step.name} after {', '.join(strange)}")
        if step.name in before:
            raise ConfigError(f"steps must have names of their own, not {step.name} twice")
        before.add(step.name)
    return listed


def _cause(step: SequenceStep, state: StepState, inputs: Mapping[str, str], pending: set[str]) -> str:
    """Return why a step is not current; empty for a current step."""
    if state.outcome != "done":
        return state.outcome
    if inputs.get(step.name, state.inputs) != state.inputs:
        return "inputs changed"
    if step.code_version != state.code_version:
        return "code changed"
    return f"reads {', '.join(again)}" if (again := [name for name in step.after if name in pending]) else ""
