"""Dagster's code server, which loads the code once for webserver and daemon.

Left to themselves, webserver and daemon load the code in a process each, and the daemon once more every minute.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from pathlib import Path
from threading import Thread

import psutil

from dedp_assets.project import project

__all__ = ["command", "workspace"]

_LOOK_SECONDS = 1.0


def command(port: int) -> list[str]:
    """Return the command that starts the code server; a reload in the UI loads the code again."""
    return [sys.executable, "-m", __name__, "code-server", "start", "-h", "127.0.0.1", "-p", str(port), *_location()]


def workspace(folder: Path, *, port: int) -> Path:
    """Write the workspace file with the code server's address for webserver and daemon.

    It takes the place of ``workspace.yaml``, which names the module itself.
    """
    server = {"host": "127.0.0.1", "port": port, "location_name": project().name}
    written = folder / "workspace.yaml"
    written.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))  # JSON is YAML
    return written


def _location() -> list[str]:
    """Return the arguments that name the module with the project's definitions and the code location."""
    found = project()
    return ["-m", found.module, "--location-name", found.name]


def _end_with_the_code() -> None:
    """End the code server after the process with the loaded code ended; supervisord then restarts both.

    Without this, it would go on and answer nothing. A reload starts the new process before it ends the old one.
    """
    this, loaded = psutil.Process(), False
    while True:
        living = any(map(_lives, this.children()))
        if loaded and not living:
            os._exit(1)
        loaded = living
        time.sleep(_LOOK_SECONDS)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    Thread(target=_end_with_the_code, daemon=True).start()
    runpy.run_module("dagster", run_name="__main__", alter_sys=True)
