"""Sessions of our own: settings that nobody else on the caller's session sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["private"]


@contextmanager
def private(session: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session beside ``session``, on the same engine, with ``settings``; it shares files, not DataFrames."""
    new: Any = getattr(session, "newSession", None) or session.cloneSession  # type: ignore[attr-defined]
    own: SparkSession = new()
    for key, value in settings.items():
        own.conf.set(key, value)
    yield own
