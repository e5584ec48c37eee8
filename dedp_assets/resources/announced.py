"""Addresses that servers of this machine announce: a file in a server's folder, which counts while its port answers."""

import os
import re
import socket
from pathlib import Path

__all__ = ["announce", "announced", "listens", "withdraw"]

_FILE = "address"
_PORT = re.compile(r":(\d+)(?:/\w*)?$")


def announce(folder: Path, address: str) -> None:
    """Write a server's address into its folder, whole or not at all, for its user's eyes only."""
    draft = folder / f"{_FILE}.partial"
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(address)
    draft.replace(folder / _FILE)


def withdraw(folder: Path) -> None:
    """Remove the address that a server announced."""
    (folder / _FILE).unlink(missing_ok=True)


def announced(folder: Path) -> str:
    """Return the address of the server that keeps its data in ``folder``; empty if no such server runs."""
    try:
        address = (folder / _FILE).read_text()
    except FileNotFoundError:
        return ""
    port = _PORT.search(address)
    return address if port and listens(int(port[1])) else ""


def listens(port: int) -> bool:
    """Tell whether somebody accepts connections on a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
