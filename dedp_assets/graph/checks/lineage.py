"""Lineage of the declared tables: graph, columns, and the comparison with observed runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from dedp_assets.graph.declare.starting import LakeJob
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.measuring.measurements import Measured
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.running.lineage import (
    CONSUMERS,
    LAKE,
    SOURCES,
    Dataset,
    LineageGraph,
    LineageJob,
    ObservedRun,
)
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage
from dedp_assets.patterns.observability.dataset_tracker import compare_lineage
from dedp_assets.patterns.observability.lineage_completeness_metric import measure_lineage

__all__ = ["column_origins", "column_readers", "column_types", "declared_lineage", "judge_lineage"]


def declared_lineage(tables: Sequence[LakeTable[...]], jobs: Sequence[LakeJob] = ()) -> LineageGraph:
    """Return the lineage of declared tables, with sources and external readers as nodes.

    Args:
        tables: the declared tables.
        jobs: declared jobs that write tables apart from the partitions.
    """
    owners = [Dataset(LAKE, spec.name, table.about.owner) for table in tables for spec in table.tables]
    apart = [_apart(job) for job in jobs if job.function is not None]
    return LineageGraph.of([*apart, *(job for table in tables for job in _jobs_of(table))], owners)


def column_types(tables: Sequence[LakeTable[...]]) -> dict[str, dict[str, str]]:
    """Return the type of each column of each declared table.

    Args:
        tables: the declared tables.
    """
    specs = [spec for table in tables for spec in table.tables]
    return {spec.name: {name: column.type for name, column in spec.columns.items()} for spec in specs}


def column_origins(tables: Sequence[LakeTable[...]]) -> dict[str, dict[str, list[str]]]:
    """Return the declared origins of each column of each declared table, as ``layer/dataset.column``.

    Args:
        tables: the declared tables.
    """
    return {
        name: {
            column: [f"{'/'.join(each.asset_key.path)}.{each.column_name}" for each in origins]
            for column, origins in lineage.deps_by_column.items()
        }
        for table in tables
        for name, lineage in table.lineage().items()
    }


def column_readers(
    name: str, tables: Sequence[LakeTable[...]], observed: Mapping[str, ColumnLineage]
) -> dict[str, set[str]]:
    """Return the declared and observed readers of a table, each with the columns read.

    Args:
        name: the table.
        tables: the declared tables.
        observed: reader -> observed column lineage.

    Returns:
        Reader -> columns; ``device.os`` for a field of a struct column.
    """
    found = dict[str, set[str]]()
    for reader, columns in column_origins(tables).items():
        origins = {origin.rpartition(".") for each in columns.values() for origin in each}
        found[reader] = {column for table, _, column in origins if table == name}
    for reader, lineage in observed.items():
        inputs = [each for origin in lineage.columns.values() for each in origin.inputs]
        read = {each.path for each in (*inputs, *lineage.influences) if each.table == name}
        found[reader] = found.get(reader, set()) | read
    return {reader: columns for reader, columns in found.items() if columns and reader != name}


def judge_lineage(
    tables: Sequence[LakeTable[...]], jobs: Sequence[LakeJob], runs: Sequence[ObservedRun], now: datetime
) -> tuple[Finding, Measured]:
    """Compare the observed runs with the declared tables, and measure the share of declared flows.

    Args:
        tables: the declared tables.
        jobs: declared jobs that write tables apart from the partitions.
        runs: observed runs.
        now: current time, with time zone.
    """
    graph = declared_lineage(tables, jobs)
    return compare_lineage(graph, runs), measure_lineage(graph, runs, [], now)


def _apart(job: LakeJob) -> LineageJob:
    """Return a job by the name of the op, as in the events of runs."""
    inputs = [Dataset(LAKE if isinstance(each, TableSpec) else SOURCES, each.name) for each in job.reads]
    return LineageJob(
        getattr(job.function, "__name__", ""), (*inputs,), tuple(Dataset(LAKE, e.name) for e in job.writes)
    )


def _jobs_of(table: LakeTable[...]) -> Iterable[LineageJob]:
    upstream = [Dataset(LAKE, spec.name) for spec in table.reads.upstream]
    sources = [Dataset(SOURCES, each.name, each.owner) for each in table.reads.sources]
    own = tuple(Dataset(LAKE, spec.name) for spec in table.tables)
    yield LineageJob(table.name, (*upstream, *sources), own)
    if table.about.used_by:
        yield LineageJob(f"readers of {table.spec.name}", own[:1], (Dataset(CONSUMERS, table.about.used_by),))
