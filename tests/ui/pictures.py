"""The pictures of README, taken of a project that is made for them: ``python -m tests.ui.pictures FOLDER``.

A project of ``dedp new`` with deliveries until today is started, until gold has every day: the first picture. A
file that an audit refuses gives the second one. The browser is the Chromium of the machine.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import child_environment, settings
from dedp_assets.laptop.servers.ports import free
from tests.ui.up import CHROMIUM, DEDP, browser_page, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

SAMPLE = [date(2026, 1, 5) + timedelta(days=number) for number in range(4)]
"""Days of the template's sample, and the day after it."""
GOLD = "gold/sales_by_day"
SIZES = {"medallion": (1600, 620), "status": (1280, 760)}
"""Width and height of each picture, in pixels; in a smaller one Dagster shows names alone."""


def take(folder: Path) -> list[Path]:
    """Take the pictures; their files."""
    today = Clock().now().date()
    days = [today - timedelta(days=back) for back in (3, 2, 1, 0)]
    with tempfile.TemporaryDirectory(prefix="dedp-") as place, browser_page() as page:
        root = made(Path(place), dict(zip(map(str, SAMPLE), map(str, days), strict=True)))
        with running(root) as (web, status):
            deliver(root, str(days[-1]), "orders", 20)
            wait_until(lambda: all(is_done(root, day) for day in days), "gold of each day")
            view = f"{web}/assets/{GOLD}?view=lineage&lineageScope=upstream&lineageDepth=5"
            medallion = shot(page, view, "sales_by_day", folder / "medallion.png")
            deliver(root, str(days[-1]), "late", 5_000_000)
            wait_until(lambda: "refused" in (root.parent / "up.log").read_text(), "the refusal")
            return [medallion, shot(page, f"{status}/", "nothing published", folder / "status.png")]


def made(place: Path, days: dict[str, str]) -> Path:
    """A new project whose sample lies on other days."""
    environment = child_environment({}, without=("DEDP_HOME",))
    subprocess.run([DEDP, "new", "my_lake"], cwd=place, env=environment, check=True, capture_output=True)
    root = place / "my_lake"
    for file in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix in (".yaml", ".csv")):
        file.write_text(re.sub("|".join(days), lambda found: days[found[0]], file.read_text()))
    for folder in sorted((root / ".dedp" / "landing" / "orders").iterdir()):
        folder.rename(folder.with_name(days[folder.name]))
    return root


@contextmanager
def running(root: Path) -> Iterator[tuple[str, str]]:
    """The project's platform; the addresses of Dagster and of the status page."""
    ports = [free() for _ in range(3)]
    options = [f"--{name}={port}" for name, port in zip(("port", "engine-port", "status-port"), ports, strict=True)]
    environment = child_environment({"DEDP_CACHE": str(settings().cache)}, without=("DEDP_HOME", "SPARK_REMOTE"))
    with (root.parent / "up.log").open("wb") as log:
        platform = subprocess.Popen([DEDP, "up", *options], cwd=root, env=environment, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[2]}"
        finally:
            platform.send_signal(signal.SIGINT)
            platform.wait(120)


def deliver(root: Path, day: str, name: str, amount: int) -> None:
    """Land a file with one order."""
    folder = root / ".dedp" / "landing" / "orders" / day
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.csv").write_text(f"order_id,ordered_at,customer,amount\n8{name},{day}T00:00:00Z,Ada,{amount}\n")
    (folder / "_SUCCESS").touch()


def is_done(root: Path, day: date) -> bool:
    """Whether gold of a day is published, by the platform's own words."""
    return re.search(rf"done +{GOLD} {day} ", (root.parent / "up.log").read_text()) is not None


def shot(page: Page, address: str, text: str, file: Path) -> Path:
    """Open a page, wait for a text, and take its picture."""
    page.set_viewport_size(dict(zip(("width", "height"), SIZES[file.stem], strict=True)))
    page.goto(address)
    page.get_by_text(text).locator("visible=true").first.wait_for()
    page.wait_for_timeout(4_000)
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(file))
    return file


if __name__ == "__main__":
    if CHROMIUM is None:
        sys.exit("no Chromium on this machine: apt-get install chromium")
    print(*take(Path(sys.argv[1])), sep="\n")  # noqa: T201
