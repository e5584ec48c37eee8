"""HTTP server of the schema registry on loopback.

Addresses, answers and error codes are those of Confluent's API, as far as Confluent's Python client asks for them. Left
out: Protobuf, the mode IMPORT, and settings of a subject other than its level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dedp_assets.local.loopback import HOSTS
from dedp_assets.local.registry.schemas import KINDS, Content, RegistryError, Version, content_of, number_of
from dedp_assets.local.registry.store import FileStore, PostgresStore, Store
from dedp_assets.local.registry.subjects import EVERYTHING, Judge, Subjects, qualified
from dedp_assets.patterns.core.strict_json import parse_json
from dedp_assets.resources.registry import FOLDER

__all__ = ["FOLDER", "application", "serve"]

T = TypeVar("T")
Json: TypeAlias = Any
_JSON = partial(JSONResponse, media_type="application/vnd.schemaregistry.v1+json")
_MOST_BYTES = 4_000_000
_MOST = 2**31 - 1


def serve(store: Store, judge: Judge) -> Starlette:
    """Make the application that answers for a store.

    Args:
        store: keeps the schemas.
        judge: judge of compatibility.
    """
    routes = [
        Route(f"/{path}", partial(_answered, _Registry(store, judge), answer), methods=[method])
        for method, path, answer in _CALLS
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS), Middleware(_Encoded)],
        exception_handlers={HTTPException: _unknown, RegistryError: _refusal, Exception: _fault},
    )


def application() -> Starlette:
    """Make the application for the home of this process."""
    from dedp_assets.patterns.quality.schema_compatibility_enforcer import judge_schema  # noqa: PLC0415 - Spark
    from dedp_assets.resources.environments import settings  # noqa: PLC0415

    chosen = settings()
    if chosen.registry == "postgres":
        from dedp_assets.resources import postgres  # noqa: PLC0415 - Dagster

        return serve(PostgresStore(lambda: postgres.address(settings()).connect()), judge_schema)
    return serve(FileStore(chosen.home / FOLDER), judge_schema)


@dataclass(frozen=True, slots=True)
class _Registry:
    """A store and a judge of compatibility."""

    store: Store
    judge: Judge

    def read(self, ask: Callable[[Subjects], T]) -> T:
        """Return an answer from the current records."""
        with self.store.reading() as records:
            return ask(Subjects(records, self.judge))

    def write(self, ask: Callable[[Subjects], T], *scopes: str) -> T:
        """Return an answer after a change of the records."""
        with self.store.writing(*scopes) as records:
            return ask(Subjects(records, self.judge))


@dataclass(frozen=True, slots=True)
class _Call:
    """A request, decoded.

    Attributes:
        path: parts of the address by name.
        query: parameters.
        body: JSON of the body; ``None`` without one.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Json

    @property
    def subject(self) -> str:
        return qualified(self.path["subject"])

    @property
    def scope(self) -> str:
        """Subject in the address; empty for the global setting."""
        return self.subject if "subject" in self.path else EVERYTHING

    @property
    def number(self) -> int:
        return number_of(self.path["version"])

    @property
    def content(self) -> Content:
        return content_of(self.body)

    @property
    def content_id(self) -> int:
        text = self.path["id"]
        if text.isascii() and text.isdecimal() and int(text[:11]) <= _MOST:
            return int(text)
        raise RegistryError(40403, f"Schema {text} not found")

    def asked(self, *names: str) -> bool:
        """Return whether one of several parameters is true, in lower case or capitals."""
        return any(self.query.get(name, "").lower() == "true" for name in names)

    def member(self, *names: str) -> object:
        """Return the first of some members of the body."""
        body = self.body if isinstance(self.body, dict) else {}
        return next((body[name] for name in names if body.get(name) is not None), None)

    def paged(self, found: Sequence[T]) -> list[T]:
        """Return the part of a list between the parameters ``offset`` and ``limit``."""
        start, most = (self._whole(name, without) for name, without in (("offset", 0), ("limit", -1)))
        return list(found[max(start, 0) :][: most if most >= 0 else None])

    def _whole(self, name: str, without: int) -> int:
        text = self.query.get(name, "")
        return int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else without


# --- what is answered -------------------------------------------------------------------------------------------------


def _register(registry: _Registry, call: _Call) -> Json:
    subject, content, normalize = call.subject, call.content, call.asked("normalize")
    referred = [each.subject for each in content.references]

    def ask(subjects: Subjects) -> Json:
        made = subjects.register(subject, content, normalize=normalize)
        return {"id": made.id, "version": made.number, **subjects.content(made.id).as_json()}

    return registry.write(ask, subject, *referred)


def _lookup(registry: _Registry, call: _Call) -> Json:
    def ask(subjects: Subjects) -> Json:
        normalize, deleted = call.asked("normalize"), call.asked("deleted")
        found = subjects.lookup(call.subject, call.content, normalize=normalize, deleted=deleted)
        return _described(subjects, found)

    return registry.read(ask)


def _by_id(registry: _Registry, call: _Call) -> Json:
    def ask(subjects: Subjects) -> Json:
        answer = subjects.content(call.content_id).as_json()
        return answer | ({"maxId": subjects.newest_id()} if call.asked("fetchMaxId") else {})

    return registry.read(ask)


def _by_guid(registry: _Registry, call: _Call) -> Json:
    return registry.read(lambda subjects: subjects.content(subjects.id_of(call.path["guid"])).as_json())


def _uses(registry: _Registry, call: _Call) -> list[Version]:
    def ask(subjects: Subjects) -> list[Version]:
        subjects.content(call.content_id)
        found = subjects.uses(call.content_id, deleted=call.asked("deleted"))
        return [each for each in found if call.query.get("subject") in (None, each.subject)]

    return registry.read(ask)


def _uses_by_subject(registry: _Registry, call: _Call) -> Json:
    return call.paged(sorted({each.subject for each in _uses(registry, call)}))


def _uses_by_version(registry: _Registry, call: _Call) -> Json:
    return call.paged([{"subject": each.subject, "version": each.number} for each in _uses(registry, call)])


def _types(_registry: _Registry, _call: _Call) -> Json:
    return list(KINDS)


def _names(registry: _Registry, call: _Call) -> Json:
    prefix = call.query.get("subjectPrefix", "")
    return call.paged(registry.read(lambda subjects: subjects.names("" if prefix == ":*:" else prefix, **_which(call))))


def _numbers(registry: _Registry, call: _Call) -> Json:
    return call.paged(registry.read(lambda subjects: subjects.numbers(call.subject, **_which(call))))


def _version(registry: _Registry, call: _Call) -> Json:
    def ask(subjects: Subjects) -> Json:
        return _described(subjects, subjects.version(call.subject, call.number, deleted=call.asked("deleted")))

    return registry.read(ask)


def _referring(registry: _Registry, call: _Call) -> Json:
    return call.paged(registry.read(lambda subjects: subjects.referring(call.subject, call.number)))


def _test(registry: _Registry, call: _Call) -> Json:
    def ask(subjects: Subjects) -> list[str]:
        number = call.number if "version" in call.path else None
        return subjects.test(call.subject, call.content, number, normalize=call.asked("normalize"))

    reasons = registry.read(ask)
    return {"is_compatible": not reasons, **({"messages": reasons} if call.asked("verbose") else {})}


def _delete(registry: _Registry, call: _Call) -> Json:
    subject, permanent = call.subject, call.asked("permanent")
    return registry.write(lambda subjects: subjects.delete(subject, permanent=permanent), subject)


def _delete_version(registry: _Registry, call: _Call) -> Json:
    subject, number, permanent = call.subject, call.number, call.asked("permanent")
    return registry.write(lambda subjects: subjects.delete_version(subject, number, permanent=permanent), subject)


def _level(registry: _Registry, call: _Call) -> Json:
    default = call.asked("defaultToGlobal")
    return {"compatibilityLevel": registry.read(lambda subjects: subjects.own_level(call.scope, default=default))}


def _set_level(registry: _Registry, call: _Call) -> Json:
    if others := sorted(
        {*(call.body if isinstance(call.body, dict) else {})} - {"compatibility", "compatibilityLevel"}
    ):
        raise RegistryError(42203, f"only compatibility can be configured, not {', '.join(others)}")
    scope, level = call.scope, call.member("compatibility", "compatibilityLevel")
    return {"compatibility": registry.write(lambda subjects: subjects.set_level(scope, level), scope)}


def _forget_level(registry: _Registry, call: _Call) -> Json:
    scope = call.scope
    return {"compatibilityLevel": registry.write(lambda subjects: subjects.forget_level(scope), scope)}


def _mode(registry: _Registry, call: _Call) -> Json:
    default = call.asked("defaultToGlobal")
    return {"mode": registry.read(lambda subjects: subjects.own_mode(call.scope, default=default))}


def _set_mode(registry: _Registry, call: _Call) -> Json:
    scope, mode = call.scope, call.member("mode")
    return {"mode": registry.write(lambda subjects: subjects.set_mode(scope, mode), scope)}


def _forget_mode(registry: _Registry, call: _Call) -> Json:
    scope = call.scope
    return {"mode": registry.write(lambda subjects: subjects.forget_mode(scope), scope)}


def _contexts(registry: _Registry, call: _Call) -> Json:
    return call.paged(registry.read(lambda subjects: subjects.contexts()))


def _root(_registry: _Registry, _call: _Call) -> Json:
    return {}


_CALLS: Sequence[tuple[str, str, Callable[[_Registry, _Call], Json]]] = [
    ("GET", "", _root),
    ("GET", "schemas/types", _types),
    ("GET", "schemas/ids/{id}", _by_id),
    ("GET", "schemas/ids/{id}/subjects", _uses_by_subject),
    ("GET", "schemas/ids/{id}/versions", _uses_by_version),
    ("GET", "schemas/guids/{guid}", _by_guid),
    ("GET", "subjects", _names),
    ("POST", "subjects/{subject}", _lookup),
    ("DELETE", "subjects/{subject}", _delete),
    ("GET", "subjects/{subject}/versions", _numbers),
    ("POST", "subjects/{subject}/versions", _register),
    ("GET", "subjects/{subject}/versions/{version}", _version),
    ("DELETE", "subjects/{subject}/versions/{version}", _delete_version),
    ("GET", "subjects/{subject}/versions/{version}/referencedby", _referring),
    ("POST", "compatibility/subjects/{subject}/versions", _test),
    ("POST", "compatibility/subjects/{subject}/versions/{version}", _test),
    *(
        (method, f"{setting}{scope}", answer)
        for setting, answers in {
            "config": {"GET": _level, "PUT": _set_level, "DELETE": _forget_level},
            "mode": {"GET": _mode, "PUT": _set_mode, "DELETE": _forget_mode},
        }.items()
        for method, answer in answers.items()
        for scope in ("", "/{subject}")
    ),
    ("GET", "contexts", _contexts),
]


def _described(subjects: Subjects, version: Version) -> dict[str, Any]:
    place = {"subject": version.subject, "version": version.number, "id": version.id}
    return {**place, **subjects.content(version.id).as_json()}


def _which(call: _Call) -> dict[str, bool]:
    return {"deleted": call.asked("deleted"), "deleted_only": call.asked("deletedOnly", "deleted_only")}


# --- HTTP -------------------------------------------------------------------------------------------------------------


class _Encoded:
    """Routing by the address before decoding: the name of a subject may contain a slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("ascii", errors="replace")}
        await self._app(scope, receive, send)


async def _answered(registry: _Registry, answer: Callable[[_Registry, _Call], Json], request: Request) -> Response:
    path = {name: unquote(value) for name, value in request.path_params.items()}
    call = _Call(path, request.query_params, await _body(request))
    return _JSON(await run_in_threadpool(answer, registry, call))


async def _body(request: Request) -> Json:
    pieces = b""
    async for piece in request.stream():
        pieces += piece
        if len(pieces) > _MOST_BYTES:
            raise RegistryError(42209, f"a request must have at most {_MOST_BYTES} bytes")
    if not pieces:
        return None
    try:
        return parse_json(pieces)
    except ValueError as error:
        raise RegistryError(42201, f"the body is no JSON: {error}") from None


async def _refusal(_: Request, error: Exception) -> Response:
    code, status = (error.code, error.status) if isinstance(error, RegistryError) else (500, 500)
    return _JSON({"error_code": code, "message": str(error)}, status)


async def _unknown(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 400
    return _JSON({"error_code": status, "message": f"HTTP {status}"}, status)


async def _fault(_: Request, error: Exception) -> Response:
    return _JSON({"error_code": 50001, "message": f"{type(error).__name__}: {error}"}, 500)
