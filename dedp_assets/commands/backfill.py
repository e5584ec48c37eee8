"""``dedp backfill``: named partitions of a table, then the partitions that the runs make stale.

The partitions run one after the other in the order of their keys. One that is refused or fails leaves the others as
they are; without ``--force`` the same command later goes on with what is left to do. With ``--compare`` rows other than
the stored ones are refused: ``dedp explain TABLE PARTITION --against refused`` shows the differences by key and column,
and ``dedp approve`` publishes them.

Exit code 1: a partition was refused or failed.

Examples:
    dedp backfill silver/visits 2026-01-05...2026-01-11
    dedp backfill gold/daily_visitors --changed --compare
    dedp backfill silver/visits 2026-01-05 2026-01-07 --force --json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dedp_assets.commands._arguments import add_json, add_table
from dedp_assets.commands._output import answer
from dedp_assets.commands._partitions import add_partitions, keys_named
from dedp_assets.commands._runs import compute, require_computable
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.outcomes.run_tags import CAUSE, COMPARE, FORCE
from dedp_assets.graph.reconcile.outdated import outdated_partitions
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.project import project

__all__ = ["arguments", "computes", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the partitions, options of their runs, and the form for programs."""
    add_table(parser)
    add_partitions(parser, default="with --changed all, otherwise none")
    parser.add_argument("--changed", action="store_true", help="only partitions that other code computed")
    parser.add_argument("--compare", action="store_true", help="refuse rows other than the stored ones")
    parser.add_argument("--force", action="store_true", help="also if nothing it is computed from has changed")
    add_json(parser)


def computes(_: argparse.Namespace) -> bool:
    """Return that the command computes."""
    return True


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Compute the partitions, then the partitions that the runs make stale.

    The exit code is 1 if one of these partitions is refused or fails.
    """
    require_computable(chosen.table)
    table = _declared(chosen.table)
    keys = _keys(settings, table, chosen.partitions, changed=chosen.changed)
    if not keys:
        answer([], f"{chosen.table}: no partition was computed by other code", as_json=chosen.json)
        return 0
    asked = {FORCE: chosen.force, COMPARE: chosen.compare}
    tags = {CAUSE: "backfill", **{tag: "true" for tag, is_asked in asked.items() if is_asked}}
    return compute(Platform(settings), chosen.table, keys, tags, as_json=chosen.json)


def _declared(name: str) -> LakeTable[...]:
    """Return the declaration of a table."""
    tables = {spec.name: table for table in project().tables() for spec in table.tables}
    require_table(name, sorted(tables))
    return tables[name]


def _keys(settings: Settings, table: LakeTable[...], texts: Sequence[str], *, changed: bool) -> list[str]:
    """List the keys to compute in order; one empty key for a table without partitions.

    Raises:
        ConfigError: if no partition is named, or one that is none of the table's.
    """
    name = table.spec.name
    if not (texts or changed or table.runs.partitions is None):
        raise ConfigError(f"partitions must be keys, a range of keys, or --changed, not none: `dedp plan {name}`")
    keys = keys_named(table, texts)
    if not changed:
        return sorted(keys) or [""]
    known = [each.key for each in outdated_partitions([table], lake_of(settings)) if not each.refused]
    return [key for key in known if key in keys or not keys]
