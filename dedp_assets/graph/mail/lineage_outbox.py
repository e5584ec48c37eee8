"""Outbox of lineage: events of runs in files, for a receiver that may be down for days.

``<day>/<run>/<number>.json`` holds an event. Whoever runs a step puts files, and nothing else: no receiver delays or
breaks a run. A delivery sends the events in the order of their times, those of a run in the order of their numbers, and
notes in ``<day>/sent.json`` how many of each run were sent. A receiver tells events that come again by run id and type.
The newest 30 days are kept, whether they were delivered or not.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from dedp_assets.graph.mail.alert_channels import Webhook
from dedp_assets.graph.mail.openlineage import observed_run
from dedp_assets.graph.mail.outbox import Delivered, FileOutbox
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.running.lineage import ObservedRun

__all__ = ["LineageEvent", "LineageOutbox", "LineageReceiver"]

KEPT_DAYS = 30
_ENDPOINT = "/api/v1/lineage"
_SENT, _DELIVERED = "sent.json", "delivered"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class LineageEvent(NamedTuple):
    """An event with the place among the events of a day.

    Attributes:
        time: time of the event, or of an event of the run before it, if that is later: a clock that was set back does
            not exchange the events of a run.
        day: UTC day, the name of a folder.
        run: name of the run's folder.
        number: place among the run's events of the day, from 1 on.
        content: the event; ``None`` for a file that holds none.
    """

    time: str
    day: str
    run: str
    number: int
    content: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class LineageReceiver:
    """A server that takes OpenLineage's events by HTTP.

    Attributes:
        url: address of the server, without the path of the interface.
        complete: returns an event with the facts that a run does not look up.
    """

    url: str
    complete: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict

    def __post_init__(self) -> None:
        try:
            self._endpoint()
        except ConfigError:
            raise ConfigError(
                "the URL of the receiver of lineage must be an http:// or https:// address without user and password"
            ) from None

    @property
    def name(self) -> str:
        """Name of the only receiver."""
        return "receiver"

    def send(self, message: LineageEvent) -> str:
        """Post an event once.

        Raises:
            ConfigError: if the server sends the request elsewhere.
            ContractError: if the server refuses this event, or the file holds none.
            NotReady: if there is no acknowledgement.
        """
        event = message.content
        if event is None:
            raise ContractError(f"{message.day}/{message.run}: file {message.number} holds no event")
        return self._endpoint().post(self.complete(event), key=f"{event['run']['runId']}-{event['eventType']}")

    def _endpoint(self) -> Webhook:
        return Webhook(f"{self.url.rstrip('/')}{_ENDPOINT}", timeout_seconds=5, total_seconds=10)


@dataclass(frozen=True, slots=True)
class LineageOutbox(FileOutbox[LineageEvent]):
    """Events of runs, in the files of one folder."""

    def append(self, run_id: str, event: Mapping[str, Any], *, at: datetime) -> None:
        """Put an event behind the events of a run.

        Args:
            run_id: id of the run, for the folder's name.
            event: the event.
            at: current time, with time zone.

        Raises:
            OSError: if the file cannot be written.
        """
        day, content = f"{at.astimezone(timezone.utc):%Y-%m-%d}", json.dumps(event, separators=(",", ":")).encode()
        if day not in self._days():
            self._forget_days()
        folder = f"{day}/{_plain(run_id)}"
        number = len(self._names(folder))
        while True:
            number += 1
            with suppress(FileExistsError):  # another step of the run was first
                self.store.put_if_absent(f"{folder}/{number:06d}.json", content)
                return

    def runs(self, *, since: date | None = None, namespace: str = "dedp") -> Iterator[ObservedRun]:
        """Read the observed runs of the kept days, the oldest day first.

        Args:
            since: first UTC day.
            namespace: namespace of the platform's own jobs.
        """
        for day in self._days():
            for run in self._runs(day) if not since or day >= since.isoformat() else ():
                for event in self._events(day, run):
                    if event.content and (found := observed_run(event.content, namespace=namespace)):
                        yield found

    def owed(self, receiver: str, now: datetime) -> Iterator[LineageEvent]:  # noqa: ARG002 - there is one receiver
        """Yield the events that were not sent, day by day in the order of their times."""
        past = (now - timedelta(days=1)).astimezone(timezone.utc).date().isoformat()
        for day in self._days():
            # The mark of a day that is not over comes from a clock that was ahead.
            if day < past and self.store.exists(f"{day}/{_DELIVERED}"):
                continue
            sent = self._sent(day)
            yield from heapq.merge(*(self._events(day, run, after=sent.get(run, 0)) for run in self._runs(day)))
            if day < past:
                self.store.put(f"{day}/{_DELIVERED}", b"")

    def note(self, receiver: str, message: LineageEvent, outcome: Delivered, now: datetime) -> None:  # noqa: ARG002 - as declared
        """Note an event as sent, or as refused."""
        # What a receiver refuses it refuses for ever.
        sent = {**self._sent(message.day), message.run: message.number}
        self.store.put(f"{message.day}/{_SENT}", json.dumps(sent).encode())

    def _days(self) -> list[str]:
        """List the folders of days, the oldest first."""
        return [name for name in self.store.list() if _DAY.fullmatch(name)]

    def _runs(self, day: str) -> list[str]:
        return [name for name in self._names(day) if name not in (_SENT, _DELIVERED)]

    def _events(self, day: str, run: str, *, after: int = 0) -> Iterator[LineageEvent]:
        """Yield the events of a run behind a number, in order."""
        latest, folder = "", f"{day}/{run}"
        for number, name in enumerate(self._names(folder)[after:], after + 1):
            content = self._event(f"{folder}/{name}")
            latest = max(latest, str(content.get("eventTime", "")) if content else "")
            yield LineageEvent(latest, day, run, number, content)

    def _names(self, folder: str) -> list[str]:
        """List the names in a folder without files that are still being written."""
        return [name for name in self.store.list(folder) if not name.startswith(".")]

    def _event(self, path: str) -> Mapping[str, Any] | None:
        """Read an event; ``None`` for a file that holds none, or that was forgotten meanwhile."""
        with suppress(FileNotFoundError, ValueError):
            event = json.loads(self.store.read(path))
            if isinstance(event, dict) and isinstance(event.get("run"), dict) and {"eventType", "job"} <= event.keys():
                return event
        return None

    def _sent(self, day: str) -> dict[str, int]:
        """Return the number of sent events by run."""
        with suppress(OSError, ValueError):
            stored = json.loads(self.store.read(f"{day}/{_SENT}"))
            return stored if isinstance(stored, dict) else {}
        return {}

    def _forget_days(self) -> None:
        """Remove all days but the newest 30."""
        # By their number, and not by their dates: a clock that is ahead would forget what is owed.
        for day in self._days()[:-KEPT_DAYS]:
            self.store.delete_folder(day)


def _plain(name: str) -> str:
    """Return a name for a folder."""
    return re.sub(r"[^\w.-]", "_", name)[:100].lstrip(".") or "run"
