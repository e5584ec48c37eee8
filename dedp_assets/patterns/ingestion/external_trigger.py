"""External Trigger: an event starts each concerned pipeline exactly once, despite repeated delivery.

Problem: a dataset changes at unpredictable times; refreshing it on a schedule mostly reloads what did not change.
Solution: the producer announces each change. The trigger decides which pipelines an event concerns and starts one run
    for each of them and each object, with the envelope: the run knows why it started and what to load.
Consequences: without the event nothing runs, so none may get lost: it stays in its channel until its runs succeeded,
    and what cannot be understood is kept with the reason. Events arrive repeatedly and in any order.
Choose instead: Readiness Marker, if data arrives regularly and the consumer may poll for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from dedp_assets.patterns.connectors.web.events import Arrival, Event
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.delta import folder_at

__all__ = ["plan_triggers", "starts_of", "send_event", "Start"]

_CLOCK_SKEW = timedelta(hours=1)
_FILTERED = {"type", "source", "subject"}


@dataclass(frozen=True, slots=True)
class Start:
    """A run to start: a pipeline, the triggering event, and a single object to load."""

    pipeline: str
    event: Event
    object: str

    @property
    def key(self) -> str:
        """Name of the start: equal for every delivery of the event, different for different content."""
        return f"{self.pipeline}/{self.event.key}/{quote(self.object)}@{self.event.digest}"


@typed
def plan_triggers(
    arrivals: Iterable[Arrival],
    *,
    pipelines: Mapping[str, Sequence[Mapping[str, str]]],
    known: Mapping[str, str],
    started: Collection[str] = (),
    now: datetime,
) -> Plan:
    """Choose the runs to start, earliest events first, and set aside deliveries without a run.

    Args:
        arrivals: the deliveries that are not settled, in any order.
        pipelines: pipeline -> filters; an event whose attributes equal all those of one filter starts it
            (``{"refresh_devices": [{"type": "dedp.devices.published"}]}``).
        known: event key -> digest of the events that were settled before.
        started: keys of the starts that have their run already.
        now: current time, with time zone: an event from later than an hour after it is not believed.

    Returns:
        A plan whose partitions are the keys of :func:`starts_of` and whose causes are the events' types; ``held`` says
        of each delivery that has to be set aside why.

    Raises:
        ConfigError: for a filter on anything but type, source and subject.

    Example:
        >>> from datetime import timezone
        >>> noon = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
        >>> event = Event(id="7", source="shop", type="published", time=noon, data={"objects": ["devices/v+7.jsonl"]})
        >>> twice = [Arrival("a.json", noon, event), Arrival("b.json", noon, event)]
        >>> plan = plan_triggers(twice, pipelines={"refresh": [{"type": "published"}]}, known={}, now=noon)
        >>> [key.partition("@")[0] for key in plan.partitions], plan.held
        (['refresh/shop/7/devices/v%207.jsonl'], {'b.json': 'repeat: the same event came before'})
    """
    _check(pipelines)
    seen = dict(known)
    starts: list[Start] = []
    held: dict[str, str] = {}
    for arrival in sorted(arrivals, key=lambda a: (a.received, a.name)):
        mine, reason = _judged(arrival, seen, pipelines, now)
        if arrival.event is None or reason:
            held[arrival.name] = reason
        else:
            seen[arrival.event.key] = arrival.event.digest
            starts += mine
    chosen = sorted((s for s in starts if s.key not in started), key=lambda s: (s.event.time, s.key))
    return Plan(
        tuple(start.key for start in chosen),
        f"{len(chosen)} runs to start, {len(starts) - len(chosen)} started, {len(held)} deliveries set aside",
        causes={start.key: start.event.type for start in chosen},
        held=held,
    )


@typed
def starts_of(event: Event, *, pipelines: Mapping[str, Sequence[Mapping[str, str]]]) -> tuple[Start, ...]:
    """List the runs that an event starts: a run for each matching pipeline and named object.

    Raises:
        ConfigError: as :func:`plan_triggers`.
        ContractError: if it concerns a pipeline and does not name what to load.
    """
    _check(pipelines)
    concerned = [name for name, filters in pipelines.items() if any(_equals(event, wanted) for wanted in filters)]
    return tuple(Start(name, event, named) for name in concerned for named in event.objects())


@typed
def send_event(inbox: Path, event: Event) -> Path:
    """Write an event into the inbox, the producer's last step after the named objects are in place.

    The file is complete when it gets its name. The same event sent again, also at the same time, takes the same name.

    Returns:
        The file in the inbox.

    Raises:
        ContractError: for an event that its reader would refuse.
    """
    body = event.to_json().encode()
    Event.from_json(body)
    name = f"{event.digest}-{quote(event.id, safe='')[:64]}.json"
    folder_at(inbox).put(name, body)
    return inbox / name


def _judged(
    arrival: Arrival, seen: Mapping[str, str], pipelines: Mapping[str, Sequence[Mapping[str, str]]], now: datetime
) -> tuple[Sequence[Start], str]:
    """List the runs that a delivery starts, with the reason for an empty list."""
    event = arrival.event
    if event is None:
        return (), f"malformed: {arrival.refusal}"
    if event.time > now + _CLOCK_SKEW:
        return (), f"malformed: its time {event.at} lies in the future"
    try:
        starts = starts_of(event, pipelines=pipelines)
    except ContractError as error:
        return (), f"malformed: {error}"
    if not starts:
        return (), f"unrelated: no pipeline starts on {event.type} {event.subject}".rstrip()
    before = seen.get(event.key, event.digest)
    if before != event.digest:
        return (), f"contradiction: an event of {event.source} with the id {event.id} and other content came before"
    return (starts, "") if event.key not in seen else ((), "repeat: the same event came before")


def _check(pipelines: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
    for name, filters in pipelines.items():
        strange = [wanted for wanted in filters if not wanted or set(wanted) - _FILTERED]
        if strange:
            raise ConfigError(f"{name} filters by {strange}: name one or more of {', '.join(sorted(_FILTERED))}")


def _equals(event: Event, wanted: Mapping[str, str]) -> bool:
    return all(getattr(event, attribute) == value for attribute, value in wanted.items())
