"""Announced addresses of local servers: a file in the server's folder, valid while the port answers."""

import os
import re
import socket
from pathlib import Path

__all__ = ["announce", "announced", "listens", "withdraw"]

_FILE = "address"
_PORT = re.compile(r":(\d+)(?:/[\w/]*)?(?:\?[^/]*)?$")


def announce(folder: Path, address: str) -> None:
    """Write a server's address into the server's folder atomically, readable by the owner only."""
    draft = folder / f"{_FILE}.partial"
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(address)
    draft.replace(folder / _FILE)


def withdraw(folder: Path) -> None:
    """Remove the announced address of a server."""
    (folder / _FILE).unlink(missing_ok=True)


def announced(folder: Path) -> str:
    """Return the announced address of the server in ``folder``; empty without a running server."""
    try:
        address = (folder / _FILE).read_text()
    except FileNotFoundError:
        return ""
    port = _PORT.search(address)
    return address if port and listens(int(port[1])) else ""


def listens(place: int | Path) -> bool:
    """Return whether a port of the loopback interface, or a Unix socket, accepts connections."""
    is_port = isinstance(place, int)
    with socket.socket(socket.AF_INET if is_port else socket.AF_UNIX) as probe:
        return probe.connect_ex(("127.0.0.1", place) if is_port else str(place)) == 0
