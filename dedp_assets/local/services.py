"""The HTTP services of the case study, for a machine that has nobody to ask."""

from __future__ import annotations

import sys
from pathlib import Path

from dedp_assets.resources.announced import announce

__all__ = ["command"]


def command(folder: Path, *, port: int) -> list[str]:
    """Write the command that serves them on the loopback interface, and announce where."""
    folder.mkdir(parents=True, exist_ok=True)
    announce(folder, f"http://127.0.0.1:{port}")
    application = ["--factory", "dedp_assets.sources.services:application"]
    place = ["--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "uvicorn", *application, *place, "--ws", "none", "--log-level", "warning"]
