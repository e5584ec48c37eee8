"""HTTP services with JSON: time-outs, bounded retries, answers checked against requests."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from ssl import SSLContext
from typing import Any
from urllib.request import Request

from dedp_assets.patterns.connectors.web.parts import (
    ResponseLimits,
    exchanged,
    require_address,
    sentence,
    without_secrets,
)
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.secret import Secret

__all__ = ["Patience", "Service", "ask_in_bulk", "checked"]

_SHOWN = 5
_PASSING = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Patience:
    """Retry limits of a request: attempts with pauses in between, which a service may ask for.

    Attributes:
        clock: tells what time it is: some services say until when to wait.
        backoff: the attempts; no pause is longer than its longest, whatever the service asks for by ``Retry-After``.
        sleep: waits so many seconds.
    """

    clock: Callable[[], datetime]
    backoff: Backoff = Backoff(attempts=4, first_seconds=0.5, longest_seconds=30)  # noqa: RUF009 - frozen
    sleep: Callable[[float], None] = time.sleep

    def wait(self, attempt: int, asked: str | None) -> None:
        """Wait after a failed attempt: as long as the service asked for, or by the backoff."""
        seconds = self._stated(asked) if asked else None
        pause = self.backoff.pause(attempt) if seconds is None else seconds
        self.sleep(min(max(pause, 0), self.backoff.longest_seconds))

    def _stated(self, asked: str) -> float | None:
        """Return the seconds of a ``Retry-After`` value; ``None`` for an unreadable value."""
        try:
            return float(asked) if math.isfinite(float(asked)) else 0
        except ValueError:
            pass
        try:
            moment = parsedate_to_datetime(asked)
        except (ValueError, OverflowError):
            return None
        return (moment - self.clock()).total_seconds() if moment.tzinfo else None


@dataclass(frozen=True, slots=True)
class Service:
    """A service that takes JSON by POST and answers with JSON.

    Attributes:
        url: where it is; ``http`` or ``https``.
        patience: how long failures that may pass are borne.
        timeout_seconds: how long it may be silent.
        total_seconds: how long a whole answer may take.
        most_bytes: how large an answer may be.
        login: lends what proves who asks, sent as a bearer of it, for each request; none by default.
        secured: lends trusted authorities and the client's certificate for each request; the system's, and none, by
            default.
    """

    url: str
    patience: Patience
    timeout_seconds: float = 10
    total_seconds: float = 120
    most_bytes: int = 64 << 20
    login: Callable[[], AbstractContextManager[Secret | None]] = field(default=nullcontext, repr=False)
    secured: Callable[[], AbstractContextManager[SSLContext | None]] = field(default=nullcontext, repr=False)

    def __post_init__(self) -> None:
        require_address(self.url, what="an HTTP service")

    @property
    def name(self) -> str:
        """URL without user, password, query and fragment."""
        return without_secrets(self.url)

    def post(self, content: object) -> Any:  # noqa: ANN401 - JSON
        """Send JSON and return the JSON of the response, with retries on transient failures.

        Raises:
            ConfigError: if the service refuses the request itself (404, 401 and their like), or sends it elsewhere.
            ContractError: if it answers without JSON, or with more than an answer may be.
            NotReady: if the last attempt failed, too, for a reason that may pass.
        """
        with self.login() as held, self.secured() as context:
            proof = {"Authorization": f"Bearer {held.reveal()}"} if held else {}
            return self._posted(
                Request(  # noqa: S310 - the scheme was looked at
                    self.url,
                    data=json.dumps(content).encode(),
                    headers={"Content-Type": "application/json", **proof},
                    method="POST",
                ),
                context,
            )

    def _posted(self, request: Request, context: SSLContext | None) -> Any:  # noqa: ANN401 - JSON
        attempt = 0
        while True:
            attempt += 1
            answer, reason, asked = self._sent(request, context)
            if not reason:
                return self._read(answer)
            if attempt == self.patience.backoff.attempts:
                raise NotReady(
                    f"{self.name} does not answer after {attempt} attempts: {reason}; it is asked again later"
                )
            self.patience.wait(attempt, asked)

    def _sent(self, request: Request, context: SSLContext | None) -> tuple[bytes, str, str | None]:
        """Send a request once; return the body, or the failure and the ``Retry-After`` value."""
        try:
            reply = exchanged(
                request, ResponseLimits(self.timeout_seconds, self.total_seconds, self.most_bytes), context
            )
        except (OSError, HTTPException) as error:
            return b"", sentence(str(error)) or type(error).__name__, None
        if 200 <= reply.status < 300:
            return reply.body, "", None
        if reply.elsewhere:
            raise ConfigError(f"{self.name} sends the request to {reply.elsewhere}: name the address that answers")
        text = sentence(reply.body.decode(errors="replace"))
        if reply.status not in _PASSING:
            raise ConfigError(f"{self.name} refuses the request with status {reply.status}: {text}")
        return b"", f"status {reply.status}: {text}", reply.headers.get("Retry-After")

    def _read(self, answer: bytes) -> Any:  # noqa: ANN401 - JSON
        try:
            return parse_json(answer)
        except ValueError as error:
            shown = answer[:60].decode(errors="replace")
            raise ContractError(
                f"{self.name} answers with what is no JSON: {shown!r} ({sentence(str(error))})"
            ) from None


def ask_in_bulk(
    service: Service, keys: Sequence[str], *, asks: str, answers: str, key: str, size: int
) -> Iterator[Mapping[str, Any]]:
    """Request items from a service by key, ``size`` keys at a time, each key once.

    Args:
        service: whom to ask.
        keys: the keys, of which repeated ones count once.
        asks: name of the list of keys in a request.
        answers: name of the list of items in an answer.
        key: name of the key in an item.
        size: how many keys a request names at most.

    Yields:
        The items, one for each key.

    Raises:
        ConfigError: if a request is refused, or ``size`` is none.
        ContractError: if an answer lacks keys, has others, or one twice; its text names them.
        NotReady: if the service does not answer.
    """
    if size < 1:
        raise ConfigError(f"a request names at least one key, not {size}")
    distinct = sorted(set(keys))
    for start in range(0, len(distinct), size):
        asked = distinct[start : start + size]
        yield from checked(service.post({asks: asked}), asked, answers=answers, key=key, url=service.name)


def checked(answer: object, asked: Sequence[str], *, answers: str, key: str, url: str) -> list[Mapping[str, Any]]:
    """Return the items of an answer; refuse missing, additional and repeated keys.

    Raises:
        ContractError: if an answer lacks keys, has others, or one twice; its text names them.
    """
    items = answer.get(answers) if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) and key in item for item in items):
        raise ContractError(f"{url} answers without a list {answers!r} of items that have {key!r}")
    counts = Counter(str(item[key]) for item in items)
    faults = {
        "lacks": [one for one in asked if one not in counts],
        "has, though nobody asked,": [one for one in counts if one not in {*asked}],
        "has more than once": [one for one, count in counts.items() if count > 1],
    }
    found = [f"{fault} {_named(ones)}" for fault, ones in faults.items() if ones]
    if found:
        raise ContractError(f"the answer of {url} to {len(asked)} keys {'; '.join(found)}; nothing of it is used")
    return items


def _named(keys: Sequence[str]) -> str:
    more = len(keys) - _SHOWN
    return ", ".join(map(repr, keys[:_SHOWN])) + (f" and {more} more" if more > 0 else "")
