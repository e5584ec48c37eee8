"""Alerts: troubles with place, figure and limit, and the messages about beginning and end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from typing import Any, Literal, Protocol

from dedp_assets.patterns.core.errors import ConfigError, ContractError, PatternError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.secret import masked

__all__ = ["SEVERITIES", "Alert", "Answer", "Channel", "Event", "Message", "Severity", "attempt"]

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
"""Severities, the least first."""
Event = Literal["raised", "reminder", "cleared", "raised and cleared", "test"]

_LONGEST = 2_000
_NO_TEXTS = ("severity", "source", "confirmations")
_INTERNAL = ("source", "explained_by", "confirmations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A trouble of a table or of a partition.

    Attributes:
        name: kind of trouble, such as ``refused`` or ``stale``.
        table: table that has the trouble, ``layer/dataset``.
        partition: partition key; empty for the whole table.
        severity: decides on silent hours.
        figure: measured value with its unit, such as ``31 h``; empty without one.
        limit: greatest or least value allowed, with its unit.
        reason: a sentence on the cause, and on the remedy if one is known.
        command: shell command that shows more.
        source: who clears the alert: ``code`` by a call, ``platform`` once an observation finds it no more.
        explained_by: upstream table whose own trouble is the cause; the alert is stored and not sent meanwhile.
        confirmations: number of observations in a row that find the trouble before its beginning is announced, and
            that miss the trouble before its end is; 1 for both at once.
    """

    name: str
    table: str
    partition: str = ""
    severity: Severity = "warning"
    figure: str = ""
    limit: str = ""
    reason: str = ""
    command: str = ""
    source: Literal["code", "platform"] = "code"
    explained_by: str = ""
    confirmations: int = 1

    def __post_init__(self) -> None:
        require_types(self)
        if self.confirmations < 1:
            raise ConfigError(f"confirmations must be 1 or more, not {self.confirmations}")
        if not self.name or not self.table:
            raise ConfigError("an alert must have a name and a table, not an empty text")

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identity of the trouble: two alerts with equal keys are about the same episode."""
        return (self.source, self.name, self.table, self.partition)

    @property
    def place(self) -> str:
        """Table and partition."""
        return f"{self.table} {self.partition}".strip()

    @property
    def detail(self) -> str:
        """Figure with limit, then the reason; empty for an alert without figure and reason."""
        measured = f"{self.figure} (limit {self.limit})" if self.figure and self.limit else self.figure
        return ": ".join(filter(None, [measured, self.reason]))

    def without(self, secrets: Collection[str]) -> Alert:
        """Return the alert with secrets masked in every text, each text on one line of limited length."""
        texts = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NO_TEXTS}
        shown: dict[str, Any] = {name: _line(masked(text, secrets)) for name, text in texts.items()}
        return replace(self, **shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An announcement of an episode to one channel: the beginning, the end, both, or a reminder.

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
    alert: Alert
    since: datetime
    ended: datetime | None = None

    @property
    def title(self) -> str:
        """One line: severity or event, place and name."""
        first = self.alert.severity.upper() if self.event == "raised" else self.event.upper()
        return f"{first}: {self.alert.place}: {self.alert.name}"

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
        alert = {f.name: getattr(self.alert, f.name) for f in fields(self.alert) if f.name not in _INTERNAL}
        times = {"since": self.since.isoformat(), "ended": self.ended.isoformat() if self.ended else None}
        return {"id": self.id, "event": self.event, "episode": self.episode, **alert, **times, "text": self.text}


class Channel(Protocol):
    """A receiver of messages, under a name that stays the same over restarts."""

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


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a channel to one message.

    Attributes:
        outcome: ``delivered``; ``refused`` concerns the message, ``failed`` the whole channel.
        text: the answer, or the reason, without secrets.
    """

    outcome: Literal["delivered", "refused", "failed"]
    text: str


def attempt(channel: Channel, message: Message) -> Answer:
    """Send a message once, and return the answer; no error of a channel leaves this function."""
    try:
        return Answer("delivered", channel.send(message))
    except ContractError as error:
        return Answer("refused", str(error))
    except PatternError as error:
        return Answer("failed", str(error))
    except Exception as error:
        # The text of a foreign error may quote the address, which holds a token.
        return Answer("failed", f"{channel.name} failed with {type(error).__name__}")


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _moment(at: datetime) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
