"""`make up`: the shared Spark engine, Dagster's webserver and its daemon, started and ended together."""

from __future__ import annotations

import shlex
import socket
import sys
from pathlib import Path

import dagster as dg
from honcho.manager import Manager

from dedp_assets.instance import close_abandoned, prepare_home
from resources import engine
from resources.environments import CHECKOUT, Settings, child_environment

__all__ = ["up"]

_LAST_PORT = 65_535


def up(settings: Settings, *, web_port: int, engine_port: int) -> int:
    """Run until Ctrl-C, or until one of the processes ends; then end all of them.

    Raises:
        ValueError: if a port is in use, is none, or is asked for twice.
    """
    if web_port == engine_port:
        raise ValueError(f"--port and --engine-port are both {web_port}; the webserver and the engine need one each")
    for port, what in ((engine_port, "the Spark engine (--engine-port)"), (web_port, "the webserver (--port)")):
        if not 0 < port <= _LAST_PORT:
            raise ValueError(f"{port} is not a port for {what}; choose one from 1 to {_LAST_PORT}")
        if _in_use(port):
            raise ValueError(f"port {port} for {what} is in use; is another `make up` running? Choose another one")
    engine.prepare(settings)
    engine.use_java(settings)
    home = prepare_home(settings)
    with dg.DagsterInstance.from_config(str(settings.dagster_home)) as instance:
        close_abandoned(instance, nobody_else_runs=True)
    env = child_environment({**home, "SPARK_REMOTE": f"sc://127.0.0.1:{engine_port}", "PYTHONUNBUFFERED": "1"})
    spark = child_environment({"SPARK_CONNECT_MODE": "0"}, without=("SPARK_REMOTE",))
    scripts = Path(sys.executable).parent
    workspace = str(CHECKOUT / "workspace.yaml")
    print(f"Dagster UI: http://127.0.0.1:{web_port}   Spark engine: sc://127.0.0.1:{engine_port}   Ctrl-C ends both")  # noqa: T201
    quiet = ["--log-level", "warning"]
    manager = Manager()
    manager.add_process("engine", _line(engine.connect_command(settings, engine_port)), env=spark, cwd=str(CHECKOUT))
    web = [str(scripts / "dagster-webserver"), "-h", "127.0.0.1", "-p", str(web_port), "-w", workspace, *quiet]
    manager.add_process("web", _line(web), env=env, cwd=str(CHECKOUT))
    daemon = [str(scripts / "dagster-daemon"), "run", "-w", workspace, *quiet]
    manager.add_process("daemon", _line(daemon), env=env, cwd=str(CHECKOUT))
    manager.loop()
    return int(manager.returncode or 0)


def _in_use(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _line(command: list[str]) -> str:
    return shlex.join(command)
