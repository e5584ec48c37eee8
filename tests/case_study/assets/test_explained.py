"""`dedp explain` over the case study: rows of gold down to lines of files, after a replay and a restore."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from dedp_assets.case_study.defs.silver.visits import RULES
from dedp_assets.cli import main
from tests.case_study.assets.conftest import day, visits_of, world_in

pytestmark = [pytest.mark.spark, pytest.mark.budget(60, "a platform with letters, duplicates, a replay and a restore")]

GOLD, SILVER, BRONZE = "gold/daily_page_views", "silver/visits", "bronze/visits"
LETTERS = "silver/visits_dead_letter"
REPLAY = f"{LETTERS}_replay"
TORN = '{"visit_id": "cut-off", "event_time": "2026-'
REFUSED = [json.loads(line)["visit_id"] for line in visits_of(0)[20:22]]
TWICE = [json.loads(line) for line in visits_of(0)[:3]]


@pytest.fixture(scope="module")
def explained(spark, tmp_path_factory):
    """A day with a torn line, three repeats and two wrongly refused visits, replayed; then gold is rolled back."""
    with world_in(tmp_path_factory.mktemp("explained")) as world, pytest.MonkeyPatch.context() as engine:
        world.land(day(0), visits_of(0), broken=[TORN], repeat=3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(RULES, "visit is not wanted", f"visit_id NOT IN ('{REFUSED[0]}', '{REFUSED[1]}')")
            world.react()
        before = world.ledger(GOLD).version()
        selection = dg.AssetSelection.assets(SILVER, LETTERS, REPLAY)
        world.platform.definitions = world.platform.definitions.map_resolved_asset_specs(
            func=lambda spec: spec.replace_attributes(code_version="fix-1"), selection=selection
        )
        world.react()
        engine.setattr("dedp_assets.graph.resources.spark.SparkEngine.session", property(lambda _: spark))
        assert main(["restore", GOLD, "--to", str(before), "--because", "the counts were shown to a customer"]) == 0
        yield world


@pytest.fixture
def dedp(explained, capsys):
    """``dedp(SILVER, "--row", "v1")`` of the day: exit code and document."""

    def run(table, *options):
        code = main(["explain", table, day(0), *options, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_rows_of_gold_are_explained_down_to_the_files(dedp):
    """The restored version, the audits that silver passed, and the delivery of the day."""
    origin = dedp(GOLD)[1]["origin"]
    (restore,), (made,) = origin["restores"], origin["commits"]
    assert (restore["restored_to"], restore["notes"]["because"]) == (1, "the counts were shown to a customer")
    (silver,) = made["inputs"]
    assert (made["version"], silver["name"], silver["read"], silver["origin"]["changed_since"]) == (1, SILVER, 1, 2)
    (valid,) = silver["origin"]["commits"]
    assert (valid["rows"]["dead"], valid["rows"]["duplicates"], valid["verdict"]) == (3, 3, "warned")
    assert valid["letters"] == {LETTERS: {"open": 3}}
    (landed,) = valid["inputs"][0]["origin"]["commits"]
    (delivery,) = landed["inputs"]
    assert (delivery["name"], delivery["files"]) == (
        f"landing/visits/{day(0)}",
        {"part-000.jsonl": 22, "part-001.jsonl": 22},
    )


def test_a_visit_of_gold_is_explained_down_to_file_and_line(dedp):
    """A page's views are visits of silver, each of a line of a file."""
    page = next(json.loads(visit)["page"] for visit in visits_of(0)[5:])
    code, document = dedp(GOLD, "--row", f"page={page}")
    (silver,) = document["trail"]["upstream"]
    (bronze,) = silver["upstream"]
    lines = [number for number, visit in enumerate(visits_of(0), start=1) if json.loads(visit)["page"] == page]
    half = 22
    places = [("part-000.jsonl", n) if n <= half else ("part-001.jsonl", n - half) for n in lines if n not in (21, 22)]
    assert code == 0
    assert sorted((line["file"], line["line"]) for line in bronze["lines"]) == sorted(places)


def test_a_torn_line_is_found_in_its_letter(dedp):
    """By the key that it still holds; its record is a shape."""
    code, document = dedp(SILVER, "--row", "cut-off")
    (ending,) = document["ended"]
    assert (code, ending["kind"]) == (1, "dead letter")
    assert ending["where"] == f"{LETTERS} filed_under={day(0)}, part-001.jsonl line 19"
    assert "malformed JSON" in ending["why"]
    assert "cut-off" not in str(ending["row"])


def test_a_duplicate_is_named_with_its_survivor(dedp):
    """At the visit, and at the line that was left out."""
    twice = TWICE[0]["visit_id"]
    (repeated,) = dedp(SILVER, "--row", twice)[1]["trail"]["repeats"]
    assert (repeated["file"], repeated["line"], repeated["repeats"]) == ("part-001.jsonl", 20, "part-000.jsonl line 1")
    code, document = dedp(SILVER, "--row", "source_file=part-001.jsonl", "--row", "line_number=20")
    (ending,) = document["ended"]
    assert (code, ending["kind"]) == (1, "duplicate")
    assert ending["why"] == "part-000.jsonl line 1 has the same visit_id and stays, as the first one"


def test_a_replay_stands_in_the_tree_and_in_the_trail(dedp):
    """The visits that it saved came through their letters, all others with the run before it."""
    replayed, loaded = dedp(SILVER)[1]["origin"]["commits"]
    assert (replayed["cause"], replayed["code"], loaded["code"]) == ("replay of 3", "fix-1", "2")
    trail = dedp(SILVER, "--row", REFUSED[0])[1]["trail"]
    assert [made["version"] for made in trail["brought_by"]] == [replayed["version"]]
    (letter,) = trail["upstream"]
    assert (letter["table"], letter["upstream"][0]["lines"][0]["line"]) == (LETTERS, 21)
    assert [made["version"] for made in dedp(SILVER, "--row", TWICE[1]["visit_id"])[1]["trail"]["brought_by"]] == [1]


def test_the_replay_is_the_difference_of_two_versions(dedp):
    """Two visits came, none went, none changed."""
    code, document = dedp(SILVER, "--against", "1")
    found = document["differences"]
    assert (code, found["key"], found["rows"]) == (1, ["visit_id"], [38, 40])
    assert (found["came"], found["went"]["count"], found["changed"]["count"]) == (
        {"count": 2, "keys": [[each] for each in sorted(REFUSED)]},
        0,
        0,
    )
