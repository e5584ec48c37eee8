"""The HTTP services of the case study, for a machine without access to real services."""

from __future__ import annotations

import sys
from pathlib import Path

from dedp_assets.resources.announced import announce

__all__ = ["command"]


def command(folder: Path, *, port: int) -> list[str]:
    """Announce the address of the services, and return the command that runs the server on loopback."""
    folder.mkdir(parents=True, exist_ok=True)
    announce(folder, f"http://127.0.0.1:{port}")
    application = ["--factory", "dedp_assets.sources.services:application"]
    place = ["--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "uvicorn", *application, *place, "--ws", "none", "--log-level", "warning"]
