"""Scored sessions: a crawler among visitors."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.case_study.defs.gold.sessions import SESSIONS
from dedp_assets.case_study.defs.gold.sessions_scored import SESSIONS_SCORED
from dedp_assets.graph.resources.lake import lake_of
from tests.case_study.assets.conftest import MONDAY, day
from tests.helpers import a_run

pytestmark = pytest.mark.spark


def session(name, count, *, hour, seconds, pages):
    """A session of so many visits, each some seconds after the one before."""
    begin = datetime.combine(MONDAY, datetime.min.time(), timezone.utc) + timedelta(hours=hour)
    end = begin + timedelta(seconds=(count - 1) * seconds)
    return (MONDAY, name, name, begin, end, count, [f"/{number % pages}" for number in range(count)])


def test_a_session_far_from_the_others_of_its_day_is_flagged_with_its_figures(world):
    """A crawler reads many pages in as much time as others read few; every session keeps its key."""
    usual = [session(f"s{n}", 2 + n % 3, hour=n, seconds=100 + 10 * n, pages=3) for n in range(12)]
    table = lake_of(world.settings).table(SESSIONS)
    schema = ", ".join(f"{name} {column.type}" for name, column in SESSIONS.columns.items())
    rows = table.session.createDataFrame([*usual, session("crawler", 200, hour=13, seconds=2, pages=150)], schema)
    table.overwrite(rows, partition={"event_date": day(0)}, provenance=a_run(SESSIONS.name))
    assert world.compute(SESSIONS_SCORED.name, day(0)).failure == ""
    scored = {row["session_id"]: row for row in world.rows(SESSIONS_SCORED.name, event_date=day(0))}
    assert {*scored} == {"crawler", *(each[1] for each in usual)}
    assert [name for name, row in scored.items() if row["is_anomaly"]] == ["crawler"]
    odd = scored["crawler"]
    assert odd["anomaly_columns"] == ["visits", "pages"]
    assert (odd["visits"], odd["pages"], odd["duration_seconds"]) == (200, 150, 398.0)
    assert world.checks(SESSIONS_SCORED.name)["odd_sessions_are_few"]
