"""Ad impressions through Dagster: two topics joined as they come, and a day computed anew from the tables."""

from __future__ import annotations

import json
from datetime import datetime, time, timedelta, timezone
from types import SimpleNamespace

import dagster as dg
import pytest

from dedp_assets.case_study.sources.visits_topic import publish
from dedp_assets.graph.outcomes.run_tags import APPROVED_BECAUSE, APPROVED_BY
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.patterns.connectors.kafka.schema_registry import framed
from dedp_assets.patterns.delta import store_at
from tests.case_study.assets.conftest import world_in
from tests.case_study.assets.test_stream import streaming_world

pytestmark = pytest.mark.budget(100, "two streams are joined in processes of their own")

TABLE = "silver/ad_impressions"
MIDNIGHT = datetime.combine(Clock().now().date() - timedelta(days=1), time(), timezone.utc)
DAY = MIDNIGHT.date().isoformat()


def moment(minute):
    return (MIDNIGHT + timedelta(minutes=minute)).isoformat()


def visit(name, page, minute):
    return json.dumps({"visit_id": name, "event_time": moment(minute), "user_id": "u1", "page": page})


def ad(name, page, minute):
    return json.dumps({"display_id": name, "display_time": moment(minute), "ad_page": page, "ad_id": "a1"})


FIRST = (
    [visit("before", "/a", -4), visit("over", "/b", 3), visit("same", "/c", 5), visit("slow", "/d", 6), "{cut"],
    [ad("a", "/a", -5), ad("b-", "/b", -8), ad("b", "/b", -5), ad("c", "/c", 5), ad("gone", "/d", -5), "no JSON"],
)
THEN = (
    [visit("none", "/e", 7), framed(7, visit("newer", "/z", 40).encode())],
    [framed(7, ad("d", "/d", 5).encode()), ad("newer", "/y", 40)],
)
"""Some with the header of a schema registry, of which none is configured: the header is taken off."""
TOO_LATE = ([visit("late", "/f", 8), visit("last", "/z", 41)], [ad("e", "/e", 6), ad("f", "/f", 7)])
"""Both lie more than 15 minutes behind the newest of both topics."""
EARLY = {("before", "a"), ("over", "b"), ("same", "c"), ("slow", "d"), ("none", None)}
LATER = {("newer", None), ("last", None)}
REPAIRED = {("over", "b"), ("same", "c"), ("slow", "d"), ("none", "e"), ("late", "f"), *LATER}


def impressions(world, **partition):
    """Each visit with its display; a visit that is there twice is twice in it."""
    return sorted(((row["visit_id"], row["display_id"]) for row in world.rows(TABLE, **partition)), key=str)


def told(world):
    """What the last run over the topics said of itself."""
    observations = world.platform.instance.fetch_observations(dg.AssetKey(TABLE.split("/")), limit=1).records
    return {name: value.value for name, value in observations[0].asset_observation.metadata.items()}


@pytest.fixture(scope="module")
def world(spark, broker, tmp_path_factory):
    """A story in three parts: the broker is started again after the first, and the third comes too late."""
    home = tmp_path_factory.mktemp("ads")
    topics = [Kafka(bootstrap=broker.address, topic=f"{name}-of-ads") for name in ("visits", "shown")]

    def come(events):
        for topic, lines, key in zip(topics, events, ("user_id", "ad_page"), strict=True):
            publish(topic, lines, key=key)
        for job in ("stream_visits", "stream_ads", "join_ads_streamed"):
            assert world.run(job).failure == ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEDP_ADS_TOPIC", topics[1].topic)
        with streaming_world(home, topics[0]) as world:
            early = world.run("join_ads_streamed").failure
            come(FIRST)
            first = impressions(world)
            broker.stop()
            silent = world.run("stream_ads").failure
            broker.start()
            come(THEN)
            then = impressions(world)
            kept = told(world)
            come(TOO_LATE)
            yield SimpleNamespace(
                run=world, early=early, first=first, silent=silent, then=then, kept=kept, late=told(world)
            )


def test_visits_meet_the_ads_of_their_page_in_whatever_order_they_came(world):
    """Over midnight, at an equal time, after a broker was started again; an ad twelve minutes before is too old."""
    assert world.early == "bronze/visits is not there yet: nothing came by its topic"
    assert world.first == []
    assert "does not answer" in world.silent
    assert world.then == sorted(EARLY, key=str)


def test_what_came_too_late_is_told_and_kept_apart(world):
    """The run says how many rows wait and how many it left out; bronze has them all."""
    assert world.kept["visits and ads that came too late"] == 0
    assert world.late["visits and ads that came too late"] == 3
    assert impressions(world.run) == sorted(EARLY, key=str)
    assert sorted(row["timeliness"] for row in world.run.rows("bronze/ads")).count("late") == 2


def test_a_day_computed_anew_has_what_came_too_late_and_the_stream_goes_on_beside_it(world):
    """Every visit of the day once, by the tables; again, nothing changes; what is closed later is not there twice."""
    before = (MIDNIGHT - timedelta(days=1)).date().isoformat()
    for table, day in (("silver/visits", DAY), ("silver/ads", before), ("silver/ads", DAY), (TABLE, DAY)):
        assert world.run.compute(table, day).failure == ""
    assert impressions(world.run, event_date=DAY) == sorted(REPAIRED, key=str)
    before = world.run.versions()[TABLE]
    assert world.run.compute(TABLE, DAY).failure == ""
    assert world.run.versions()[TABLE] == before
    found = impressions(world.run)
    store_at(world.run.settings.lake).delete_folder(f"_checkpoints/{TABLE}")
    assert "is lost, while the table holds all up to micro-batch" in world.run.run("join_ads_streamed").failure
    asked = {APPROVED_BY: "Ada", APPROVED_BECAUSE: "the folder was removed"}
    assert world.run.run("join_ads_streamed", **asked).failure == ""
    assert impressions(world.run) == found


def test_every_record_of_both_topics_is_a_row_or_a_letter(world):
    """Undated ones as well, whatever the join takes: they are filed under the day on which they came."""
    for name, refused in (("visits", "{cut"), ("ads", "no JSON")):
        came = world.run.rows(f"bronze/{name}")
        for day in sorted({str(row["event_date"] or row["landed_on"]) for row in came}):
            asked = {APPROVED_BY: "Ada", APPROVED_BECAUSE: "one record alone came undated"}
            assert world.run.compute(f"silver/{name}", day, **asked).failure == ""
        (letter,) = world.run.rows(f"silver/{name}_dead_letter")
        assert (letter["raw"], letter["status"]) == (refused, "open")
        assert len(world.run.rows(f"silver/{name}")) == len(came) - 1


def test_without_a_topic_nothing_is_asked_for(spark, tmp_path, monkeypatch):
    """No sensor and no schedule starts it, and a run by hand says what is missing."""
    monkeypatch.delenv("DEDP_KAFKA", raising=False)
    with world_in(tmp_path) as world:
        assert world.run("stream_ads").failure.startswith("no Kafka is set")
        assert world.react() == []
