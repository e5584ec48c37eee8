"""Servers of HTTP applications on loopback."""

from __future__ import annotations

import sys
from pathlib import Path

from dedp_assets.graph.resources.announced import announce

__all__ = ["HOSTS", "command"]

HOSTS = ["127.0.0.1", "localhost"]
"""Accepted values of the header ``Host``, as a protection against DNS rebinding."""


def command(application: str, folder: Path, *, port: int) -> list[str]:
    """Announce the address of an application, and return the command that runs the application's server.

    Args:
        application: function that makes the application, ``package.module:function``.
        folder: folder of the announcement.
        port: port on loopback.
    """
    folder.mkdir(parents=True, exist_ok=True)
    announce(folder, f"http://127.0.0.1:{port}")
    place = ["--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "uvicorn", "--factory", application, *place, "--ws", "none", "--log-level", "warning"]
