"""The command line: ``dedp setup | demo | up | work | status | approve``. The Makefile calls it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dedp_assets.patterns.core.errors import PatternError
from resources import engine
from resources.environments import settings

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="dedp", description="A lakehouse of design patterns on Dagster, Spark and Delta."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("setup", help="fetch the engine's jars and prepare its class-data archive")
    demo = commands.add_parser("demo", help="land a week, load it, then let late data and a bad batch arrive")
    demo.add_argument("--log", type=Path, help="a web server log in Apache combined format to load instead")
    up = commands.add_parser(
        "up", help="Spark engine, PostgreSQL, Kafka, Dagster webserver and daemon; Ctrl-C ends them"
    )
    up.add_argument("--port", type=int, default=3000, help="port of the webserver (default 3000)")
    up.add_argument("--engine-port", type=int, default=15002, help="port of the Spark engine (default 15002)")
    up.add_argument("--kafka-port", type=int, default=9092, help="port of Kafka; its controller takes the next one")
    work = commands.add_parser("work", help="let the applications change their database and publish visits")
    work.add_argument("--steps", type=int, default=1, help="how many steps of the seeded workload (default 1)")
    commands.add_parser("status", help="what the ledger says: versions, rows, verdicts by table and partition")
    approve = commands.add_parser("approve", help="publish a partition whose audit was a false positive")
    approve.add_argument("asset", help="layer/dataset, e.g. gold/daily_visitors")
    approve.add_argument("partition", nargs="?", default="", help="partition key, e.g. 2026-01-05")
    approve.add_argument("--by", required=True, help="who decides")
    approve.add_argument("--audit", action="append", default=[], help="audit that is meant; some ask for their name")
    approve.add_argument("--because", required=True, help="why it is a false positive")
    chosen = parser.parse_args(arguments)
    try:
        return _run(chosen)
    except (engine.EngineError, PatternError, ValueError, OSError) as error:
        print(f"dedp {chosen.command}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130


def _run(chosen: argparse.Namespace) -> int:
    # Dagster and Spark are imported by the commands that need them, so that the others answer at once.
    if chosen.command == "setup":
        engine.prepare(settings())
        return 0
    if chosen.command == "up":
        from dedp_assets.processes import up  # noqa: PLC0415

        return up(settings(), web_port=chosen.port, engine_port=chosen.engine_port, kafka_port=chosen.kafka_port)
    if chosen.command == "work":
        from dedp_assets.processes import work  # noqa: PLC0415

        return work(settings(), steps=chosen.steps)
    if chosen.command == "status":
        from dedp_assets.story import status  # noqa: PLC0415

        return status(settings())
    from dedp_assets import story  # noqa: PLC0415

    if chosen.command == "demo":
        return story.demo(settings(), log=chosen.log)
    return story.approve(
        settings(), chosen.asset, chosen.partition, by=chosen.by, because=chosen.because, audits=chosen.audit
    )
