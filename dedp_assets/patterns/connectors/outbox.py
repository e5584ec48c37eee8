"""Outbox of alerts: episodes in files, and deliveries to channels that may be down for days.

``episodes/<trouble>.<number>.json`` holds an episode with the events that each channel has acknowledged. Raising and
clearing writes these files and nothing else, under the lock of the folder, so no channel delays or breaks a caller. A
delivery sends outside of that lock and notes each acknowledgement at once: who dies in between sends a message again,
under the same idempotency key. ``channels/<name>.json`` says how long a channel that failed is left alone, and
``channels/<name>.<episode>.json`` how long a message that the channel refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any

from dedp_assets.patterns.connectors.alerts import Alert, Channel, Message, attempt
from dedp_assets.patterns.connectors.episodes import (
    Episode,
    Key,
    acknowledge,
    end_episode,
    follow,
    is_finished,
    next_message,
    raise_episode,
)
from dedp_assets.patterns.connectors.pauses import Pause
from dedp_assets.patterns.connectors.silence import Manner
from dedp_assets.patterns.core.secret import masked
from dedp_assets.patterns.delta import Store, table_lock

__all__ = ["Outbox", "Pending"]

_EPISODES, _CHANNELS, _DELIVERING = "episodes", "channels", "delivering"
_LOCK_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that a channel has not taken.

    Attributes:
        channel: name of the channel.
        message: the message.
        reason: why it waits.
    """

    channel: str
    message: Message
    reason: str


@dataclass(frozen=True, slots=True)
class Outbox:
    """Episodes and deliveries, in the files of one folder.

    Attributes:
        store: the folder.
        secrets: values that no stored text may hold.
    """

    store: Store
    secrets: Collection[str] = field(default=(), repr=False)

    def raise_alert(self, alert: Alert, now: datetime) -> None:
        """Begin an episode, or update figure and reason of the open episode of the same trouble.

        Args:
            alert: the trouble.
            now: current time, with time zone.

        Raises:
            Conflict: if another process keeps the lock.
        """
        shown = alert.without(self.secrets)
        with self._locked():
            changed = raise_episode(self._of(shown), shown, now)
            self._write([changed] if changed else [])

    def clear(self, alert: Alert, now: datetime) -> None:
        """End the open episode of a trouble, if any; of ``alert`` only the identity counts.

        Args:
            alert: the trouble.
            now: current time, with time zone.

        Raises:
            Conflict: if another process keeps the lock.
        """
        shown = alert.without(self.secrets)
        with self._locked():
            self._write([end_episode(episode, now) for episode in self._of(shown) if episode.ended is None])

    def observe(
        self,
        found: Iterable[Alert],
        now: datetime,
        *,
        unjudged: Collection[str] = (),
        undecided: Collection[Key] = (),
    ) -> None:
        """Begin, change and end episodes by one complete observation of the platform.

        Args:
            found: every trouble there is now; of the source ``platform``.
            now: current time, with time zone.
            unjudged: tables that could not be observed: their episodes last.
            undecided: keys of alerts whose figures could not be judged: their episodes last.

        Raises:
            Conflict: if another process keeps the lock.
        """
        alerts = [alert.without(self.secrets) for alert in found]
        with self._locked():
            self._write(follow(self.episodes(), alerts, now, unjudged=unjudged, undecided=undecided))

    def episodes(self) -> list[Episode]:
        """List the stored episodes by time and number, without damaged files."""
        found = [self._read(name) for name in self.store.list(_EPISODES) if name.endswith(".json")]
        return sorted((each for each in found if each), key=lambda each: (each.since, each.alert.key, each.number))

    def open_episodes(self) -> list[Episode]:
        """List the episodes that last, the oldest first."""
        return [episode for episode in self.episodes() if episode.ended is None]

    def pending(self, channels: Sequence[Channel], now: datetime, manner: Manner) -> list[Pending]:
        """List the messages that the channels have not taken, with the reasons.

        Args:
            channels: the configured channels.
            now: current time, with time zone.
            manner: when messages leave.
        """
        found, episodes = [], self.episodes()
        for channel in channels:
            failed = self._state(channel.name)
            for episode in episodes:
                if message := next_message(episode, channel.name, now, remind_hours=manner.remind_hours):
                    until = manner.silence.until(now, episode.alert.severity) if manner.silence else None
                    held = f"silent hours until {until:%Y-%m-%d %H:%M} UTC" if until else "to be delivered next"
                    refused = self._state(_refused(channel.name, episode))
                    found.append(Pending(channel.name, message, failed.reason or refused.reason or held))
        return found

    def deliver(self, channels: Sequence[Channel], now: datetime, manner: Manner) -> Mapping[str, str]:
        """Send due messages to all channels in parallel, and forget the episodes that are announced whole.

        Args:
            channels: the configured channels.
            now: current time, with time zone.
            manner: when messages leave.

        Returns:
            Channel -> what was delivered, or why it waits; empty if another process delivers.
        """
        try:
            claim = self.store.claim(_DELIVERING)
        except TimeoutError:
            return {}
        try:
            with ThreadPoolExecutor(max(len(channels), 1)) as pool:
                reports = list(pool.map(lambda channel: self._deliver_to(channel, now, manner), channels))
            self._forget([channel.name for channel in channels])
        finally:
            claim.release()
        return {channel.name: report for channel, report in zip(channels, reports, strict=True)}

    # --- one channel --------------------------------------------------------------------------------------------------

    def _deliver_to(self, channel: Channel, now: datetime, manner: Manner) -> str:
        state = self._state(channel.name)
        if state.retry_at and now < state.retry_at:
            return f"waits until {state.retry_at.astimezone(timezone.utc):%H:%M:%S} UTC: {state.reason}"
        sent = self._send_due(channel, now, manner)
        if sent.failure:
            self._write_state(channel.name, state.after(sent.failure, now))
        elif state.failures:
            self.store.delete(_path_of(channel.name))
        return ", then ".join(filter(None, [f"{sent.delivered} delivered", sent.failure or sent.refusal]))

    def _send_due(self, channel: Channel, now: datetime, manner: Manner) -> _Sent:
        """Send due messages in the order of each trouble's episodes, up to a failure of the channel."""
        end, sent = time.monotonic() + manner.seconds, _Sent()
        behind: set[tuple[str, ...]] = set()
        for episode in self.episodes():
            if episode.alert.key in behind:
                continue
            current: Episode | None = None if self._is_refused(episode, channel, now) else episode
            while current and (message := _due(current, channel, now, manner)):
                if time.monotonic() > end:
                    return sent
                answer = attempt(channel, message)
                if answer.outcome == "failed":
                    sent.failure = masked(answer.text, self.secrets)
                    return sent
                if answer.outcome == "refused":
                    sent.refusal = masked(answer.text, self.secrets)
                    self._refuse(episode, channel, sent.refusal, now)
                    break
                sent.delivered += 1
                current = self._acknowledge(current, channel.name, message)
            if not current or not is_finished(current, channel.name):
                behind.add(episode.alert.key)
        return sent

    def _is_refused(self, episode: Episode, channel: Channel, now: datetime) -> bool:
        """Return whether the next attempt of an episode's refused message lies ahead."""
        retry_at = self._state(_refused(channel.name, episode)).retry_at
        return retry_at is not None and now < retry_at

    def _refuse(self, episode: Episode, channel: Channel, reason: str, now: datetime) -> None:
        """Note the refusal of a message; only the episode's own messages wait."""
        name = _refused(channel.name, episode)
        self._write_state(name, self._state(name).after(reason, now))

    def _acknowledge(self, episode: Episode, channel: str, message: Message) -> Episode | None:
        """Note an acknowledgement in the stored episode, and return the episode."""
        with self._locked():
            stored = self._read(_name(episode))
            if stored:
                stored = acknowledge(stored, channel, message)
                self._write([stored])
        self.store.delete(_path_of(_refused(channel, episode)))
        return stored

    def _forget(self, channels: Sequence[str]) -> None:
        """Remove the episodes that ended and that every channel has heard of."""
        # What ended does not change any more, so this needs no lock.
        for episode in self.episodes():
            if episode.ended and all(is_finished(episode, channel) for channel in channels):
                self.store.delete(f"{_EPISODES}/{_name(episode)}")

    # --- files --------------------------------------------------------------------------------------------------------

    def _locked(self) -> AbstractContextManager[None]:
        return table_lock(self.store, timeout_seconds=_LOCK_SECONDS)

    def _of(self, alert: Alert) -> list[Episode]:
        """List the stored episodes of one trouble, by the names of the files."""
        names = [name for name in self.store.list(_EPISODES) if name.startswith(f"{_digest(alert)}.")]
        return [episode for name in names if (episode := self._read(name))]

    def _read(self, name: str) -> Episode | None:
        try:
            return _parsed(json.loads(self.store.read(f"{_EPISODES}/{name}")))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _write(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            self.store.put(f"{_EPISODES}/{_name(episode)}", json.dumps(asdict(episode), default=_text_of).encode())

    def _state(self, name: str) -> Pause:
        try:
            stored = json.loads(self.store.read(_path_of(name)))
            return Pause(stored["failures"], datetime.fromisoformat(stored["retry_at"]), stored["reason"])
        except (OSError, ValueError, TypeError, KeyError):
            return Pause()

    def _write_state(self, name: str, state: Pause) -> None:
        self.store.put(_path_of(name), json.dumps(asdict(state), default=_text_of).encode())


@dataclass(slots=True)
class _Sent:
    """Outcome of a delivery to a channel: number of messages, failure, last refusal."""

    delivered: int = 0
    failure: str = ""
    refusal: str = ""


def _due(episode: Episode, channel: Channel, now: datetime, manner: Manner) -> Message | None:
    return next_message(episode, channel.name, now, silence=manner.silence, remind_hours=manner.remind_hours)


def _name(episode: Episode) -> str:
    return f"{_digest(episode.alert)}.{episode.number:06d}.json"


def _digest(alert: Alert) -> str:
    """Return a file name for a trouble, whose texts may be longer than a name and hold any character."""
    return sha256(json.dumps(alert.key).encode()).hexdigest()[:24]


def _refused(channel: str, episode: Episode) -> str:
    return f"{channel}.{_name(episode).removesuffix('.json')}"


def _path_of(name: str) -> str:
    return f"{_CHANNELS}/{name}.json"


def _text_of(value: object) -> str:
    """Convert an instant for JSON."""
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def _parsed(stored: Mapping[str, Any]) -> Episode:
    ended, unexplained = stored["ended"], stored.get("unexplained_since")
    return Episode(
        id=stored["id"],
        number=stored["number"],
        alert=Alert(**stored["alert"]),
        since=datetime.fromisoformat(stored["since"]),
        ended=datetime.fromisoformat(ended) if ended else None,
        acknowledged=stored["acknowledged"],
        seen=stored.get("seen", 1),
        missed=stored.get("missed", 0),
        unexplained_since=datetime.fromisoformat(unexplained) if unexplained else None,
    )
