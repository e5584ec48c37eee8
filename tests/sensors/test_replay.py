"""The replay sensor: a fix wakes the dates whose dead letters it might save."""

from __future__ import annotations

from sensors.replay import dead_letters_fixed
from tests.helpers import a_record


def letters(day: str, *, code_version: str, still_open: int) -> dict:
    record = a_record("silver/visits", {"filed_under": day}, code_version=code_version, notes={"open": still_open})
    return {"changed": [{"filed_under": day}], "record": record}


def test_dates_with_letters_of_older_code_are_requested(zone, keys):
    """Deployed code has version 1: letters of version 0 are replayed, letters of its own wait for a fix."""
    zone.dated(
        "silver/visits_dead_letter",
        letters("2026-01-05", code_version="0", still_open=2),
        letters("2026-01-06", code_version="1", still_open=3),
        letters("2026-01-07", code_version="0", still_open=0),
        column="filed_under",
    )
    data = zone.tick(dead_letters_fixed)
    assert keys(data) == ["2026-01-05"]
    assert data.run_requests[0].run_key == "silver/visits:2026-01-05@code-1"


def test_without_dead_letters_there_is_nothing_to_replay(zone):
    """No table, no runs."""
    assert zone.tick(dead_letters_fixed).skip_message == "there are no dead letters"
