"""External parts: translated exceptions, and bounded HTTP responses.

What an external part raises or answers is not the library's: it becomes an error of the library that says which part
it was, or it is not used at all.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from ssl import SSLContext
from threading import Event, Timer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    BaseHandler,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady, PatternError, printable
from dedp_assets.patterns.core.secret import HIDDEN, masked

__all__ = [
    "ResponseLimits",
    "Reply",
    "calling",
    "exchanged",
    "is_text",
    "kafka_said",
    "one_row",
    "require_address",
    "sentence",
    "error_text",
    "without_secrets",
]

_SHOWN = 200
_PIECE = 1 << 16


@contextmanager
def calling(part: str, *, known: type[Exception] = PatternError) -> Iterator[None]:
    """Translate exceptions of an external part into errors of the library that begin with the part's name.

    Args:
        part: the name.
        known: an error that somebody else translates.

    Raises:
        NotReady: for an error of the system or the network: it may pass.
        ContractError: for any other; an error of the library stays what it is.
    """
    try:
        yield
    except (PatternError, known):
        raise
    except OSError as error:
        raise NotReady(f"{part} cannot be reached ({error_text(error)}): run it again") from error
    except Exception as error:
        raise ContractError(f"{part} failed with {error_text(error)}: correct it, and run it again") from error


def kafka_said(error: Exception) -> tuple[int | None, str]:
    """Return code and message of a Kafka client's exception; the code is ``None`` if missing."""
    first: Any = error.args[0] if error.args else None
    if callable(getattr(first, "code", None)) and callable(getattr(first, "str", None)):
        return first.code(), sentence(str(first.str()))
    return None, sentence(str(error)) or type(error).__name__


def error_text(error: BaseException) -> str:
    """Write an external exception on one line: class name and beginning of the message."""
    return f"{type(error).__name__}: {sentence(str(error))}".removesuffix(": ")


def sentence(text: str) -> str:
    """Shorten an external text to one line of an error message, with secrets masked."""
    return printable(" ".join(masked(text).split())[:_SHOWN])


def is_text(value: object, *, longest: int = 1_000) -> bool:
    """Return whether a value is a string of limited length and valid Unicode, as a table can store."""
    if not isinstance(value, str) or len(value) > longest:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_row(rows: Sequence[Any], kinds: Sequence[type | tuple[type, ...]], *, asked: str) -> tuple[Any, ...]:
    """Return the only row of a query's result, with number and types of the values checked.

    Raises:
        ContractError: for anything else; the text begins with what was asked.
    """
    row = rows[0] if isinstance(rows, Sequence) and len(rows) == 1 else None
    if not isinstance(row, Sequence) or len(row) != len(kinds) or not all(map(isinstance, row, kinds)):
        # By their types: what they hold may be personal.
        given = [[type(value).__name__ for value in each] for each in rows or () if isinstance(each, Sequence)]
        raise ContractError(
            f"{asked}: the database answers with {sentence(str(given))}, where one row of {len(kinds)} values belongs"
        )
    return tuple(row)


# --- HTTP -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """Time and size limits of an HTTP response.

    Attributes:
        silent_seconds: how long nothing may come.
        total_seconds: how long the whole answer may take.
        most_bytes: how large it may be.
    """

    silent_seconds: float
    total_seconds: float
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP response: the whole body of a success, the beginning of the body otherwise."""

    status: int
    reason: str
    headers: Message
    body: bytes

    @property
    def elsewhere(self) -> str:
        """Target URL of a redirect, without secrets; empty for other responses."""
        is_redirect = 300 <= self.status < 400
        return without_secrets(self.headers.get("Location") or "nowhere") if is_redirect else ""


def without_secrets(url: str) -> str:
    """Return a URL without user, password, query and fragment, as possible secrets."""
    return sentence(re.split(r"[?#]", masked(url), maxsplit=1)[0].replace(f"//{HIDDEN}@", "//"))


def require_address(url: str, *, what: str) -> None:
    """Refuse a URL that is no HTTP address.

    Raises:
        ConfigError: if ``url`` has another scheme, no host, a user or password, or characters that no URL has.
    """
    told_url = without_secrets(url)
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{told_url!r} is no address of {what}: name one that begins with http:// or https://")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or not re.fullmatch(r"[!-~]+", url):
        raise ConfigError(f"{told_url!r} is no address of {what}: it needs a host, and characters of a URL")
    if "@" in parts.netloc:
        raise ConfigError(f"{told_url!r} is no address of {what}: user and password do not belong into a URL")


def exchanged(request: Request, bounds: ResponseLimits, context: SSLContext | None = None) -> Reply:
    """Send a request once and return the response, within time and size limits.

    Redirects are not followed.

    Args:
        request: of ``http`` or ``https``.
        bounds: the limits.
        context: trusted authorities and certificate of the client; by default the system's, and none.

    Raises:
        OSError: if there is no whole answer, or not in time; so does ``HTTPException``.
        ContractError: if the answer is too large, or packed in a way that nobody asked for.
    """
    where, deadline = without_secrets(request.full_url), _Deadline()
    # A time-out of a socket begins anew with each byte: who sends one now and then is cut off by the clock.
    timer = Timer(bounds.total_seconds, deadline.pass_by)
    timer.daemon = True
    timer.start()
    try:
        reply = _replied(request, bounds, _Securely(deadline, context), deadline, where)
    except (OSError, HTTPException):
        if not deadline.passed.is_set():
            raise
    finally:
        timer.cancel()
    if deadline.passed.is_set():
        raise TimeoutError(f"no whole answer within {bounds.total_seconds:g} seconds")
    return reply


def _replied(
    request: Request, bounds: ResponseLimits, securely: HTTPSHandler, deadline: _Deadline, where: str
) -> Reply:
    # No handler of redirects: a POST would arrive as a GET, and credentials at somebody else's.
    opener = OpenerDirector()
    handlers: tuple[BaseHandler, ...] = (ProxyHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor())
    for handler in (*handlers, _Plainly(deadline), securely):
        opener.add_handler(handler)
    try:
        with opener.open(request, timeout=bounds.silent_seconds) as answer:
            return Reply(answer.status, answer.reason or "", answer.headers, _whole(answer, bounds.most_bytes, where))
    except HTTPError as error:
        with error:
            body = b""
            with suppress(OSError, HTTPException, ValueError):
                body = error.read(_SHOWN)
            return Reply(error.code, sentence(str(error.reason)), error.headers, body)


def _whole(answer: HTTPResponse, most_bytes: int, where: str) -> bytes:
    """Read a whole HTTP response body; raise for a truncated, packed or oversized body."""
    if (packed := answer.headers.get("Content-Encoding", "identity")).lower() != "identity":
        raise ContractError(f"{where} answers in {sentence(packed)}, which it was not asked for")
    pieces, size = [], 0
    while size <= most_bytes and (answer.length or 0) <= most_bytes and (piece := answer.read(_PIECE)):
        pieces.append(piece)
        size += len(piece)
    if size + (answer.length or 0) > most_bytes:
        raise ContractError(f"{where} answers with more than {most_bytes} bytes: ask for less at once, or allow more")
    if answer.length:
        raise IncompleteRead(b"".join(pieces), answer.length)
    return b"".join(pieces)


class _Deadline:
    """Deadline of a response: closes the open connections when the time is over."""

    def __init__(self) -> None:
        self.passed = Event()
        self._open: list[socket.socket] = []

    def watch(self, wire: socket.socket) -> None:
        self._open.append(wire)
        if self.passed.is_set():
            self.pass_by()

    def pass_by(self) -> None:
        self.passed.set()
        for wire in self._open:
            with suppress(OSError):
                # Of an encrypted one, too, the plain end: another thread may be reading from it.
                socket.socket.shutdown(wire, socket.SHUT_RDWR)


class _Plainly(HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: Request) -> HTTPResponse:
        deadline = self._deadline

        class WatchedHTTP(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                deadline.watch(self.sock)

        return self.do_open(WatchedHTTP, req)


class _Securely(HTTPSHandler):
    def __init__(self, deadline: _Deadline, context: SSLContext | None) -> None:
        super().__init__()
        self._deadline, self._chosen = deadline, context

    def https_open(self, req: Request) -> HTTPResponse:
        deadline, context = self._deadline, self._chosen

        class WatchedHTTPS(HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                deadline.watch(self.sock)

        return self.do_open(WatchedHTTPS, req, context=context)
