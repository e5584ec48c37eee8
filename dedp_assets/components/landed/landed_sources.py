"""Sources of a landing: the choice between folder, database table and topic, and the loaders."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import dagster as dg

from dedp_assets.components.landed.landed_databases import TableLoad
from dedp_assets.components.landed.landed_loads import DeliveryLoad
from dedp_assets.components.landed.landed_topics import TopicLoad
from dedp_assets.components.landed.landings import Landed, LandingSpec
from dedp_assets.components.yaml.documents import Path
from dedp_assets.components.yaml.faults import Misfit
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["SOURCES", "loader_of", "misfits", "source_of"]

SOURCES: Mapping[str, type[Any]] = {"folder": DeliveryLoad, "database": TableLoad, "topic": TopicLoad}
"""Option that names a source -> class of the loader of the records as landed."""
_OWN = {"folder": ("format", "marker", "settled_minutes", "exclude"), "database": (), "topic": ()}
"""Option that names a source -> further options of that source alone."""
_NEEDED = {"folder": ("format",)}


def source_of(stated: LandingSpec) -> str:
    """Return the kind of a landing's source: ``folder``, ``database`` or ``topic``."""
    return next((name for name in SOURCES if getattr(stated, name)), "folder")


def loader_of(landed: Landed, bronze: TableSpec) -> Any:  # noqa: ANN401 - a class of `SOURCES`
    """Return the loader of the records as landed, which declares their table."""
    return SOURCES[source_of(landed.stated)](landed, bronze)


def misfits(stated: LandingSpec, root: Path, written: Collection[str]) -> Iterator[Misfit]:
    """Yield the faults of the choice: no source, two, or an option of another source.

    Args:
        stated: the landing.
        root: path of its options.
        written: names of the options that are written down.
    """
    sources = [name for name in SOURCES if name in written]
    chosen = sources[0] if sources else "folder"
    for name in (chosen, *_NEEDED.get(chosen, ())):
        if name not in written:
            yield Misfit((*root, name), f"{name} is missing")
    for other in sources[1:]:
        yield Misfit((*root, other), f"{other} must be left out of a landing with {chosen}")
    for source, options in _OWN.items():
        for name in options if source not in sources[:1] and sources else ():
            if name in written:
                yield Misfit((*root, name), f"{name} must be left out of a landing with {chosen}")
    yield from (*_of_windows(stated, (*root, "database", "column")), *_of_topic(stated, root))


def _of_windows(stated: LandingSpec, path: Path) -> Iterator[Misfit]:
    """Yield the fault of windows without a column, and of a column without windows."""
    if stated.database is None:
        return
    column = stated.database.column
    if stated.partitions is not None and not column:
        yield Misfit(path, "column is missing: with partitions, it names the timestamp of a row's arrival in the table")
    elif column and stated.partitions is None:
        yield Misfit(path, "column must be left out without partitions, as each load reads all rows then")


def _of_topic(stated: LandingSpec, root: Path) -> Iterator[Misfit]:
    """Yield the faults of a topic without days, or without the time by which late records are found."""
    if stated.topic is None:
        return
    if not isinstance(stated.partitions, dg.DailyPartitionsDefinition):
        sentence = "partitions must be daily of a landing with topic: a record lands on the day the broker received it"
        yield Misfit((*root, "partitions"), sentence)
    elif not stated.event_time:
        yield Misfit((*root, "event_time"), "event_time is missing: a landing with topic has one, to find late records")
