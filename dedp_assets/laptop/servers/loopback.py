"""Servers of HTTP applications on loopback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from dedp_assets.graph.resources.announced import announce
from dedp_assets.patterns.connectors.certificates.authority import Authority
from dedp_assets.patterns.connectors.certificates.files import Certificate

__all__ = ["HOSTS", "Lock", "command", "server_certificate"]

HOSTS = ["127.0.0.1", "localhost"]
"""Accepted values of the header ``Host``, as a protection against DNS rebinding."""
_LASTS = timedelta(days=365)
_BEFORE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Lock:
    """TLS of an HTTP server, and who may come in: roles by certificates, or whoever has the token.

    Attributes:
        authority: signs the server's certificate and those of clients.
        at: the time now; the server's certificate is valid for a year.
        roles: common names of clients.
        token: file with the token; without one, clients show certificates.
    """

    authority: Authority
    at: datetime
    roles: Sequence[str] = ()
    token: Path | None = None


def command(
    application: str, folder: Path, *, port: int, lock: Lock | None = None, websockets: bool = False
) -> list[str]:
    """Announce the address of an application, and return the command that runs the application's server.

    Args:
        application: function that makes the application, ``package.module:function``.
        folder: folder of the announcement, and of the server's certificate.
        port: port on loopback.
        lock: TLS, and who may come in; ``None`` for everybody on this machine.
        websockets: whether the application speaks WebSocket, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    announce(folder, f"{'https' if lock else 'http'}://127.0.0.1:{port}")
    if lock:
        return [*_locked(application, folder, port, lock), *(["--websockets"] if websockets else [])]
    place = ["--host", "127.0.0.1", "--port", str(port), "--ws", "auto" if websockets else "none"]
    return [sys.executable, "-m", "uvicorn", "--factory", application, *place, "--log-level", "warning"]


def server_certificate(folder: Path, authority: Authority, *, at: datetime) -> Certificate:
    """Issue the certificate of a server; a running server takes the files at the next connection.

    Args:
        folder: folder of the server.
        authority: signs the certificate.
        at: the time now; the certificate is valid for a year.
    """
    return authority.issue("server", folder / "tls", begins=at - _BEFORE, ends=at + _LASTS, hosts=HOSTS)


def _locked(application: str, folder: Path, port: int, lock: Lock) -> list[str]:
    made = server_certificate(folder, lock.authority, at=lock.at)
    files = {"--certificate": made.path, "--key": made.key, "--authorities": lock.authority.path}
    named = {"--port": port, **files, **({"--token": lock.token} if lock.token else {})}
    roles = [word for role in lock.roles for word in ("--role", role)]
    words = [str(word) for pair in named.items() for word in pair]
    return [sys.executable, "-m", "dedp_assets.laptop.servers.secured_http", application, *words, *roles]
