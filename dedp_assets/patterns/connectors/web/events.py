"""Events in the envelope of CloudEvents 1.0, and the channels that deliver events.

A channel is anything that can say what has arrived and keep what was settled: an inbox folder here, a topic as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol
from urllib.parse import quote, unquote_plus

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.parsing.strict_json import depth_of, parse_json
from dedp_assets.patterns.delta import folder_at

__all__ = ["Arrival", "Event", "EventChannel", "Inbox", "Outcome"]

Outcome = Literal["done", "failed", "aside"]

_REQUIRED = ("specversion", "id", "source", "type", "time")
_LARGEST_BYTES = 65_536
_LONGEST = 1_024
_DEEPEST = 32
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.IGNORECASE)
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HIDDEN = ("_", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event, identified by ``source`` and ``id`` across repeated deliveries.

    Attributes:
        id: unique within the source.
        source: who announces, a URI reference.
        type: what happened, by a name that pipelines subscribe to.
        time: when it happened, with time zone.
        subject: what it happened to, within the source.
        data: JSON value; an event that starts a pipeline holds ``{"objects": [key, ...]}``, URL-encoded keys of the
            objects to load.

    Raises:
        ContractError: for attributes that CloudEvents 1.0 does not allow.
    """

    id: str
    source: str
    type: str
    time: datetime
    subject: str = ""
    data: Any = None

    def __post_init__(self) -> None:
        for name in ("id", "source", "type", "subject"):
            value = getattr(self, name)
            if not isinstance(value, str) or not (value or name == "subject"):
                raise ContractError(f"its {name} is {value!r}, where a text belongs")
            if len(value) > _LONGEST or _UNFIT.search(value):
                raise ContractError(f"its {name} is longer than {_LONGEST} characters or holds control characters")
        if not isinstance(self.time, datetime) or self.time.utcoffset() is None:
            raise ContractError(f"its time {self.time} has no time zone")
        if depth_of(self.data) > _DEEPEST:
            raise ContractError(f"its data is nested deeper than {_DEEPEST} levels")
        try:
            json.dumps(self.data, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ContractError(f"its data is not JSON: {error}") from None

    @classmethod
    def from_json(cls, body: bytes) -> Event:
        """Read the event in ``body``; extension attributes are passed over.

        Raises:
            ContractError: if it holds no event, with the reason.
        """
        if len(body) > _LARGEST_BYTES:
            raise ContractError(f"it has more than {_LARGEST_BYTES} bytes: put the data into an object and name that")
        try:
            envelope = parse_json(body)
        except ValueError as error:
            raise ContractError(f"it is not JSON: {error}") from error
        if not isinstance(envelope, dict):
            raise ContractError(f"it is a JSON {type(envelope).__name__}, not an object with CloudEvents attributes")
        if missing := [name for name in _REQUIRED if envelope.get(name) is None]:
            raise ContractError(f"it has no {', '.join(missing)}")
        if envelope["specversion"] != "1.0":
            raise ContractError(f"its specversion is {envelope['specversion']!r}; 1.0 is understood")
        return cls(
            id=envelope["id"],
            source=envelope["source"],
            type=envelope["type"],
            time=_moment(envelope["time"]),
            subject=envelope.get("subject") or "",
            data=envelope.get("data"),
        )

    @property
    def key(self) -> str:
        """Unique text of ``source`` and ``id``."""
        return f"{quote(self.source, safe=':')}/{quote(self.id, safe=':')}"

    @property
    def at(self) -> str:
        """The time in UTC as ISO 8601 with microseconds: sorts as time does."""
        return self.time.astimezone(timezone.utc).isoformat(timespec="microseconds")

    @property
    def digest(self) -> str:
        """Digest of the event's content, independent of the order of attributes."""
        return hashlib.sha256(json.dumps(self._stated(), sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self, *, longest: int | None = None) -> str:
        """Return the envelope as JSON; above ``longest`` characters, a size replaces the data."""
        whole = _readable(self._stated())
        if longest is None or len(whole) <= longest:
            return whole
        return _readable({**self._stated(), "data": f"left out: {len(whole)} characters"})

    def objects(self) -> tuple[str, ...]:
        """List the keys of the objects that the event names, decoded, each once.

        Raises:
            ContractError: if the data names none, or a key that could lead out of the store.
        """
        keys = self.data.get("objects") if isinstance(self.data, dict) else None
        if not isinstance(keys, list) or not keys:
            raise ContractError("its data names no objects to load")
        return tuple(dict.fromkeys(_decoded(key) for key in keys))

    def _stated(self) -> dict[str, Any]:
        subject = {"subject": self.subject} if self.subject else {}
        named = {"specversion": "1.0", "id": self.id, "source": self.source, "type": self.type, "time": self.at}
        return {**named, **subject, "data": self.data}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A delivery of the channel: an event, or a malformed text.

    Attributes:
        name: what the channel knows it by.
        received: when it came, with time zone.
        event: what it holds.
        refusal: why it holds no event.
    """

    name: str
    received: datetime
    event: Event | None = None
    refusal: str = ""

    @classmethod
    def of(cls, name: str, body: bytes, *, received: datetime) -> Arrival:
        """Read a delivery from the bytes of the channel."""
        try:
            return cls(name, received, Event.from_json(body))
        except ContractError as error:
            return cls(name, received, refusal=str(error))


class EventChannel(Protocol):
    """A channel that events come through."""

    def arrivals(self, *, limit: int) -> Sequence[Arrival]:
        """List the oldest pending deliveries."""

    def known(self, arrivals: Iterable[Arrival]) -> Mapping[str, str]:
        """Map the keys of events processed before, as done or failed, to digests."""

    def spent(self, arrivals: Iterable[Arrival]) -> Collection[str]:
        """List the ids of the runs that failed on the events: a replay starts afresh."""

    def acknowledge(self, arrival: Arrival, outcome: Outcome, *, reason: str = "", runs: Sequence[str] = ()) -> None:
        """Acknowledge a delivery, and keep the event with the reason and the failed runs."""


@dataclass(frozen=True, slots=True)
class Inbox:
    """A folder with one file per event; files whose names start with ``_`` or ``.`` are ignored.

    What is settled moves to ``_done``, ``_failed`` or ``_aside`` and is never deleted; ``<name>.reason`` beside it says
    why. Moving a file back replays it.
    """

    folder: Path

    def arrivals(self, *, limit: int) -> Sequence[Arrival]:
        """List the oldest deliveries in the folder, as :class:`EventChannel` requires.

        An empty inbox costs one directory scan.
        """
        if not self.folder.is_dir():
            return []
        with os.scandir(self.folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(_HIDDEN)]
        # A rename changes the ctime: it says when a file came, the mtime only when it was written.
        lying = sorted((stat.st_ctime_ns, name) for name in names if (stat := self._stat(name)))
        return [a for changed_ns, name in lying[:limit] if (a := self._arrival(name, changed_ns))]

    def known(self, arrivals: Iterable[Arrival]) -> Mapping[str, str]:
        """Map the events filed as done or failed to digests, as :class:`EventChannel` requires."""
        events = {arrival.event.key: arrival.event for arrival in arrivals if arrival.event}
        kept = ((key, self.folder / f"_{how}" / _filed(e)) for key, e in events.items() for how in ("done", "failed"))
        found = {key: Arrival.of(path.name, path.read_bytes(), received=_EPOCH) for key, path in kept if path.is_file()}
        return {key: arrival.event.digest if arrival.event else "unreadable" for key, arrival in found.items()}

    def spent(self, arrivals: Iterable[Arrival]) -> Collection[str]:
        """List the failed runs named by the reason files of the events, as :class:`EventChannel` requires."""
        reasons = (self.folder / "_failed" / f"{_filed(a.event)}.reason" for a in arrivals if a.event)
        return {run for path in reasons if path.is_file() for run in _runs(path)}

    def acknowledge(self, arrival: Arrival, outcome: Outcome, *, reason: str = "", runs: Sequence[str] = ()) -> None:
        """Move a delivery's file to the folder of the outcome, as :class:`EventChannel` requires."""
        folder = self.folder / f"_{outcome}"
        folder.mkdir(exist_ok=True)
        free = folder / (arrival.name if outcome == "aside" or arrival.event is None else _filed(arrival.event))
        number = 0
        while outcome == "aside" and os.path.lexists(free):
            number += 1
            free = folder / f"{arrival.name}.{number}"
        if reason:
            details = {"reason": reason, "arrived_as": arrival.name, "runs": list(runs)}
            folder_at(folder).put(f"{free.name}.reason", json.dumps(details).encode())
        with suppress(FileNotFoundError):  # it was settled before
            (self.folder / arrival.name).replace(free)

    def _stat(self, name: str) -> os.stat_result | None:
        try:
            return (self.folder / name).lstat()
        except FileNotFoundError:
            return None

    def _arrival(self, name: str, changed_ns: int) -> Arrival | None:
        path, received = self.folder / name, datetime.fromtimestamp(changed_ns / 1e9, timezone.utc)
        if not path.is_file():
            return Arrival(name, received, refusal="it is no file") if os.path.lexists(path) else None
        try:
            with path.open("rb") as file:
                return Arrival.of(name, file.read(_LARGEST_BYTES + 1), received=received)
        except FileNotFoundError:
            return None
        except OSError as error:
            return Arrival(name, received, refusal=f"it cannot be read: {error.strerror}")


def _runs(path: Path) -> list[str]:
    """Read the ids of failed runs from the reason file of a processed event.

    Raises:
        ContractError: if somebody changed it; the text names it.
    """
    try:
        content = parse_json(path.read_bytes())
    except ValueError:
        content = None
    runs = content.get("runs") if isinstance(content, dict) else None
    if not isinstance(runs, list) or not all(isinstance(run, str) for run in runs):
        raise ContractError(f"{path} does not name the runs that failed: write a list of them into its 'runs'")
    return runs


_EPOCH = datetime.fromtimestamp(0, timezone.utc)


def _filed(event: Event) -> str:
    """Return the name of the file that keeps a processed event."""
    return f"{hashlib.sha256(event.key.encode()).hexdigest()[:32]}.json"


def _readable(content: object) -> str:
    """Write JSON for people; characters that UTF-8 cannot hold are escaped."""
    return json.dumps(content, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _moment(value: object) -> datetime:
    """Parse an RFC 3339 time as UTC; digits below a microsecond are cut off."""
    parts = _TIME.fullmatch(value) if isinstance(value, str) else None
    try:
        if parts is None:
            raise ValueError("not of the form 2026-01-20T12:00:00Z")  # noqa: TRY301 - one sentence for both
        seconds, fraction, zone = parts.groups()
        zone = "+00:00" if zone in "Zz" else zone
        return datetime.fromisoformat(f"{seconds}{(fraction or '.')[:7]:0<7}{zone}").astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:
        raise ContractError(f"its time {value!r} is no RFC 3339 timestamp: {error}") from error


def _decoded(value: object) -> str:
    """Decode a URL-encoded object key, with a plus sign as a space."""
    if not isinstance(value, str):
        raise ContractError(f"it names the object {value!r}, which is no text")
    try:
        key = unquote_plus(value, errors="strict")
    except ValueError as error:
        raise ContractError(f"it names the object {value!r}, which is no URL-encoded UTF-8") from error
    parts = PurePosixPath(key).parts
    if not parts or parts[0] == "/" or ".." in parts or len(key) > _LONGEST or _UNFIT.search(key):
        raise ContractError(f"it names the object {key[:_LONGEST]!r}, which is no key of the store")
    return key
