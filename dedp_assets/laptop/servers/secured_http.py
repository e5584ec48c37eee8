"""HTTP applications behind TLS: clients show a certificate of a role, or a token.

uvicorn checks a certificate, and tells an application nothing about the client: the protocol of this module adds the
role, the certificate's common name, to the state of each request of the connection. A browser shows the token once, as
``/?token=...``, and has a cookie then. A WebSocket is opened by the same cookie or header.

The module runs as a program: ``python -m dedp_assets.laptop.servers.secured_http package.module:function ...``.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import importlib
import ssl
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["LOCKED", "ROLE", "CertifiedProtocol", "OnlyRoles", "OnlyToken", "main", "reread"]

ROLE = "client_role"
"""Name of the role in the state of a request."""
LOCKED = "came_through_the_lock"
"""Name, in the state of a request, of the mark that the client showed the token."""
_COOKIE, _PARAMETER = "dedp_token", "token"
"""Prefix of the token's cookie, completed by the port, and name of the URL's query parameter."""
_POLICY_VIOLATION = 1008
_BEARER = "Bearer "


class CertifiedProtocol(H11Protocol):  # type: ignore[misc]  # mypy leaves uvicorn's protocols out
    """HTTP/1.1 of connections whose client showed a certificate."""

    app_state: dict[str, object]

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Note the common name of the client's certificate."""
        super().connection_made(transport)
        secured = transport.get_extra_info("ssl_object")
        shown = (secured.getpeercert() if secured else None) or {}
        names = [value for part in shown.get("subject", ()) for name, value in part if name == "commonName"]
        self.app_state = {**self.app_state, ROLE: names[0] if len(names) == 1 else ""}


class OnlyRoles:
    """An application for some roles: others get status 403, whoever signed the certificate.

    Args:
        application: the application behind.
        roles: common names that may come in.
    """

    def __init__(self, application: ASGIApp, roles: Collection[str]) -> None:
        self._application, self._roles = application, frozenset(roles)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse the role."""
        if scope["type"] == "http" and scope.get("state", {}).get(ROLE) not in self._roles:
            await JSONResponse({"error": "this role may not come in here"}, status_code=403)(scope, receive, send)
            return
        await self._application(scope, receive, send)


class OnlyToken:
    """An application for whoever has the token: others get status 401, or no WebSocket.

    Args:
        application: the application behind.
        file: file with the token, read at each request, so that an exchanged token counts at once; its name is the
            server's.
    """

    def __init__(self, application: ASGIApp, file: Path) -> None:
        self._application, self._file = application, file
        self._cookie = f"{_COOKIE}_{file.name}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the token; give a browser that shows the token as a parameter a cookie."""
        if scope["type"] not in {"http", "websocket"}:
            await self._application(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        if scope["type"] == "http" and self._is_token(asked.query_params.get(_PARAMETER, "")):
            answer = RedirectResponse(asked.url.path, 303)  # so that the token is in no bookmark and no referrer
            token = asked.query_params[_PARAMETER]
            answer.set_cookie(self._cookie, token, secure=True, httponly=True, samesite="strict")
            await answer(scope, receive, send)
        elif self._is_known(asked):
            marked = {**scope, "state": {**scope.get("state", {}), LOCKED: True}}
            await self._application(marked, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            text = f"The token is missing: open /?token=... with the content of {self._file}."
            await PlainTextResponse(text, 401)(scope, receive, send)

    def _is_known(self, asked: HTTPConnection) -> bool:
        shown = asked.headers.get("Authorization", "").removeprefix(_BEARER)
        return self._is_token(shown) or self._is_token(asked.cookies.get(self._cookie, ""))

    def _is_token(self, shown: str) -> bool:
        return bool(shown) and hmac.compare_digest(shown.encode(), self._file.read_bytes().strip())


def reread(config: uvicorn.Config, made: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return a server's TLS context, which takes exchanged files of certificates at the next connection.

    Args:
        config: names the files of key, certificate and authorities.
        made: makes a context from the files.
    """
    files = [Path(str(file)) for file in (config.ssl_keyfile, config.ssl_certfile, config.ssl_ca_certs)]
    first, held = _unresumed(made()), [(_times(files), _unresumed(made()))]

    def take(connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        if (now := _times(files)) != held[0][0]:
            with suppress(
                OSError
            ):  # of an exchange under way, whose certificate is not of the key: the next connection
                held[0] = (now, _unresumed(made()))
        connection.context = held[0][1]

    first.sni_callback = take  # which OpenSSL asks for each connection, also for one to an address
    return first


def _times(files: Sequence[Path]) -> list[int]:
    return [file.stat().st_mtime_ns for file in files]


def _unresumed(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let clients resume no session: a resumed one shows no certificate again."""
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def main(words: Sequence[str] | None = None) -> None:
    """Serve an application on loopback until a signal.

    Args:
        words: of the command line; ``--role`` or ``--token`` says who may come in.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("application")
    for name in ("--certificate", "--key", "--authorities"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--role", action="append", default=[])
    parser.add_argument("--token", type=Path)
    parser.add_argument("--websockets", action="store_true")
    given = parser.parse_args(words)
    module, _, factory = given.application.partition(":")
    behind = getattr(importlib.import_module(module), factory)()
    uvicorn.run(
        OnlyToken(behind, given.token) if given.token else OnlyRoles(behind, given.role),
        host="127.0.0.1",
        port=given.port,
        http=CertifiedProtocol,
        ws="auto" if given.websockets else "none",
        log_level="warning",
        ssl_certfile=given.certificate,
        ssl_keyfile=given.key,
        ssl_ca_certs=given.authorities,
        ssl_cert_reqs=ssl.CERT_NONE if given.token else ssl.CERT_REQUIRED,
        ssl_context_factory=reread,
    )


if __name__ == "__main__":
    main()
