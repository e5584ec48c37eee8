"""Inboxes of partners: a service that takes records in bulk, and may take a part of a request only.

``POST /partners/<partner>`` takes ``{"records": [{"id", "key", "value"}, ...]}``, at most 500, and answers for each
``{"id", "outcome", "position", "reason"}``: it was ``accepted``, was ``present`` as its id came before, ``failed`` for
the moment, or is ``refused`` for ever, such as another value under a known id. ``GET /partners/<partner>?after=0``
lists what was accepted, in order. Told ``throttled 7``, records fail at random, seeded by 7; told ``lost``, it takes
the request and does not say so. It remembers as long as it runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dedp_assets.case_study.sources.services import behaviour

__all__ = ["MOST", "routes"]

MOST = 500
"""How many records a request may hold."""

_THROTTLED_SHARE = 0.4
_PAGE = 1_000


@dataclass
class _Inbox:
    """The records received by a partner.

    Attributes:
        taken: id -> the record, in order of acceptance.
        sent: id -> how often it came.
    """

    taken: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)


async def _take(request: Request) -> Response:
    asked, name = (await request.json()).get("records", []), behaviour(request)
    if not asked or len(asked) > MOST:
        return JSONResponse({"error": f"1 to {MOST} records, not {len(asked)}"}, status_code=413)
    inbox = _inbox(request)
    answers = [_answer(inbox, record, name) for record in asked]
    if name == "lost":
        return JSONResponse({"error": "the gateway timed out"}, status_code=504)
    return JSONResponse({"records": answers})


async def _list(request: Request) -> Response:
    after = int(request.query_params.get("after", "0"))
    return JSONResponse({"records": list(_inbox(request).taken.values())[after : after + _PAGE]})


def _inbox(request: Request) -> _Inbox:
    state = request.app.state
    if not hasattr(state, "inboxes"):
        state.inboxes = defaultdict(_Inbox)
    found: _Inbox = state.inboxes[request.path_params["partner"]]
    return found


def _answer(inbox: _Inbox, record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Store a record, and return the answer for the record."""
    record_id = record["id"]
    inbox.sent[record_id] += 1
    answer, known = {"id": record_id, "position": "", "reason": ""}, inbox.taken.get(record_id)
    if _is_throttled(name, record_id, inbox.sent[record_id]):
        return {**answer, "outcome": "failed", "reason": "throttled"}
    if known and known["value"] != record["value"]:
        return {**answer, "outcome": "refused", "reason": "another value came under this id"}
    if known is None:
        inbox.taken[record_id] = {**record, "position": str(len(inbox.taken))}
    outcome = "present" if known else "accepted"
    return {**answer, "outcome": outcome, "position": inbox.taken[record_id]["position"]}


def _is_throttled(name: str, record_id: str, times: int) -> bool:
    word, _, seed = name.partition(" ")
    random = Random(f"{seed} {record_id} {times}")  # noqa: S311 - a service that fails as it is told
    return word == "throttled" and random.random() < _THROTTLED_SHARE


routes = [
    Route("/partners/{partner:path}", _take, methods=["POST"]),
    Route("/partners/{partner:path}", _list, methods=["GET"]),
]
