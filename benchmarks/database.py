"""A PostgreSQL for the benchmarks: the applications' tables, filled by the server itself, and what CPU it used.

It is the platform's own server in the benchmark's home. It is no child of this process, so its CPU is no part of a
side's and is counted beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, time, timedelta, timezone
from typing import Any

import psycopg

from benchmarks.data import FIRST_DAY
from benchmarks.measure import tree_cpu
from dedp_assets.case_study.sources.operational import create
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.laptop.servers import postgres as server

__all__ = ["days", "land_visits", "running", "with_server"]

_VISITS = """
INSERT INTO visits
SELECT n, at - n %% 3600 * interval '1 second', 'u' || n * 7919 %% 5000, '/posts/' || n %% 40, at
FROM (SELECT n, %(day)s + (n - %(first)s)::float8 / %(count)s * interval '1 day' AS at
      FROM generate_series(%(first)s::bigint, %(first)s + %(count)s - 1) AS n) AS made
"""


@contextmanager
def running() -> Iterator[OperationalDatabase]:
    """The database, empty; ended behind the block."""
    with _server(), OperationalDatabase().connect(autocommit=True) as connection:
        create(connection)
        # Whenever it likes is no time for it while somebody measures.
        connection.execute("ALTER TABLE visits SET (autovacuum_enabled = false)")
        connection.execute("ALTER TABLE users SET (autovacuum_enabled = false)")
        yield OperationalDatabase()


def days(first: int, end: int) -> tuple[datetime, datetime]:
    """From the beginning of the ``first``-th day, counted from 0, to that of the ``end``-th one."""
    start = datetime.combine(FIRST_DAY, time(), timezone.utc)
    return start + timedelta(days=first), start + timedelta(days=end)


def land_visits(connection: psycopg.Connection[Any], *, day: int, first: int, count: int) -> None:
    """Let the table of visits gain ``count`` rows with ids from ``first`` on, ingested evenly over one day."""
    connection.execute(_VISITS, {"day": days(day, day)[0], "first": first, "count": count})
    connection.execute("VACUUM ANALYZE visits")
    connection.execute("CHECKPOINT")


def with_server(work: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    """Counters of ``work``, with the CPU that the server used meanwhile."""
    process = int((settings().home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
    before = tree_cpu(process)
    found = work()
    return {**found, "CPU s in PostgreSQL": tree_cpu(process) - before}


@contextmanager
def _server() -> Iterator[None]:
    server.start(settings())
    try:
        yield
    finally:
        server.stop(settings())
