"""Completeness check of each table that the reconciler keeps current: no partition is left behind."""

from collections import Counter
from collections.abc import Iterator, Sequence

import dagster as dg

from dedp_assets.graph.catalogue.selections import RUNS_ALONE
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.reconcile.reconciling import Gap

__all__ = ["completeness_checks"]

_NAME = "every_partition_is_current"
_STATES = ("missing", "behind", "refused", "unreadable", "waiting")
_SHOWN = 5


def completeness_checks(tables: Sequence[LakeTable[...]]) -> dg.AssetChecksDefinition:
    """Return one check per table that the reconciler keeps current, all judged in one read of the logs.

    Args:
        tables: the declared tables of the graph.
    """
    kept = {asset_key(t.spec): t.spec.name for t in tables if t.lands or (t.runs.follows and t.reads.tables)}
    description = (
        "No partition is missing, behind what it is computed from, refused, unreadable or waiting. Otherwise it warns "
        "and says which and why."
    )
    loop = Reconciler(tables)

    @dg.multi_asset_check(
        specs=[
            dg.AssetCheckSpec(_NAME, asset=key, description=description, metadata={RUNS_ALONE: True}) for key in kept
        ],
        can_subset=True,
        name="completeness",
        required_resource_keys={"lake", "landing", "clock"},
        description="The whole graph, held against the tables' logs and the landing zone.",
    )
    def judge(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        resources = context.resources
        outcome, overview = loop.reconcile(
            resources.lake, resources.landing, resources.clock.now(), instance=context.instance
        )
        damaged = [Gap(name, "", "unreadable", why) for name, why in overview.unreadable.items()]
        for check in sorted(context.selected_asset_check_keys):
            name = kept[check.asset_key]
            yield _result(check, [gap for gap in (*damaged, *outcome.gaps) if gap.table == name])

    return judge


def _result(check: dg.AssetCheckKey, gaps: Sequence[Gap]) -> dg.AssetCheckResult:
    counts = Counter(gap.state for gap in gaps)
    lines = [f"{gap.key} {gap.state}: {gap.reason}".strip() for gap in sorted(gaps, key=lambda gap: gap.key)[:_SHOWN]]
    more = [f"and {len(gaps) - _SHOWN} more"] if len(gaps) > _SHOWN else []
    return dg.AssetCheckResult(
        asset_key=check.asset_key,
        check_name=check.name,
        passed=not gaps,
        severity=dg.AssetCheckSeverity.WARN,
        description="\n".join([*lines, *more]) or None,
        metadata={f"{state} [partitions]": counts[state] for state in _STATES},
    )
