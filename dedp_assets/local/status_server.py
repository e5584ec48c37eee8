"""HTTP server of the status page on loopback: the page, a page for each table, and the same for programs.

It only reads. A page is made for a request and kept for some seconds; what was read of the logs is kept, too, so that a
page without news is cheap. Errors of logs, alerts or Dagster's storage are sentences on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Protocol
from urllib.parse import unquote, urlsplit

from dedp_assets.resources.announced import announce
from dedp_assets.status_page.details import render_details
from dedp_assets.status_page.model import Details, Page, as_json
from dedp_assets.status_page.pieces import render_fault
from dedp_assets.status_page.render import render

__all__ = ["Pages", "StatusServer", "command", "main"]

FOLDER = "status"
"""Folder of the home in which the server announces its address."""

_KEPT = timedelta(seconds=3)
_BRIDGED = timedelta(seconds=30)
"""Age up to which a page is shown while another request makes the next one."""
_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_TABLE = "/table/"
_IDLE_SECONDS = 30
_POLITE = 5
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Source(Protocol):
    """Maker of pages."""

    def page(self, now: datetime) -> Page:
        """Make the page."""

    def details(self, page: Page, name: str) -> Details | None:
        """Return the details of a table of the page that was made last."""


class Pages:
    """The newest page, made by one request at a time and kept for some seconds.

    Args:
        load: returns the maker, at the first request: loading the project takes seconds.
        clock: returns the current time, with time zone.
        kept: age up to which a page is shown again.
    """

    def __init__(self, load: Callable[[], Source], clock: Callable[[], datetime], *, kept: timedelta = _KEPT) -> None:
        self._load, self._clock, self._kept = load, clock, kept
        self._source: Source | None = None
        self._page: Page | None = None
        self._lock = Lock()

    def page(self) -> Page:
        """Return the newest page, made now if the last one is too old."""
        if page := self._younger_than(self._kept):
            return page
        bridge = self._younger_than(max(_BRIDGED, self._kept))
        if not self._lock.acquire(blocking=bridge is None) and bridge is not None:
            return bridge
        try:
            return self._younger_than(self._kept) or self._make()
        finally:
            self._lock.release()

    def details(self, name: str) -> Details | None:
        """Return the details of a table; ``None`` for an unknown table."""
        page = self.page()
        with self._lock:
            return self._source.details(page, name) if self._source else None

    def _younger_than(self, limit: timedelta) -> Page | None:
        page = self._page
        return page if page and timedelta(0) <= self._clock() - page.made_at < limit else None

    def _make(self) -> Page:
        if self._source is None:
            self._source = self._load()
        self._page = self._source.page(self._clock())
        return self._page


class StatusServer(ThreadingHTTPServer):
    """Server of pages on a port of the loopback interface; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, pages: Pages, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.pages = pages

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away; report other errors in the log."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: StatusServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dedp", ""
    timeout = _IDLE_SECONDS

    def do_GET(self) -> None:
        """Answer with a page, or with what is wrong."""
        if not self._is_local():
            # Else a page from elsewhere could read this one under a name of its own that leads here.
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, render_fault("Wrong host", "Ask for 127.0.0.1 or localhost."))
            return
        try:
            status, text, kind = self._content(urlsplit(self.path).path)
        except Exception as error:
            # The next request tries again; the server stays.
            self.log_error("%s: %s", type(error).__name__, error)
            sentence = f"The page cannot be made now: {type(error).__name__}: {error}"
            status, text, kind = HTTPStatus.SERVICE_UNAVAILABLE, render_fault("No page", sentence), "text/html"
        self._answer(status, text, kind)

    do_HEAD = do_GET  # noqa: N815 - named by the base class

    def do_POST(self) -> None:
        """Refuse what is no reading."""
        self.close_connection = True  # what it brought is not read
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, render_fault("Only GET", "The status page is only read."))

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_POST  # noqa: N815 - named by the base class

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Write nothing about an answered request."""

    def _is_local(self) -> bool:
        host = self.headers.get("Host", "")
        return host in _HOSTS or host.rpartition(":")[0] in _HOSTS

    def _content(self, path: str) -> tuple[HTTPStatus, str, str]:
        pages = self.server.pages
        if path == "/":
            return HTTPStatus.OK, render(pages.page()), "text/html"
        if path == "/status.json":
            return HTTPStatus.OK, json.dumps(as_json(pages.page()), indent=1), "application/json"
        name = unquote(path.removeprefix(_TABLE)) if path.startswith(_TABLE) else ""
        if name and (details := pages.details(name)):
            return HTTPStatus.OK, render_details(details), "text/html"
        sentence = f"There is no table {name}." if name else "There is no such page."
        return HTTPStatus.NOT_FOUND, render_fault("Not found", sentence), "text/html"

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/html") -> None:
        body = text.encode("utf-8", errors="replace")
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        if status == HTTPStatus.OK and self.headers.get("If-None-Match") == tag:
            status, body = HTTPStatus.NOT_MODIFIED, b""
        self.send_response(status)
        for name, value in {**_SECURITY, "ETag": tag, "Content-Type": f"{kind}; charset=utf-8"}.items():
            self.send_header(name, value)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def command(folder: Path, *, port: int) -> list[str]:
    """Announce the address of the status page, and return the command that runs the server on loopback."""
    folder.mkdir(parents=True, exist_ok=True)
    announce(folder, f"http://127.0.0.1:{port}")
    return [sys.executable, "-m", "dedp_assets.local.status_server", "--port", str(port)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the status page of this home until the process is ended."""
    parser = argparse.ArgumentParser(description="The status page of a home on the loopback interface.")
    parser.add_argument("--port", type=int, required=True)
    server = StatusServer(Pages(_load, _now), parser.parse_args(arguments).port)
    os.nice(_POLITE)  # the servers that compute come first, above all while everything starts
    Thread(target=_warm, args=[server.pages], daemon=True).start()
    server.serve_forever()


def _load() -> Source:
    # Dagster and the project, which take seconds: the port answers meanwhile.
    from dedp_assets.resources.environments import settings  # noqa: PLC0415
    from dedp_assets.status_page.making import Maker  # noqa: PLC0415

    return Maker(settings())


def _now() -> datetime:
    from dedp_assets.resources.clock import Clock  # noqa: PLC0415 - Dagster

    return Clock().now()


def _warm(pages: Pages) -> None:
    """Make the first page before anybody asks; an error is shown to whoever asks."""
    try:
        pages.page()
    except Exception as error:
        print(f"The first page cannot be made: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
