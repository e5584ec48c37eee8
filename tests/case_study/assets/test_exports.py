"""Exports of persons' data: anonymised, under pseudonyms, and as noisy counts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.case_study.defs.gold.sessions import SESSIONS
from dedp_assets.graph.resources.lake import lake_of
from tests.case_study.assets.conftest import MONDAY, day, visits_of
from tests.helpers import a_run

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "three exports, computed again")]


def session(number, user, visits):
    """A session of a user on the n-th day."""
    on = MONDAY + timedelta(days=number)
    begin = datetime.combine(on, datetime.min.time(), timezone.utc)
    return (on, f"{user} {on}", user, begin, begin + timedelta(minutes=visits), visits, ["/"] * visits)


@pytest.fixture
def sessions(world):
    """Twelve visitors on a day and six of them on the next one, and one who comes as no other does."""
    table = lake_of(world.settings).table(SESSIONS)
    schema = ", ".join(f"{name} {column.type}" for name, column in SESSIONS.columns.items())
    for number, users in enumerate((12, 6)):
        made = [session(number, f"visitor-{n}", 2 + n % 3) for n in range(users)]
        rows = table.session.createDataFrame([*made, session(number, "visitor-odd", 90)], schema)
        table.overwrite(rows, partition={"event_date": day(number)}, provenance=a_run(SESSIONS.name))
    return world


def compute(world, table, *, times=1):
    for number in [0, 1] * times:
        assert world.compute(table, day(number)).failure == ""
    store = world.ledger(table).store
    assert not any(b"visitor-" in store.read(file.path) for file in store.files())
    return world.rows(table)


def test_sessions_reach_partners_with_noise_and_without_ids(sessions):
    """Each session, and nothing that is the same as upstream in each; a rerun changes nothing."""
    for number in range(2):
        assert sessions.compute("gold/sessions_scored", day(number)).failure == ""
    released = compute(sessions, "serving/partners", times=2)
    assert len(released) == 12 + 6 + 2
    assert {*released[0]} == {"event_date", "visits", "pages", "duration_seconds"}
    assert not {row["duration_seconds"] for row in released} & {60.0 * n for n in range(100)}
    assert {row["visits"] for row in released} <= {1, 2, 3, 4, 5, 89, 91}
    assert "mean_and_variance_are_kept" in sessions.checks("serving/partners")


def test_sessions_reach_research_under_pseudonyms_in_crowds(sessions):
    """The same pseudonym on both days; who is alone, on a day or over both, is left out; a rerun changes nothing."""
    released = compute(sessions, "export/research", times=2)
    assert all(row["user_id"].startswith("tok_") for row in released)
    days = [{row["user_id"] for row in released if row["event_date"].isoformat() == day(number)} for number in range(2)]
    assert [len(each) for each in days] == [12, 6]
    assert days[1] < days[0]
    assert {row["visits"] for row in released} == {"[2, 5)"}
    assert sessions.checks("export/research")["nobody_is_alone"]


def test_a_day_of_private_counts_is_released_once(world):
    """A second run returns what was released; the commit has the budget."""
    world.land(day(0), visits_of(0, count=400))
    world.react()
    assert world.compute("serving/private_visitors", day(0)).failure == ""
    first = world.rows("serving/private_visitors")
    assert world.checks("serving/private_visitors")["budget_is_left"]
    assert world.last("serving/private_visitors", event_date=day(0)).record.notes["private"]["figures"]["spent"] == 1
    assert world.compute("serving/private_visitors", day(0)).failure == ""
    assert world.rows("serving/private_visitors") == first
