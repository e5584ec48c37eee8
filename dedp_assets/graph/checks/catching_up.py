"""Check of each table in order: durations of runs, held against the time between two partitions."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import cast

import dagster as dg

from dedp_assets.graph.catalogue.calendars import window_seconds
from dedp_assets.graph.catalogue.rendering import check_result
from dedp_assets.graph.catalogue.selections import RUNS_ALONE
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.outcomes.durations import durations_of
from dedp_assets.patterns.flow.single_runner import judge_catch_up

__all__ = ["catch_up_checks"]

_NAME = "runs_catch_up_with_the_schedule"
_MOST = 100
"""Number of the newest runs that are judged."""


def catch_up_checks(tables: Sequence[LakeTable[...]]) -> list[dg.AssetChecksDefinition]:
    """Return one check per table in order, judged by the durations in the table's log.

    Args:
        tables: the declared tables of the graph.
    """
    ordered = {asset_key(table.spec): table for table in tables if table.runs.in_order}
    description = (
        "A run is shorter than the time between two partitions, or none is late. Otherwise the lag stays or grows, and "
        "the check warns."
    )

    @dg.multi_asset_check(
        specs=[
            dg.AssetCheckSpec(_NAME, asset=key, description=description, metadata={RUNS_ALONE: True}) for key in ordered
        ],
        can_subset=True,
        name="catching_up",
        required_resource_keys={"lake"},
        description="Durations of runs in order, held against the time between two partitions.",
    )
    def judge(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        for check in sorted(context.selected_asset_check_keys):
            table = ordered[check.asset_key]
            ledger = context.resources.lake.ledger(table.spec.name)
            newest = list(islice(ledger.newest_first(), _MOST))
            durations = [seconds for _, seconds in durations_of(reversed(newest))]
            partitions = cast("dg.TimeWindowPartitionsDefinition", table.runs.partitions)
            finding = judge_catch_up(durations, interval_seconds=window_seconds(partitions))
            yield check_result(table.spec.name, _NAME, {"": finding})

    return [judge] if ordered else []
