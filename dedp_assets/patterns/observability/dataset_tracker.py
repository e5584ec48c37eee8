"""Dataset Tracker: observed lineage of datasets, held against the declared lineage.

Problem: a table is wrong, each team points at the team before it, and nobody knows where the fault came in. A declared
    graph does not help if jobs read and write what nobody declared.
Solution: datasets with their owners are nodes, jobs are edges. What runs opened and committed is observed, what SQL
    statements say is parsed, and both are compared with the declarations.
Consequences: what happens outside of the platform is unknown until somebody declares or sends it. A job that shows
    neither inputs nor outputs is a blind spot until a note explains it.
Choose instead: Fine-Grained Tracker, for the origin of a column or of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.running.lineage import CONSUMERS, Dataset, LineageGraph, LineageJob, ObservedRun
from dedp_assets.patterns.observability._sql_datasets import datasets_of

__all__ = ["compare_lineage", "affected_by", "root_of", "Impact", "Root"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Impact:
    """Impact of a change of a dataset, each affected dataset once.

    Attributes:
        direct: datasets and consumers one job away.
        indirect: datasets and consumers further down.
        owners: who answers for them.
    """

    direct: tuple[Dataset, ...] = ()
    indirect: tuple[Dataset, ...] = ()
    owners: tuple[str, ...] = ()

    @property
    def consumers(self) -> tuple[Dataset, ...]:
        """External readers such as dashboards, direct and indirect."""
        return tuple(each for each in (*self.direct, *self.indirect) if each.namespace == CONSUMERS)


@dataclass(frozen=True, slots=True)
class Root:
    """Where faults began ("patient zero").

    Attributes:
        datasets: the faulty datasets that no other faulty dataset feeds. There are several only if the faults have
            several causes, or if faulty datasets feed each other in a circle.
        explained: the other faulty datasets, all downstream of one of them.
    """

    datasets: tuple[Dataset, ...] = ()
    explained: tuple[Dataset, ...] = ()


@typed
def compare_lineage(
    declared: LineageGraph,
    observed: Sequence[ObservedRun],
    *,
    statements: Mapping[str, str] = _NOTHING,
    dialect: str = "spark",
    least_runs: int = 1,
) -> Finding:
    """Compare observed reads and writes of jobs with the declared inputs and outputs.

    A failed run shows nothing, as what it was about to write is not there. Reads of a job's own outputs are left out.

    Args:
        declared: the declared jobs.
        observed: runs in any order.
        statements: job -> SQL text, whose inputs and outputs count as observed.
        dialect: dialect of the statements, by the name that sqlglot knows.
        least_runs: how many runs a job must have had before a declared input or output without a trace is reported; 0
            reports those of jobs that never ran, too.

    Returns:
        A finding. ``undeclared_reads``, ``undeclared_writes``, ``blind_spots`` (jobs with neither inputs nor outputs,
        without a note) and ``unparsed`` statements fail; ``never_observed`` warns.

    Raises:
        ConfigError: for ``least_runs`` below 0, or an unknown dialect.

    Example:
        >>> from datetime import datetime, timezone
        >>> visits, users, report = (Dataset("lake", each) for each in ("visits", "users", "report"))
        >>> declared = LineageGraph.of([LineageJob("make_report", (visits,), (report,))])
        >>> at = datetime(2026, 1, 5, tzinfo=timezone.utc)
        >>> run = ObservedRun(job="make_report", run_id="1", at=at, inputs=(visits, users), outputs=(report,))
        >>> found = compare_lineage(declared, [run])
        >>> found.passed, found.figures["undeclared_reads"]
        (False, ['make_report reads users'])
    """
    if least_runs < 0:
        raise ConfigError(f"least_runs must be 0 or more, not {least_runs}")
    parsed = {job: datasets_of(text, dialect=dialect) for job, text in statements.items()}
    seen = {name: _JobDatasets() for name in sorted({run.job for run in observed} | {*statements})}
    for run in observed:
        if not run.failed:
            seen[run.job].add(run.inputs, run.outputs)
    for job, found in parsed.items():
        seen[job].add(found.inputs, found.outputs)
    jobs = {job.name: job for job in declared.jobs}
    stated = {name: jobs.get(name) or LineageJob(name) for name in seen}
    reads = {name: each.inputs - {*stated[name].inputs} - each.outputs for name, each in seen.items()}
    writes = {name: each.outputs - {*stated[name].outputs} for name, each in seen.items()}
    figures = {
        "undeclared_reads": _lines("reads", reads),
        "undeclared_writes": _lines("writes", writes),
        "blind_spots": _blind_spots(jobs, seen),
        "unparsed": [f"{job}: {text}" for job, found in parsed.items() for text in found.unparsed],
        "never_observed": _never_observed(declared.jobs, seen, least_runs),
    }
    severe = any(figures[name] for name in figures if name != "never_observed")
    note = "; ".join(f"{name.replace('_', ' ')}: {', '.join(each)}" for name, each in figures.items() if each)
    return Finding(
        "observed_lineage_is_declared",
        passed=not any(figures.values()),
        severity="fail" if severe else "warn",
        figures=figures,
        note=note,
    )


@typed
def affected_by(graph: LineageGraph, dataset: Dataset) -> Impact:
    """List the datasets that a change, a new name or the removal of a dataset affects.

    Args:
        graph: the lineage; with the consumers as nodes, if they are declared.
        dataset: the dataset to change.

    Returns:
        The downstream datasets, the direct ones apart from the others. Circles and diamonds end.

    Raises:
        ConfigError: if the graph has no such dataset.
    """
    _require_known(graph, [dataset])
    direct, every = graph.fed_by(dataset), graph.downstream(dataset)
    nodes = {each: each for each in graph.datasets}
    owners = sorted({nodes[each].owner for each in every} - {""})
    return Impact(
        tuple(nodes[each] for each in sorted(direct)),
        tuple(nodes[each] for each in sorted(every - direct)),
        tuple(owners),
    )


@typed
def root_of(graph: LineageGraph, faults: Sequence[Dataset]) -> Root:
    """Find the most upstream datasets with a fault, which explain the faults downstream.

    Args:
        graph: the lineage.
        faults: the datasets with the fault, in any order.

    Raises:
        ConfigError: if the graph lacks one of them.
    """
    _require_known(graph, faults)
    faulty = {each for each in graph.datasets if each in {*faults}}
    above = {each: graph.upstream(each) & faulty for each in faulty}
    # Of datasets that feed each other in a circle, each is above the other: none of them comes first.
    roots = {each for each in faulty if all(each in above[other] for other in above[each])}
    return Root(tuple(sorted(roots)), tuple(sorted(faulty - roots)))


class _JobDatasets:
    """Inputs and outputs of the runs and statements of a job."""

    def __init__(self) -> None:
        self.inputs: set[Dataset] = set()
        self.outputs: set[Dataset] = set()
        self.runs = 0

    def add(self, inputs: Iterable[Dataset], outputs: Iterable[Dataset]) -> None:
        """Count a run; a run that neither read nor wrote, because nothing had changed, does not count."""
        self.inputs.update(inputs)
        self.outputs.update(outputs)
        self.runs += bool(inputs or outputs)


def _lines(verb: str, found: Mapping[str, Iterable[Dataset]]) -> list[str]:
    return [f"{job} {verb} {each}" for job, datasets in sorted(found.items()) for each in sorted(datasets)]


def _blind_spots(jobs: Mapping[str, LineageJob], seen: Mapping[str, _JobDatasets]) -> list[str]:
    """List the jobs that neither declarations nor runs say anything about."""
    known = {name for name, job in jobs.items() if job.inputs or job.outputs or job.note}
    return sorted({*jobs, *seen} - known - {name for name, each in seen.items() if each.inputs or each.outputs})


def _never_observed(jobs: Iterable[LineageJob], seen: Mapping[str, _JobDatasets], least_runs: int) -> list[str]:
    """List declared inputs and outputs without a run, apart from external readers."""
    lines: list[str] = []
    for job in jobs:
        found = seen.get(job.name) or _JobDatasets()
        if found.runs < least_runs or any(each.namespace == CONSUMERS for each in job.outputs):
            continue
        lines += _lines("reads", {job.name: {*job.inputs} - found.inputs - {*job.outputs}})
        lines += _lines("writes", {job.name: {*job.outputs} - found.outputs})
    return lines


def _require_known(graph: LineageGraph, datasets: Iterable[Dataset]) -> None:
    if unknown := sorted({*datasets} - {*graph.datasets}):
        raise ConfigError(f"the dataset must be one of the graph, not {', '.join(map(str, unknown))}")
