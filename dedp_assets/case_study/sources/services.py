"""HTTP services of the case study in one application, from every module with ``routes``.

A service is the first part of a path, ``locations`` in ``/locations``. ``PUT /behaviour/locations`` with
``{"name": "down", "times": 2}`` says how its next two requests are answered: ``down`` (503), ``busy`` (429 with
``Retry-After``), ``slow`` (after so many seconds), ``garbled`` (no JSON); another name is for the service itself to
follow. ``GET /behaviour/locations`` tells how many requests it got.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections import Counter
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

import dedp_assets.case_study.sources

__all__ = ["application", "behaviour"]

_WELL = "well"
_CONTROL = "behaviour"


@dataclass
class _Behaviour:
    """Configured behaviour of a service.

    Attributes:
        name: how to answer.
        times: how many requests are answered so.
        seconds: how slow ``slow`` is, and what ``busy`` asks callers to wait.
    """

    name: str
    times: int = 1
    seconds: float = 0


def application() -> Starlette:
    """Put the routes of all services together."""
    control = Route(f"/{_CONTROL}/{{service}}", _control, methods=["GET", "PUT"])
    made = Starlette(routes=[control, *_routes()], middleware=[Middleware(BaseHTTPMiddleware, dispatch=_answer)])
    made.state.behaviours, made.state.requests = {}, Counter()
    return made


def behaviour(request: Request) -> str:
    """Return the configured behaviour for a request; ``well`` by default."""
    return str(request.state.behaviour)


def _routes() -> list[BaseRoute]:
    package = dedp_assets.case_study.sources
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names if name != "services"]
    return [route for module in modules for route in getattr(module, "routes", ())]


async def _control(request: Request) -> Response:
    state, service = request.app.state, request.path_params["service"]
    if request.method == "PUT":
        state.behaviours[service] = _Behaviour(**await request.json())
    return JSONResponse({"requests": state.requests[service]})


async def _answer(request: Request, answered: RequestResponseEndpoint) -> Response:
    """Answer a request by the configured behaviour of the service, otherwise by the service."""
    service, state = request.url.path.split("/")[1], request.app.state
    if service == _CONTROL:
        return await answered(request)
    state.requests[service] += 1
    behaviour = state.behaviours.get(service)
    if behaviour is None or behaviour.times < 1:
        behaviour = _Behaviour(_WELL)
    behaviour.times -= 1
    request.state.behaviour = behaviour.name
    if behaviour.name == "down":
        return JSONResponse({"error": "down for maintenance"}, status_code=503)
    if behaviour.name == "busy":
        return JSONResponse({"error": "busy"}, status_code=429, headers={"Retry-After": f"{behaviour.seconds:g}"})
    if behaviour.name == "garbled":
        return Response("<html>", media_type="text/html")
    await asyncio.sleep(behaviour.seconds if behaviour.name == "slow" else 0)
    return await answered(request)
