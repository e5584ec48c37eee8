"""The demo's migration: silver/visits with renamed and nested columns, while visits land."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
from rich.console import Console

from dedp_assets.case_study.sources import visits
from dedp_assets.commands._output import coloured, console
from dedp_assets.commands._runs import print_ended
from dedp_assets.graph.outcomes.run_tags import APPROVED_BECAUSE, APPROVED_BY
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings, child_environment
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.patterns.delta import Ledger
from dedp_assets.project import project

if TYPE_CHECKING:
    from dedp_assets.graph.declare.editions import Edition

__all__ = ["deploy", "land", "migrate"]

_TABLE = "silver/visits"
_JOB, _STEP = "migrate_tables", "platform_schema_migrations"
_REPORTED = dg.AssetKey(["platform", "schema_migrations"])
_READ = "nobody reads the old columns"
_COUNTS = ("rows", "differing", "filled partitions")
_APPROVED = {APPROVED_BY: "dedp demo", APPROVED_BECAUSE: "a demo does not wait for the end of the grace period"}
_NIGHTLY = ("gold/visits_cube",)
"""Readers of the columns that nothing but a schedule asks for, computed for the newest day."""


def migrate(settings: Settings) -> int:
    """Play the rest of the migration, a landing and a deployment at a time.

    Each deployment is a process of its own, which loads the code of the phase that the table is in. Whoever ends this
    command, or a process of it, calls it again.

    Args:
        settings: of a home with visits.

    Returns:
        The exit code; 1 if a phase was refused.

    Raises:
        ValueError: without visits, or while a platform runs.
    """
    project().require_case_study("the demo")
    if platform := running(settings):
        raise ValueError(
            f"a platform runs here ({platform}), with the code of one phase: end it, and start it again after"
        )
    if not (ledger := _ledger(settings)).exists():
        raise ValueError(f"a migration needs rows, and {settings.lake} has no visits: run `dedp demo` first")
    terminal = console()
    title = "\nColumns of silver/visits are renamed and nested, while visits land and are loaded"
    terminal.print(title, style="bold")
    command = [sys.executable, "-m", "dedp_assets", "demo", "--migrate", "next"]
    before, version = -1, ledger.version()
    while before < version and not _is_over(ledger):
        for line in land(settings):
            terminal.print(f"\n  {line}")
        done = subprocess.run(command, env=child_environment({"DEDP_JIT": "quick"}), check=False)
        if done.returncode:
            return done.returncode
        before, version = version, ledger.version()
    terminal.print(f"\nThe table: {ledger.store.address}. Its code from now on writes and reads the new columns.")
    return 0


def deploy(settings: Settings, terminal: Console, *, nightly: Sequence[str] = _NIGHTLY) -> int:
    """Load landed visits by the code of the present phase, and take the phases that the code allows.

    Args:
        settings: of the home.
        terminal: where a line for each phase and each run is printed.
        nightly: daily tables to compute for the newest day besides what sensors ask for.

    Returns:
        The exit code; 1 if a phase was refused.
    """
    from dedp_assets.case_study.defs.silver.visits import EDITION  # noqa: PLC0415 - the code of the present phase

    platform = Platform(settings)
    terminal.print(coloured(("  deployed ", "bold"), _described(EDITION)))
    # Code that declares the columns of the next phase: until then its runs are refused.
    if EDITION.is_ahead and not _advance(platform, EDITION, terminal):
        return 1
    print_ended(platform.react(), terminal)
    print_ended((platform.compute(table, partition=_landed(settings)[-1]) for table in nightly), terminal)
    return 0 if not EDITION.writes_old or _advance(platform, EDITION, terminal) else 1


def land(settings: Settings, *, count: int = 1_000) -> Iterator[str]:
    """Land the next day of visits with late visits of the first day; yield lines for people.

    After today there is no next day: late visits come alone.

    Args:
        settings: of the home.
        count: number of visits of the day.
    """
    folder, landed = settings.landing / "visits", _landed(settings)
    newest, old = date.fromisoformat(landed[-1]), date.fromisoformat(landed[0])
    day, late = newest + timedelta(days=1), visits.visits_of(old, count=3, seed=100 + len(landed))
    if day > Clock().now().date():
        visits.drop_late_file(folder, newest, late)
        yield f"{newest}: a file that came after the marker, with {len(late)} visits of {old}"
        return
    visits.deliver(folder, day, visits.visits_of(day, count=count), late=late)
    yield f"{day}: {count} visits, and {len(late)} late ones of {old}"


def _advance(platform: Platform, edition: Edition, terminal: Console) -> bool:
    """Take the next phase and print a line about the table; return ``False`` after a refusal."""
    moves: Mapping[str, Any] = edition.migration.moves
    plain = {"table": edition.table, "name": edition.migration.name, "grace_days": edition.migration.grace_days}
    ended = platform.run(_JOB, tags=_APPROVED, config={_STEP: {"config": {**plain, **moves}}})
    if ended.failure:
        terminal.print(coloured(("  refused  ", "red"), ended.failure), soft_wrap=True)
        return False
    event = platform.instance.get_latest_materialization_event(_REPORTED)
    reported = event.asset_materialization.metadata if event and event.asset_materialization else {}
    metadata = {name: value.value for name, value in reported.items()}
    counts = [f"{metadata[name]} {name}" for name in _COUNTS if name in metadata]
    readers = _READ if metadata[_READ] == "yes" else f"old columns are read: {metadata[_READ]}"
    text = "; ".join([str(metadata["state"]), *counts, readers])
    terminal.print(coloured(("  phase    ", "green"), text), soft_wrap=True)
    return True


def _described(edition: Edition) -> str:
    """Describe the code of an edition."""
    written = {(True, False): "the old columns", (True, True): "both forms", (False, True): "the new columns"}
    read = "new" if edition.reads_new else "old"
    return f"code that writes {written[edition.writes_old, edition.writes_new]}, and readers of the {read} ones"


def _landed(settings: Settings) -> list[str]:
    """List the landed days, sorted."""
    return sorted(each.name for each in (settings.landing / "visits").glob("*-*-*"))


def _ledger(settings: Settings) -> Ledger:
    return lake_of(settings).ledger(_TABLE)


def _is_over(ledger: Ledger) -> bool:
    """Return whether the table has reached the last phase."""
    from dedp_assets.case_study.defs.silver.visits import EDITION  # noqa: PLC0415 - the graph, which not every command needs
    from dedp_assets.graph.declare.editions import edition_at  # noqa: PLC0415

    return edition_at(ledger, EDITION.migration, EDITION.new).reached == "removed"
