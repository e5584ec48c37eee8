"""Episodes: troubles from beginning to end, announced once as raised and once as cleared per channel.

Pure functions. Messages are not stored: what is owed to a channel follows from an episode and from the events that the
channel has acknowledged, so no crash can separate an episode from its messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dedp_assets.graph.mail.alerts import Event, Message
from dedp_assets.graph.mail.silence import SilentHours
from dedp_assets.patterns.core.measuring.troubles import SEVERITIES, Severity, Trouble, TroubleKey

_RECOVERY = timedelta(hours=1)
"""Time that downstream tables have to recover after their upstream table, before their troubles count as their own."""

__all__ = ["Episode", "acknowledge", "end_episode", "follow", "is_finished", "next_message", "raise_episode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A trouble from beginning to end.

    Attributes:
        id: unique; idempotency keys of its messages begin with it.
        number: place among the stored episodes of the same trouble.
        alert: the trouble, with its newest figure and its highest severity.
        since: when it was first found.
        ended: when it was found no more; ``None`` while it lasts.
        acknowledged: channel -> events that the channel has taken.
        announced: channel -> highest severity that the channel has heard of.
        announced_at: channel -> time of the last message that the channel has taken.
        seen: number of observations that found the trouble, up to its confirmations; 0 while it may recover together
            with the upstream table that explained it.
        missed: number of observations in a row that found the trouble no more.
        unexplained_since: when an upstream table's trouble ceased to explain this one; ``None`` where it still does, or
            never did.
    """

    id: str
    number: int
    alert: Trouble
    since: datetime
    ended: datetime | None = None
    acknowledged: Mapping[str, Sequence[str]] = field(default_factory=dict)
    announced: Mapping[str, Severity] = field(default_factory=dict)
    announced_at: Mapping[str, datetime] = field(default_factory=dict)
    seen: int = 1
    missed: int = 0
    unexplained_since: datetime | None = None

    @property
    def is_held(self) -> bool:
        """``True`` before the confirmation, and while an upstream table's trouble explains this one."""
        return self.seen < self.alert.confirmations or bool(self.alert.explained_by)

    @property
    def is_announced(self) -> bool:
        """``True`` once a channel has taken the message about the beginning."""
        return any("raised" in taken for taken in self.acknowledged.values())


def raise_episode(episodes: Iterable[Episode], alert: Trouble, now: datetime) -> Episode | None:
    """Return the new episode of a trouble, or the open episode with changed content.

    Args:
        episodes: the stored episodes.
        alert: the trouble.
        now: current time, with time zone.

    Returns:
        The episode to store; ``None`` if the open episode says the same already.
    """
    same = [episode for episode in episodes if episode.alert.key == alert.key]
    current = next((episode for episode in same if episode.ended is None), None)
    if current is None:
        number = max((episode.number for episode in same), default=0) + 1
        return Episode(id=uuid.uuid4().hex, number=number, alert=alert, since=now)
    severity = max(alert.severity, current.alert.severity, key=SEVERITIES.index)
    since = _unexplained_since(current, alert, now)
    # After the end of an explanation, the tables below have a while to recover, too; a time ahead is a wrong clock's.
    recovers = since is not None and timedelta(0) <= now - since < _RECOVERY
    seen = 0 if recovers else min(current.seen + 1, alert.confirmations)
    alert = replace(alert, severity=severity)
    changed = replace(current, alert=alert, seen=seen, missed=0, unexplained_since=since)
    return None if changed == current else changed


def end_episode(episode: Episode, now: datetime) -> Episode:
    """Return the episode with an end, which never lies before the beginning."""
    return replace(episode, ended=max(now, episode.since))


def follow(
    episodes: Sequence[Episode],
    found: Iterable[Trouble],
    now: datetime,
    *,
    unjudged: Collection[str] = (),
    undecided: Collection[TroubleKey] = (),
) -> list[Episode]:
    """Return the episodes that one complete observation of the platform begins, changes or ends.

    Args:
        episodes: the stored episodes; those of another source than ``platform`` stay as they are.
        found: every trouble there is now.
        now: current time, with time zone.
        unjudged: tables that could not be observed: none of their episodes ends.
        undecided: keys of alerts whose figures could not be judged: none of their episodes ends.
    """
    by_key = {alert.key: alert for alert in found}
    present = [_not_ahead(episode, now) for episode in episodes]
    after = {episode.id: episode for episode in present}
    for alert in by_key.values():
        if changed := raise_episode(present, alert, now):
            after[changed.id] = changed
    for episode in present:
        key = episode.alert.key
        is_gone = key not in by_key and key not in undecided and episode.alert.table not in unjudged
        if episode.ended is None and episode.alert.source == "platform" and is_gone:
            missed, needed = episode.missed + 1, episode.alert.confirmations
            is_over = missed >= needed or (episode.seen < needed and not episode.is_announced)
            after[episode.id] = end_episode(episode, now) if is_over else replace(episode, missed=missed)
    known = {episode.id: episode for episode in episodes}
    return [episode for episode in after.values() if episode != known.get(episode.id)]


def next_message(
    episode: Episode, channel: str, now: datetime, *, silence: SilentHours | None = None, remind_hours: float = 0
) -> Message | None:
    """Return the next message that a channel is owed and may have now.

    Args:
        episode: the episode.
        channel: name of the channel.
        now: current time, with time zone.
        silence: the silent hours, if there are any.
        remind_hours: pause between reminders of an episode that lasts, in hours; 0 for none.
    """
    if is_finished(episode, channel) or (silence and silence.until(now, episode.alert.severity)):
        return None
    if "raised" not in episode.acknowledged.get(channel, ()):
        event: Event = "raised and cleared" if _is_over_in_silence(episode, silence) else "raised"
        return None if episode.is_held else _message(episode, event)
    return _message(episode, "cleared") if episode.ended else _further(episode, channel, now, remind_hours)


def _further(episode: Episode, channel: str, now: datetime, remind_hours: float) -> Message | None:
    """Return the next message of a lasting, announced episode: about a higher severity, or a reminder."""
    severity = episode.alert.severity
    if SEVERITIES.index(severity) > SEVERITIES.index(episode.announced.get(channel, severity)):
        return _message(episode, "escalated", severity)
    pause = now - episode.announced_at.get(channel, episode.since)
    if not remind_hours or pause < timedelta(hours=remind_hours):
        return None
    return _message(episode, "reminder", str(1 + _reminders(episode.acknowledged[channel])))


def acknowledge(episode: Episode, channel: str, message: Message, now: datetime) -> Episode:
    """Return the episode with a message noted as taken by a channel.

    Args:
        episode: the episode.
        channel: name of the channel.
        message: the message.
        now: current time, with time zone: the next reminder counts from here.
    """
    taken = [event for event in episode.acknowledged.get(channel, ()) if not event.startswith("reminder")]
    # Of reminders the newest says enough; of the message for both, that nothing more is owed.
    event = message.id.partition("/")[2].replace("/", " ")
    taken += ["raised", "cleared"] if message.event == "raised and cleared" else [event]
    return replace(
        episode,
        acknowledged={**episode.acknowledged, channel: taken},
        announced={**episode.announced, channel: message.alert.severity},
        announced_at={**episode.announced_at, channel: now},
    )


def is_finished(episode: Episode, channel: str) -> bool:
    """Return whether a channel has taken both messages of an episode, or is owed no message."""
    taken = episode.acknowledged.get(channel, ())
    return "cleared" in taken or (episode.ended is not None and episode.is_held and "raised" not in taken)


def _is_over_in_silence(episode: Episode, silence: SilentHours | None) -> bool:
    """Return whether an episode began and ended within one silent window, before any message could leave."""
    end = silence.until(episode.since, episode.alert.severity) if silence else None
    return bool(end and episode.ended and episode.ended <= end)


def _reminders(taken: Sequence[str]) -> int:
    """Return the number of reminders that a channel has taken."""
    return max((int(event.rpartition(" ")[2]) for event in taken if event.startswith("reminder ")), default=0)


def _not_ahead(episode: Episode, now: datetime) -> Episode:
    """Return an episode without times of messages ahead of the present.

    They come from a clock that was wrong for one delivery, and would hold the next reminder for as long.
    """
    return replace(episode, announced_at={channel: min(at, now) for channel, at in episode.announced_at.items()})


def _message(episode: Episode, event: Event, part: str = "") -> Message:
    return Message(
        id="/".join(filter(None, [episode.id, event, part])),
        event=event,
        episode=episode.id,
        alert=episode.alert,
        since=episode.since,
        ended=episode.ended if event != "raised" else None,
    )


def _unexplained_since(current: Episode, alert: Trouble, now: datetime) -> datetime | None:
    """Return the end of an episode's explanation.

    ``None`` with an explanation, and without one before.
    """
    if alert.explained_by:
        return None
    return now if current.alert.explained_by else current.unexplained_since
