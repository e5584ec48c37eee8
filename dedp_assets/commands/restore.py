"""``dedp restore``: versions and milestones of a table, to list, keep, or make current again.

A version is stated by number, by instant (UTC unless stated otherwise), or by the name of a milestone.

Examples:
    dedp restore silver/visits
    dedp restore silver/visits --keep quarter-close
    dedp restore silver/visits --to quarter-close --because "a wrong price list was loaded"
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import Grid, answer
from dedp_assets.commands._tables import require_home, require_known
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.delta import Ledger, milestones
from dedp_assets.patterns.storage.time_travel import roll_back, set_milestone

__all__ = ["arguments", "computes", "run"]

NEEDS = "dagster"
BESIDE = True

_LISTED = 20
_ROW = ("version", "committed_at", "operation", "by_run", "milestones", "because")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the version, the milestone, and the form for programs."""
    add_table(parser)
    parser.add_argument("--to", default="", metavar="VERSION|TIME|MILESTONE", help="version to make current again")
    parser.add_argument("--because", default="", help="why, for --to")
    parser.add_argument("--keep", default="", metavar="MILESTONE", help="keep the newest version, or that of --at")
    parser.add_argument("--at", default="", metavar="VERSION|TIME", help="version to keep")
    parser.add_argument("--release", default="", metavar="MILESTONE", help="give up a milestone")
    add_json(parser)


def computes(chosen: argparse.Namespace) -> bool:
    """Return whether a version is restored, which Spark does."""
    return bool(chosen.to)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Apply the wishes, and print the versions.

    Raises:
        ConfigError: for an unknown table, a restore without a reason, or ``--at`` without ``--keep``.
        NotReady: if there is no such version or milestone.
    """
    lake, now = lake_of(settings), Clock().now()
    require_known(chosen.table, lake.names())
    require_home(settings)
    if chosen.at and not chosen.keep:
        raise ConfigError(f"--at must stand with --keep: dedp restore {chosen.table} --at {chosen.at} --keep NAME")
    table, done = lake.stored(chosen.table), list[str]()
    into = table.target(Provenance(asset=table.name, run_id=f"restore-{now:%Y%m%dT%H%M%S}", at=now))
    if chosen.keep:
        done.append(set_milestone(into, name=chosen.keep, at=chosen.at or None).reason)
    if chosen.release:
        done.append(set_milestone(into, name=chosen.release, change="release").reason)
    if chosen.to:
        done.append(roll_back(into, to=chosen.to, because=chosen.because).reason)
    rows = [*_rows(table.ledger)]
    versions = [dict(zip(_ROW, row, strict=True)) for row in rows]
    answer({"done": done, "versions": versions}, *done, _listed(table.ledger, rows), as_json=chosen.json)
    return 0


def _listed(ledger: Ledger, rows: Iterable[tuple[str, ...]]) -> Grid:
    grid = Grid("version", "committed, UTC", "operation", title=f"Newest versions and milestones of {ledger.name}")
    for heading in ("by run", "milestones", "because"):
        grid.add_column(heading)
    for row in rows:
        grid.add_row(*row)
    return grid


def _rows(ledger: Ledger) -> Iterator[tuple[str, ...]]:
    """Describe the newest versions, and the version of each milestone."""
    names: dict[int, list[str]] = {}
    for name, version in milestones(ledger).items():
        names.setdefault(version, []).append(name)
    newest = list(islice(ledger.newest_first(), _LISTED))
    older = [ledger.commit(version) for version in sorted(names, reverse=True) if version < newest[-1].version]
    for commit in [*newest, *older]:
        record = commit.record or commit.maintenance
        why = str(record.notes.get("because", "")) if record else commit.note
        at = f"{commit.timestamp:%Y-%m-%d %H:%M:%S}"
        kept = ", ".join(names.get(commit.version, ()))
        yield str(commit.version), at, commit.operation, record.run_id if record else "", kept, why
