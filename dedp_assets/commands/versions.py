"""``dedp versions``: the versions of a versioned table, and a person's actions on versions.

Show another one (rollback), keep one whatever its age (legal hold), give up a hold, remove those that nobody has seen
for long. Nothing here starts Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.versions import expired, exposures, load_of, names, version_of
from dedp_assets.patterns.idempotency._expiry import expire, held, hold, release
from dedp_assets.patterns.idempotency.proxy import load_version, switch_version
from dedp_assets.project import project
from dedp_assets.resources.clock import Clock
from dedp_assets.resources.environments import Settings
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.spark import SparkEngine

__all__ = ["Wanted", "versions"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wishes of a person: names of versions, and an age.

    Attributes:
        show: version to show.
        hold: version to keep whatever its age.
        release: version whose hold is given up.
        expire_days: age of versions to remove, in days since they were shown or loaded last; ``None`` removes none.
        because: why; needed for all but an expiry.
    """

    show: str = ""
    hold: str = ""
    release: str = ""
    expire_days: float | None = None
    because: str = ""


def versions(settings: Settings, table: str, wanted: Wanted) -> int:
    """Apply the wishes to a table's versions, then print the versions.

    Raises:
        ConfigError: for a table that shows no versions, without a reason, or for a negative age.
        NotReady: if there is no such version.
    """
    target = _target(settings, table)
    now = Clock().now()
    run = Provenance(asset=table, run_id=f"versions-{now:%Y%m%dT%H%M%S}", at=now)
    console = Console(width=150)
    if wanted.hold:
        hold(target, wanted.hold, because=wanted.because, provenance=run)
    if wanted.release:
        release(target, wanted.release, because=wanted.because, provenance=run)
    if wanted.show:
        console.print(switch_version(target.target(run), version=wanted.show, because=wanted.because).reason)
    if wanted.expire_days is not None:
        if wanted.expire_days < 0:
            raise ConfigError(f"--expire-days must be 0 or more, not {wanted.expire_days:g}")
        console.print(expire(target, cutoff=now - timedelta(days=wanted.expire_days), provenance=run).reason)
    console.print(_listed(target))
    return 0


def _target(settings: Settings, name: str) -> Table:
    """Open a declared table with versions; refuse other tables."""
    tables = {table.spec.name: table for table in project().tables() if load_version in table.patterns}
    if name not in tables:
        raise ConfigError(f"table must be one that shows versions ({', '.join(tables)}), not {name}")
    return Lake(root=str(settings.lakehouse), engine=SparkEngine()).table(tables[name].spec)


def _listed(target: Table) -> Grid | str:
    grid = Grid("version", "loaded, UTC", title=f"Versions of {target.name}", title_justify="left")
    grid.add_column("rows", justify="right")
    for heading in ("state", "by run", "because"):
        grid.add_column(heading)
    for row in _rows(target):
        grid.add_row(*map(escape, row))
    return grid if grid.row_count else f"{target.name} has no versions."


def _rows(target: Table) -> Iterator[tuple[str, ...]]:
    """Describe the existing versions, newest first."""
    shown, kept, removed = list(exposures(target)), held(target), expired(target)
    why = {each.version: str(each.record.notes.get("because", "")) for each in reversed(shown)}
    standing = {name: at for name, at in names(target).items() if name not in removed}
    for name, at in sorted(standing.items(), key=lambda item: item[1], reverse=True):
        made = load_of(version_of(target, name))
        states = [
            *(["shown"] if shown and shown[0].version == name else []),
            *(["held"] if name in kept else []),
            *([] if made else ["not loaded to the end"]),
        ]
        counted = str(made.rows.get("written", "")) if made else ""
        yield name, f"{at:%Y-%m-%d %H:%M}", counted, ", ".join(states), made.run_id if made else "", why.get(name, "")
