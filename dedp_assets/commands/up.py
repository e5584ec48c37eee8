"""``dedp up``: servers of the project (Spark engine, Dagster, status page ...), until Ctrl-C.

Exit code 1: a server failed for good.

Examples:
    dedp up
    dedp up --port 3010 --engine-port 15010
"""

from __future__ import annotations

import argparse
import signal

from dedp_assets.commands._output import say
from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.project import project

__all__ = ["arguments", "run"]

NEEDS = "local"
_SERVERS = {
    "web": ("--port", "Dagster's webserver", 3000),
    "engine": ("--engine-port", "the Spark engine", 15002),
    "status": ("--status-port", "the status page", 3001),
    "registry": ("--registry-port", "the schema registry", 8081),
    "s3": ("--s3-port", "the S3 server of DEDP_LAKE=s3", 8333),
    "bao": ("--bao-port", "the server of secrets of DEDP_SECRETS=bao", 8200),
}
_DATABASE = {"database": ("--database-port", "PostgreSQL", 0)}
_SOURCES = {
    "kafka": ("--kafka-port", "Kafka; its controller takes the next one", 9092),
    "services": ("--services-port", "the HTTP services", 8800),
}
"""Server -> the option of its port, its name, and the default."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the port of each server that this project gets."""
    servers = {**_SERVERS, **_more()}
    named = ", ".join(server.partition(";")[0] for _, server, _ in servers.values())
    parser.description = f"Start {named}; Ctrl-C ends them."
    for name, (option, server, port) in servers.items():
        shown = f"default {port}" if port else "default: a free one"
        parser.add_argument(
            option, dest=name, type=int, metavar="PORT", default=port, help=f"port of {server} ({shown})"
        )


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Start the project's servers, and supervise the processes until Ctrl-C."""
    say(f"dedp up: the servers' code is loaded; everything is written to {settings.home}")
    # Seconds of imports.
    from dedp_assets.laptop.processes import Ports, up  # noqa: PLC0415

    if project().is_case_study:
        from dedp_assets.case_study import workload  # noqa: PLC0415

        sources = workload.SYSTEMS
    else:
        sources = None

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also while the engine is being made ready
    every = {**_SERVERS, **_DATABASE, **_SOURCES}
    ports = Ports(**{name: getattr(chosen, name, port) for name, (_, _, port) in every.items()})
    return up(settings, ports, sources)


def _more() -> dict[str, tuple[str, str, int]]:
    """Return the additional servers: all of the case study, otherwise a database if the settings want one."""
    if project().is_case_study:
        return {**_DATABASE, **_SOURCES}
    return _DATABASE if settings().history == "own" else {}
