"""The replay sensor: a fix wakes the dates whose dead letters it might save."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from dedp_assets.case_study import defs
from dedp_assets.case_study.defs.silver.visits import DEAD_LETTER, VISITS, visits
from dedp_assets.graph.declare import declared
from dedp_assets.graph.declare.replays import letters_of
from dedp_assets.graph.sensors.replay import dead_letters_fixed as over
from dedp_assets.patterns.core.errors import ConfigError
from tests.helpers import a_record

DEPLOYED = visits.code_version

dead_letters_fixed = over(declared(defs))


def letters(day: str, *, code_version: str, still_open: int) -> dict:
    record = a_record("silver/visits", {"filed_under": day}, code_version=code_version, figures={"open": still_open})
    return {"changed": [{"filed_under": day}], "record": record}


def test_dates_with_letters_of_older_code_are_requested(zone, keys):
    """Letters of another version than the deployed one are replayed, letters of its own wait for a fix."""
    zone.dated(
        "silver/visits_dead_letter",
        letters("2026-01-05", code_version="0", still_open=2),
        letters("2026-01-06", code_version=DEPLOYED, still_open=3),
        letters("2026-01-07", code_version="0", still_open=0),
        column="filed_under",
    )
    data = zone.tick(dead_letters_fixed)
    assert keys(data) == ["2026-01-05"]
    (request,) = data.run_requests
    assert request.run_key == f"silver/visits:2026-01-05@code-{DEPLOYED}"
    assert [key.to_user_string() for key in request.asset_selection] == ["silver/visits_dead_letter_replay"]


def test_a_table_whose_letters_cannot_be_replayed_is_left_alone():
    """Nothing is asked for without a function that replays them; a table has one table of letters."""
    assert "silver/visits" not in over([replace(visits, runs=replace(visits.runs, replay=None))]).description
    with pytest.raises(ConfigError, match="silver/visits replays dead letters and has 0 tables of them"):
        letters_of(replace(visits, beside=dict.fromkeys([VISITS], ())))
    second = replace(DEAD_LETTER, name="silver/more_letters")
    with pytest.raises(ConfigError, match="has 2 tables of them"):
        letters_of(replace(visits, beside={**visits.beside, second: ()}))


def test_without_dead_letters_there_is_nothing_to_replay(zone):
    """No table, no runs."""
    skipped = zone.tick(dead_letters_fixed).skip_message
    assert skipped == "; ".join(
        f"{letters}: there are no dead letters" for letters in ("silver/ads_dead_letter", "silver/visits_dead_letter")
    )


def test_letters_are_remembered_between_ticks_and_read_from_new_commits_only(zone, keys):
    """What the process knows is not looked up again; a replay that saved everything ends it."""
    zone.dated("silver/visits_dead_letter", letters("2026-01-05", code_version="0", still_open=2), column="filed_under")
    assert keys(zone.tick(dead_letters_fixed)) == ["2026-01-05"]
    (zone.root / f"lake/silver/visits_dead_letter/_delta_log/{0:020d}.json").write_text("not read again")
    assert keys(zone.tick(dead_letters_fixed)) == ["2026-01-05"]
    zone.dated("silver/visits_dead_letter", letters("2026-01-05", code_version="1", still_open=0), column="filed_under")
    assert keys(zone.tick(dead_letters_fixed)) == []


def test_letters_the_log_no_longer_tells_about_are_replayed(zone, keys):
    """After a cleanup of the log nobody knows which code refused them: they run once more."""
    told = letters("2026-01-06", code_version=DEPLOYED, still_open=1)
    zone.dated(
        "silver/visits_dead_letter", letters("2026-01-05", code_version="1", still_open=1), told, column="filed_under"
    )
    table = zone.root / "lake/silver/visits_dead_letter"
    DeltaTable(str(table)).create_checkpoint()
    for old in (0, 1):
        (table / f"_delta_log/{old:020d}.json").unlink()
    assert keys(zone.tick(dead_letters_fixed)) == ["2026-01-05"]
