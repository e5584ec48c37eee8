"""One more day of sessions from what the day before left open, against sessions of all 30 days from their visits.

Ours: ``sessionize_partition`` of the newest day and the pending sessions of the day before it. Theirs: the same over
all days, as a job without pending sessions has to do it. Both publish completed and pending sessions by
``Table.overwrite``, and hold other rows in every round.

Fair, because both read the same Delta table in the same session, and give the same sessions of the newest day, which is
compared. A visitor comes every 10 hours for five visits, some of them over midnight.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.value.incremental_sessionizer import SessionRule, sessionize_partition

__all__ = ["run"]

_DAYS = 30
_FIRST = datetime(2026, 1, 5, tzinfo=timezone.utc)
_NEWEST = (_FIRST + timedelta(days=_DAYS - 1)).date().isoformat()
_VISITS = TableSpec(
    "silver/visits",
    {
        "visit_id": Column("BIGINT", required=True),
        "user_id": Column("STRING", required=True),
        "event_time": Column("TIMESTAMP", required=True),
        "page": Column("STRING", required=True),
        "event_date": Column("DATE", required=True),
    },
    partition_by=("event_date",),
)
_SESSIONS = {
    "session_id": Column("STRING", required=True),
    "user_id": Column("STRING", required=True),
    "started_at": Column("TIMESTAMP", required=True),
    "ended_at": Column("TIMESTAMP", required=True),
    "events": Column("ARRAY<STRUCT<event_time: TIMESTAMP, visit_id: BIGINT, page: STRING>>", required=True),
    "round": Column("INT", required=True),
}
_RULE = SessionRule(entity=["user_id"], event_time="event_time", event_id="visit_id", gap_seconds=1800, keep=["page"])


def run(*, quick: bool) -> list[Row]:
    """Measure small and large days."""
    session, home = SparkEngine().session, settings().home
    return [_measure(session, home, count) for count in ((200,) if quick else (10_000, 100_000))]


def _measure(session: SparkSession, home: Path, per_day: int) -> Row:
    visits = Table(_VISITS, home / f"visits-{per_day}", session)
    visits.overwrite(_generated(session, per_day), provenance=_by("visits"))
    end = _FIRST + timedelta(days=_DAYS)
    before = visits.read().filter(f"event_date < DATE '{_NEWEST}'")
    left = Table(TableSpec("left", _SESSIONS), home / f"left-{per_day}", session)
    started = sessionize_partition(before, None, rule=_RULE, until=end - timedelta(days=1))["pending"]
    left.overwrite(started.selectExpr("*", "0 AS round"), provenance=_by("left"))
    made = {}

    def publish(side: str, events: DataFrame, pending: DataFrame | None, number: int) -> None:
        split = sessionize_partition(events, pending, rule=_RULE, until=end)
        for part in ("completed", "pending"):
            table = Table(TableSpec(f"{side}-{part}", _SESSIONS), home / f"{side}-{part}-{per_day}", session)
            rows = split[part].selectExpr("*", f"{number} AS round")
            assert table.overwrite(rows, provenance=_by(table.name)).changed
            made[side, part] = table

    def one_day(number: int) -> None:
        publish("day", visits.read({"event_date": _NEWEST}), left.read(), number)

    def whole(number: int) -> None:
        publish("whole", visits.read(), None, number)

    sides = interleave(
        {"one day and what was open": _numbered(one_day), "30 days": _numbered(whole)},
        rounds=5,
        warm_up=2,
        counters=Counters(session),
    )
    last = f"ended_at >= TIMESTAMP '{_NEWEST} 00:00:00' - INTERVAL 30 MINUTES"
    digest = ("count(1)", "bit_xor(xxhash64(session_id, ended_at, size(events)))")
    same = [made[side, "completed"].read().filter(last).selectExpr(*digest).collect() for side in ("day", "whole")]
    assert same[0] == same[1]
    return compare(f"{_DAYS} days of {per_day:,} visits", *sides, at_most=0.35 if per_day >= 100_000 else None)


def _generated(session: SparkSession, per_day: int) -> DataFrame:
    """Five visits, four minutes apart, of each visitor every ten hours."""
    spread = "timestamp_micros({first} + (id DIV 5 * 86400000000 * {days} DIV {groups}) + id % 5 * 240000000)"
    first, groups = int(_FIRST.timestamp()) * 1_000_000, per_day * _DAYS // 5
    moment = spread.format(first=first, days=_DAYS, groups=groups)
    visitors = max(1, groups * 10 // (24 * _DAYS))
    columns = ["id AS visit_id", f"concat('user-', id DIV 5 % {visitors}) AS user_id", f"{moment} AS event_time"]
    rows = session.range(0, groups * 5, 1, 2).selectExpr(*columns, "concat('/posts/', id % 40) AS page")
    dated = rows.selectExpr("*", "to_date(event_time) AS event_date")
    return dated.filter(f"event_date <= DATE '{_NEWEST}'")


def _by(asset: str) -> Provenance:
    return Provenance(asset=asset, run_id="benchmark")


def _numbered(work: Callable[[int], None]) -> Callable[[int], None]:
    """Give each execution a number of its own, so that no publish holds the rows of the one before."""
    numbers = itertools.count(1)
    return lambda _: work(next(numbers))
