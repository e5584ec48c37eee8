"""Alerts: troubles with place, figure and limit, and the messages about beginning and end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal, Protocol

from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.patterns.core.secret import masked

__all__ = ["AlertChannel", "Event", "Message", "without_secrets"]

Event = Literal["raised", "escalated", "reminder", "cleared", "raised and cleared", "test"]

_LONGEST = 2_000
_TEXTS = ("kind", "table", "partition", "figure", "limit", "reason", "explained_by", "command")
_SHOWN = ("table", "partition", "severity", "figure", "limit", "reason", "command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An announcement of an episode to one channel: beginning, higher severity, reminder, or end.

    Attributes:
        id: idempotency key: a message that is sent again has the same one.
        event: what is announced.
        episode: id that the messages about one episode share.
        alert: the trouble.
        since: when the episode began.
        ended: when it ended; ``None`` while it lasts.
    """

    id: str
    event: Event
    episode: str
    alert: Trouble
    since: datetime
    ended: datetime | None = None

    @property
    def title(self) -> str:
        """One line: severity or event, place and name."""
        severity = self.alert.severity.upper()
        first = {"raised": severity, "escalated": f"NOW {severity}"}.get(self.event, self.event.upper())
        return f"{first}: {self.alert.place}: {self.alert.kind}"

    @property
    def text(self) -> str:
        """One sentence with figure, limit, times and the command."""
        detail = f", {self.alert.detail}" if self.alert.detail else ""
        command = f". More: {self.alert.command}" if self.alert.command else ""
        return f"{self.title}{detail}; {self._times}{command}"

    @property
    def _times(self) -> str:
        if self.event == "raised and cleared" and self.ended:
            return f"raised at {_moment(self.since)} and cleared at {_moment(self.ended)}, in the silent hours"
        if self.ended:
            return f"it lasted from {_moment(self.since)} to {_moment(self.ended)}"
        return f"since {_moment(self.since)}"

    def record(self) -> dict[str, Any]:
        """Return the message as plain JSON values."""
        alert = {"name": self.alert.kind, **{field: getattr(self.alert, field) for field in _SHOWN}}
        times = {"since": self.since.isoformat(), "ended": self.ended.isoformat() if self.ended else None}
        return {"id": self.id, "event": self.event, "episode": self.episode, **alert, **times, "text": self.text}


class AlertChannel(Protocol):
    """A receiver of alerts, under a name that stays the same over restarts."""

    @property
    def name(self) -> str:
        """Name in settings, state and reports."""

    @property
    def address(self) -> str:
        """Address for people, without anything that could be a secret."""

    def send(self, message: Message) -> str:
        """Send a message, and return the channel's answer.

        Raises:
            ContractError: if this message is refused; others may be taken.
            PatternError: if the channel takes no message now.
        """


def without_secrets(trouble: Trouble, secrets: Collection[str]) -> Trouble:
    """Return a trouble with secrets masked in every text, each text on one line of limited length.

    Args:
        trouble: the trouble.
        secrets: values to replace, as of :func:`~dedp_assets.patterns.core.secret.masked`.
    """
    shown: dict[str, Any] = {name: _line(masked(getattr(trouble, name), secrets)) for name in _TEXTS}
    return replace(trouble, **shown)


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _moment(at: datetime) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
