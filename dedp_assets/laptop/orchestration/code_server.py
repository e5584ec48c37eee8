"""Dagster's code servers, each of which loads the code of a location once for webserver and daemon.

Left to themselves, webserver and daemon load the code in a process each, and the daemon once more every minute.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

import psutil

from dedp_assets.graph.resources.announced import listens
from dedp_assets.project import Project

__all__ = ["command", "left_out", "loaded", "workspace"]

_LOOK_SECONDS = 1.0
_LOADER = {"api", "grpc"}
"""Words in the command of the process that loads the code."""
_START = "Starting Dagster code server"
_FAULT = re.compile(r"^.+\.(?:ya?ml|py):\d+:\d+: .+", re.MULTILINE)
"""A fault of a declaration in YAML or Python, printed while the code loads without the table."""
_COLOUR = re.compile(r"\x1b\[\d+m")
_PREFIX = re.compile(r"^.* - dagster - ERROR - ", re.MULTILINE)


def command(location: Project, port: int) -> list[str]:
    """Return the command that starts a location's code server; a reload in the UI loads the code again."""
    server = [sys.executable, "-m", __name__, "code-server", "start", "-h", "127.0.0.1", "-p", str(port)]
    return [*server, "-m", location.module, "--location-name", location.name]


def workspace(folder: Path, *, ports: Mapping[str, int]) -> Path:
    """Write the workspace file with the code servers' addresses for webserver and daemon.

    The file takes the place of ``workspace.yaml``, which names the modules themselves.

    Args:
        folder: where it is written.
        ports: code location -> port of its code server.
    """
    servers = [{"host": "127.0.0.1", "port": port, "location_name": name} for name, port in ports.items()]
    written = folder / "workspace.yaml"
    written.write_text(json.dumps({"load_from": [{"grpc_server": server} for server in servers]}))  # JSON is YAML
    return written


def loaded(port: int, log: Path) -> str:
    """Return the readiness message of a code server, with the first fault of a declaration.

    Empty if the server is not ready.

    Args:
        port: where the server listens once the code is loaded.
        log: the server's log, in which earlier starts come first.
    """
    if not listens(port):
        return ""
    text = log.read_text(errors="replace") if log.exists() else ""
    return f"the code is loaded{left_out(text.rpartition(_START)[2])}"


def left_out(output: str) -> str:
    """Return the words about the first declaration that code was loaded without; empty without a fault.

    Args:
        output: output or log of the process that loaded the code.
    """
    fault = _FAULT.search(_PREFIX.sub("", _COLOUR.sub("", output)))
    return f", without what has faults (`dedp check`): {fault[0]}" if fault else ""


def _end_with_the_code() -> None:
    """End the code server after the process with the loaded code ended; supervisord then restarts both.

    Without this, it would go on and answer nothing. A reload starts the new process before it ends the old one.
    """
    this, loaded = psutil.Process(), False
    while True:
        living = any(map(_has_code, this.children()))
        if loaded and not living:
            os._exit(1)
        loaded = living
        time.sleep(_LOOK_SECONDS)


def _has_code(process: psutil.Process) -> bool:
    """Return whether a child process is the process that loads the code."""
    try:
        return _LOADER.issubset(process.cmdline())
    except psutil.NoSuchProcess:  # gone, or a zombie
        return False


if __name__ == "__main__":
    Thread(target=_end_with_the_code, daemon=True).start()
    runpy.run_module("dagster", run_name="__main__", alter_sys=True)
