"""Counts of a step's work that do not depend on the machine: analyses, jobs, calls of the JVM, log, run history."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.clientserver import JavaClient
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from dedp_assets.patterns.delta.storage.local_store import LocalStore

__all__ = ["counted"]

_FORGET = "m\n"
"""How a command begins by which the JVM forgets an object that Python has collected: when is a matter of chance."""


@contextmanager
def counted(session: SparkSession) -> Iterator[dict[str, int]]:
    """Count the work of the block, in this process and in its Spark jobs.

    ``analyses``: frames made, of which Spark analyses each plan; those within Spark itself (of a write, a view) come
    on top. ``jobs``: Spark jobs. ``jvm calls``: round trips of py4j. ``log reads``: files of Delta's logs read and
    listings of their folders. ``history``: connections to SQLite files.
    """
    frames: set[str] = set()
    found = dict.fromkeys(("analyses", "jobs", "jvm calls", "log reads", "history"), 0)

    def add(name: str, number: int = 1) -> None:
        found[name] += number

    context, group = session.sparkContext, f"counted-{uuid.uuid4().hex}"
    context.setJobGroup(group, "counted")
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, note in (
            (DataFrame, "__init__", lambda _, jdf, *__: frames.add(jdf._target_id)),
            (JavaClient, "send_command", lambda _, command, *__: add("jvm calls", not command.startswith(_FORGET))),
            (sqlite3.dbapi2, "connect", lambda *_: add("history")),
            (LocalStore, "read", lambda store, *_: add("log reads", _is_log(store))),
            (LocalStore, "list", lambda store, *_: add("log reads", _is_log(store))),
        ):
            patch.setattr(owner, name, _noting(getattr(owner, name), note))
        read_on = LocalStore.read_on

        def each_read(store: LocalStore, paths: Iterable[str]) -> Iterator[bytes]:
            for content in read_on(store, paths):
                add("log reads", _is_log(store))
                yield content

        patch.setattr(LocalStore, "read_on", each_read)
        yield found
    context.setLocalProperty("spark.jobGroup.id", None)
    found |= {"analyses": len(frames), "jobs": len(context.statusTracker().getJobIdsForGroup(group))}


def _noting(call: Callable[..., Any], note: Callable[..., object]) -> Callable[..., Any]:
    def noting(*given: Any, **options: Any) -> Any:
        note(*given)
        return call(*given, **options)

    return noting


def _is_log(store: LocalStore) -> bool:
    return store.name == "_delta_log"
