"""The place of Dagster's run history: SQLite files or PostgreSQL, and the way from one to the other."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg

# Dagster has no export of a run history; its storages share these tables whatever the database.
from dagster._core.storage.event_log.schema import ConcurrencyLimitsTable, DynamicPartitionsTable  # noqa: TID251
from dagster._core.storage.runs.schema import (  # noqa: TID251
    BackfillTagsTable,
    BulkActionsTable,
    KeyValueStoreTable,
    RunsTable,
    RunTagsTable,
    SnapshotsTable,
)
from dagster._core.storage.schedules.schema import (  # noqa: TID251
    AssetDaemonAssetEvaluationsTable,
    InstigatorsTable,
    JobTable,
    JobTickTable,
)
from sqlalchemy import Table, insert, select

from dedp_assets.graph.resources.announced import announced
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.systems.postgres import FOLDER, OWN, history_url
from dedp_assets.laptop.orchestration.instance import configuration
from dedp_assets.laptop.servers import postgres

__all__ = ["SQLITE", "copy_history", "history", "move", "opened"]

SQLITE = "sqlite"
"""Place of a run history in SQLite files of the home, the default."""

_RUNS = (SnapshotsTable, RunsTable, RunTagsTable, BulkActionsTable, BackfillTagsTable, KeyValueStoreTable)
_TICKS = (JobTable, InstigatorsTable, JobTickTable, AssetDaemonAssetEvaluationsTable)
_BESIDE_EVENTS = (DynamicPartitionsTable, ConcurrencyLimitsTable)
_AT_ONCE = 1_000


def history(settings: Settings, *, to: str) -> tuple[dict[str, Any], str]:
    """Count the runs of the run history, or copy the run history to another place.

    Returns:
        Place and number of runs for programs, and a sentence.
    """
    place = settings.history or SQLITE
    if not to:
        with opened(settings, place) as instance:
            runs = instance.get_runs_count()
        return {"place": _shown(place), "runs": runs}, f"{_shown(place)}: {runs} runs"
    runs = move(settings, to=to)
    then = {SQLITE: "Unset DEDP_HISTORY", OWN: "Set DEDP_HISTORY=own"}.get(to, "Set DEDP_HISTORY to the URL")
    text = f"{runs} runs with events, ticks and backfills were copied to {_shown(to)}, and nothing was removed. {then}."
    return {"place": _shown(to), "runs": runs, "copied_from": _shown(place)}, text


def move(settings: Settings, *, to: str) -> int:
    """Copy the run history of a home to another place; return the number of runs.

    Args:
        settings: of the home; their ``history`` is the place to copy from.
        to: ``sqlite``, ``own``, or the URL of a PostgreSQL database.

    Raises:
        ValueError: while a platform runs in the home, if both places are the same, if a run is under way, or if the
            other place holds runs.
    """
    place = settings.history or SQLITE
    if platform := running(settings):
        raise ValueError(f"a run history must rest while it is copied, and {platform} runs in this home: end it first")
    if place == to:
        raise ValueError(f"--to must be another place than the present one, not {_shown(to)}")
    with opened(settings, place) as source, opened(settings, to) as target:
        if count := target.get_runs_count():
            raise ValueError(f"--to must be an empty run history, not {_shown(to)}, which holds {count} runs")
        unfinished = [run.run_id for run in source.get_runs() if not run.is_finished]
        if unfinished:
            raise ValueError(f"a run history must rest while it is copied, and a run is under way: {unfinished[0]}")
        copy_history(source, target)
        return int(target.get_runs_count())


@contextmanager
def opened(settings: Settings, place: str) -> Iterator[dg.DagsterInstance]:
    """Open the run history at a place; if that is the laptop's own server, start the server meanwhile.

    Args:
        settings: of the home.
        place: ``sqlite``, ``own``, or the URL of a PostgreSQL database.
    """
    chosen = replace(settings, history=None if place == SQLITE else place)
    starts = place == OWN and not settings.postgres and not announced(settings.home / FOLDER)
    if starts:
        postgres.start(chosen)
    elif place == OWN:
        postgres.open_database(chosen)
    try:
        settings.dagster_home.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as folder:  # readable by its owner only, as the URL has a password
            stated = configuration(chosen, in_postgres=history_url(chosen) or None)
            (Path(folder) / "dagster.yaml").write_text(stated)
            with dg.DagsterInstance.from_config(folder) as instance:
                yield instance
    finally:
        if starts:
            postgres.stop(chosen)


def copy_history(source: dg.DagsterInstance, target: dg.DagsterInstance) -> None:
    """Copy runs, events, ticks, sensor states, backfills and dynamic partitions to an empty run history.

    Rows of tables are copied in their order and get ids of the target. Events are stored as if they happened again, in
    the order in which they happened over all runs: what Dagster derives from them (the latest materialization of an
    asset, results of checks) follows from that order.
    """
    _copy_rows(source.run_storage, target.run_storage, _RUNS)
    _copy_rows(source.schedule_storage, target.schedule_storage, _TICKS)
    _copy_rows(source.event_log_storage, target.event_log_storage, _BESIDE_EVENTS)
    for event in _events(source):
        target.event_log_storage.store_event(event)


def _copy_rows(source: Any, target: Any, tables: tuple[Table, ...]) -> None:  # noqa: ANN401 - Dagster's storages
    with _connection(source) as read, _connection(target) as written:
        for table in tables:
            columns = [column for column in table.columns if column.name != "id"]
            order = [table.c.id] if "id" in table.c else [*table.primary_key]
            rows = read.execute(select(*columns).order_by(*order)).mappings()
            while several := rows.fetchmany(_AT_ONCE):
                written.execute(insert(table), [dict(row) for row in several])


def _connection(storage: Any) -> Any:  # noqa: ANN401 - as above
    return storage.index_connection() if hasattr(storage, "index_connection") else storage.connect()


def _events(source: dg.DagsterInstance) -> Iterator[Any]:
    """Yield the events of all runs by time; events of a run stay in order."""
    runs = sorted(source.get_run_records(), key=lambda record: record.create_timestamp)
    starts = [("", 0.0), *((record.dagster_run.run_id, record.create_timestamp.timestamp()) for record in runs)]
    waiting: list[tuple[float, int, Any, Iterator[Any]]] = []
    for number, (run, created) in enumerate(starts):
        while waiting and waiting[0][0] < created:
            yield _next(waiting)
        _open(waiting, number, _of_run(source, run))
    while waiting:
        yield _next(waiting)


def _open(waiting: list[tuple[float, int, Any, Iterator[Any]]], number: int, events: Iterator[Any]) -> None:
    """Push the next event of a run onto the heap of waiting events."""
    if (event := next(events, None)) is not None:
        heapq.heappush(waiting, (event.timestamp, number, event, events))


def _next(waiting: list[tuple[float, int, Any, Iterator[Any]]]) -> Any:  # noqa: ANN401 - an event
    _, number, event, rest = heapq.heappop(waiting)
    _open(waiting, number, rest)
    return event


def _of_run(source: dg.DagsterInstance, run: str) -> Iterator[Any]:
    """Yield the events of a run; the empty run id has the events without a run."""
    cursor, more = None, True
    while more:
        page = source.event_log_storage.get_records_for_run(run, cursor=cursor, limit=_AT_ONCE)
        yield from (record.event_log_entry for record in page.records)
        cursor, more = page.cursor, page.has_more


def _shown(place: str) -> str:
    """Return the name of a place without the secrets of a URL."""
    return {SQLITE: "SQLite files", OWN: "the PostgreSQL of this home"}.get(place, "the PostgreSQL database named")
