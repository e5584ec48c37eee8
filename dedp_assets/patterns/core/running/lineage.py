"""Lineage: datasets, jobs that move data between datasets, and observed runs.

A graph has datasets as nodes and an edge for each pair of a dataset that a job reads and one that the job writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types

__all__ = ["CONSUMERS", "LAKE", "SOURCES", "Dataset", "LineageEdge", "LineageGraph", "LineageJob", "ObservedRun"]

LAKE, SOURCES, CONSUMERS = "lake", "source", "consumer"
"""Namespaces of the platform's tables, of the systems that rows come from, and of readers outside of the platform."""


@dataclass(frozen=True, slots=True, order=True)
class Dataset:
    """A node of the graph: a table, a topic, a folder of files, a dashboard.

    Two records with the same namespace and name are the same dataset.

    Attributes:
        namespace: system that the name is known in, such as ``lake`` or ``kafka://broker:9092``.
        name: name in the system, such as ``silver/visits``.
        owner: team or person that answers for the dataset.

    Raises:
        ConfigError: without a namespace or a name.
    """

    namespace: str
    name: str
    owner: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        require_types(self)
        if not self.namespace or not self.name:
            raise ConfigError("a dataset must have a namespace and a name, not an empty text")

    def __str__(self) -> str:
        return self.name if self.namespace == LAKE else f"{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class LineageJob:
    """A declared job with inputs and outputs.

    Attributes:
        name: name of the job.
        inputs: datasets that the job reads.
        outputs: datasets that the job writes.
        note: what people know about a job whose inputs and outputs nobody can declare. A job with a note is no blind
            spot.
    """

    name: str
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        if not self.name:
            raise ConfigError("a job must have a name, not an empty text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """An observed run of a job, with the opened and the committed datasets.

    Attributes:
        job: name of the job.
        run_id: identity of the attempt; a retry has another one.
        at: when the run ended, with time zone.
        inputs: datasets that were read.
        outputs: datasets that rows were committed to.
        failed: whether the run failed.

    Raises:
        ConfigError: without a job, or for a time without a time zone.
    """

    job: str
    run_id: str
    at: datetime
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
    failed: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        if not self.job:
            raise ConfigError("a run must have the name of its job, not an empty text")


@dataclass(frozen=True, slots=True)
class LineageEdge:
    """An edge of the graph: data of ``source`` moves into ``target`` by a job.

    Attributes:
        source: dataset that is read.
        job: name of the job.
        target: dataset that is written.
        first_seen: end of the first observed run over the edge; ``None`` for an edge that is only declared.
        last_seen: end of the last one.
    """

    source: Dataset
    job: str
    target: Dataset
    first_seen: datetime | None = None
    last_seen: datetime | None = None

    @property
    def key(self) -> tuple[Dataset, str, Dataset]:
        """Identity of an edge: source, job and target."""
        return (self.source, self.job, self.target)

    def __str__(self) -> str:
        return f"{self.source} -> {self.target} by {self.job}"


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """A graph of datasets with an edge for each way that data takes.

    Attributes:
        datasets: nodes, in order.
        jobs: declared jobs, in order of their names; of a graph of observed runs there are none.
        edges: edges, each source, job and target once.
    """

    datasets: tuple[Dataset, ...] = ()
    jobs: tuple[LineageJob, ...] = ()
    edges: tuple[LineageEdge, ...] = ()

    @classmethod
    def of(cls, jobs: Iterable[LineageJob], datasets: Iterable[Dataset] = ()) -> LineageGraph:
        """Build the graph of declared jobs: each input of a job feeds each output of the job.

        Args:
            jobs: the declared jobs.
            datasets: further datasets, and the owners of the datasets that the jobs name.

        Raises:
            ConfigError: if two jobs have the same name.
        """
        declared = tuple(jobs)
        by_name = {job.name: job for job in declared}
        if len(by_name) < len(declared):
            raise ConfigError("jobs must have names of their own, not one twice")
        named = [by_name[name] for name in sorted(by_name)]
        edges = [
            LineageEdge(source, job.name, target) for job in named for source in job.inputs for target in job.outputs
        ]
        mentioned = [each for job in named for each in (*job.inputs, *job.outputs)]
        return cls(_distinct([*datasets, *mentioned]), tuple(named), _joined(edges))

    def observing(self, runs: Iterable[ObservedRun]) -> LineageGraph:
        """Return the graph with the edges of observed runs; the times of known edges are extended.

        A failed run makes no edge, and a repeated run no second one.

        Args:
            runs: observed runs in any order.
        """
        succeeded = [run for run in runs if not run.failed]
        seen = [
            LineageEdge(s, run.job, t, run.at, run.at) for run in succeeded for s in run.inputs for t in run.outputs
        ]
        mentioned = [each for run in succeeded for each in (*run.inputs, *run.outputs)]
        datasets = _distinct([*self.datasets, *mentioned])
        moved = [edge for edge in seen if edge.source != edge.target]
        return replace(self, datasets=datasets, edges=_joined([*self.edges, *moved]))

    def between(self, since: datetime, until: datetime) -> LineageGraph:
        """Return the graph of an interval: edges first seen before the end and last seen after the start.

        Args:
            since: start of the interval, with time zone.
            until: end of the interval.
        """
        edges = tuple(
            edge
            for edge in self.edges
            if edge.first_seen and edge.last_seen and edge.first_seen <= until and edge.last_seen >= since
        )
        return LineageGraph(_distinct(each for e in edges for each in (e.source, e.target)), self.jobs, edges)

    def upstream(self, dataset: Dataset) -> frozenset[Dataset]:
        """Return every dataset that data of ``dataset`` comes from, without itself."""
        return _closure(dataset, _neighbours((edge.target, edge.source) for edge in self.edges))

    def downstream(self, dataset: Dataset) -> frozenset[Dataset]:
        """Return every dataset that data of ``dataset`` gets to, without itself."""
        return _closure(dataset, _neighbours((edge.source, edge.target) for edge in self.edges))

    def fed_by(self, dataset: Dataset) -> frozenset[Dataset]:
        """Return the direct downstream datasets of ``dataset``."""
        return frozenset(edge.target for edge in self.edges if edge.source == dataset) - {dataset}


def _distinct(datasets: Iterable[Dataset]) -> tuple[Dataset, ...]:
    """Return each dataset once, in order, with the first owner that is known."""
    found: dict[Dataset, Dataset] = {}
    for each in datasets:
        if each not in found or (each.owner and not found[each].owner):
            found.pop(each, None)
            found[each] = each
    return tuple(sorted(found.values()))


def _joined(edges: Iterable[LineageEdge]) -> tuple[LineageEdge, ...]:
    """Return each edge once, with the earliest and the latest time of a run."""
    found: dict[tuple[Dataset, str, Dataset], LineageEdge] = {}
    for edge in edges:
        known = found.setdefault(edge.key, edge)
        first = [each for each in (known.first_seen, edge.first_seen) if each]
        last = [each for each in (known.last_seen, edge.last_seen) if each]
        found[edge.key] = replace(known, first_seen=min(first, default=None), last_seen=max(last, default=None))
    return tuple(found[key] for key in sorted(found))


def _neighbours(pairs: Iterable[tuple[Dataset, Dataset]]) -> Mapping[Dataset, Sequence[Dataset]]:
    found: dict[Dataset, list[Dataset]] = {}
    for one, other in pairs:
        found.setdefault(one, []).append(other)
    return found


def _closure(start: Dataset, neighbours: Mapping[Dataset, Collection[Dataset]]) -> frozenset[Dataset]:
    """Return the datasets in reach of ``start``; each is visited once, so that circles end."""
    seen, waiting = {start}, [start]
    while waiting:
        fresh = [each for each in neighbours.get(waiting.pop(), ()) if each not in seen]
        seen.update(fresh)
        waiting += fresh
    return frozenset(seen) - {start}
