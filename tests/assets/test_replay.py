"""Replay: after a fix, exactly the dates with open dead letters are processed again, once. The tests tell one story."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from dedp_assets.defs.silver.visits import RULES
from tests.assets.conftest import BOTH_OF_GOLD, day, visits_of, world_in

SILVER = dg.AssetSelection.assets(["silver", "visits"], ["silver", "visits_dead_letter"])
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
    """The records reach silver once, marked; their letters say which code saved them; gold counts them."""
    untouched = mistaken.last("silver/visits", event_date=day(1)).version
    deploy(mistaken, "fix-1")
    assert mistaken.react() == [("silver/visits", day(0)), (BOTH_OF_GOLD, day(0))]
    assert mistaken.ids("silver/visits", event_date=day(0)) == sorted(json.loads(v)["visit_id"] for v in visits_of(0))
    saved = [row["visit_id"] for row in mistaken.rows("silver/visits") if row["was_dead_lettered"]]
    assert sorted(saved) == REFUSED
    assert [(letter["code_version"], letter["replayed_by"]) for letter in letters(mistaken)] == [("2", "fix-1")] * 2
    assert mistaken.rows("gold/daily_visitors", event_date=day(0))[0]["visits"] == 40
    assert mistaken.last("silver/visits", event_date=day(0)).record.cause == "replay of 2"
    assert mistaken.last("silver/visits", event_date=day(1)).version == untouched


def test_what_was_replayed_is_not_replayed_again(mistaken):
    """Neither the next tick nor a further release without open letters does anything."""
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
    assert mistaken.react() == [("silver/visits", day(2))]
    assert mistaken.react() == []
    (after,) = letters(mistaken, filed_under=day(2))
    assert (after["raw"], after["replayed_by"], after["code_version"]) == (HOPELESS, None, "fix-3")
    assert after["dead_lettered_at"] == before["dead_lettered_at"]
    assert len(mistaken.ids("silver/visits", event_date=day(2))) == 40
