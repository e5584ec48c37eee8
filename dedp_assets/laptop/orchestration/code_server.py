"""Dagster's code servers, each of which loads the code of a location once for webserver and daemon.

Left to themselves, webserver and daemon load the code in a process each, and the daemon once more every minute.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import psutil

from dedp_assets.graph.resources.announced import listens
from dedp_assets.laptop.servers import ports
from dedp_assets.project import Project

__all__ = ["FILE", "command", "left_out", "loaded", "places", "variables", "workspace"]

FILE = "workspace.yaml"
"""Name of the file with the code servers' addresses."""

_LOOK_SECONDS = 1.0
_LOADER = {"api", "grpc"}
"""Words in the command of the process that loads the code."""
_START = "Starting Dagster code server"
_FAULT = re.compile(r"^.+\.(?:ya?ml|py):\d+:\d+: .+", re.MULTILINE)
"""A fault of a declaration in YAML or Python, printed while the code loads without the table."""
_COLOUR = re.compile(r"\x1b\[\d+m")
_PREFIX = re.compile(r"^.* - dagster - ERROR - ", re.MULTILINE)


@contextmanager
def places(locations: Sequence[Project], *, private: bool) -> Iterator[dict[str, int | Path]]:
    """Lend a place to each location's code server: a free port, or a socket in a private folder.

    Args:
        locations: the code locations.
        private: whether other users of the machine are kept out; Dagster's protocol knows no login.
    """
    if not private:
        yield {location.name: ports.free() for location in locations}
        return
    with tempfile.TemporaryDirectory(prefix="dedp-") as short:  # the path of a socket has at most 100 characters
        yield {location.name: Path(short) / f"code{number}" for number, location in enumerate(locations)}


def variables(place: int | Path) -> dict[str, str]:
    """Return variables of a code server: the process with the code listens at a temporary socket."""
    return {"TMPDIR": str(place.parent)} if isinstance(place, Path) else {}


def command(location: Project, place: int | Path) -> list[str]:
    """Return the command that starts a location's code server; a reload in the UI loads the code again."""
    listening = ["-s", str(place)] if isinstance(place, Path) else ["-h", "127.0.0.1", "-p", str(place)]
    server = [sys.executable, "-m", __name__, "code-server", "start", *listening]
    return [*server, "-m", location.module, "--location-name", location.name]


def workspace(folder: Path, *, servers: Mapping[str, int | Path]) -> Path:
    """Write the workspace file with the code servers' addresses for webserver and daemon.

    The file takes the place of ``workspace.yaml``, which names the modules themselves.

    Args:
        folder: where it is written.
        servers: code location -> port or socket of its code server.
    """
    named = [{**_address(place), "location_name": name} for name, place in servers.items()]
    written = folder / FILE
    written.write_text(json.dumps({"load_from": [{"grpc_server": server} for server in named]}))  # JSON is YAML
    return written


def loaded(place: int | Path, log: Path) -> str:
    """Return the readiness message of a code server, with the first fault of a declaration.

    Empty if the server is not ready.

    Args:
        place: port or socket at which the server listens once the code is loaded.
        log: the server's log, in which earlier starts come first.
    """
    if not listens(place):
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


def _address(place: int | Path) -> dict[str, object]:
    return {"socket": str(place)} if isinstance(place, Path) else {"host": "127.0.0.1", "port": place}


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
