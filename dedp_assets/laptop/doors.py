"""Doors of the laptop's servers: who comes in and how, and doors without a lock.

One declaration: ``docs/doors.md`` is written from it, and ``dedp up`` names what it does not lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dedp_assets.graph.resources import tokens
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems.identities import PLATFORM, home_authority
from dedp_assets.laptop.servers.loopback import Lock

__all__ = ["DOORS", "Door", "certificates", "engine_url", "page_url", "token", "token_file", "unlocked"]


@dataclass(frozen=True, slots=True)
class Door:
    """A port of a server of ``dedp up``; all listen on loopback.

    Attributes:
        name: for people.
        servers: names of the processes behind the door, by their beginning.
        opens: what one needs without ``DEDP_SECURE``.
        locked: what one needs with ``DEDP_SECURE=on``; empty for a door without a lock.
        reason: why there is no lock, or what the lock leaves out.
    """

    name: str
    servers: tuple[str, ...]
    opens: str
    locked: str = ""
    reason: str = ""


DOORS = (
    Door(
        "PostgreSQL",
        ("database",),
        "password (`postgres/password`, 0600)",
        "TLS and the password, or a certificate of the role",
    ),
    Door(
        "Kafka",
        ("kafka",),
        "nothing",
        f"certificate of the role `{PLATFORM}` or of a role with an access control entry",
    ),
    Door("the HTTP services", ("services",), "nothing", f"certificate of the role `{PLATFORM}`"),
    Door("the status page", ("status",), "nothing", "TLS and the token in `tls/tokens/status`, once for each browser"),
    Door(
        "the Spark engine",
        ("engine",),
        "nothing",
        "the token in `tls/tokens/engine`",
        "Spark Connect has no TLS of its own: whoever reads loopback, which needs root, reads the token",
    ),
    Door(
        "the Spark cluster",
        ("master", "worker"),
        "the cluster's secret (`cluster`, 0600)",
        "the cluster's secret",
        "the pages of master and workers show figures to everybody on this machine",
    ),
    Door(
        "the S3 server",
        ("s3",),
        "keys (`s3/identities.json`, 0600)",
        "the same keys",
        "without TLS: signatures do not show the key, contents are in the clear on loopback",
    ),
    Door(
        "the server of secrets",
        ("bao",),
        "login (`bao/login`, 0600)",
        "the same login",
        "without TLS: whoever reads loopback, which needs root, reads logins",
    ),
    Door(
        "Dagster's webserver",
        ("web",),
        "nothing",
        "TLS and the token in `tls/tokens/web`, once for each browser",
        "one token and no users: whoever has the token may do everything",
    ),
    Door(
        "Dagster's code servers",
        ("code",),
        "nothing",
        "sockets in a folder of their owner's alone (0700), and no port",
    ),
    Door(
        "the schema registry",
        ("registry",),
        "nothing",
        "TLS and the token in `tls/tokens/registry`, another one at each start",
        "a port of its own shows health and figures to everybody on this machine: its build fixes that",
    ),
)


def unlocked(chosen: Settings, servers: Collection[str]) -> Iterator[Door]:
    """List the doors of running servers without a lock.

    Empty without ``DEDP_SECURE=on``.

    Args:
        chosen: settings of the home.
        servers: names of the servers that run.
    """
    for door in DOORS:
        runs = any(name.startswith(door.servers) for name in servers)
        if chosen.secure == "on" and runs and not door.locked:
            yield door


def certificates(chosen: Settings, *, at: datetime) -> Lock | None:
    """Return the lock of a server for the platform's own processes; ``None`` without ``DEDP_SECURE=on``."""
    return Lock(home_authority(chosen), at, [PLATFORM]) if chosen.secure == "on" else None


def token(chosen: Settings, server: str, *, at: datetime) -> Lock | None:
    """Return the lock of a server for whoever has the token; ``None`` without ``DEDP_SECURE=on``."""
    file = token_file(chosen, server)
    return Lock(home_authority(chosen), at, token=file) if file else None


def engine_url(chosen: Settings, port: int) -> str:
    """Return the address of the shared engine; a client sends a token without TLS to ``localhost`` alone."""
    return f"sc://{'localhost' if chosen.secure == 'on' else '127.0.0.1'}:{port}"


def page_url(chosen: Settings, port: int) -> str:
    """Return the address of a server for browsers, with a token as the lock."""
    return f"{'https' if chosen.secure == 'on' else 'http'}://127.0.0.1:{port}"


def token_file(chosen: Settings, server: str) -> Path | None:
    """Return the file with a server's token; ``None`` without ``DEDP_SECURE=on``."""
    return tokens.token_file(chosen, server) if chosen.secure == "on" else None
