"""Outbox of alerts: episodes in files, from which follow the messages that channels are owed.

``episodes/<trouble>.<number>.json`` holds an episode with the events that each channel has acknowledged. Raising and
clearing writes these files and nothing else, under the lock of the folder, so no channel delays or breaks a caller.
``channels/<channel>.<episode>.json`` says how long a message that the channel refused is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from dedp_assets.graph.mail.alerts import AlertChannel, Message, without_secrets
from dedp_assets.graph.mail.episodes import (
    Episode,
    acknowledge,
    end_episode,
    follow,
    is_finished,
    next_message,
    raise_episode,
)
from dedp_assets.graph.mail.outbox import Delivered, FileOutbox, Pause, text_of
from dedp_assets.graph.mail.silence import Manner
from dedp_assets.patterns.core.measuring.troubles import Trouble, TroubleKey
from dedp_assets.patterns.delta import table_lock

__all__ = ["AlertOutbox", "Pending"]

_EPISODES = "episodes"
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
class AlertOutbox(FileOutbox[Message]):
    """Episodes and their deliveries, in the files of one folder.

    Attributes:
        manner: when messages leave.
    """

    manner: Manner = field(default=Manner(), kw_only=True)

    def raise_alert(self, alert: Trouble, now: datetime) -> None:
        """Begin an episode, or update figure and reason of the open episode of the same trouble.

        Args:
            alert: the trouble.
            now: current time, with time zone.

        Raises:
            Conflict: if another process keeps the lock.
        """
        shown = without_secrets(alert, self.secrets)
        with self._locked():
            changed = raise_episode(self._of(shown), shown, now)
            self._write([changed] if changed else [])

    def clear(self, alert: Trouble, now: datetime) -> None:
        """End the open episode of a trouble, if any; of ``alert`` only the identity counts.

        Args:
            alert: the trouble.
            now: current time, with time zone.

        Raises:
            Conflict: if another process keeps the lock.
        """
        shown = without_secrets(alert, self.secrets)
        with self._locked():
            self._write([end_episode(episode, now) for episode in self._of(shown) if episode.ended is None])

    def observe(
        self,
        found: Iterable[Trouble],
        now: datetime,
        *,
        unjudged: Collection[str] = (),
        undecided: Collection[TroubleKey] = (),
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
        alerts = [without_secrets(alert, self.secrets) for alert in found]
        with self._locked():
            self._write(follow(self.episodes(), alerts, now, unjudged=unjudged, undecided=undecided))

    def episodes(self) -> list[Episode]:
        """List the stored episodes by time and number, without damaged files."""
        found = [self._read(name) for name in self.store.list(_EPISODES) if name.endswith(".json")]
        return sorted((each for each in found if each), key=lambda each: (each.since, each.alert.key, each.number))

    def open_episodes(self) -> list[Episode]:
        """List the episodes that last, the oldest first."""
        return [episode for episode in self.episodes() if episode.ended is None]

    def pending(self, channels: Sequence[AlertChannel], now: datetime) -> list[Pending]:
        """List the messages that the channels have not taken, with the reasons.

        Args:
            channels: the configured channels.
            now: current time, with time zone.
        """
        found, episodes, silence = [], self.episodes(), self.manner.silence
        for channel in channels:
            failed = self.pause(channel.name)
            for episode in episodes:
                if message := next_message(episode, channel.name, now, remind_hours=self.manner.remind_hours):
                    until = silence.until(now, episode.alert.severity) if silence else None
                    held = f"silent hours until {until:%Y-%m-%d %H:%M} UTC" if until else "to be delivered next"
                    refused = self.pause(_refused(channel.name, episode.id))
                    found.append(Pending(channel.name, message, failed.reason or refused.reason or held))
        return found

    def owed(self, receiver: str, now: datetime) -> Iterator[Message]:
        """Yield the due messages of a channel, in the order of each trouble's episodes."""
        behind: set[TroubleKey] = set()
        for episode in self.episodes():
            if episode.alert.key in behind:
                continue
            current: Episode | None = episode
            while current and (message := self._due(current, receiver, now)):
                yield message
                current = self._read(_name(episode))
            if current and not is_finished(current, receiver):
                behind.add(episode.alert.key)

    def note(self, receiver: str, message: Message, outcome: Delivered, now: datetime) -> None:
        """Note an acknowledgement in the stored episode; after a refusal only the episode's own messages wait."""
        refused = _refused(receiver, message.episode)
        before = self.pause(refused)
        if outcome.outcome == "refused":
            self.keep_pause(refused, before.after(outcome.text, now))
            return
        with self._locked():
            stored = [each for each in self._of(message.alert) if each.id == message.episode]
            self._write([acknowledge(each, receiver, message, now) for each in stored])
        if before.failures:
            self.keep_pause(refused, Pause())

    def _due(self, episode: Episode, channel: str, now: datetime) -> Message | None:
        """Return the next message of an episode; ``None`` also while a refused message is left alone."""
        manner = self.manner
        message = next_message(episode, channel, now, silence=manner.silence, remind_hours=manner.remind_hours)
        return None if message is None or self.pause(_refused(channel, episode.id)).lasts(now) else message

    def forget(self, receivers: Sequence[str]) -> None:
        """Remove the episodes that ended and that every channel has heard of."""
        # What ended does not change any more, so this needs no lock.
        for episode in self.episodes():
            if episode.ended and all(is_finished(episode, channel) for channel in receivers):
                self.store.delete(f"{_EPISODES}/{_name(episode)}")

    # --- files --------------------------------------------------------------------------------------------------------

    def _locked(self) -> AbstractContextManager[object]:
        return table_lock(self.store, timeout_seconds=_LOCK_SECONDS)

    def _of(self, alert: Trouble) -> list[Episode]:
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
            self.store.put(f"{_EPISODES}/{_name(episode)}", json.dumps(asdict(episode), default=text_of).encode())


def _name(episode: Episode) -> str:
    return f"{_digest(episode.alert)}.{episode.number:06d}.json"


def _digest(alert: Trouble) -> str:
    """Return a file name for a trouble, whose texts may be longer than a name and hold any character."""
    return sha256(json.dumps(alert.key).encode()).hexdigest()[:24]


def _refused(channel: str, episode_id: str) -> str:
    return f"{channel}.{episode_id}"


def _parsed(stored: Mapping[str, Any]) -> Episode:
    ended, unexplained = stored["ended"], stored.get("unexplained_since")
    return Episode(
        id=stored["id"],
        number=stored["number"],
        alert=_trouble(stored["alert"]),
        since=datetime.fromisoformat(stored["since"]),
        ended=datetime.fromisoformat(ended) if ended else None,
        acknowledged=stored["acknowledged"],
        announced=stored.get("announced", {}),
        announced_at={channel: datetime.fromisoformat(at) for channel, at in stored.get("announced_at", {}).items()},
        seen=stored.get("seen", 1),
        missed=stored.get("missed", 0),
        unexplained_since=datetime.fromisoformat(unexplained) if unexplained else None,
    )


def _trouble(stored: Mapping[str, Any]) -> Trouble:
    since = stored.get("since")
    return Trouble(**{**stored, "since": datetime.fromisoformat(since) if since else None})
