"""Sessions while visits come in: those of the nightly table, under the same ids, as soon as they are over."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.patterns.delta import store_at
from tests.case_study.assets.conftest import day, visits_of
from tests.case_study.assets.test_sessions import visit

pytestmark = pytest.mark.spark

LIVE, NIGHTLY = "gold/sessions_live", "gold/sessions"


def held(world, table):
    columns = ("session_id", "user_id", "started_at", "ended_at", "visits", "pages")
    return sorted(([row[c] for c in columns] for row in world.rows(table)), key=str)


def test_live_sessions_are_those_of_the_night(world):
    """Two runs, a session over both and over midnight; a lost checkpoint is told, and all is done anew if asked."""
    world.land(day(0), [*visits_of(0), visit("Ada", 0, "23:50:00", "a1"), visit("Ada", 0, "23:50:00", "a1")])
    world.react()
    assert world.run("compute_live_sessions").failure == ""
    early = held(world, LIVE)
    assert early
    world.land(day(1), [*visits_of(1), visit("Ada", 1, "00:10:00", "a2")])
    world.react()
    assert world.run("compute_live_sessions").failure == ""
    live = held(world, LIVE)
    assert [row for row in early if row not in live] == []
    assert [row[5] for row in live if row[1] == "Ada"] == [["/a1", "/a2"]]
    for number in range(2):
        assert world.compute(NIGHTLY, day(number)).failure == ""
    newest = max(row["event_time"] for row in world.rows("silver/visits"))
    over = newest - timedelta(hours=1, minutes=30)
    assert live == [row for row in held(world, NIGHTLY) if row[3] <= over]
    store_at(world.settings.lake).delete_folder("_checkpoints")
    assert "is lost" in world.run("compute_live_sessions").failure
    assert world.run("compute_live_sessions", **{FORCE: "true"}).failure == ""
    assert held(world, LIVE) == live
