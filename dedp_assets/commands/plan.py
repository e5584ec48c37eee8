"""``dedp plan``: runs that would come now, with reasons, time and cost; nothing is started.

The plan is what the reconciler would ask for, and then for what follows from these runs, if each of them succeeds and
nothing else happens. With ``--changed`` it is about the partitions that the present code or declaration would compute,
or judge, otherwise than they were.

Exit code 1: a partition cannot run until somebody helps, or something cannot be read; with --changed, a partition is
by other code.

Examples:
    dedp plan
    dedp plan silver/visits 2026-01-05...2026-01-11
    dedp plan --since 7d --json
    dedp plan --changed
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date

import dagster as dg

from dedp_assets.commands._arguments import add_json, add_table, day
from dedp_assets.commands._output import Grid, answer
from dedp_assets.commands._partitions import add_partitions, keys_named
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.described_plans import Planned, PlanSection
from dedp_assets.graph.reconcile.outdated import outdated_partitions
from dedp_assets.graph.reconcile.planning import plan_runs
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.laptop.orchestration.instance import close_abandoned
from dedp_assets.project import project

__all__ = ["arguments", "plan", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the partitions, the first day, and the form for programs."""
    add_table(parser, default="all tables")
    add_partitions(parser, default="all")
    parser.add_argument("--since", type=day, metavar="DAY", help="partitions from this day on alone")
    parser.add_argument("--changed", action="store_true", help="what the present code or declaration makes stale")
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the plan; 1 if a partition cannot run."""
    return plan(
        settings,
        chosen.table,
        chosen.partitions,
        since=chosen.since,
        changed=chosen.changed,
        as_json=chosen.json,
    )


def plan(
    settings: Settings,
    table: str = "",
    partitions: Sequence[str] = (),
    *,
    since: date | None = None,
    changed: bool = False,
    as_json: bool = False,
) -> int:
    """Print the plan of all tables, or the part about some partitions; return the exit code.

    Args:
        settings: where everything is.
        table: the table; all tables if empty.
        partitions: partition keys and ranges of keys of the table; all if empty.
        since: first day of partitions.
        changed: whether the plan is about the partitions that other code computed.
        as_json: whether to print for programs.

    Raises:
        ConfigError: if there is no such table, partition or home.
    """
    definitions, tables = project().definitions(), project().tables()
    wanted = _wanted(tables, table, partitions, since)
    require_home(settings)
    lake, landing, now = lake_of(settings), Landing(root=settings.landing_zone), Clock().now()
    outdated = [each for each in outdated_partitions(tables, lake) if wanted(each.table, each.key)] if changed else []
    loading = {each.spec.name for each in tables if each.lands}
    again = {(o.table, o.key): o.reason for o in outdated if not o.refused and o.table not in loading}
    with _history(settings) as instance:
        repository = definitions.get_repository_def()
        whole = plan_runs(tables, lake, landing, now, instance=instance, repository=repository, again=again)
    about = {(each.table, each.key) for each in outdated}
    shown = whole.about((lambda *place: place in about) if changed else wanted)
    planned = Planned(shown, tables, lake, landing, outdated=outdated if changed else None, table=table)
    answer(planned.document(), *map(_printed, planned.lines()), as_json=as_json)
    return 1 if outdated or (not changed and (shown.stuck or shown.unreadable)) else 0


def _printed(line: str | PlanSection) -> str | Grid:
    """Return a line, or a table in the form of the terminal."""
    if isinstance(line, str):
        return line
    texts = len(line.headings) - line.figures
    grid = Grid(*line.headings[:texts], title=line.title)
    for heading in line.headings[texts:]:
        grid.add_column(heading, justify="right")
    for row in line.rows:
        grid.add_row(*row)
    return grid


def _wanted(
    tables: Sequence[LakeTable[...]], table: str, partitions: Sequence[str], since: date | None
) -> Callable[[str, str], bool]:
    """Return the test of a table and a key by the arguments of the command."""
    names = {spec.name: each for each in tables for spec in each.tables}
    if table:
        require_table(table, sorted(names))
    keys = {*keys_named(names[table], partitions)} if partitions else set()
    first = since.isoformat() if since else ""

    def wanted(name: str, key: str) -> bool:
        return table in ("", name) and (not keys or key in keys) and (not key or key >= first)

    return wanted


@contextmanager
def _history(settings: Settings) -> Iterator[dg.DagsterInstance | None]:
    """Open Dagster's run history for a block; ``None`` if the home has no run history yet."""
    if not (settings.dagster_home / "dagster.yaml").is_file():
        yield None
        return
    with dg.DagsterInstance.from_config(str(settings.dagster_home)) as instance:
        if running(settings) is None:
            close_abandoned(instance)  # a run whose process died would be under way for ever
        yield instance
