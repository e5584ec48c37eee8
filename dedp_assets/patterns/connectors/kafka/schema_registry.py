"""A schema registry by Confluent's API, and the header of records in Confluent's wire format.

A record in Confluent's wire format begins with a zero byte and the id of its schema in four bytes, so that readers
find the schema that the record was written with, however old the record is.
"""

from __future__ import annotations

import json
import ssl
import struct
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote
from urllib.request import Request

from dedp_assets.patterns.connectors.kafka.schema_references import Reference, Referred, self_contained
from dedp_assets.patterns.connectors.secrets.key_files import secret_in
from dedp_assets.patterns.connectors.web.parts import (
    Reply,
    ResponseLimits,
    exchanged,
    require_address,
    sentence,
    without_secrets,
)
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.parsing.strict_json import parse_json

__all__ = [
    "HEADER_BYTES",
    "RegisteredSchema",
    "SchemaRegistry",
    "decoded",
    "find_schema",
    "framed",
    "incompatibilities",
    "latest_schema",
    "register_schema",
    "self_contained_text",
]

T = TypeVar("T")
Dialect = Literal["AVRO", "JSON"]

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_HEADER = struct.Struct(">bI")
HEADER_BYTES = _HEADER.size
"""Length of the header that names a record's schema: a zero byte and the id, in bytes."""
_MOST_BYTES = 16 << 20
_UNEXPLAINED = "it is not compatible"
_PASSING = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry.

    Attributes:
        id: its id.
        text: its text.
        dialect: ``AVRO`` or ``JSON``, or another type that the registry has.
        version: its version in the subject that was asked for; 0 where none was.
        references: schemas of the registry that it refers to.
    """

    id: int
    text: str
    dialect: str
    version: int = 0
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Client of a schema registry; schemas by id are cached.

    Attributes:
        url: where it is; ``http`` or ``https``.
        timeout_seconds: how long it may be silent.
        token_file: file with the token of requests, readable by the owner alone and read at each request, so that no
            plan or pickled client holds the token.
        authorities: certificates, PEM, of the authorities that vouch for the registry; by default the system's.
    """

    url: str
    timeout_seconds: float = 10
    token_file: Path | None = None
    authorities: Path | None = None
    _known: dict[int, RegisteredSchema] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_address(self.url, what="a schema registry")

    def ask(self, method: str, path: str, content: object = None) -> tuple[int, Any]:
        """Send a request once, and return status and JSON of the answer; for status 404 and 409, the text.

        Raises:
            NotReady: if the registry does not answer, or has trouble of its own.
            ContractError: if it finds the request wrong (422), or answers with what is no JSON.
            ConfigError: if it refuses the request for another reason, or sends it elsewhere.
        """
        name = f"the schema registry at {without_secrets(self.url)}"
        reply = self._sent(method, path, content, name)
        text = sentence(reply.body.decode(errors="replace"))
        if reply.status >= 500 or reply.status in _PASSING:
            raise NotReady(f"{name} answers with status {reply.status}: {text}: run this again later")
        if reply.status == 422:
            raise ContractError(f"{name} finds the request wrong: {text}")
        if reply.status == 401:
            shown = f"another one than the token in {self.token_file}" if self.token_file else "a token, and got none"
            raise ConfigError(f"{name} asks for {shown}: `make up` writes the token of its own at each start")
        if reply.status in (404, 409):
            return reply.status, text
        if reply.elsewhere or not 200 <= reply.status < 300:
            raise ConfigError(f"{name} refuses the request with status {reply.status}: {reply.elsewhere or text}")
        try:
            return reply.status, parse_json(reply.body)
        except ValueError:
            raise ContractError(f"{name} answers with what is no JSON: {text}") from None

    def _sent(self, method: str, path: str, content: object, name: str) -> Reply:
        data = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": _MEDIA_TYPE, "Accept": _MEDIA_TYPE}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {secret_in(self.token_file, of='the token of requests')}"
        request = Request(f"{self.url.rstrip('/')}/{path}", data, headers, method=method)  # noqa: S310 - looked at
        limits = ResponseLimits(self.timeout_seconds, self.timeout_seconds * 3, _MOST_BYTES)
        trusting = ssl.create_default_context(cafile=str(self.authorities)) if self.authorities else None
        try:
            return exchanged(request, limits, trusting)
        except (OSError, HTTPException) as error:
            reason = sentence(str(error)) or type(error).__name__
            raise NotReady(f"{name} does not answer ({reason}): run this again when it does") from error


def latest_schema(registry: SchemaRegistry, subject: str) -> RegisteredSchema:
    """Request the newest schema of a subject.

    Raises:
        NotReady: if the registry does not answer, or nobody has registered a schema yet.
        ContractError: if the answer describes no schema.
    """
    status, answer = registry.ask("GET", f"subjects/{quote(subject, safe='')}/versions/latest")
    if status == 404:
        raise NotReady(f"subject {subject} has no schema in the registry: register one first ({answer})")
    found = _schema(answer, _member(answer, "id", int))
    registry._known[found.id] = found
    return found


def find_schema(registry: SchemaRegistry, schema_id: int) -> RegisteredSchema | None:
    """Return the schema with an id, if registered.

    Raises:
        NotReady: if the registry does not answer.
        ContractError: if the answer describes no schema.
    """
    if (known := registry._known.get(schema_id)) is None:
        status, answer = registry.ask("GET", f"schemas/ids/{schema_id}")
        if status == 404:
            return None
        known = registry._known[schema_id] = _schema(answer, schema_id)
    return known


def self_contained_text(registry: SchemaRegistry, schema: RegisteredSchema) -> str:
    """Return the text of an Avro schema with the referenced types inside.

    Raises:
        NotReady: if the registry does not answer.
        ContractError: if the registry lacks a schema that is referred to.
    """

    def referred(reference: Reference) -> Referred:
        path = f"subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        status, answer = registry.ask("GET", f"{path}?deleted=true")
        if status == 404:
            raise ContractError(f"the registry lacks {reference.name}, which schema {schema.id} refers to ({answer})")
        found = _schema(answer, _member(answer, "id", int))
        return found.text, found.references

    return self_contained(schema.text, schema.references, referred)


def register_schema(registry: SchemaRegistry, subject: str, text: str, *, dialect: Dialect = "AVRO") -> int:
    """Register a schema as the newest of a subject, unless present, and return the schema's id.

    Raises:
        NotReady: if the registry does not answer.
        ContractError: if the text is no schema, or not compatible with the earlier ones: names subject, mode and
            every field in the way.
    """
    path = f"subjects/{quote(subject, safe='')}/versions"
    status, answer = registry.ask("POST", path, {"schema": text, "schemaType": dialect})
    if status in (404, 409):
        # Some registries name the reasons in this refusal alone, others where they are asked for a verdict.
        reasons = incompatibilities(registry, subject, text, dialect=dialect)
        reasons = reasons if set(reasons) - {_UNEXPLAINED} else (str(answer),)
        raise ContractError(
            f"subject {subject} does not take the schema, because its mode is {_mode(registry, subject)}: "
            f"{'; '.join(reasons)}"
        )
    return _member(answer, "id", int)


def incompatibilities(
    registry: SchemaRegistry, subject: str, text: str, *, dialect: Dialect = "AVRO"
) -> tuple[str, ...]:
    """Return the reasons that a schema cannot be the next of a subject; empty for a fit.

    Raises:
        NotReady: if the registry does not answer.
        ContractError: if the text is no schema.
    """
    path = f"compatibility/subjects/{quote(subject, safe='')}/versions?verbose=true"
    status, answer = registry.ask("POST", path, {"schema": text, "schemaType": dialect})
    if status == 404 or _member(answer, "is_compatible", bool):
        return ()
    messages = answer.get("messages")
    return tuple(map(str, messages)) if isinstance(messages, list) and messages else (_UNEXPLAINED,)


def framed(schema_id: int, body: bytes) -> bytes:
    r"""Return a record in the wire format.

    Example:
        >>> framed(7, b"{}")
        b'\x00\x00\x00\x00\x07{}'
    """
    return _HEADER.pack(0, schema_id) + body


def decoded(payload: bytes) -> tuple[int, bytes]:
    r"""Return the id of the schema, and the body, of a record in the wire format.

    Raises:
        ContractError: for a record without the header.

    Example:
        >>> decoded(b"\x00\x00\x00\x00\x07{}")
        (7, b'{}')
    """
    if len(payload) < HEADER_BYTES or payload[0] != 0:
        raise ContractError(
            f"a record must begin with a zero byte and a schema's id in 4 bytes, not with {payload[:HEADER_BYTES]!r}"
        )
    _, schema_id = _HEADER.unpack_from(payload)
    return schema_id, payload[HEADER_BYTES:]


def _mode(registry: SchemaRegistry, subject: str) -> str:
    """Return the mode of compatibility of a subject, such as ``BACKWARD``."""
    _, answer = registry.ask("GET", f"config/{quote(subject, safe='')}?defaultToGlobal=true")
    return _member(answer, "compatibilityLevel", str)


def _schema(answer: object, schema_id: int) -> RegisteredSchema:
    members: dict[str, Any] = answer if isinstance(answer, dict) else {}
    dialect, version = members.get("schemaType", "AVRO"), members.get("version", 0)
    named = [_reference(each) for each in members.get("references") or ()]
    return RegisteredSchema(schema_id, _member(answer, "schema", str), str(dialect), int(version), tuple(named))


def _reference(answer: object) -> Reference:
    name, subject = _member(answer, "name", str), _member(answer, "subject", str)
    return Reference(name, subject, _member(answer, "version", int))


def _member(answer: object, name: str, kind: type[T]) -> T:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, kind):
        raise ContractError(f"the schema registry answers without {name}: {sentence(str(answer))}")
    return value
