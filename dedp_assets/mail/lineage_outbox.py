"""Outbox of lineage: events in files, and their delivery to a receiver that may be down for days.

``<day>/<run>.jsonl`` holds the events of a run, one a line. Whoever runs a step appends, and nothing else: no receiver
delays or breaks a run. A delivery sends the events in the order of their times, those of a file in the order of its
lines, and notes in ``<day>/sent.json`` how far it came. Who dies in between sends events again: a receiver tells them
by run id and type. Days are forgotten after 30 days, whether they were delivered or not.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

from dedp_assets.mail.alert_channels import Webhook
from dedp_assets.mail.openlineage import observed_run
from dedp_assets.mail.pauses import Pause
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.lineage import ObservedRun
from dedp_assets.patterns.delta import LocalStore

__all__ = ["LineageOutbox", "Receiver"]

KEPT_DAYS = 30
_ENDPOINT = "/api/v1/lineage"
_SENT, _DELIVERED, _STATE, _DELIVERING = "sent.json", "delivered", "delivery.json", "delivering"
_NOTED_EVERY = 50
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Receiver:
    """A server that takes OpenLineage's events by HTTP.

    Attributes:
        url: address of the server, without the path of the interface.
    """

    url: str

    def __post_init__(self) -> None:
        try:
            self._endpoint()
        except ConfigError:
            raise ConfigError(
                "the URL of the receiver of lineage must be an http:// or https:// address without user and password"
            ) from None

    def send(self, event: Mapping[str, Any]) -> str:
        """Post an event once.

        Raises:
            ConfigError: if the server sends the request elsewhere.
            ContractError: if the server refuses this event.
            NotReady: if there is no acknowledgement.
        """
        return self._endpoint().post(event, key=f"{event['run']['runId']}-{event['eventType']}")

    def _endpoint(self) -> Webhook:
        return Webhook(f"{self.url.rstrip('/')}{_ENDPOINT}", timeout_seconds=5, total_seconds=10)


class _Owed(NamedTuple):
    """An undelivered event with time, file, and end within the file."""

    time: str
    file: str
    end: int
    event: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class LineageOutbox:
    """Events of runs, in the files of one folder.

    Attributes:
        folder: the folder.
    """

    folder: Path

    def append(self, run_id: str, event: Mapping[str, Any], *, at: datetime) -> None:
        """Append an event to the file of a run, as one line.

        Args:
            run_id: id of the run, for the file's name.
            event: the event.
            at: current time, with time zone.

        Raises:
            OSError: if the file cannot be written.
        """
        day = self.folder / f"{at.astimezone(timezone.utc):%Y-%m-%d}"
        if not day.is_dir():
            day.mkdir(parents=True, exist_ok=True)
            self._forget(at.astimezone(timezone.utc).date())
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        # One call of the operating system for a line: other steps of the run may append at the same time.
        with (day / f"{_plain(run_id)}.jsonl").open("ab+", buffering=0) as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                # After a line that was cut off, or that is being written: readers skip an empty line.
                line = line if file.read(1) == b"\n" else b"\n" + line
            if file.write(line) != len(line):
                raise OSError(f"{day} took a part of an event only")

    def runs(self, *, since: date | None = None, namespace: str = "dedp") -> Iterator[ObservedRun]:
        """Read the observed runs of the kept days, the oldest day first.

        Args:
            since: first UTC day.
            namespace: namespace of the platform's own jobs.
        """
        for day in self._days():
            if since and day.name < since.isoformat():
                continue
            for file in sorted(day.glob("*.jsonl")):
                for _, event in _lines(file, 0):
                    if event and (run := observed_run(event, namespace=namespace)):
                        yield run

    def deliver(self, receiver: Receiver, now: datetime, *, seconds: float = 20) -> str:
        """Send the owed events in order, until all are sent, the receiver fails, or the time is over.

        Args:
            receiver: who takes them.
            now: current time, with time zone.
            seconds: how long to send.

        Returns:
            What was delivered, or why it waits.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            claim = LocalStore(str(self.folder)).claim(_DELIVERING)
        except TimeoutError:
            return "another process delivers"
        try:
            return self._deliver(receiver, now, time.monotonic() + seconds)
        finally:
            claim.release()

    def _deliver(self, receiver: Receiver, now: datetime, end: float) -> str:
        pause = self._pause()
        if pause.retry_at and now < pause.retry_at:
            return f"waits until {pause.retry_at.astimezone(timezone.utc):%H:%M:%S} UTC: {pause.reason}"
        sent, refused, failure = 0, "", ""
        for day in self._days():
            if (day / _DELIVERED).exists() or failure or time.monotonic() > end:
                continue
            delivery = _Delivery(receiver, end)
            ends = _read(day / _SENT)
            failure = delivery.send(_owed(day, ends), lambda found, day=day: _put(day / _SENT, found), ends)
            sent, refused = sent + delivery.sent, delivery.refused or refused
            if (
                delivery.is_complete
                and day.name < (now - timedelta(days=1)).astimezone(timezone.utc).date().isoformat()
            ):
                (day / _DELIVERED).touch()
        if failure:
            _put(self.folder / _STATE, asdict(pause.after(failure, now)))
        elif pause.failures:
            (self.folder / _STATE).unlink(missing_ok=True)
        return ", then ".join(filter(None, [f"{sent} delivered", refused, failure]))

    def _pause(self) -> Pause:
        stored = _read(self.folder / _STATE)
        with suppress(KeyError, TypeError, ValueError):
            return Pause(stored["failures"], datetime.fromisoformat(stored["retry_at"]), stored["reason"])
        return Pause()

    def _days(self) -> list[Path]:
        """List the folders of days, the oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(each for each in self.folder.iterdir() if _DAY.fullmatch(each.name) and each.is_dir())

    def _forget(self, today: date) -> None:
        """Remove the days that are over the limit."""
        oldest = (today - timedelta(days=KEPT_DAYS)).isoformat()
        for day in self._days():
            if day.name < oldest:
                shutil.rmtree(day, ignore_errors=True)


class _Delivery:
    """A delivery of one day's events."""

    def __init__(self, receiver: Receiver, end: float) -> None:
        self._receiver, self._end = receiver, end
        self.sent, self.refused, self.is_complete = 0, "", False

    def send(self, owed: Iterator[_Owed], note: Any, ends: dict[str, Any]) -> str:  # noqa: ANN401 - a function
        """Send events and note the end of the last event in each file; return the failure, if any."""
        try:
            for number, each in enumerate(owed, 1):
                if time.monotonic() > self._end:
                    return ""
                if failure := self._send(each):
                    return failure
                ends[each.file] = each.end
                if number % _NOTED_EVERY == 0:
                    note(ends)
            self.is_complete = True
        finally:
            note(ends)
        return ""

    def _send(self, owed: _Owed) -> str:
        """Send one event, or leave out a refused event; return the failure of the receiver, if any."""
        if owed.event is None:
            self.refused = f"a line of {owed.file} is no event"
            return ""
        try:
            self._receiver.send(owed.event)
            self.sent += 1
        except ContractError as error:
            self.refused = str(error)
        except (ConfigError, NotReady) as error:
            return str(error)
        return ""


def _owed(day: Path, ends: Mapping[str, Any]) -> Iterator[_Owed]:
    """Yield the events of a day that were not sent, in the order of their times."""
    return heapq.merge(*[_owed_of(file, ends.get(file.name, 0)) for file in sorted(day.glob("*.jsonl"))])


def _owed_of(file: Path, start: int) -> Iterator[_Owed]:
    """Yield the events of a file behind a place, in the order of the lines."""
    latest = ""
    for end, event in _lines(file, start):
        # A clock that was set back does not exchange the events of a run.
        latest = max(latest, str(event.get("eventTime", "")) if event else "")
        yield _Owed(latest, file.name, end, event)


def _lines(file: Path, start: int) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Yield the end and the content of each whole line of a file.

    ``None`` for a line that is no event.
    """
    with suppress(FileNotFoundError):
        raw = file.read_bytes() if file.stat().st_size > start else b""
        for line in raw[start:].splitlines(keepends=True):
            start += len(line)
            if line.endswith(b"\n") and line.strip():
                yield start, _event_in(line)


def _event_in(line: bytes) -> Mapping[str, Any] | None:
    with suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict) and isinstance(event.get("run"), dict) and {"eventType", "job"} <= event.keys():
            return event
    return None


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        stored = json.loads(path.read_bytes())
        return stored if isinstance(stored, dict) else {}
    return {}


def _put(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON in one step, so that no reader sees half a file."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content, default=_text_of))
    draft.replace(path)


def _text_of(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _plain(name: str) -> str:
    """Return a name for a file."""
    return re.sub(r"[^\w.-]", "_", name)[:100].lstrip(".") or "run"
