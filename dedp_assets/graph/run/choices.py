"""Branches in a run: the path taken by a computed partition, and observations of skipped partitions.

A skipped partition is an observation, because a materialization would say that the table has it. A backfill of Dagster
that asked for a partition without materialization ends as failed, although each of its runs succeeded: ask for the
partitions of the branch (the reconciler does), or read the status of the runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import dagster as dg

from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.flow.exclusive_choice import Choice

__all__ = ["SKIPPED", "observe_skipped", "path_taken", "unjudged"]

SKIPPED = "skipped"
"""Under this name an observation of a partition says why a run passed it over."""


def path_taken(choice: Choice | None) -> dict[str, str]:
    """Return the metadata of a choice: branch, condition and value; empty without a choice."""
    return {"branch": choice.branch, "condition": choice.condition, "value": choice.value} if choice else {}


def observe_skipped(context: dg.AssetExecutionContext, tables: Iterable[Table], skipped: Mapping[str, Choice]) -> None:
    """Record each skipped partition as an observation of each table, with the chosen branch."""
    for table in tables:
        for key, choice in skipped.items():
            metadata = {SKIPPED: f"the partition is of branch {choice.branch}", **path_taken(choice)}
            context.log_event(dg.AssetObservation(table.name.split("/"), partition=key, metadata=metadata))
    for key, choice in skipped.items():
        context.log.info(f"{key} is skipped: it is of branch {choice.branch}, {choice.reason}")


def unjudged(context: dg.AssetExecutionContext, judged: Collection[str] = ()) -> Iterator[dg.Output[None]]:
    """Yield the output of each check of a step without a verdict, which Dagster waits for.

    Args:
        context: Dagster's.
        judged: names of the checks with a verdict.
    """
    for output, check in context.assets_def.check_specs_by_output_name.items():
        if check.name not in judged:
            yield dg.Output(None, output_name=output)
