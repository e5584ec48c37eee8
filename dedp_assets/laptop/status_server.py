"""HTTP server of the status page on loopback: all tables, each table, requests to erase persons, JSON.

But for these requests, the server only reads. A page is made for a request and kept for some seconds; what was read of
the logs is kept, too, so that a page without news is cheap. Errors of logs, alerts or Dagster's storage are sentences
on the page.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Lock, Thread
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from dedp_assets.graph.erasure.cases import Cases
from dedp_assets.graph.resources.environments import settings
from dedp_assets.laptop.servers.loopback import HOSTS
from dedp_assets.laptop.status_erasures import Requests
from dedp_assets.laptop.status_page.details import render_details
from dedp_assets.laptop.status_page.model import Details, Page, as_json
from dedp_assets.laptop.status_page.pieces import render_fault
from dedp_assets.laptop.status_page.render import render

if TYPE_CHECKING:
    from dedp_assets.graph.reconcile.described_plans import Planned

__all__ = ["FOLDER", "Pages", "application", "serve_pages"]

FOLDER = "status"
"""Folder, below the home, of the file with the status server's address."""

_KEPT = timedelta(seconds=3)
_BRIDGED = timedelta(seconds=30)
"""Age up to which a page is shown while another request makes the next one."""
_POLITE = 5
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
# Forms go to this server alone; a browser names the page of a form only where the policy lets it name itself.
_OF_FORMS = {
    **_HEADERS,
    "Content-Security-Policy": _HEADERS["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'"),
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PageMaker(Protocol):
    """Maker of pages."""

    def page(self, now: datetime) -> Page:
        """Make the page."""

    def details(self, page: Page, name: str) -> Details | None:
        """Return the details of a table of the page that was made last."""

    def plan(self, now: datetime) -> Planned:
        """Plan the runs that would come now."""


class Pages:
    """The newest page and the newest plan, each made by one request at a time and kept for some seconds.

    Args:
        load: returns the maker, at the first request: loading the project takes seconds.
        clock: returns the current time, with time zone.
        kept: age up to which a page, or a plan, is shown again.
    """

    def __init__(
        self, load: Callable[[], PageMaker], clock: Callable[[], datetime], *, kept: timedelta = _KEPT
    ) -> None:
        self._load, self.clock, self._kept = load, clock, kept
        self._source: PageMaker | None = None
        self._page: Page | None = None
        self._planned: tuple[datetime, Planned] | None = None
        self._lock, self._planning = Lock(), Lock()

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
        """Return the details of a table.

        ``None`` for an unknown table.
        """
        page = self.page()
        with self._lock:
            return self._source.details(page, name) if self._source else None

    def plan(self) -> Planned:
        """Return the newest plan of the runs that would come, made now if the last one is too old."""
        with self._lock:
            source = self._source = self._source or self._load()
        with self._planning:  # which takes seconds in a large lake, while pages are made
            if self._planned is None or not timedelta(0) <= self.clock() - self._planned[0] < self._kept:
                planned = source.plan(self.clock())
                self._planned = self.clock(), planned
            return self._planned[1]

    def _younger_than(self, limit: timedelta) -> Page | None:
        page = self._page
        return page if page and timedelta(0) <= self.clock() - page.made_at < limit else None

    def _make(self) -> Page:
        if self._source is None:
            self._source = self._load()
        self._page = self._source.page(self.clock())
        return self._page


def serve_pages(pages: Pages, cases: Callable[[], Cases] | None = None) -> Starlette:
    """Make the application that answers with pages.

    Args:
        pages: the pages.
        cases: opens the requests to erase persons; ``None`` for a server without them.
    """

    def index(request: Request) -> Response:
        return _tagged(request, HTMLResponse(_text(render(pages.page()))))

    def programs(request: Request) -> Response:
        return _tagged(request, Response(json.dumps(as_json(pages.page()), indent=1), media_type="application/json"))

    def table(request: Request) -> Response:
        name = request.path_params["name"]
        if (details := pages.details(name)) is None:
            raise HTTPException(404, f"There is no table {name}.")
        return _tagged(request, HTMLResponse(_text(render_details(details))))

    def plan(request: Request) -> Response:
        from dedp_assets.laptop.status_page.plans import render_plan  # noqa: PLC0415 - Dagster

        return _tagged(request, HTMLResponse(_text(render_plan(pages.plan().lines(), pages.clock()))))

    def plan_for_programs(request: Request) -> Response:
        content = json.dumps(pages.plan().document(), indent=1, default=str)
        return _tagged(request, Response(content, media_type="application/json"))

    return Starlette(
        routes=[
            Route("/", index),
            Route("/plan", plan),
            Route("/plan.json", plan_for_programs),
            Route("/status.json", programs),
            Route("/table/{name:path}", table),
            *(Requests(cases, lambda: pages.page().kinds, pages.clock, _OF_FORMS).routes() if cases else []),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)],
        exception_handlers={HTTPException: _refusal, Exception: _fault},
    )


def application() -> Starlette:
    """Make the application for the home of this process, whose first page is made at once."""
    pages = Pages(_load, _now)
    os.nice(_POLITE)  # the servers that compute come first, above all while everything starts
    Thread(target=_warm, args=[pages], daemon=True).start()
    return serve_pages(pages, lambda: Cases.of(settings().home))


def _tagged(request: Request, response: Response) -> Response:
    """Return a response with the tag of the content, or status 304 if the client has the content already."""
    tag = f'"{sha256(response.body).hexdigest()[:32]}"'
    if request.headers.get("If-None-Match") == tag:
        return Response(status_code=304, headers={**_HEADERS, "ETag": tag})
    response.headers.update({**_HEADERS, "ETag": tag})
    return response


def _refusal(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 400
    sentence = error.detail if isinstance(error, HTTPException) else str(error)
    more = getattr(error, "headers", None) or {}
    return HTMLResponse(_text(render_fault(f"{status}", sentence)), status, {**_HEADERS, **more})


def _fault(_: Request, error: Exception) -> Response:
    """Return a page with an error; the next request tries again."""
    sentence = f"The page cannot be made now: {type(error).__name__}: {error}"
    return HTMLResponse(_text(render_fault("No page", sentence)), 503, _HEADERS)


def _text(document: str) -> bytes:
    return document.encode("utf-8", errors="replace")


def _load() -> PageMaker:
    # Dagster and the project, which take seconds: the port answers meanwhile.
    from dedp_assets.laptop.status_page.making import Maker  # noqa: PLC0415

    return Maker(settings())


def _now() -> datetime:
    from dedp_assets.graph.resources.clock import Clock  # noqa: PLC0415 - Dagster

    return Clock().now()


def _warm(pages: Pages) -> None:
    """Make the first page at the start of the server; an error is left to the first request."""
    try:
        pages.page()
    except Exception:
        logging.getLogger(__name__).exception("the first page cannot be made")
