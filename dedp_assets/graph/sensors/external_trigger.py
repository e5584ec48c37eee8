"""Event trigger: each announced event of a producer starts the subscribed pipelines once.

There is no cursor that could move past an event: it stays in its channel until Dagster says that its runs succeeded. A
tick that is lost, or a daemon that dies after launching, is made good by the next tick, which finds the runs.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.upstream_runs import ENDED_BADLY
from dedp_assets.graph.outcomes.run_tags import CAUSE, REQUEST, TRIGGER, refusals
from dedp_assets.graph.reconcile.reconciling import Tried
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns.connectors.web.events import Arrival, EventChannel, Inbox
from dedp_assets.patterns.ingestion.external_trigger import Start, plan_triggers, starts_of

__all__ = ["events_arrived", "trigger"]

Filters = Mapping[str, Sequence[Mapping[str, str]]]

_VERSION = "external_trigger/1"
_EVENT = f"{TRIGGER}event"
_PENDING = 100
_AT_ONCE = 25
_LONGEST_ENVELOPE = 10_000


def events_arrived(tables: Sequence[LakeTable[...]], jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Make the sensor that starts jobs by the event filters of declared tables (``started_by``).

    Args:
        tables: the declared tables of the graph.
        jobs: the jobs of the graph.
    """
    pipelines = {job: filters for table in tables for job, filters in table.started_by.items()}
    return trigger(
        "events_arrived",
        pipelines=pipelines,
        jobs=[job for job in jobs if job.name in pipelines],
        description="An announced release starts its load; bad announcements are set aside.",
    )


def trigger(name: str, *, pipelines: Filters, jobs: Sequence[Any], description: str) -> dg.SensorDefinition:
    """Make the sensor over the landing zone's inbox of events; events without a pipeline are set aside.

    Args:
        name: what the sensor is called.
        pipelines: job -> filters over the attributes of the events that start it.
        jobs: the jobs named there.
        description: what people read about it.
    """

    @dg.sensor(
        name=name,
        jobs=jobs,
        minimum_interval_seconds=settings().tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=description,
    )
    def evaluate(
        context: dg.SensorEvaluationContext, landing: Landing, clock: Clock
    ) -> dg.SensorResult | dg.SkipReason:
        return _react(context.instance, _inbox(landing), pipelines, clock.now())

    return evaluate


def _inbox(landing: Landing) -> Inbox:
    """Open the inbox: ``events`` in the landing zone.

    An event is set aside by a rename, which no bucket has: beside a zone in a bucket it is ``landing/events`` of the
    home.
    """
    folder = landing.folder("events")
    return Inbox(folder if isinstance(folder, Path) else settings().home / "landing" / "events")


def _react(
    instance: dg.DagsterInstance, channel: EventChannel, pipelines: Filters, now: datetime
) -> dg.SensorResult | dg.SkipReason:
    """Acknowledge the finished events and request the runs still wanted."""
    arrivals = channel.arrivals(limit=_PENDING)
    if not arrivals:
        return dg.SkipReason("no event has arrived")
    spent = channel.spent(arrivals)
    progress = {key: _progress(key, runs, spent) for key, runs in _runs(instance, arrivals).items()}
    started = [key for key, made in progress.items() if made.state != "wanted"]
    plan = plan_triggers(arrivals, pipelines=pipelines, known=channel.known(arrivals), started=started, now=now)
    starts: dict[str, Start] = {}
    for arrival in arrivals:
        if arrival.event is None or arrival.name in plan.held:
            channel.acknowledge(arrival, "aside", reason=plan.held[arrival.name])
        else:
            mine = {start.key: start for start in starts_of(arrival.event, pipelines=pipelines)}
            _acknowledge(channel, arrival, [progress.get(key, _Progress(key)) for key in mine])
            starts |= mine
    chosen = [(starts[key], progress.get(key, _Progress(key))) for key in plan.partitions[:_AT_ONCE]]
    if chosen:
        return dg.SensorResult(run_requests=[_request(start, made.run_key, now) for start, made in chosen])
    aside = [f"{name!r}: {reason}" for name, reason in sorted(plan.held.items())[:5]]
    return dg.SkipReason("; ".join([plan.reason, *aside]))


@dataclass(frozen=True, slots=True)
class _Progress:
    """Progress of a start: the state, the next run key, and the ids of all failed runs."""

    run_key: str
    state: Literal["wanted", "under way", "done", "failed"] = "wanted"
    reason: str = ""
    failed: tuple[str, ...] = ()


def _runs(instance: dg.DagsterInstance, arrivals: Iterable[Arrival]) -> Mapping[str, Sequence[dg.DagsterRun]]:
    """Return the runs of each start, newest first."""
    keys = sorted({arrival.event.key for arrival in arrivals if arrival.event})
    found: dict[str, list[dg.DagsterRun]] = defaultdict(list)
    for run in instance.get_runs(dg.RunsFilter(tags={_EVENT: keys})) if keys else ():
        found[run.tags[REQUEST]].append(run)
    return found


def _progress(key: str, runs: Sequence[dg.DagsterRun], spent: Collection[str]) -> _Progress:
    """Return the progress of a start from the start's runs; failures before a replay do not count."""
    ended_badly = [run for run in runs if run.status in ENDED_BADLY]
    failed = [run for run in ended_badly if run.run_id not in spent]
    ids = tuple(run.run_id for run in ended_badly)
    run_key = Tried(len(ended_badly)).run_key(key)
    if any(run.is_success for run in runs):
        return _Progress(run_key, "done")
    if any(run not in ended_badly and not _never_launched(run, run_key) for run in runs):
        return _Progress(run_key, "under way")
    if refused := [run for run in failed if refusals(run.tags)]:
        return _Progress(run_key, "failed", f"run {refused[0].run_id[:8]} refused it", ids)
    if given_up := Tried(len(failed), last=failed[0].run_id if failed else "").given_up:
        return _Progress(run_key, "failed", given_up, ids)
    return _Progress(run_key)


def _never_launched(run: dg.DagsterRun, run_key: str) -> bool:
    """Return whether the daemon died between creation and launch; a repeated request launches the run."""
    return run.status is dg.DagsterRunStatus.NOT_STARTED and run.tags.get("dagster/run_key") == run_key


def _acknowledge(channel: EventChannel, arrival: Arrival, progress: Sequence[_Progress]) -> None:
    """Remove an event from the channel once no start of the event is wanted or under way."""
    states = {made.state for made in progress}
    if states == {"done"}:
        channel.acknowledge(arrival, "done")
    elif states <= {"done", "failed"}:
        reason = "; ".join(made.reason for made in progress if made.reason)
        channel.acknowledge(arrival, "failed", reason=reason, runs=[run for made in progress for run in made.failed])


def _request(start: Start, run_key: str, now: datetime) -> dg.RunRequest:
    """Return the run request of a start, with event, times and object in the run's tags."""
    event = start.event
    attributes = {
        "version": _VERSION,
        "event": event.key,
        "envelope": event.to_json(longest=_LONGEST_ENVELOPE),
        "event_time": event.at,
        "processing_time": now.isoformat(),
        "object": start.object,
    }
    tags = {CAUSE: event.type, REQUEST: start.key, **{f"{TRIGGER}{name}": value for name, value in attributes.items()}}
    return dg.RunRequest(run_key=run_key, job_name=start.pipeline, tags=tags)
