"""Replay: after a fix, exactly the open dead letters run again, once, and gold with them. The tests tell one story."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from dedp_assets.case_study.defs.silver.visits import RULES
from dedp_assets.graph.outcomes.run_tags import APPROVED_BECAUSE, APPROVED_BY
from tests.case_study.assets.conftest import BOTH_OF_GOLD, day, visits_of, world_in

pytestmark = pytest.mark.budget(50, "a platform with letters that are replayed")

REPLAY = "silver/visits_dead_letter_replay"
SILVER = dg.AssetSelection.assets("silver/visits", "silver/visits_dead_letter", REPLAY)
REFUSED = sorted(json.loads(line)["visit_id"] for line in visits_of(0)[:2])
HOPELESS = '{"visit_id": "cut-off", "event_time": "2026-'


def deploy(world, code_version):
    """What a new release does: the same graph with another code version of silver."""
    raised = world.platform.definitions.map_resolved_asset_specs(
        func=lambda spec: spec.replace_attributes(code_version=code_version), selection=SILVER
    )
    world.platform.definitions = raised


def letters(world, **values):
    return world.rows("silver/visits_dead_letter", **values)


@pytest.fixture(scope="module")
def mistaken(spark, tmp_path_factory):
    """Two days, of which the first was loaded by code with a wrong rule that refuses two of its visits."""
    with world_in(tmp_path_factory.mktemp("mistaken")) as world:
        world.land(day(0), visits_of(0))
        world.land(day(1), visits_of(1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(RULES, "visit is not wanted", f"visit_id NOT IN ('{REFUSED[0]}', '{REFUSED[1]}')")
            assert world.react() == [("daily_visits", day(0)), ("daily_visits", day(1))]
        yield world


def test_a_wrong_rule_costs_no_record(mistaken):
    """What it refuses lies in the dead letters, open, and nothing is asked for while the code is the same."""
    found = letters(mistaken)
    assert sorted(json.loads(letter["raw"])["visit_id"] for letter in found) == REFUSED
    assert {(letter["reason"], letter["replayed_by"]) for letter in found} == {("visit is not wanted", None)}
    assert len(mistaken.ids("silver/visits", event_date=day(0))) == 38
    assert mistaken.react() == []


def test_a_fix_replays_exactly_the_dates_it_may_save_and_then_gold(mistaken):
    """The records reach silver once, marked; their letters say which code saved them; gold follows."""
    untouched = mistaken.last("silver/visits", event_date=day(1)).version
    deploy(mistaken, "fix-1")
    assert mistaken.react() == [(REPLAY, day(0)), (BOTH_OF_GOLD, day(0))]
    assert mistaken.ids("silver/visits", event_date=day(0)) == sorted(json.loads(v)["visit_id"] for v in visits_of(0))
    saved = [row["visit_id"] for row in mistaken.rows("silver/visits") if row["was_dead_lettered"]]
    assert sorted(saved) == REFUSED
    told = [(letter["code_version"], letter["replayed_by"], letter["status"]) for letter in letters(mistaken)]
    assert told == [("2", "fix-1", "replayed")] * 2
    assert mistaken.rows("gold/daily_visitors", event_date=day(0))[0]["visits"] == 40
    assert mistaken.last("silver/visits", event_date=day(0)).record.cause == "replay of 2"
    assert mistaken.last("silver/visits", event_date=day(1)).version == untouched


def test_the_ui_says_what_a_replay_did(mistaken):
    """The replay counts what it saved, and silver and its letters have a materialization of the run."""
    replayed = mistaken.materialization(REPLAY, day(0))
    assert (replayed["outcome"], replayed["saved [records]"]) == ("2 letters saved, 0 refused again", 2)
    assert (replayed["open [records]"], replayed["replayed [records]"]) == (0, 2)
    assert replayed["changed partitions"] == [{"event_date": day(0)}]
    assert mistaken.materialization("silver/visits", day(0))["rows written"] == 2
    assert mistaken.materialization("silver/visits_dead_letter", day(0))["replayed letters [records]"] == 2


def test_what_was_replayed_is_not_replayed_again(mistaken):
    """Neither the next tick, nor a person, nor a further release without open letters does anything."""
    rows, kept = mistaken.rows("silver/visits"), letters(mistaken)
    assert mistaken.compute(REPLAY, day(0)).failure == ""
    assert (mistaken.rows("silver/visits"), letters(mistaken)) == (rows, kept)
    before = mistaken.versions()
    assert mistaken.react() == []
    deploy(mistaken, "fix-2")
    assert mistaken.react() == []
    assert mistaken.versions() == before


def test_a_letter_that_no_fix_saves_stays_open_and_is_tried_once_by_each_release(mistaken):
    """A torn record is refused by the new code too, which is then not asked again; its first refusal is remembered."""
    mistaken.land(day(2), visits_of(2), broken=[HOPELESS])
    assert mistaken.react() == [("daily_visits", day(2))]
    (before,) = letters(mistaken, filed_under=day(2))
    deploy(mistaken, "fix-3")
    assert mistaken.react() == [(REPLAY, day(2))]
    assert mistaken.react() == []
    (after,) = letters(mistaken, filed_under=day(2))
    assert mistaken.materialization(REPLAY, day(2))["open [records]"] == 1
    assert (after["raw"], after["replayed_by"], after["code_version"]) == (HOPELESS, None, "fix-3")
    assert after["dead_lettered_at"] == before["dead_lettered_at"]
    assert len(mistaken.ids("silver/visits", event_date=day(2))) == 40


def test_a_person_may_replay_without_a_release(mistaken, monkeypatch):
    """The rule that refused a record is mended in place: asked from the UI, the record joins its date and gold."""
    mistaken.land(day(3), visits_of(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "visit is not wanted", f"visit_id <> '{json.loads(visits_of(3)[5])['visit_id']}'")
        assert mistaken.react() == [("daily_visits", day(3))]
    assert len(mistaken.ids("silver/visits", event_date=day(3))) == 39
    assert mistaken.react() == []
    assert mistaken.compute(REPLAY, day(3)).failure == ""
    assert mistaken.react() == [(BOTH_OF_GOLD, day(3))]
    assert mistaken.rows("gold/daily_visitors", event_date=day(3))[0]["visits"] == 40


def test_a_rebuild_after_a_replay_gives_the_same_rows(mistaken):
    """What is computed whole from bronze is what was there: no row is other, no letter comes back."""
    found = [sorted(map(str, mistaken.rows("silver/visits"))), sorted(str(row["raw"]) for row in letters(mistaken))]
    for number in range(4):
        assert mistaken.compute("silver/visits", day(number)).failure == ""
    again = [sorted(map(str, mistaken.rows("silver/visits"))), sorted(str(row["raw"]) for row in letters(mistaken))]
    assert again == found


def test_a_replay_leaves_letters_to_a_run_that_is_due(mistaken):
    """Bronze has changed since: silver's own run processes the letters with everything else, so the replay waits."""
    mistaken.land(day(2), visits_of(2, count=41), broken=[HOPELESS])
    assert mistaken.compute("bronze/visits", day(2)).failure == ""
    before = mistaken.versions()
    assert mistaken.compute(REPLAY, day(2)).failure == ""
    assert "its own run processes the letters, too" in mistaken.materialization(REPLAY, day(2))["outcome"]
    assert mistaken.versions() == before


def test_a_person_gives_up_what_nobody_saves(mistaken):
    """By name and with a reason, as anything is approved here: the letter stays, and counts as open no more."""
    mistaken.react()
    assert (
        mistaken.compute(REPLAY, day(2), **{APPROVED_BY: "Ada", APPROVED_BECAUSE: "torn at the source"}).failure == ""
    )
    (letter,) = letters(mistaken, filed_under=day(2))
    assert (letter["raw"], letter["status"]) == (HOPELESS, "given_up")
    record = mistaken.last("silver/visits_dead_letter", filed_under=day(2)).record
    assert (record.figures["open"], record.approval["by"]) == (0, "Ada")
    deploy(mistaken, "fix-4")
    assert mistaken.react() == []
