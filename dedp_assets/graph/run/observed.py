"""Observed lineage of a step: opened and committed datasets, noted as events of OpenLineage.

The notes go into files of the platform's home. A run looks nothing up for them, and asks no receiver: counts and
verdicts of inputs and traced columns are added at the delivery. A note that cannot be written is a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import dagster as dg

from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.mail.lineage_outbox import LineageOutbox
from dedp_assets.graph.mail.openlineage import Attempt, complete_event, fail_event, start_event
from dedp_assets.graph.mail.openlineage_datasets import InputField, Touched, place_at
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.masking import shown
from dedp_assets.graph.run.batches import BatchResult, Work
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.lineage import LAKE, SOURCES, Dataset
from dedp_assets.patterns.core.running.opening import Opened, noting_opened
from dedp_assets.patterns.delta import Commit, LocalStore, Table

__all__ = ["AppendLineage", "StepLineage", "observed_append", "observed_step"]

LOGGER = logging.getLogger("dedp.lineage")


class StepLineage:
    """Lineage of an attempt, from start to end.

    Attributes:
        inputs: what was opened.
        outputs: what was committed to.
        error: reason of a failure; empty for a success.
    """

    def __init__(self, context: dg.AssetExecutionContext, work: Work, opened: Sequence[Opened]) -> None:
        self._context, self._work, self._opened = context, work, opened
        self._batch: BatchResult | None = None
        self.error = ""

    def note(self, batch: BatchResult) -> None:
        """Note the results of the step's partitions."""
        self._batch = batch
        sentences = batch.failures()
        if batch.broken:
            sentences[batch.broken[0]] = f"{type(batch.broken[1]).__name__}: {batch.broken[1]}"
        self.error = "; ".join(sentences.values())

    @property
    def inputs(self) -> list[Touched]:
        """Opened tables and read sources, without pinned tables that were not opened."""
        own = {table.name for table in self._work.tables}
        return [*_read_tables(self._opened, own), *self._sources()]

    @property
    def outputs(self) -> list[Touched]:
        """Tables that this attempt committed to, declared or not."""
        done = self._batch.done if self._batch else {}
        by_name: dict[str, list[WriteResult]] = {}
        for did in done.values():
            for result in did.written:
                if result.applied:
                    by_name.setdefault(result.table, []).append(result)
        return [self._written(name, results) for name, results in by_name.items()]

    def _sources(self) -> Iterator[Touched]:
        """Yield the sources that the computed partitions were read from, by the identities of their inputs."""
        batch, sources = self._batch, self._work.sources
        if batch is None or not sources:
            return
        failed = {*batch.errors, *([batch.broken[0]] if batch.broken else [])}
        tried = [key for key in batch.read if key in failed or (key in batch.done and batch.done[key].written)]
        identities = {name: value for key in tried for name, value in batch.read[key].identities.items()}
        found = {source.name: _of_source(source, identities) for source in sources}
        named = {name: values for name, values in found.items() if values}
        for source in sources if tried else ():
            # A source that no identity names is one that is asked while the rows are computed.
            if source.name in named or not named:
                values = list(found[source.name].values())
                yield _read_source(source, str(values[0]) if len(values) == 1 else None)

    def _written(self, name: str, results: Sequence[WriteResult]) -> Touched:
        table = next((each for each in self._work.tables if each.name == name), None)
        location = table.store.uri if table else self._context.resources.lake.ledger(name).store.uri
        namespace, path = place_at(location)
        commits = (
            [
                commit
                for did in self._batch.done.values()
                if table and (commit := did.commits.get(table)) and commit.version in {each.version for each in results}
            ]
            if self._batch
            else []
        )
        return Touched(
            namespace=namespace,
            name=path,
            known_as=Dataset(LAKE, name),
            version=max(each.version for each in results),
            columns=table.spec.columns if table else {},
            partitions=[dict(each.partition) for each in results if each.partition],
            rows=sum(each.rows.written for each in results),
            size=sum(each.bytes_added for each in commits) if commits else None,
            files=sum(len(each.files_added) for each in commits) if commits else None,
            origins=self._origins(name),
            owner=self._work.owner if table else "",
        )

    def _origins(self, name: str) -> dict[str, list[InputField]]:
        """Return the declared origins of columns in the opened tables."""
        places = {each.spec.name: place_at(each.location) for each in self._opened}
        declared = self._work.lineage.get(name)
        return {
            column: [
                InputField(namespace=place[0], name=place[1], column=each.column_name)
                for each in found
                if (place := places.get("/".join(each.asset_key.path)))
            ]
            for column, found in (declared.deps_by_column.items() if declared else ())
        }


class AppendLineage:
    """Lineage of an attempt to append in commits of the attempt's own, from start to end.

    Attributes:
        commits: commits of the attempt.
        error: reason of a failure; empty for a success.
    """

    def __init__(self, table: Table, sources: Sequence[Source], opened: Sequence[Opened]) -> None:
        self._table, self._read, self._opened = table, sources, opened
        self.commits: Sequence[Commit] = ()
        self.error = ""

    @property
    def inputs(self) -> list[Touched]:
        """Opened tables, and the sources."""
        tables = _read_tables(self._opened, {self._table.name})
        return [*tables, *[_read_source(each, None) for each in self._read]]

    @property
    def outputs(self) -> list[Touched]:
        """The table of the commits; none without a commit."""
        if not self.commits:
            return []
        namespace, path = place_at(self._table.store.uri)
        keys = sorted({tuple(sorted(each)) for commit in self.commits for each in commit.changed}, key=str)
        written = Touched(
            namespace=namespace,
            name=path,
            known_as=Dataset(LAKE, self._table.name),
            version=max(each.version for each in self.commits),
            columns=self._table.spec.columns,
            partitions=[dict(each) for each in keys],
            rows=sum(each.rows_added for each in self.commits),
            size=sum(each.bytes_added for each in self.commits),
            files=sum(len(each.files_added) for each in self.commits),
        )
        return [written]


@contextmanager
def observed_step(context: dg.AssetExecutionContext, work: Work) -> Iterator[StepLineage]:
    """Note the start of an attempt, and at the end of the block inputs, outputs and outcome.

    Args:
        context: Dagster's.
        work: how the step's table is computed.
    """
    with noting_opened() as opened:
        seen = StepLineage(context, work, opened)
        with _noted(context, seen):
            yield seen


@contextmanager
def observed_append(context: dg.OpExecutionContext, table: Table, sources: Sequence[Source]) -> Iterator[AppendLineage]:
    """Note the start of an attempt to append, and at the end of the block inputs, outputs and outcome.

    Args:
        context: Dagster's.
        table: the table that the block appends to.
        sources: systems outside of the lake that the block reads.
    """
    with noting_opened() as opened:
        seen = AppendLineage(table, sources, opened)
        with _noted(context, seen):
            yield seen


@contextmanager
def _noted(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, seen: StepLineage | AppendLineage
) -> Iterator[None]:
    """Note the events of an attempt around the block, if the platform has a folder for events."""
    lake, clock = (getattr(context.resources, name, None) for name in ("lake", "clock"))
    if lake is None or clock is None or not lake.lineage:
        yield
        return
    outbox = LineageOutbox(LocalStore(lake.lineage))
    with _harmless():
        at = clock.now()
        outbox.append(context.run.run_id, start_event(_attempt(context), at=at), at=at)
    try:
        yield
    except BaseException as error:
        seen.error = seen.error or f"{type(error).__name__}: {error}"
        raise
    finally:
        with _harmless():
            at = clock.now()
            outbox.append(context.run.run_id, _terminal(seen, _attempt(context), at), at=at)


def _terminal(seen: StepLineage | AppendLineage, attempt: Attempt, at: datetime) -> dict[str, Any]:
    if seen.error:
        # The event leaves the platform, and an error of a driver may quote an address with its password.
        return fail_event(attempt, at=at, error=shown(seen.error), inputs=seen.inputs, outputs=seen.outputs)
    return complete_event(attempt, at=at, inputs=seen.inputs, outputs=seen.outputs)


@contextmanager
def _harmless() -> Iterator[None]:
    """Log an error of the block instead of raising: lineage must not fail a run."""
    try:
        yield
    except Exception:  # whatever it is
        LOGGER.warning("an event of lineage was not noted", exc_info=True)


def _attempt(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> Attempt:
    op = context.op_execution_context if isinstance(context, dg.AssetExecutionContext) else context
    nominal = None
    # A job has partitions if one of its tables has; a run of another table has no key.
    if op.has_partition_key or op.has_partition_key_range:
        with suppress(dg.DagsterInvariantViolationError):  # of partitions that are no times
            window = op.partition_time_window
            nominal = (window.start, window.end)
    return Attempt(
        run_id=context.run.run_id,
        job=context.run.job_name,
        step=op.op_def.name,
        number=op.retry_number,
        namespace=settings().lineage_namespace,
        nominal=nominal,
    )


def _read_tables(opened: Sequence[Opened], own: Collection[str]) -> list[Touched]:
    """Return the opened tables, without the tables that the step writes."""
    by_name: dict[str, list[Opened]] = {}
    for each in opened:
        if each.spec.name not in own:
            by_name.setdefault(each.spec.name, []).append(each)
    return [*map(_read_table, by_name.values())]


def _read_source(source: Source, version: str | None) -> Touched:
    namespace, name = _place_of(source)
    alias = Dataset(SOURCES, source.name)
    return Touched(namespace=namespace, name=name, known_as=alias, version=version, owner=source.owner)


def _read_table(opened: Sequence[Opened]) -> Touched:
    newest = max(opened, key=lambda each: -1 if each.version is None else each.version)
    namespace, path = place_at(newest.location)
    whole = any(not each.partitions for each in opened)
    return Touched(
        namespace=namespace,
        name=path,
        known_as=Dataset(LAKE, newest.spec.name),
        version=newest.version,
        columns=newest.spec.columns,
        partitions=[] if whole else _distinct(dict(each) for one in opened for each in one.partitions),
    )


def _distinct(partitions: Iterable[Mapping[str, str | None]]) -> list[dict[str, str | None]]:
    return [dict(each) for each in dict.fromkeys(tuple(sorted(each.items())) for each in partitions)]


def _of_source(source: Source, identities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identities with the name of a source, or of a part below the source."""
    return {n: v for n, v in identities.items() if n == source.name or n.startswith(f"{source.name}/")}


def _place_of(source: Source) -> tuple[str, str]:
    """Return namespace and name of a source; of a system without a known address, the system's name."""
    system, _, name = source.name.partition("/")
    chosen = settings()
    if system == "landing":
        scheme, _, place = chosen.landing_zone.rpartition("://")
        bucket, _, prefix = place.partition("/")
        return (f"s3://{bucket}", f"{prefix}/{name}") if scheme else ("file", str(chosen.landing / name))
    if system == "kafka" and chosen.kafka:
        return (f"kafka://{chosen.kafka}", name)
    if system == "postgres" and chosen.postgres:
        url = urlsplit(chosen.postgres)
        return (f"postgres://{url.hostname}:{url.port or 5432}", f"{url.path.strip('/')}.public.{name}")
    return (system, name)
