"""Counts of work that do not depend on the machine: analyses, jobs, calls of the JVM, logs, folders, run history."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from deltalake import DeltaTable
from py4j.clientserver import JavaClient
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from sqlalchemy import event
from sqlalchemy.engine import Engine

from dedp_assets.graph.resources.environments import settings
from dedp_assets.patterns.delta.storage.local_store import LocalStore

__all__ = ["OF_LOGS", "OF_SPARK", "counted"]

OF_SPARK = ("analyses", "jobs", "jvm calls")
OF_LOGS = ("log files", "read again", "log listings", "log looks", "deltalake", "listings", "statements", "history")
_FORGET = "m\n"
"""How a command begins by which the JVM forgets an object that Python has collected: when is a matter of chance."""


@contextmanager
def counted(session: SparkSession | None = None) -> Iterator[dict[str, int]]:
    """Count the work of the block, in this process and in the Spark jobs of ``session``.

    Of Spark, if there is a session: ``analyses``: frames made, of which Spark analyses each plan; those within Spark
    itself (of a write, a view) come on top. ``jobs``: Spark jobs. ``jvm calls``: round trips of py4j.

    Of logs: ``log files``: files of Delta's logs opened, or tried to open. ``read again``: those of them that were
    opened before in the block. ``log listings``: listings of their folders. ``log looks``: files asked for by name.
    ``deltalake``: tables opened by deltalake, which reads their logs by itself. ``listings``: listings of other folders
    below the home. ``statements``: SQL of the run history. ``history``: connections to SQLite files.
    """
    found = dict.fromkeys((*OF_SPARK * bool(session), *OF_LOGS), 0)
    opened = Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        _count_logs(patch, opened, found)
        _count_history(patch, found)
        with _spark(session, patch, found) if session else _statements(found):
            yield found
    found |= {"log files": opened.total(), "read again": opened.total() - len(opened)}


def _count_logs(patch: pytest.MonkeyPatch, opened: Counter[str], found: dict[str, int]) -> None:
    def note_opened(store: LocalStore, path: str) -> None:
        opened.update([store.address_of(path)] * _is_log(store))

    def note_look(store: LocalStore, *_: object) -> None:
        found["log looks"] += _is_log(store)

    def note_listing(path: Any = ".", *_: object) -> None:
        place = str(path)  # or the number of an open folder
        found["log listings" if place.endswith("/_delta_log") else "listings"] += place.startswith(home)

    def note_table(*_: object) -> None:
        found["deltalake"] += 1

    home, read_on = str(settings().home), LocalStore.read_on

    def each_read(store: LocalStore, paths: Iterable[str]) -> Iterator[tuple[bytes, object]]:
        named = []
        for file in read_on(store, (named.append(path) or path for path in paths)):
            note_opened(store, named[-1])
            yield file

    for owner, name, note in (
        (LocalStore, "read", note_opened), (LocalStore, "open", note_opened), (LocalStore, "exists", note_look),
        (LocalStore, "entry", note_look), (DeltaTable, "__init__", note_table), (os, "listdir", note_listing),
        (os, "scandir", note_listing),
    ):  # fmt: skip
        patch.setattr(owner, name, _noting(getattr(owner, name), note))
    patch.setattr(LocalStore, "read_on", each_read)


def _count_history(patch: pytest.MonkeyPatch, found: dict[str, int]) -> None:
    def note(*_: object) -> None:
        found["history"] += 1

    patch.setattr(sqlite3.dbapi2, "connect", _noting(sqlite3.dbapi2.connect, note))


@contextmanager
def _statements(found: dict[str, int]) -> Iterator[None]:
    def note(*_: object) -> None:
        found["statements"] += 1

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@contextmanager
def _spark(session: SparkSession, patch: pytest.MonkeyPatch, found: dict[str, int]) -> Iterator[None]:
    frames = set[str]()

    def note_call(_: object, command: str, *__: object) -> None:
        found["jvm calls"] += not command.startswith(_FORGET)

    patch.setattr(DataFrame, "__init__", _noting(DataFrame.__init__, lambda _, jdf, *__: frames.add(jdf._target_id)))
    context, group = session.sparkContext, f"counted-{uuid.uuid4().hex}"
    context.setJobGroup(group, "counted")
    patch.setattr(JavaClient, "send_command", _noting(JavaClient.send_command, note_call))
    with _statements(found):
        yield
    calls = found["jvm calls"]
    context.setLocalProperty("spark.jobGroup.id", None)
    jobs = len(context.statusTracker().getJobIdsForGroup(group))
    found |= {"analyses": len(frames), "jobs": jobs, "jvm calls": calls}


def _noting(call: Callable[..., Any], note: Callable[..., object]) -> Callable[..., Any]:
    def noting(*given: Any, **options: Any) -> Any:
        note(*given)
        return call(*given, **options)

    return noting


def _is_log(store: LocalStore) -> bool:
    return store.name == "_delta_log"
