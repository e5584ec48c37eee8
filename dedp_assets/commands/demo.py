"""``dedp demo``: a week that lands and is loaded, then late data and a bad batch.

Examples:
    dedp demo
    dedp demo --from 2026-01-05
    dedp demo --log /var/log/nginx
    dedp demo --migrate
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console

from dedp_assets.case_study.sources import access_log, devices, partner_visits, visits
from dedp_assets.commands._arguments import day
from dedp_assets.commands._output import coloured, console
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings, apply
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.laptop.servers import engine
from dedp_assets.project import project

__all__ = ["arguments", "computes", "demo", "run"]

NEEDS = "local"
BESIDE = True
_VISITS_A_DAY = 1_000
_PARTNERS_A_DAY = 100
_DAYS = 9
"""Landing days of the story: a week, and two after it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the logs, the first day, and the migration."""
    parser.add_argument(
        "--log",
        type=Path,
        nargs="+",
        default=[],
        help="web server logs to load instead, compressed or not: files, folders, or patterns of names",
    )
    parser.add_argument("--from", dest="first", type=day, help="first day of the week (default: it ends yesterday)")
    parser.add_argument(
        "--migrate",
        nargs="?",
        const="all",
        choices=("all", "next"),
        help="where a demo stands, play a schema migration of silver/visits while visits land; "
        "next: one deployment of it, with what has landed",
    )
    parser.add_argument(
        "--erase", action="store_true", help="where a demo stands, erase a visitor by request while visits land"
    )


def computes(_: argparse.Namespace) -> bool:
    """Return that the command computes."""
    return True


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Run the demo, or the demo's migration."""
    _ = settings.landing  # a landing zone in a bucket is refused before anything is written
    if chosen.migrate:
        from dedp_assets.commands._migration import deploy, migrate  # noqa: PLC0415 - as in `demo`

        return migrate(settings) if chosen.migrate == "all" else deploy(settings, console())
    if chosen.erase:
        from dedp_assets.commands._erasure import erase_visitor  # noqa: PLC0415 - as in `demo`

        return erase_visitor(settings)
    return demo(settings, logs=chosen.log, first=chosen.first)


def demo(settings: Settings, *, logs: Sequence[Path] = (), first: date | None = None) -> int:
    """Run the demo: land and load deliveries, then print the status; return the exit code.

    Args:
        settings: where everything is written.
        logs: web servers' logs, folders of them or patterns of their names, to load instead of generated visits.
        first: first landing day of the generated week; by default the story ends yesterday.
    """
    project().require_case_study("the demo")
    apply({"DEDP_JIT": "quick"})
    terminal = console()
    if logs:
        _land_logs(settings, logs, terminal)
    else:
        first = _first_day(settings, first)
        _land_week(settings, first, terminal)
    lake_of(settings).mark_demo()
    # After the oldest delivery, whose day decides the first partition of every declaration.
    from dedp_assets.commands._runs import react  # noqa: PLC0415
    from dedp_assets.commands.status import status  # noqa: PLC0415
    from dedp_assets.laptop.orchestration.instance import Platform  # noqa: PLC0415

    with engine.preparing(settings):
        platform = Platform(settings)
        terminal.print("\nThe platform loads what has landed", style="bold")
        react(platform, terminal)
        if first is not None:
            terminal.print("\nThen: late visits, a late file, a bad batch, a truncated reference", style="bold")
            _land_trouble(settings, first, terminal)
            react(platform, terminal)
    terminal.print()
    status(settings)
    tables = f"Tables: {settings.lake}/<layer>/<dataset>"
    terminal.print(coloured("\nLook at it in the UI: ", ("make up", "bold"), f", then http://127.0.0.1:3000. {tables}"))
    return 0


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
    landed = f"a week of visits ({first} to {day}), what partners reported on its last two days, and "
    console.print(coloured(("Landed ", "bold"), landed, "the devices reference"))


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
    console.print(coloured(("Landed ", "bold"), f"{lines} lines on {len(days)} days"))
    for log in logs:
        console.print(f"  {log.sentence()}", soft_wrap=True)
