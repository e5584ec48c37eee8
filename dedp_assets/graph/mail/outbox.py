"""Outbox: durable delivery of messages to receivers that may be down for days.

What is owed lies in the files of one folder, in a form of each outbox's own, so that no writer waits for a receiver. A
delivery sends to all receivers side by side, each in order, and notes each acknowledgement at once: who dies in between
sends a message again, under the same idempotency key. ``channels/<name>.json`` says how long a receiver that failed is
left alone.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Generic, Literal, Protocol, TypeVar

from dedp_assets.patterns.core.errors import ContractError, PatternError
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.secret import masked
from dedp_assets.patterns.delta import Store

__all__ = ["Delivered", "FileOutbox", "Pause", "Receiver", "attempt", "text_of"]

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)

_CHANNELS, _DELIVERING = "channels", "delivering"
_BACKOFF = Backoff(first_seconds=30, longest_seconds=3600)


class Receiver(Protocol[M_contra]):
    """A receiver of messages, under a name that stays the same over restarts."""

    @property
    def name(self) -> str:
        """Name in settings, state and reports."""

    def send(self, message: M_contra) -> str:
        """Send a message, and return the receiver's answer.

        Raises:
            ContractError: if this message is refused; others may be taken.
            PatternError: if the receiver takes no message now.
        """


@dataclass(frozen=True, slots=True)
class Delivered:
    """The outcome of sending one message once.

    Attributes:
        outcome: ``delivered``; ``refused`` concerns the message, ``failed`` the whole receiver.
        text: the answer, or the reason, without secrets.
    """

    outcome: Literal["delivered", "refused", "failed"]
    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Failures in a row, of a receiver or of one message, and the time of the next attempt.

    Attributes:
        failures: number of failures since the last success.
        retry_at: time of the next attempt; ``None`` without a failure.
        reason: reason of the last failure.
    """

    failures: int = 0
    retry_at: datetime | None = None
    reason: str = ""

    def after(self, reason: str, now: datetime) -> Pause:
        """Return the state after one more failure."""
        failures = self.failures + 1
        return Pause(failures, now + timedelta(seconds=_BACKOFF.pause(failures)), reason)

    def lasts(self, now: datetime) -> bool:
        """Return whether the next attempt lies ahead.

        A time further ahead than the longest pause after so many failures is that of a clock that was wrong, and would
        mute a receiver for as long.
        """
        if self.retry_at is None:
            return False
        return timedelta(0) < self.retry_at - now <= timedelta(seconds=_BACKOFF.longest_after(self.failures))


@dataclass(frozen=True, slots=True)
class FileOutbox(ABC, Generic[M]):
    """Messages owed to receivers, in the files of one folder.

    Attributes:
        store: the folder.
        secrets: values that no stored or reported text may hold.
    """

    store: Store
    secrets: Collection[str] = field(default=(), repr=False)

    @abstractmethod
    def owed(self, receiver: str, now: datetime) -> Iterator[M]:
        """Yield the messages that a receiver may have now, in order.

        A message was noted before the next one is asked for.
        """

    @abstractmethod
    def note(self, receiver: str, message: M, outcome: Delivered, now: datetime) -> None:
        """Note a message as taken or as refused by a receiver."""

    def forget(self, receivers: Sequence[str]) -> None:
        """Remove the messages that no receiver is owed any more, after a delivery."""

    def deliver(self, receivers: Sequence[Receiver[M]], now: datetime, *, seconds: float = 20) -> Mapping[str, str]:
        """Send owed messages to all receivers side by side, each until the receiver fails or the time is over.

        Args:
            receivers: who is owed the messages.
            now: current time, with time zone.
            seconds: how long to send.

        Returns:
            Receiver -> what was delivered, or why it waits; empty if another process delivers.
        """
        try:
            claim = self.store.claim(_DELIVERING)
        except TimeoutError:
            return {}
        try:
            end = time.monotonic() + seconds
            with ThreadPoolExecutor(max(len(receivers), 1)) as pool:
                reports = list(pool.map(lambda receiver: self._deliver_to(receiver, now, end), receivers))
            self.forget([receiver.name for receiver in receivers])
        finally:
            claim.release()
        return {receiver.name: report for receiver, report in zip(receivers, reports, strict=True)}

    def _deliver_to(self, receiver: Receiver[M], now: datetime, end: float) -> str:
        pause = self.pause(receiver.name)
        if pause.retry_at and pause.lasts(now):
            return f"waits until {pause.retry_at.astimezone(timezone.utc):%H:%M:%S} UTC: {pause.reason}"
        sent, refusal, failure = 0, "", ""
        for message in self.owed(receiver.name, now):
            if time.monotonic() > end:
                break
            outcome = attempt(receiver, message)
            outcome = Delivered(outcome.outcome, masked(outcome.text, self.secrets))
            if outcome.outcome == "failed":
                failure = outcome.text
                break
            sent += outcome.outcome == "delivered"
            refusal = outcome.text if outcome.outcome == "refused" else refusal
            self.note(receiver.name, message, outcome, now)
        if failure:
            self.keep_pause(receiver.name, pause.after(failure, now))
        elif pause.failures:
            self.keep_pause(receiver.name, Pause())
        return ", then ".join(filter(None, [f"{sent} delivered", failure or refusal]))

    def pause(self, name: str) -> Pause:
        """Return the pause of a receiver, or of a message, by name."""
        try:
            stored = json.loads(self.store.read(_path_of(name)))
            return Pause(stored["failures"], datetime.fromisoformat(stored["retry_at"]), stored["reason"])
        except (OSError, ValueError, TypeError, KeyError):
            return Pause()

    def keep_pause(self, name: str, pause: Pause) -> None:
        """Store a pause under a name; forget the name's pause, if nothing failed."""
        if pause.failures:
            self.store.put(_path_of(name), json.dumps(asdict(pause), default=text_of).encode())
        else:
            self.store.delete(_path_of(name))


def attempt(receiver: Receiver[M], message: M) -> Delivered:
    """Send a message once, and return the outcome; no error of a receiver leaves this function."""
    try:
        return Delivered("delivered", receiver.send(message))
    except ContractError as error:
        return Delivered("refused", str(error))
    except PatternError as error:
        return Delivered("failed", str(error))
    except Exception as error:
        # The text of a foreign error may quote the address, which holds a token.
        return Delivered("failed", f"{receiver.name} failed with {type(error).__name__}")


def text_of(value: object) -> str:
    """Convert an instant for JSON."""
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def _path_of(name: str) -> str:
    return f"{_CHANNELS}/{name}.json"
