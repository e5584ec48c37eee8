"""A proxy before an S3 server that counts requests by kind, whoever sends them, and spoils answers on demand."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.object_store import ObjectStore, forget_clients

__all__ = ["FATES", "Proxy", "next_puts", "proxied", "seeded"]

FATES = ("late", "busy", "503", "cut")
"""``late``: answered after a while. ``busy``: 503, without an effect. ``503`` and ``cut``: an error in the place of the
answer, or no answer, after the request took effect."""
_OWN = {"connection", "transfer-encoding", "content-length", "date", "server"}
_LATE_SECONDS, _CHANGED = 0.2, 412


class Proxy(ThreadingHTTPServer):
    """A running proxy.

    Attributes:
        fate: kind and key of a request -> one of :data:`FATES`, or an empty text for an answer as it is.
        ignores: method and header of conditions that seem to hold, whatever the server says.
        seen: kind and key of each request, in order.
        spoilt: number of answers by fate.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        self.behind = port
        self.fate: Callable[[str, str], str] = lambda *_: ""
        self.ignores: set[tuple[str, str]] = set()
        self.seen: list[tuple[str, str]] = []
        self.spoilt = Counter[str]()
        self._turn = Lock()

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Count the requests of the block by kind."""
        before, found = len(self.seen), Counter[str]()
        yield found
        found.update(kind for kind, _ in self.seen[before:])

    def decide(self, kind: str, key: str) -> str:
        """Note a request, and return what becomes of the answer."""
        with self._turn:
            self.seen.append((kind, key))
            fate = self.fate(kind, key)
            self.spoilt.update([fate] * bool(fate))
            return fate

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Proxy

    def setup(self) -> None:
        super().setup()
        self.onward = HTTPConnection("127.0.0.1", self.server.behind)

    def finish(self) -> None:
        self.onward.close()
        with suppress(OSError):
            super().finish()

    def relay(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fate = self.server.decide(*_asked(self.command, self.path))
        if fate == "busy":
            return self._answer(503, [], b"")
        if fate == "late":
            time.sleep(_LATE_SECONDS)
        status, headers, body = self._handed_on(content)
        if status == _CHANGED and any(m == self.command and name in self.headers for m, name in self.server.ignores):
            status, headers, body = 200, [("ETag", '"1"')], b""
        if fate == "cut":
            self.close_connection = True
            return None
        return self._answer(503, [], b"") if fate == "503" else self._answer(status, headers, body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = relay  # noqa: N815 - http.server's names

    def _handed_on(self, content: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send the request to the server with the host that is signed."""
        for last in (False, True):
            try:
                self.onward.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    self.onward.putheader(name, value)
                self.onward.endheaders(content)
                answer = self.onward.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (OSError, HTTPException):  # a connection that the server has closed meanwhile
                self.onward.close()
                if last:
                    raise
        raise AssertionError

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        named = {name.lower(): value for name, value in headers}
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OWN - {"date"}:
                self.send_header(name, value)
        self.send_header("Content-Length", named.get("content-length", "0") if self.command == "HEAD" else len(body))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def proxied(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Run a proxy before the server and name the proxy in the environment, until the end of the block."""
    with Proxy(object_store.port) as proxy, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(proxy.serve_forever, 0.01)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        forget_clients()
        try:
            yield proxy
        finally:
            proxy.shutdown()
        serving.result()
    forget_clients()


def next_puts(*fates: str) -> Callable[[str, str], str]:
    """Return a choice of fates for the next requests that write an object."""
    left = list(fates)
    return lambda kind, _: left.pop(0) if kind == "put" and left else ""


def seeded(seed: int, *, share: float = 0.05) -> Callable[[str, str], str]:
    """Return a choice of fates by chance, the same for the same seed and order of requests."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    return lambda *_: chance.choice(FATES) if chance.random() < share else ""


def _asked(method: str, path: str) -> tuple[str, str]:
    """Return kind and key of a request; of a list, the prefix."""
    parts = urlsplit(path)
    asked = parse_qs(parts.query, keep_blank_values=True)
    if method == "GET" and "list-type" in asked:
        return "list", asked.get("prefix", [""])[0]
    kinds = {"GET": "get", "HEAD": "head", "PUT": "put", "DELETE": "delete", "POST": "put"}
    return "delete" if method == "POST" and "delete" in asked else kinds[method], parts.path
