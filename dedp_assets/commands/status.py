"""``dedp status``: troubles first, then the newest commits of each table by partition."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.graph.catalogue.table_names import by_layer
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.quantities import with_limit
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta import Ledger, lost_files, lost_files_message
from dedp_assets.resources.alerting import outbox_of
from dedp_assets.resources.clock import Clock
from dedp_assets.resources.environments import Settings
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.landing import Landing
from dedp_assets.resources.spark import SparkEngine
from dedp_assets.status_page.model import Trouble, age, grouped, moment, plain, worst_first
from dedp_assets.status_page.troubles import of_episodes

if TYPE_CHECKING:
    from dedp_assets.graph.reconcile.reconciling import Gap
    from dedp_assets.local.instance import Platform

__all__ = ["Need", "arguments", "needs", "run", "status", "write_page"]

NEEDS = "dagster"
BESIDE = True

_COUNTS = ("version", "read", "= written", "+ dead", "+ duplicate")
_STATES = ("refused", "waiting", "missing", "behind")
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Need:
    """A partition that needs a person, or is still waiting.

    Attributes:
        state: ``unreadable``, ``refused``, ``waiting``, ``missing`` or ``behind``.
        table: the table it is about.
        partition: the partition key; empty for the whole table.
        reason: what is wrong and what to do about it.
    """

    state: str
    table: str
    partition: str
    reason: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, and the forms besides text."""
    add_table(parser, default="all tables")
    add_json(parser)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the status page to a file of HTML instead")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the status, or write the page."""
    if chosen.page:
        return write_page(settings, chosen.page)
    return status(settings, table=chosen.table, as_json=chosen.json)


def status(
    settings: Settings,
    *,
    table: str = "",
    as_json: bool = False,
    platform: Platform | None = None,
) -> int:
    """Print troubles, partitions in need and newest commits; refuse damaged logs at the end.

    Args:
        settings: where everything is.
        table: the only table to print; empty for all tables.
        as_json: whether to print for programs.
        platform: the platform, if the command has loaded it already.

    Raises:
        ContractError: if logs are damaged, after everything else was told.
        ValueError: if nothing is known of ``table``.
    """
    lake = Lake(root=str(settings.lakehouse), engine=SparkEngine())
    names = sorted((name for name in lake.names(replicas=True) if table in ("", name)), key=by_layer)
    found = list(needs(settings, lake, names, platform)) if settings.home.exists() else []
    found = [need for need in found if table in ("", need.table)]
    lasting = [each for each in outbox_of(settings).open_episodes() if table in ("", each.alert.table)]
    troubles = worst_first(grouped(of_episodes(lasting)))
    if table and not (names or found or troubles):
        raise ValueError(f"nothing is known of {table}: no such table is stored, missing, waiting or refused")
    damaged = {need.table: need.reason for need in found if need.state == "unreadable" and not need.partition}
    if as_json:
        tables = {name: list(map(asdict, _rows(lake.ledger(name)))) for name in names if name not in damaged}
        open_troubles = plain([asdict(each) for each in troubles])
        content = {
            "needs": list(map(asdict, found)),
            "open_alerts": len(lasting),
            "troubles": open_troubles,
            "tables": tables,
        }
        print(json.dumps(content, indent=2))  # noqa: T201
    else:
        if lasting:
            print(f"Open alerts: {len(lasting)}. `dedp alerts` lists them.")  # noqa: T201
        _print_troubles(Console(width=150), troubles, Clock().now())
        _print(Console(width=150), found, [lake.ledger(name) for name in names if name not in damaged])
    if damaged:
        raise ContractError("; ".join(damaged.values()))
    return 0


def write_page(settings: Settings, file: Path) -> int:
    """Write the status page to a file of HTML, for a home without ``dedp up``.

    Args:
        settings: where everything is.
        file: the file, in a folder that is there.
    """
    from dedp_assets.status_page.making import Maker  # noqa: PLC0415 - seconds of imports
    from dedp_assets.status_page.render import render  # noqa: PLC0415

    page = Maker(settings, thorough=True).page(Clock().now())
    file.write_text(render(page, served=False), encoding="utf-8")
    print(f"{len(page.open)} troubles; written to {file}")  # noqa: T201
    return 0


def needs(settings: Settings, lake: Lake, names: Iterable[str], platform: Platform | None = None) -> Iterator[Need]:
    """Yield the partitions in need: unreadable, refused, waiting, missing or behind upstream.

    Args:
        settings: where everything is.
        lake: the tables.
        names: the tables that are there.
        platform: the platform, if loaded already.
    """
    for name in names:
        try:
            state = lake.ledger(name).state()
        except ContractError as error:
            yield Need("unreadable", name, "", str(error))
            continue
        if lost := lost_files(lake.ledger(name).store, state):
            keys = {slice_name(dict(file.partition)) for file in lost}
            text = f"{lost_files_message(name, lost)}: `dedp verify {name}` names what repairs it"
            yield Need("unreadable", name, ", ".join(sorted(keys)), text)
    if not (settings.dagster_home.exists() or settings.landing.exists()):
        return
    from dedp_assets.graph.reconcile.reconciling import Gap  # noqa: PLC0415 - seconds of imports, which an empty home does without
    from dedp_assets.local.instance import Platform  # noqa: PLC0415

    platform = platform or Platform(settings)
    gaps = list(_gaps(platform, lake, Landing(root=str(settings.landing))))
    refused = {(gap.table, gap.key) for gap in gaps if gap.state == "refused"}
    gaps += [Gap(t, key, "refused", ended.failure) for t, key, ended in platform.waiting() if (t, key) not in refused]
    for needed in _STATES:
        yield from _few([gap for gap in gaps if gap.state == needed])


def _gaps(platform: Platform, lake: Lake, landing: Landing) -> Iterable[Gap]:
    """List the stale partitions found by the reconciler, and files or folders outside of any partition."""
    from dedp_assets.graph.reconcile.reconciler import Reconciler  # noqa: PLC0415
    from dedp_assets.graph.reconcile.reconciling import Gap  # noqa: PLC0415
    from dedp_assets.project import project  # noqa: PLC0415

    repository = platform.definitions.get_repository_def()
    outcome, overview = Reconciler(project().tables(), thorough=True).reconcile(
        lake, landing, Clock().now(), instance=platform.instance, repository=repository
    )
    strange = [
        Gap(arrivals.table.spec.name, name, "waiting", f"{landing.folder(arrivals.dataset, name)} {why}")
        for arrivals in overview.arrivals
        for name, why in arrivals.strange.items()
    ]
    return [*outcome.gaps, *strange]


def _few(gaps: Sequence[Gap]) -> Iterator[Need]:
    """Yield the first stale partitions of each table, and the number of further partitions."""
    by_table: dict[str, list[Gap]] = {}
    for gap in sorted(gaps, key=lambda gap: (by_layer(gap.table), gap.key)):
        by_table.setdefault(gap.table, []).append(gap)
    for table, found in by_table.items():
        yield from (Need(gap.state, table, gap.key, gap.reason) for gap in found[:_SHOWN])
        if len(found) > _SHOWN:
            yield Need(found[0].state, table, "", f"and {len(found) - _SHOWN} more partitions")


@dataclass(frozen=True, slots=True)
class _Row:
    partition: str
    version: int
    rows: dict[str, int]
    verdict: str
    rebuilt_because_of: list[str]


def _print_troubles(console: Console, troubles: Sequence[Trouble], now: datetime) -> None:
    """Print the troubles, with the commands that help."""
    if not troubles:
        return
    grid = Grid("severity", "trouble", "table", "partition", "since", title="Troubles", title_justify="left")
    grid.add_column("figure, reason, and what helps")
    for each in troubles:
        since = f"{moment(each.since, now)}, {age(each.since, now)}" if each.since else ""
        place = map(escape, (each.kind, each.table, each.partition, since))
        because = f"because of {each.explained_by}" if each.explained_by else ""
        more = "; ".join(filter(None, [with_limit(each.figure, each.limit), each.reason, because, each.command]))
        grid.add_row(each.severity, *place, escape(more))
    console.print(grid)


def _print(console: Console, found: list[Need], ledgers: Iterable[Ledger]) -> None:
    if found:
        grid = Grid("state", "table", "partition", "why, and what to do", title="Needs somebody", title_justify="left")
        for need in found:
            grid.add_row(need.state, need.table, need.partition, escape(need.reason))
        console.print(grid)
    for ledger in ledgers:
        console.print(_grid(ledger))


def _grid(ledger: Ledger) -> Grid:
    grid = Grid("partition", title=f"{ledger.name}, version {ledger.version()}", title_justify="left")
    for heading in _COUNTS:
        grid.add_column(heading, justify="right")
    grid.add_column("verdict")
    grid.add_column("rebuilt because of")
    for row in _rows(ledger):
        counts = [str(count) for count in row.rows.values()] or [""] * (len(_COUNTS) - 1)
        grid.add_row(row.partition, str(row.version), *counts, row.verdict, ", ".join(row.rebuilt_because_of))
    return grid


def _rows(ledger: Ledger) -> Iterable[_Row]:
    """List the newest commit of each partition, with the causes of rewrites since the first commit."""
    newest: dict[str, _Row] = {}
    for commit in ledger.commits():
        if (record := commit.record) is None:
            continue
        key, rows = slice_name(record.partition), record.rows
        causes = newest[key].rebuilt_because_of + [record.cause] * bool(commit.changed) if key in newest else []
        kept = rows.get("represented", rows["written"])
        counts = {"read": rows["read"], "kept": kept, "dead": rows["dead"], "duplicates": rows["duplicates"]}
        newest[key] = _Row(key, commit.version, counts if record.counted else {}, record.verdict, causes)
    return [newest[key] for key in sorted(newest)]
