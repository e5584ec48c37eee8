"""Visitors by ten minutes, from landing to gold: a stream that goes on where its table stands."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.patterns.delta import store_at
from tests.case_study.assets.conftest import day, visits_of

pytestmark = pytest.mark.spark
TABLE = "gold/visitors_by_window"


def counted(lines):
    """What plain Python counts: the distinct visitors of each ten minutes that are over for an hour."""
    visits = [json.loads(line) for line in lines]
    times = [datetime.fromisoformat(visit["event_time"].replace("Z", "+00:00")) for visit in visits]
    windows: dict[datetime, set[str]] = {}
    for at, visit in zip(times, visits, strict=True):
        start = at.replace(minute=at.minute // 10 * 10, second=0, microsecond=0)
        windows.setdefault(start, set()).add(visit["user_id"])
    over = max(times) - timedelta(hours=1)
    return {start: len(users) for start, users in windows.items() if start + timedelta(minutes=10) <= over}


def found(world):
    rows = world.rows(TABLE)
    assert len({row["window_start"] for row in rows}) == len(rows)
    return {row["window_start"]: row["visitors"] for row in rows}


def test_windows_are_counted_once_over_runs_and_a_lost_checkpoint_is_told(world):
    """Two days in two runs; then the checkpoint is gone: refused, until somebody asks to count anew."""
    first, second = visits_of(0), visits_of(1)
    world.land(day(0), first)
    assert world.run("daily_visits", day(0)).failure == ""
    assert world.run("count_visitors").failure == ""
    assert found(world) == counted(first)
    world.land(day(1), second)
    assert world.run("daily_visits", day(1)).failure == ""
    assert world.run("count_visitors").failure == ""
    everything = counted([*first, *second])
    assert found(world) == everything
    shown = world.materialization(TABLE)
    assert shown["batch"] > 1
    assert shown["late visits left out"] == 0
    store_at(world.settings.lake).delete_folder("_checkpoints")
    assert "is lost, while the table holds all up to micro-batch" in world.run("count_visitors").failure
    assert found(world) == everything
    assert world.run("count_visitors", **{FORCE: "true"}).failure == ""
    assert found(world) == everything
