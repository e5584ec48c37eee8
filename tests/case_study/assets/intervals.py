"""When steps of runs were at work, by the event log, and how many of them at once."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

_ENDS = ("STEP_SUCCESS", "STEP_FAILURE", "PIPELINE_FAILURE")
"""The last is of a run whose process was killed: nobody noted the end of its step."""


def intervals(
    instance: dg.DagsterInstance, runs: Iterable[dg.DagsterRun], table: str
) -> list[tuple[float, float | None]]:
    """Begin and end of a table's step in each run, in order; no end while it is at work."""
    found = []
    for run in runs:
        events = [(each.dagster_event, each.timestamp) for each in instance.all_logs(run.run_id) if each.dagster_event]
        mine = [(event, at) for event, at in events if event.step_key in (None, table.replace("/", "_"))]
        at = {event.event_type_value: moment for event, moment in reversed(mine)}
        if "STEP_START" in at:
            found.append((at["STEP_START"], next((at[end] for end in _ENDS if end in at), None)))
    return sorted(found, key=lambda interval: interval[0])


def most_at_once(intervals: Iterable[tuple[float, float | None]]) -> int:
    """The greatest number of intervals that one moment lies in; one that ends as another begins is over."""
    changes = [(moment, change) for interval in intervals for moment, change in zip(interval, (1, -1), strict=True)]
    going, most = 0, 0
    for _, change in sorted((moment, change) for moment, change in changes if moment is not None):
        going += change
        most = max(most, going)
    return most
