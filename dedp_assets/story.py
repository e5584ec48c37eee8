"""The demo's story, and the output of `dedp run` and `approve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from dedp_assets.graph.run.run_tags import APPROVED_AUDITS, APPROVED_BECAUSE, APPROVED_BY, CAUSE, FORCE
from dedp_assets.local import engine
from dedp_assets.patterns.core.records import Approval
from dedp_assets.project import project
from dedp_assets.resources.clock import Clock
from dedp_assets.resources.environments import Settings, apply
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.spark import SparkEngine
from dedp_assets.sources import access_log, devices, partner_visits, visits
from dedp_assets.status import by_layer, status, tables_named

if TYPE_CHECKING:
    from dedp_assets.instance import Ended, Platform

__all__ = ["approve", "demo", "run"]

_VISITS_A_DAY = 1_000
_PARTNERS_A_DAY = 100
_DAYS = 9
"""Landing days of the story: a week, and two after it."""


def demo(settings: Settings, *, logs: Sequence[Path] = (), first: date | None = None) -> int:
    """Run the demo: land and load deliveries, then print the status; return the exit code.

    Args:
        settings: where everything is written.
        logs: web servers' logs, folders of them or patterns of their names, to load instead of generated visits.
        first: first landing day of the generated week; by default the story ends yesterday.
    """
    project().require_case_study("the demo")
    apply({"DEDP_JIT": "quick"})
    console = Console(width=150)
    Lake(root=str(settings.lakehouse), engine=SparkEngine()).mark_demo()
    if logs:
        _land_logs(settings, logs, console)
    else:
        first = _first_day(settings, first)
        _land_week(settings, first, console)
    with engine.preparing(settings):
        platform = _platform(settings)
        console.print("\n[bold]The platform loads what has landed[/bold]")
        _react(platform, console)
        if first is not None:
            console.print("\n[bold]Then: late visits, a late file, a bad batch, a truncated reference[/bold]")
            _land_trouble(settings, first, console)
            _react(platform, console)
    console.print()
    status(settings, platform=platform)
    console.print(
        "\nLook at it in the UI: [bold]make up[/bold], then http://127.0.0.1:3000. "
        f"Tables: {settings.lakehouse}/<layer>/<dataset>"
    )
    return 0


def approve(
    settings: Settings, asset: str, partition: str, *, by: str, because: str, audits: Sequence[str] = ()
) -> int:
    """Compute a refused partition again under a person's approval; some audits need an explicit name."""
    Approval(by, because)  # refuses an empty name or reason
    choices = _tables(audited=True)
    if asset not in choices:
        raise ValueError(f"{asset} is not a table with audits; choose one of {', '.join(choices)}")
    platform = _platform(settings)
    platform.require_partition(asset, partition)
    platform.require_approvable(asset, partition)
    named = {APPROVED_AUDITS: ",".join(audits)} if audits else {}
    tags = {APPROVED_BY: by, APPROVED_BECAUSE: because, CAUSE: "approval", **named}
    return _compute(platform, asset, partition, tags)


def run(settings: Settings, asset: str, partition: str, *, force: bool) -> int:
    """Compute a partition of a table, then the downstream partitions."""
    choices = _tables()
    if asset not in choices:
        raise ValueError(f"{asset} is no table of the graph; choose one of {', '.join(choices)}")
    platform = _platform(settings)
    platform.require_partition(asset, partition)
    return _compute(platform, asset, partition, {FORCE: "true"} if force else {})


def _compute(platform: Platform, asset: str, partition: str, tags: Mapping[str, str]) -> int:
    console = Console(width=150)
    ended = platform.compute(asset, partition=partition, tags=tags)
    _print_ended(ended, console)
    if not ended.failure:
        _react(platform, console)
    return 1 if ended.failure else 0


def _tables(*, audited: bool = False) -> list[str]:
    """List the graph's tables and replays by name, from bronze on; ``audited`` keeps audited tables only."""
    from dedp_assets.graph.declare.replays import REPLAYS  # noqa: PLC0415

    nodes = list(project().definitions().resolve_asset_graph().asset_nodes)
    tables = [node for node in nodes if "dagster/table_name" in node.metadata and (node.check_keys or not audited)]
    replays = [node for node in nodes if node.group_name == REPLAYS]  # a person approves to give letters up
    return sorted(("/".join(node.key.path) for node in (*tables, *replays)), key=by_layer)


def _platform(settings: Settings) -> Platform:
    """Load the platform after the oldest delivery, whose day becomes the first partition."""
    from dedp_assets.instance import Platform  # noqa: PLC0415

    return Platform(settings)


def _first_day(settings: Settings, wished: date | None) -> date:
    """Return the first landing day: the wished day, the last demo's day, or a day in the recent past."""
    noted = settings.home / "demo_from"
    before = date.fromisoformat(noted.read_text()) if noted.exists() else None
    chosen = wished or before or Clock().now().date() - timedelta(days=_DAYS)
    noted.parent.mkdir(parents=True, exist_ok=True)
    noted.write_text(chosen.isoformat())
    return chosen


def _land_week(settings: Settings, first: date, console: Console) -> None:
    for number in range(7):
        day = first + timedelta(days=number)
        lines = visits.visits_of(day, count=_VISITS_A_DAY)
        visits.deliver(settings.landing / "visits", day, lines, broken=visits.BROKEN[: number % 3], repeat=number * 5)
        if number >= 5:
            _land_partners(settings, day)
    if not (settings.landing / "devices").exists():
        devices.deliver(settings.landing / "devices", devices.devices())
    console.print(
        f"[bold]Landed[/bold] a week of visits ({first} to {day}), what partners reported on its last two days, and "
        "the devices reference"
    )


def _land_partners(settings: Settings, day: date, **late: Sequence[str]) -> None:
    files = {
        "magazine": partner_visits.magazine_visits(day, count=_PARTNERS_A_DAY),
        "radio": [*partner_visits.radio_visits(day, count=_PARTNERS_A_DAY), *visits.BROKEN[:1]],
    }
    partner_visits.deliver(settings.landing / "partner_visits", day, {**files, **late})


def _land_trouble(settings: Settings, first: date, console: Console) -> None:
    folder = settings.landing / "visits"
    monday = first + timedelta(days=7)
    late = [line for back in (3, 5) for line in visits.visits_of(monday - timedelta(days=back), count=4, seed=2)]
    odd = visits.visits_of(monday, count=1, seed=3)
    impossible = [line.replace(f'"{monday:%Y-}', '"2099-') for line in odd]
    forgotten = visits.visits_of(monday - timedelta(days=90), count=1, seed=3)
    lines = visits.visits_of(monday, count=_VISITS_A_DAY)
    visits.deliver(folder, monday, lines, late=[*late, *impossible, *forgotten])
    console.print(
        f"  {monday}: {len(lines)} visits, and 8 late ones of {monday - timedelta(5)} and {monday - timedelta(3)}"
    )
    late_radio = partner_visits.radio_visits(monday - timedelta(days=1), count=3, seed=2)
    _land_partners(settings, monday, **{"radio-late": late_radio})
    console.print(f"  {monday}: what partners reported, and 3 late visits of {monday - timedelta(1)}")
    saturday = first + timedelta(days=5)
    visits.drop_late_file(folder, saturday, visits.visits_of(saturday - timedelta(days=4), count=2, seed=4))
    console.print(f"  {saturday}: a file that came after the marker, with 2 visits of {saturday - timedelta(4)}")
    tuesday = monday + timedelta(days=1)
    healthy = visits.visits_of(tuesday, count=_VISITS_A_DAY)
    torn = [line[: len(line) // 2] for line in healthy[: _VISITS_A_DAY // 3]]
    visits.deliver(folder, tuesday, healthy[_VISITS_A_DAY // 3 :], broken=torn)
    console.print(f"  {tuesday}: a bad batch, a third of its records torn")
    devices.deliver(settings.landing / "devices", devices.devices()[:30], cut=True)
    console.print("  devices: a delivery that broke off after a quarter")


def _land_logs(settings: Settings, places: Sequence[Path], console: Console) -> None:
    logs = access_log.land_logs(places, settings.landing / "visits")
    landed = {log.name: log.days for log in logs if log.name}
    days = {day for each in landed.values() for day in each}
    lines = sum(len(found) for each in landed.values() for found in each.values())
    console.print(f"[bold]Landed[/bold] {lines} lines on {len(days)} days")
    for log in logs:
        console.print(f"  {escape(log.sentence())}", soft_wrap=True)


def _react(platform: Platform, console: Console) -> None:
    quiet = True
    for ended in platform.react():
        quiet = False
        _print_ended(ended, console)
    if quiet:
        for sensor, reason in platform.idle.items():
            console.print(f"  {sensor:24} {reason}", soft_wrap=True)


def _print_ended(ended: Ended, console: Console) -> None:
    verdict = f"[red]refused[/red]  {escape(ended.failure)}" if ended.failure else "[green]done[/green]"
    console.print(
        f"  {tables_named(ended.job.split(', ')):43} {ended.partition:11} because of {ended.cause:12} {verdict}",
        soft_wrap=True,
    )
