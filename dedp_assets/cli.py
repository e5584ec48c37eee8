"""The command line ``dedp``: new, setup, demo, up, status, cost, lineage, contract, verify, run ...

A command is a function of its own module, imported when it is called.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from dedp_assets.local import engine
from dedp_assets.patterns.core.disks import refused_write
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.extras import extra_of, needs
from dedp_assets.resources.engine import EngineError
from dedp_assets.resources.environments import Settings, apply, settings
from dedp_assets.resources.home import running
from dedp_assets.resources.masking import shown

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        if chosen.command in _BESIDE:
            _join(settings(), computes=chosen.command in _COMPUTING or _compares(chosen))
        return _COMMANDS[chosen.command](chosen)
    except (EngineError, PatternError, ValueError, OSError) as error:
        place = getattr(error, "filename", None)
        known = refused_write(str(place), error) if place else None
        print(f"dedp {chosen.command}: {shown(str(known or error))}", file=sys.stderr)  # noqa: T201
        return 1
    except ModuleNotFoundError as error:
        if not extra_of(error.name):
            raise
        extra = "local" if _EXTRAS.get(chosen.command) == "local" else extra_of(error.name)  # which brings the others
        missing = f"{error.name} is not installed"
        print(f"dedp {chosen.command}: {needs(extra)} ({missing})", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130


def _join(chosen: Settings, *, computes: bool) -> None:
    """Report a platform running in this home, and use the platform's Spark engine for computing commands."""
    if (platform := running(chosen)) is None:
        return
    used = ""
    if computes and chosen.remote is None:
        apply({"SPARK_REMOTE": platform.engine})
        used = "; its engine is used"
    print(f"The platform of this home runs ({platform}) at {platform.web}{used}", file=sys.stderr)  # noqa: T201


def _compares(chosen: argparse.Namespace) -> bool:
    """Return whether the command compares a captured table with the source database."""
    if chosen.command != "verify":
        return False
    from dedp_assets.verifying import is_captured  # noqa: PLC0415

    return is_captured(chosen.table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dedp", description="A lakehouse of design patterns on Dagster, Spark and Delta.", epilog=_epilog()
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_new(commands)
    commands.add_parser("setup", help="fetch the engine's jars and prepare its class-data archive")
    demo = commands.add_parser("demo", help="land a week, load it, then let late data and a bad batch arrive")
    demo.add_argument(
        "--log",
        type=Path,
        nargs="+",
        default=[],
        help="web server logs to load instead, compressed or not: files, folders, or patterns of names",
    )
    demo.add_argument(
        "--from", dest="first", type=date.fromisoformat, help="first day of the week (default: it ends yesterday)"
    )
    demo.add_argument(
        "--migrate",
        nargs="?",
        const="all",
        choices=("all", "next"),
        help="where a demo stands, play a schema migration of silver/visits while visits land; "
        "next: one deployment of it, with what has landed",
    )
    _add_up(commands)
    work = commands.add_parser("work", help="let the applications change their database and publish visits")
    work.add_argument("--steps", type=int, default=1, help="how many steps of the seeded workload (default 1)")
    status = commands.add_parser("status", help="what needs somebody, then what each table's log says by partition")
    status.add_argument("table", nargs="?", default="", help="layer/dataset, e.g. silver/visits (default: all)")
    status.add_argument("--json", action="store_true", help="the same for programs")
    status.add_argument("--page", type=Path, metavar="FILE", help="write the status page to a file of HTML instead")
    for add in (_add_cost, _add_lineage, _add_contract):
        add(commands)
    commands.add_parser(
        "letters", help="dead letters of every table, by status and error class, without starting Spark"
    )
    alerts = commands.add_parser("alerts", help="open alerts, and messages that channels have not taken")
    alerts.add_argument("--test", action="store_true", help="send a marked test alert through each channel instead")
    verify = commands.add_parser(
        "verify",
        help="hold the tables' logs against what is stored, and a captured table that is named against its source",
    )
    verify.add_argument("table", nargs="?", default="", help="layer/dataset, e.g. silver/visits (default: all)")
    _add_files(commands)
    _add_history(commands)
    _add_versions(commands)
    _add_runs(commands)
    return parser


def _add_new(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the command for a new project."""
    new = commands.add_parser("new", help="make a project in a new folder, with a landing and a gold table in YAML")
    new.add_argument("folder", type=Path, help="folder to make; its name becomes that of the project and its package")


def _epilog() -> str:
    """Return the sentence on the extra that each command needs."""
    commands: dict[str, list[str]] = {}
    for command, extra in _EXTRAS.items():
        commands.setdefault(extra, []).append(command)
    needed = [f"{', '.join(names)}: pip install 'dedp[{extra}]'" for extra, names in commands.items()]
    return f"What commands need besides the core: {'; '.join(needed)}."


def _add_up(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the command that keeps the platform running."""
    up = commands.add_parser(
        "up",
        help="Spark engine, PostgreSQL, Kafka, HTTP services, schema registry, status page, Dagster; Ctrl-C ends them",
    )
    up.add_argument("--port", type=int, default=3000, help="port of the webserver (default 3000)")
    up.add_argument("--engine-port", type=int, default=15002, help="port of the Spark engine (default 15002)")
    up.add_argument("--database-port", type=int, default=0, help="port of PostgreSQL (default: a free one)")
    up.add_argument("--kafka-port", type=int, default=9092, help="port of Kafka; its controller takes the next one")
    up.add_argument("--services-port", type=int, default=8800, help="port of the HTTP services (default 8800)")
    up.add_argument("--status-port", type=int, default=3001, help="port of the status page (default 3001)")
    up.add_argument("--registry-port", type=int, default=8081, help="port of the schema registry (default 8081)")


def _add_cost(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the command for the cost of commits."""
    cost = commands.add_parser("cost", help="what commits cost by table, day and cause, without starting Spark")
    cost.add_argument("table", nargs="?", default="", help="layer/dataset, by partition (default: all tables)")
    cost.add_argument("--since", type=date.fromisoformat, metavar="DAY", help="first UTC day of commits to count")
    cost.add_argument("--json", action="store_true", help="the same for programs, with every figure")


def _add_lineage(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the command for the lineage of tables."""
    lineage = commands.add_parser("lineage", help="which tables feed which, and what a change of one hits")
    lineage.add_argument("table", nargs="*", help="what a change hits; of several faulty tables, where the fault began")
    lineage.add_argument(
        "--on", type=date.fromisoformat, metavar="DAY", help="what runs were observed to do on a UTC day"
    )
    form = lineage.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="for programs, with columns")
    form.add_argument("--mermaid", dest="form", action="store_const", const="mermaid", help="as text of a flowchart")
    form.add_argument("--compare", dest="form", action="store_const", const="compare", help="what is not as declared")


def _add_contract(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the commands for data contracts."""
    contract = commands.add_parser("contract", help="what tables promise to readers, in published versions")
    actions = contract.add_subparsers(dest="action", required=True)
    described = {
        "show": "print the contract of a table, as a document of the Open Data Contract Standard",
        "diff": "what declarations say other than the published contracts",
        "check": "whether contracts are published as declared, and meet what consumers need",
        "publish": "write new contracts, and changed ones that are agreed",
        "announce": "announce the breaking changes of a table to the affected consumers",
        "acknowledge": "agree to an announced change",
    }
    for action, described_as in described.items():
        parser = actions.add_parser(action, help=described_as)
        if action in ("diff", "publish"):
            parser.add_argument("table", nargs="*", help="layer/dataset (default: all with a contract)")
        elif action != "check":
            parser.add_argument("table", help="layer/dataset, e.g. gold/daily_visitors")
        if action == "acknowledge":
            parser.add_argument("--by", required=True, help="who agrees, by the name in the announcement")


def _add_files(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the commands for declarations of tables, in YAML and of tables that exist."""
    adopt = commands.add_parser(
        "adopt", help="print the declaration of a table that exists, and what it leaves out; change nothing"
    )
    adopt.add_argument("location", help="the table's folder: a path, or a file:// URI")
    adopt.add_argument("--name", default="", help="layer/dataset (default: the last two names of the location)")
    adopt.add_argument("--format", choices=["python", "yaml"], default="python", help="code, or a defs.yaml")
    check = commands.add_parser("check", help="whether declarations in YAML and contracts are right, without Spark")
    check.add_argument("folder", nargs="?", type=Path, default=None, help="folder (default: the project's definitions)")
    check.add_argument("--format", choices=["text", "json", "github"], default="text", help="how faults are written")
    infer = commands.add_parser("infer", help="write the columns of a landing's files beside its declaration in YAML")
    infer.add_argument("folder", type=Path, help="folder with the declaration")
    infer.add_argument("--again", action="store_true", help="replace columns that are written down")
    commands.add_parser("schema", help="the JSON schema of declarations in YAML, for an editor: > .dedp/schema.json")


def _add_history(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the command for the place of the run history."""
    history = commands.add_parser("history", help="where the run history is, and how many runs it has; or copy it")
    history.add_argument("--to", default="", metavar="PLACE", help="sqlite, own (PostgreSQL of `dedp up`), or a URL")


def _add_versions(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the command for the versions of a table."""
    command = commands.add_parser("versions", help="versions behind a table's name: list, show another, hold, remove")
    command.add_argument("table", help="layer/dataset, e.g. gold/devices")
    command.add_argument("--show", default="", metavar="VERSION", help="show another version, as a rollback does")
    command.add_argument("--hold", default="", metavar="VERSION", help="keep a version whatever its age")
    command.add_argument("--release", default="", metavar="VERSION", help="give up the hold of a version")
    command.add_argument("--expire-days", type=float, help="remove versions that nobody has seen for so many days")
    command.add_argument("--because", default="", help="why")


def _add_runs(commands: Any) -> None:  # noqa: ANN401 - argparse does not export the type
    """Add the commands that compute a partition of a table."""
    run = commands.add_parser("run", help="compute one partition of a table, and what has to follow from it")
    approve = commands.add_parser("approve", help="publish a partition whose audit was a false positive")
    for command in (run, approve):
        command.add_argument("table", metavar="asset", help="layer/dataset, e.g. gold/daily_visitors")
        command.add_argument("partition", nargs="?", default="", help="partition key, e.g. 2026-01-05")
    run.add_argument("--force", action="store_true", help="also if nothing it is computed from has changed")
    approve.add_argument("--by", required=True, help="who decides")
    approve.add_argument("--audit", action="append", default=[], help="audit that is meant; some ask for their name")
    approve.add_argument("--because", required=True, help="why it is a false positive")


# Dagster and Spark are imported by the commands that need them, so that the others answer at once.


def _new(chosen: argparse.Namespace) -> int:
    from dedp_assets.creating import create  # noqa: PLC0415

    return create(chosen.folder)


def _setup(_: argparse.Namespace) -> int:
    engine.prepare(settings())
    return 0


def _demo(chosen: argparse.Namespace) -> int:
    if chosen.migrate:
        from rich.console import Console  # noqa: PLC0415

        from dedp_assets.migrating import deploy, migrate  # noqa: PLC0415

        return migrate(settings()) if chosen.migrate == "all" else deploy(settings(), Console(width=150))
    from dedp_assets.story import demo  # noqa: PLC0415

    return demo(settings(), logs=chosen.log, first=chosen.first)


def _up(chosen: argparse.Namespace) -> int:
    from dedp_assets.local.processes import Ports, up  # noqa: PLC0415

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also while the engine is being made ready
    ports = Ports(
        chosen.port,
        chosen.engine_port,
        chosen.database_port,
        chosen.kafka_port,
        chosen.services_port,
        chosen.status_port,
        chosen.registry_port,
    )
    return up(settings(), ports)


def _work(chosen: argparse.Namespace) -> int:
    from dedp_assets.local.processes import work  # noqa: PLC0415

    return work(settings(), steps=chosen.steps)


def _status(chosen: argparse.Namespace) -> int:
    from dedp_assets.status import status, write_page  # noqa: PLC0415

    if chosen.page:
        return write_page(settings(), chosen.page)
    return status(settings(), table=chosen.table, as_json=chosen.json)


def _alerts(chosen: argparse.Namespace) -> int:
    from dedp_assets.alerts import alerts  # noqa: PLC0415

    return alerts(settings(), test=chosen.test)


def _cost(chosen: argparse.Namespace) -> int:
    from dedp_assets.cost import cost  # noqa: PLC0415

    return cost(settings(), chosen.table, since=chosen.since, as_json=chosen.json)


def _lineage(chosen: argparse.Namespace) -> int:
    from dedp_assets.lineage import compare, lineage  # noqa: PLC0415
    from dedp_assets.resources.clock import Clock  # noqa: PLC0415

    if chosen.form == "compare":
        return compare(settings(), Clock().now())
    return lineage(settings(), chosen.table, form=chosen.form or "text", on=chosen.on)


def _contract(chosen: argparse.Namespace) -> int:
    from dedp_assets import contracts  # noqa: PLC0415
    from dedp_assets.resources.clock import Clock  # noqa: PLC0415

    now = Clock().now()
    if chosen.action == "show":
        return contracts.show(chosen.table)
    if chosen.action == "acknowledge":
        return contracts.acknowledge(now, chosen.table, chosen.by)
    if chosen.action == "announce":
        return contracts.announce(settings(), now, chosen.table)
    if chosen.action == "check":
        return contracts.check(settings(), now)
    return (contracts.diff if chosen.action == "diff" else contracts.publish)(settings(), now, chosen.table)


def _letters(_: argparse.Namespace) -> int:
    from dedp_assets.letters import letters  # noqa: PLC0415

    return letters(settings())


def _versions(chosen: argparse.Namespace) -> int:
    from dedp_assets.versions import Wanted, versions  # noqa: PLC0415

    wanted = Wanted(chosen.show, chosen.hold, chosen.release, chosen.expire_days, chosen.because)
    return versions(settings(), chosen.table, wanted)


def _verify(chosen: argparse.Namespace) -> int:
    from dedp_assets.verifying import verify  # noqa: PLC0415

    return verify(settings(), chosen.table)


def _history(chosen: argparse.Namespace) -> int:
    from dedp_assets.local.history import history  # noqa: PLC0415

    return history(settings(), to=chosen.to)


def _adopt(chosen: argparse.Namespace) -> int:
    from dedp_assets.adopting import adopt  # noqa: PLC0415

    return adopt(chosen.location, chosen.name, form=chosen.format)


def _check(chosen: argparse.Namespace) -> int:
    from dedp_assets.components.commands import check  # noqa: PLC0415
    from dedp_assets.project import project  # noqa: PLC0415

    with suppress(ValueError):  # without a project, the files alone are checked
        project(chosen.folder).be_importable()
    faulty = check(chosen.folder, style=chosen.format)
    # A list of faults for a program has no place for contracts, and a folder alone has none.
    if faulty or chosen.folder or chosen.format != "text" or not project().contracts().names():
        return faulty
    from dedp_assets import contracts  # noqa: PLC0415
    from dedp_assets.resources.clock import Clock  # noqa: PLC0415

    return contracts.check(settings(), Clock().now())


def _infer(chosen: argparse.Namespace) -> int:
    from dedp_assets.components.inferring import infer  # noqa: PLC0415

    return infer(chosen.folder, again=chosen.again)


def _schema(_: argparse.Namespace) -> int:
    from dedp_assets.components.commands import schema  # noqa: PLC0415

    return schema()


def _run(chosen: argparse.Namespace) -> int:
    from dedp_assets.story import run  # noqa: PLC0415

    return run(settings(), chosen.table, chosen.partition, force=chosen.force)


def _approve(chosen: argparse.Namespace) -> int:
    from dedp_assets.story import approve  # noqa: PLC0415

    return approve(
        settings(), chosen.table, chosen.partition, by=chosen.by, because=chosen.because, audits=chosen.audit
    )


_EXTRAS = {
    **dict.fromkeys(
        (
            "status",
            "alerts",
            "cost",
            "lineage",
            "contract",
            "letters",
            "verify",
            "versions",
            "infer",
            "check",
            "schema",
            "run",
            "approve",
        ),
        "dagster",
    ),
    **dict.fromkeys(("up", "demo", "work", "history"), "local"),
}
"""Command -> extra with the packages of the command; the core has the packages of all other commands."""
_COMPUTING = ("demo", "run", "approve")
_BESIDE = (*_COMPUTING, "work", "status", "alerts", "cost", "lineage", "letters", "versions", "verify")
_COMMANDS = {
    "new": _new,
    "setup": _setup,
    "demo": _demo,
    "up": _up,
    "work": _work,
    "status": _status,
    "cost": _cost,
    "lineage": _lineage,
    "contract": _contract,
    "alerts": _alerts,
    "letters": _letters,
    "versions": _versions,
    "verify": _verify,
    "history": _history,
    "adopt": _adopt,
    "check": _check,
    "schema": _schema,
    "infer": _infer,
    "run": _run,
    "approve": _approve,
}
