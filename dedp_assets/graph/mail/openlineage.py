"""OpenLineage: events of a step's attempt, as plain JSON objects.

An attempt has one START and one terminal event (COMPLETE or FAIL) under the same run id; a retry is another attempt
with another id, of the same job. Inputs and outputs stand on the terminal event, as a START may be lost: the inputs are
what was opened, also by an attempt that failed, the outputs what was committed. A run notes them by name, version and
partition; what has to be looked up in logs is added to the event when it is delivered.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from dedp_assets.graph.mail.openlineage_datasets import (
    SPEC,
    Touched,
    dataset_of,
    facet,
    input_of,
    output_of,
    touched_of,
    with_facets,
)
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.running.lineage import ObservedRun

__all__ = ["Attempt", "complete_event", "completed", "fail_event", "observed_run", "start_event"]

_SCHEMA = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_IDS = uuid.UUID("8f0c7c43-52b7-4f5e-9d55-0c1f4f0f9a11")
"""UUID namespace of attempt ids, fixed for stable ids."""
_TERMINAL = ("COMPLETE", "FAIL", "ABORT")
_LONGEST_MESSAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt of a run's step.

    Attributes:
        run_id: id of the run, such as Dagster's.
        job: name of the run's job.
        step: name of the step, which stays the same whichever job the step runs in.
        number: 0 for the first attempt, and one more for each retry.
        namespace: namespace of the jobs.
        nominal: start and end of the time that the step computes, if it has one.
        producer: URI of the program that makes the events.

    Raises:
        ConfigError: without a run, a job or a step, or for times without a time zone.
    """

    run_id: str
    job: str
    step: str
    number: int = 0
    namespace: str = "dedp"
    nominal: tuple[datetime, datetime] | None = None
    producer: str = "urn:dedp"

    def __post_init__(self) -> None:
        require_types(self)
        if not (self.run_id and self.job and self.step):
            raise ConfigError("an attempt must have the names of its run, job and step, not an empty text")

    @property
    def id(self) -> str:
        """UUID of the attempt, made of run, step and number."""
        return str(uuid.uuid5(_IDS, f"{self.run_id}/{self.step}/{self.number}"))

    @property
    def parent_id(self) -> str:
        """UUID of the run: the run's id, where that is a UUID."""
        try:
            return str(uuid.UUID(self.run_id))
        except ValueError:
            return str(uuid.uuid5(_IDS, self.run_id))


def start_event(attempt: Attempt, *, at: datetime) -> dict[str, Any]:
    """Return the event of an attempt that begins.

    Args:
        attempt: the attempt.
        at: current time, with time zone.
    """
    return _event(attempt, "START", at)


def complete_event(
    attempt: Attempt, *, at: datetime, inputs: Sequence[Touched] = (), outputs: Sequence[Touched] = ()
) -> dict[str, Any]:
    """Return the event of an attempt that succeeded.

    Args:
        attempt: the attempt.
        at: current time, with time zone.
        inputs: what was opened.
        outputs: what was committed to.
    """
    return _event(attempt, "COMPLETE", at, inputs=inputs, outputs=outputs)


def fail_event(
    attempt: Attempt, *, at: datetime, error: str, inputs: Sequence[Touched] = (), outputs: Sequence[Touched] = ()
) -> dict[str, Any]:
    """Return the event of an attempt that failed.

    Args:
        attempt: the attempt.
        at: current time, with time zone.
        error: reason, for people.
        inputs: what was opened before the failure.
        outputs: what was committed to before the failure; mostly nothing.
    """
    reason = facet(attempt.producer, "errorMessage", message=error[:_LONGEST_MESSAGE], programmingLanguage="PYTHON")
    return _event(attempt, "FAIL", at, inputs=inputs, outputs=outputs, facets={"errorMessage": reason})


def completed(
    event: Mapping[str, Any],
    *,
    read: Callable[[Touched], Touched],
    written: Callable[[Touched, Sequence[Touched]], Touched],
) -> dict[str, Any]:
    """Return an event with the facts of the datasets that a run does not look up.

    Args:
        event: an event of this module, or of an earlier version, which may have these facts.
        read: returns an input with the facts.
        written: returns an output with the facts, from the output and all inputs.
    """
    producer = event["producer"]
    inputs = [(stated, touched_of(stated)) for stated in event.get("inputs") or ()]
    outputs = [(stated, touched_of(stated)) for stated in event.get("outputs") or ()]
    opened = [dataset for _, dataset in inputs]
    return {
        **event,
        "inputs": [with_facets(stated, input_of(producer, read(each))) for stated, each in inputs],
        "outputs": [with_facets(stated, output_of(producer, written(each, opened))) for stated, each in outputs],
    }


def observed_run(event: Mapping[str, Any], *, namespace: str = "dedp") -> ObservedRun | None:
    """Parse the observed run of a terminal event of any producer.

    Args:
        event: an event of OpenLineage.
        namespace: namespace of the platform's own jobs; of other jobs the name begins with the namespace.

    Returns:
        The run with its datasets by their names on the platform, where the event tells these; ``None`` for any other
        event.

    Raises:
        ConfigError: for a terminal event without run, job or time.
    """
    if event.get("eventType") not in _TERMINAL:
        return None
    try:
        job = event["job"]
        return ObservedRun(
            job=job["name"] if job["namespace"] == namespace else f"{job['namespace']}/{job['name']}",
            run_id=event["run"]["runId"],
            at=datetime.fromisoformat(event["eventTime"].replace("Z", "+00:00")),
            inputs=tuple(dict.fromkeys(map(dataset_of, event.get("inputs") or ()))),
            outputs=tuple(dict.fromkeys(map(dataset_of, event.get("outputs") or ()))),
            failed=event["eventType"] != "COMPLETE",
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"the event must have a run, a job and a time, not {type(error).__name__}: {error}") from None


def _event(
    attempt: Attempt,
    kind: str,
    at: datetime,
    *,
    inputs: Iterable[Touched] = (),
    outputs: Iterable[Touched] = (),
    facets: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    whole = {"namespace": attempt.namespace, "name": attempt.job}
    run = {"runId": attempt.parent_id}
    known = {"parent": facet(attempt.producer, "parent", run=run, job=whole, root={"run": run, "job": whole})}
    if attempt.nominal:
        start, end = (_time(each) for each in attempt.nominal)
        known["nominalTime"] = facet(attempt.producer, "nominalTime", nominalStartTime=start, nominalEndTime=end)
    kind_of_job = facet(attempt.producer, "jobType", processingType="BATCH", integration="DAGSTER", jobType="STEP")
    return {
        "eventType": kind,
        "eventTime": _time(at),
        "run": {"runId": attempt.id, "facets": {**known, **(facets or {})}},
        "job": {"namespace": attempt.namespace, "name": attempt.step, "facets": {"jobType": kind_of_job}},
        "inputs": [input_of(attempt.producer, each) for each in inputs],
        "outputs": [output_of(attempt.producer, each) for each in outputs],
        "producer": attempt.producer,
        "schemaURL": _SCHEMA,
    }


def _time(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ConfigError("at must be a time with a time zone, not without")
    # Always as many digits, so that texts sort as the times do.
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
