"""Routes of the status server for requests to erase persons: ask, approve, list, report.

Everything that somebody states is refused in one sentence or kept; no answer, log or file repeats a stated text before
the text is known to be no id. A form counts only from a page of this server, and an approval only behind the lock.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from dedp_assets.graph.erasure.cases import NAMES, Case, Cases, is_name
from dedp_assets.laptop.servers.secured_http import LOCKED
from dedp_assets.laptop.status_page.erasures import render_case, render_cases
from dedp_assets.laptop.status_page.pieces import render_fault
from dedp_assets.patterns.core.errors import ConfigError, NotReady, PatternError

__all__ = ["Requests"]

_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_LONGEST, _LONGEST_ID, _FIELDS = 64 * 1024, 1000, 8
_SHAPE = '{"subject": {"user": ["u-17"]}, "because": "GDPR-17"}'
Fields = Mapping[str, Any]


class _Refused(Exception):
    """A refusal with status and sentence; the sentence repeats nothing that was stated."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests to erase persons over HTTP.

    Attributes:
        cases: opens the cases of the home.
        kinds: returns the kinds of persons that tables declare.
        clock: returns the current time, with time zone.
        headers: headers of the answers.
        token: shows that a form is of this server, since its start.
    """

    cases: Callable[[], Cases]
    kinds: Callable[[], Sequence[str]]
    clock: Callable[[], datetime]
    headers: Mapping[str, str]
    token: str = field(default_factory=lambda: token_urlsafe(32), repr=False)

    def routes(self) -> list[Route]:
        """List the routes."""
        return [
            Route("/erasures", self._requests, methods=["GET", "POST"]),
            Route("/erasures.json", self._answering(self._all, programs=True)),
            Route("/erasures/{request}/approval", self._approval, methods=["POST"]),
            Route("/erasures/{request}.json", self._answering(self._one, programs=True)),
            Route("/erasures/{request}", self._answering(self._report)),
        ]

    async def _requests(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._posted(request, self._asked)
        return await self._answering(self._page)(request)

    async def _approval(self, request: Request) -> Response:
        return await self._posted(request, self._approved)

    def _page(self, _: Request) -> Response:
        cases, faults = self.cases().read()
        return self._html(render_cases(cases, faults, self.clock(), kinds=self.kinds(), token=self.token))

    def _report(self, request: Request) -> Response:
        case = self._known(request)
        token = self.token if _is_locked(request) else ""
        genuine = bool(case.ended) and self.cases().is_genuine(case)
        return self._html(render_case(case, self.clock(), genuine=genuine, token=token))

    def _all(self, _: Request) -> Response:
        return self._json([*map(self._stated, self.cases().read()[0])])

    def _one(self, request: Request) -> Response:
        return self._json(self._stated(self._known(request)))

    def _asked(self, _: Request, stated: Fields) -> Case:
        """Keep a request."""
        if {*stated} != {"subject", "because"}:
            raise _Refused(400, f"The fields must be subject and because, such as {_SHAPE}.")
        name, ids = stated["because"], stated["subject"]
        if not isinstance(name, str) or not is_name(name) or name.endswith(".json"):
            raise _Refused(400, f"The name of a request must be {NAMES}, and end otherwise than .json.")
        if not isinstance(ids, dict) or not ids or not all(map(_is_ids, ids.values())):
            raise _Refused(400, f"Ids must be texts of printable letters by kind of person, such as {_SHAPE}.")
        if unknown := {*ids} - {*(kinds := self.kinds())}:
            few = f"{len(unknown)} other" if kinds else "any: no table declares persons"
            raise _Refused(400, f"Kinds of persons must be among {', '.join(kinds) or 'none'}, not {few}.")
        try:
            return self.cases().ask(name, ids, now=self.clock())
        except ConfigError as error:
            raise _Refused(409 if self.cases().knows(name) else 400, _sentence(error)) from None
        except NotReady as error:
            raise _Refused(503, _sentence(error)) from None

    def _approved(self, request: Request, stated: Fields) -> Case:
        """Approve a planned request, behind the lock alone."""
        if not _is_locked(request):
            raise _Refused(
                403,
                "An erasure cannot be undone, so only a locked door approves one (`DEDP_SECURE=on dedp up`): here, "
                "`dedp erase --because GDPR-17 --by NAME` does.",
            )
        case, by = self._known(request), stated.get("by")
        if {*stated} != {"by"} or not isinstance(by, str):
            raise _Refused(400, 'The field must be by, the name of who approves, such as {"by": "legal"}.')
        try:
            return self.cases().approve(case.request, by)
        except ConfigError as error:
            raise _Refused(400 if case.state == "planned" else 409, _sentence(error)) from None

    def _known(self, request: Request) -> Case:
        """Return the case of the address."""
        cases, name = self.cases(), request.path_params["request"]
        if not is_name(name) or not cases.knows(name):
            raise _Refused(404, "There is no such request: /erasures lists all.")
        try:
            return cases.case(name)
        except ConfigError as error:
            raise _Refused(503, _sentence(error)) from None

    async def _posted(self, request: Request, work: Callable[[Request, Fields], Case]) -> Response:
        """Answer a form by the page of the case, and a program by the case."""
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()

        async def done(_: Request) -> Response:
            if kind not in (_JSON, _FORM):
                raise _Refused(415, f"The content must be {_JSON}, such as {_SHAPE}, or a form of this server.")
            _require_own(request)
            stated = _stated_in(await _body_of(request), kind)
            if kind == _FORM:
                self._require_token(stated.pop("token", ""))
                stated = _of_form(stated)
            case = await run_in_threadpool(work, request, stated)
            if kind == _JSON:
                return self._json(await run_in_threadpool(self._stated, case), 202)
            return RedirectResponse(f"/erasures/{case.request}", 303, self.headers)

        return await self._answered(request, done, programs=kind != _FORM)

    def _answering(
        self, work: Callable[[Request], Response], *, programs: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def done(request: Request) -> Response:
            return await run_in_threadpool(work, request)

        async def answer(request: Request) -> Response:
            return await self._answered(request, done, programs=programs)

        return answer

    async def _answered(
        self, request: Request, work: Callable[[Request], Awaitable[Response]], *, programs: bool
    ) -> Response:
        """Return the answer, or a refusal in one sentence; of other errors the type alone, without an id."""
        try:
            return await work(request)
        except _Refused as refused:
            status, sentence = refused.status, refused.sentence
        except Exception as error:
            status, sentence = 503, f"This cannot be done now: {type(error).__name__}."
            logging.getLogger(__name__).warning("a request to erase persons failed: %s", type(error).__name__)
        if programs:
            return self._json({"error": sentence}, status)
        return self._html(render_fault(f"{status}", sentence), status)

    def _require_token(self, shown: str) -> None:
        if not hmac.compare_digest(shown.encode(), self.token.encode()):
            raise _Refused(403, "The form must be of a page that this server has shown since its start: load it again.")

    def _stated(self, case: Case) -> dict[str, Any]:
        genuine = self.cases().is_genuine(case) if case.ended else None
        return {**asdict(case), "state": case.state, "due": case.due.isoformat(), "genuine": genuine}

    def _html(self, text: str, status: int = 200) -> Response:
        return HTMLResponse(text.encode("utf-8", errors="replace"), status, self.headers)

    def _json(self, content: object, status: int = 200) -> Response:
        return JSONResponse(content, status, self.headers)


def _is_locked(request: Request) -> bool:
    return bool(request.scope.get("state", {}).get(LOCKED))


def _require_own(request: Request) -> None:
    """Refuse a request that a page of another site makes a browser send; programs state no site."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    own = f"{request.url.scheme}://{request.headers.get('Host', '')}"
    # Behind a proxy the page has another origin than this server; the browser says that both are one.
    if not (origin in (None, own) if site is None else site == "same-origin"):
        raise _Refused(403, "Requests must come from a page of this server, or from a program.")


async def _body_of(request: Request) -> bytes:
    """Read a bounded body."""
    content = b""
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > _LONGEST:
                raise _Refused(413, f"The content must be up to {_LONGEST // 1024} KiB.")
    except ClientDisconnect:
        raise _Refused(400, "The content must be whole.") from None
    return content


def _stated_in(content: bytes, kind: str) -> dict[str, Any]:
    """Read the fields of a form, or of an object of JSON."""
    try:
        if kind == _FORM:
            pairs = parse_qsl(
                content.decode(),
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=_FIELDS,
            )
            if len(stated := dict(pairs)) == len(pairs):
                return stated
        elif isinstance(read := json.loads(content), dict):
            return read
    except (ValueError, RecursionError):
        pass  # whose text may hold an id
    raise _Refused(400, f"The content must be an object of JSON, such as {_SHAPE}, or a form of this server.")


def _of_form(stated: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a form as fields of a program's JSON."""
    trimmed = {name: value.strip() for name, value in stated.items()}
    person = {"subject": {trimmed.pop("kind"): [trimmed.pop("id")]}} if {"kind", "id"} <= {*trimmed} else {}
    return {**trimmed, **person}


def _is_ids(named: object) -> bool:
    return isinstance(named, list) and bool(named) and all(map(_is_id, named))


def _is_id(named: object) -> bool:
    return isinstance(named, str) and bool(named.strip()) and named.isprintable() and len(named) <= _LONGEST_ID


def _sentence(error: PatternError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
