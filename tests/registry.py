"""A schema registry for tests of readers and senders: keeps schemas in memory and judges nothing.

What a real one refuses is tested against the server of ``dedp up`` (``tests/laptop/servers/test_registry.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from dedp_assets.patterns.connectors.kafka.schema_registry import SchemaRegistry
from tests.fixtures import answering

__all__ = ["schemas_in_memory"]


@contextmanager
def schemas_in_memory() -> Iterator[SchemaRegistry]:
    """A client of an empty registry, whose ids begin with 1."""
    with answering(Starlette(routes=_Schemas().routes()), lifespan="off") as url:
        yield SchemaRegistry(url)


class _Schemas:
    """Schemas by id, and ids by subject and version."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}

    def routes(self) -> list[Route]:
        return [
            Route("/schemas/types", lambda _: JSONResponse(["AVRO", "JSON"])),
            Route("/schemas/ids/{id:int}", self.by_id),
            Route("/subjects/{subject:path}/versions/{version}", self.by_version),
            Route("/subjects/{subject:path}/versions", self.register, methods=["POST"]),
            Route("/subjects/{subject:path}", self.register, methods=["POST"]),
        ]

    def by_id(self, request: Request) -> JSONResponse:
        number = request.path_params["id"]
        return _answer(self.schemas[number - 1]) if 0 < number <= len(self.schemas) else _missing()

    def by_version(self, request: Request) -> JSONResponse:
        ids, version = self.subjects.get(request.path_params["subject"], []), request.path_params["version"]
        place = len(ids) if version == "latest" else int(version)
        if not 0 < place <= len(ids):
            return _missing()
        named = {"subject": request.path_params["subject"], "version": place, "id": ids[place - 1]}
        return _answer({**self.schemas[ids[place - 1] - 1], **named})

    async def register(self, request: Request) -> JSONResponse:
        given = json.loads(await request.body())
        schema = {"schemaType": "AVRO", "references": [], **given}
        if schema not in self.schemas:
            self.schemas.append(schema)
        number, ids = self.schemas.index(schema) + 1, self.subjects.setdefault(request.path_params["subject"], [])
        if number not in ids:
            ids.append(number)
        return _answer({**schema, "id": number, "version": ids.index(number) + 1, "subject": ""})


def _answer(found: dict[str, Any]) -> JSONResponse:
    return JSONResponse(found)


def _missing() -> JSONResponse:
    return JSONResponse({"error_code": 40403, "message": "not found"}, 404)
