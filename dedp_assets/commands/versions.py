"""``dedp versions``: versions behind a table's name, to list, show, hold or remove.

Show another one (rollback), keep one whatever its age (legal hold), give up a hold, remove those that nobody has seen
for long. Nothing here starts Spark.

Examples:
    dedp versions gold/devices
    dedp versions gold/devices --show v1 --because "the new one lacks browsers"
    dedp versions gold/devices --expire-days 30 --json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import Grid, answer
from dedp_assets.commands._tables import require_known
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.versions import expired, exposures, load_of, names, version_of
from dedp_assets.patterns.idempotency._expiry import expire, held, hold, release
from dedp_assets.patterns.idempotency.proxy import load_version, switch_version
from dedp_assets.project import project

__all__ = ["Wanted", "arguments", "run", "versions"]

NEEDS = "dagster"
BESIDE = True
_ROW = ("version", "loaded_at", "rows", "state", "by_run", "because")


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


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the wishes, and the form for programs."""
    add_table(parser)
    parser.add_argument("--show", default="", metavar="VERSION", help="show another version, as a rollback does")
    parser.add_argument("--hold", default="", metavar="VERSION", help="keep a version whatever its age")
    parser.add_argument("--release", default="", metavar="VERSION", help="give up the hold of a version")
    parser.add_argument("--expire-days", type=float, help="remove versions that nobody has seen for so many days")
    parser.add_argument("--because", default="", help="why")
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Apply the wishes, and print the versions."""
    wanted = Wanted(chosen.show, chosen.hold, chosen.release, chosen.expire_days, chosen.because)
    return versions(settings, chosen.table, wanted, as_json=chosen.json)


def versions(settings: Settings, table: str, wanted: Wanted, *, as_json: bool = False) -> int:
    """Apply the wishes to a table's versions, then print the versions.

    Raises:
        ConfigError: for a table that shows no versions, without a reason, or for a negative age.
        NotReady: if there is no such version.
    """
    target = _target(settings, table)
    now = Clock().now()
    provenance = Provenance(asset=table, run_id=f"versions-{now:%Y%m%dT%H%M%S}", at=now)
    done = list[str]()
    if wanted.hold:
        hold(target, wanted.hold, because=wanted.because, provenance=provenance)
    if wanted.release:
        release(target, wanted.release, because=wanted.because, provenance=provenance)
    if wanted.show:
        done.append(switch_version(target.target(provenance), version=wanted.show, because=wanted.because).reason)
    if wanted.expire_days is not None:
        if wanted.expire_days < 0:
            days = f"--expire-days must be 0 or more, not {wanted.expire_days:g}"
            raise ConfigError(f"{days}: dedp versions {table} --expire-days 30")
        done.append(expire(target, cutoff=now - timedelta(days=wanted.expire_days), provenance=provenance).reason)
    rows = [*_rows(target)]
    documents = [dict(zip(_ROW, row, strict=True)) for row in rows]
    answer({"done": done, "versions": documents}, *done, _listed(target, rows), as_json=as_json)
    return 0


def _target(settings: Settings, name: str) -> Table:
    """Open a declared table with versions; refuse other tables."""
    tables = {table.spec.name: table for table in project().tables() if load_version in table.patterns}
    require_known(name, tables)
    require_table(name, tables, of="with versions")
    return lake_of(settings).table(tables[name].spec)


def _listed(target: Table, rows: Iterable[tuple[str, ...]]) -> Grid | str:
    grid = Grid("version", "loaded, UTC", title=f"Versions of {target.name}")
    grid.add_column("rows", justify="right")
    for heading in ("state", "by run", "because"):
        grid.add_column(heading)
    for row in rows:
        grid.add_row(*row)
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
