"""Lineage Completeness Metric: share of data flows whose lineage is known.

Problem: people trust a lineage graph that lacks half of the flows, and change a table that somebody reads unseen.
Solution: count all flows that are declared, observed or reported, and the share of those that the graph holds.
Consequences: what nobody declares, observes or reports counts nowhere. A share says how much is missing, and the
    reason names the flows.
Choose instead: Dataset Tracker, for the single reads and writes that differ from the declarations.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement, Verdict
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.running.lineage import Dataset, LineageGraph, LineageJob, ObservedRun

__all__ = ["measure_lineage"]

_METRIC = "lineage_completeness"
_NAMED = 10

Flow = tuple[Dataset | None, str, Dataset | None]
"""Source, job and target.

``None`` for an unknown end.
"""


@typed
def measure_lineage(
    declared: LineageGraph,
    observed: Sequence[ObservedRun],
    consumers: Sequence[LineageJob],
    now: datetime,
    *,
    at_least: float = 0.95,
    name: str = "platform",
) -> Measured:
    """Measure which share of all flows the declared graph holds.

    A flow is data that moves from one dataset to another by a job. Known flows are those of the declared graph; unknown
    ones are observed flows that the graph lacks, the flow of each job with neither inputs nor outputs, and the reads by
    consumers outside of the platform that the graph lacks.

    Args:
        declared: the lineage that is known.
        observed: runs in any order; failed ones do not count.
        consumers: readers outside of the platform, as audits of accesses or surveys report them.
        now: time of the measurement, with time zone.
        at_least: least share without a warning, from 0 to 1.
        name: what is measured, for the measurement's ``table``.

    Returns:
        One measurement; ``unknown`` if there is no flow at all.

    Raises:
        ConfigError: for a share below 0 or above 1.

    Example:
        >>> from datetime import timezone
        >>> noon = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        >>> visits, report, board = (Dataset("lake", each) for each in ("visits", "report", "board"))
        >>> graph = LineageGraph.of([LineageJob("make_report", (visits,), (report,))])
        >>> found = measure_lineage(graph, [], [LineageJob("board reads", (report,), (board,))], noon)
        >>> found.measurements[0].value, found.verdict
        (0.5, 'warn')
    """
    if not 0 <= at_least <= 1:
        raise ConfigError(f"at_least must be from 0 to 1, not {at_least:g}")
    known: set[Flow] = {edge.key for edge in declared.edges}
    seen = LineageGraph().observing(observed)
    every = known | {edge.key for edge in seen.edges} | {edge.key for edge in LineageGraph.of(consumers).edges}
    every |= _one_sided(declared, observed) | _blind(declared, observed)
    unknown = sorted(every - known, key=_sentence)
    value = len(known) / len(every) if every else None
    verdict: Verdict = "unknown" if value is None else "ok" if value >= at_least else "warn"
    named = ", ".join(map(_sentence, unknown[:_NAMED]))
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    reason = "there is no flow" if value is None else f"unknown to the lineage: {named}{more}" if unknown else ""
    found = Measurement(
        metric=_METRIC, table=name, at=now, verdict=verdict, value=value, target=1.0, at_least=at_least, reason=reason
    )
    return Measured((found,))


def _one_sided(declared: LineageGraph, observed: Sequence[ObservedRun]) -> set[Flow]:
    """Return undeclared reads by jobs that write nothing, and undeclared writes by jobs that read nothing."""
    jobs = {job.name: job for job in declared.jobs}
    found: set[Flow] = set()
    for run in observed:
        stated = jobs.get(run.job) or LineageJob(run.job)
        if not run.failed and not (run.inputs and run.outputs):
            found |= {(each, run.job, None) for each in {*run.inputs} - {*stated.inputs}}
            found |= {(None, run.job, each) for each in {*run.outputs} - {*stated.outputs}}
    return found


def _blind(declared: LineageGraph, observed: Sequence[ObservedRun]) -> set[Flow]:
    """Return a flow without known ends for each job of which neither inputs nor outputs are known."""
    known = {job.name for job in declared.jobs if job.inputs or job.outputs}
    known |= {run.job for run in observed if run.inputs or run.outputs}
    every = {job.name for job in declared.jobs} | {run.job for run in observed if not run.failed}
    return {(None, job, None) for job in every - known}


def _sentence(flow: Flow) -> str:
    source, job, target = flow
    return f"{source or 'an unknown source'} -> {target or 'an unknown target'} by {job}"
