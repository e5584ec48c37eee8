"""Visits that leave the lake: to partners in bins, and as alerts one by one, from landing on."""

from __future__ import annotations

import json
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition

from dedp_assets.case_study.defs.platform import alerts, partner_delivery
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.graph.systems.kafka import client
from tests.case_study.assets.conftest import day, visits_of, world_in
from tests.faults.test_kill import killed_at

pytestmark = pytest.mark.spark


def embedded(number, at, page="/a", partner="blog.example", status=200):
    """A visit of a page that a partner embeds."""
    visit = {"visit_id": f"e{number:03}", "event_time": f"{day(0)}T{at}Z", "user_id": "u", "page": page}
    return json.dumps({**visit, "referrer": f"https://{partner}/x?y", "status": status, "bytes": 1})


def inbox(services, name):
    """The records that somebody took, in order of acceptance."""
    with urlopen(f"{services.url}/partners/{name}", timeout=30) as reply:  # noqa: S310
        return [json.loads(record["value"]) for record in json.loads(reply.read())["records"]]


def ids(records, **values):
    return [r["visit_id"] for r in records if all(r[name] == value for name, value in values.items())]


def left(world):
    """Let the sensors do their work; the tables of the platform that were computed, by day."""
    ended = [e for e in world.platform.react() if "platform" in e.job]
    assert not [e for e in ended if e.failure], ended
    return {(table, e.partition) for e in ended for table in e.job.split(", ")}


def compute(world, *tables, number=0):
    """Compute tables of a day, one after the other."""
    assert [world.compute(table, day(number)).failure for table in tables] == [""] * len(tables)


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """A day with visits of pages that partners embed, minute by minute, and with failures; tests go on with it."""
    lines = [embedded(n, f"09:{n // 6:02}:{n % 6:02}.{n:06}", f"/{'ab'[n % 5 // 3]}") for n in range(24)]
    failed = [embedded(100 + n, f"08:00:{20 - n}", status=500, partner=f"p{n}.example") for n in range(5)]
    with world_in(tmp_path_factory.mktemp("delivered")) as made:
        made.land(day(0), [*visits_of(0), *reversed(lines), *failed])
        compute(made, "bronze/visits", "silver/visits")
        yield made


def test_without_a_service_a_delivery_says_what_to_start(world):
    """The reconciler asks for none, and whoever does by hand is told."""
    for lacking in (partner_delivery.lacking, alerts.lacking):
        assert lacking() == "no HTTP services run: start `make up`, or name some by DEDP_SERVICES"
    failure = world.compute("platform/partner_delivery", day(0)).failure
    assert "no HTTP services run: start `make up`, or name some by DEDP_SERVICES" in failure


def test_partners_get_each_visit_once_in_order_by_the_minute(world, services, monkeypatch):
    """Once a service runs, which takes requests in part: all that waited is delivered, and each visit has a receipt."""
    monkeypatch.setenv("DEDP_SERVICES", services.url)
    services.behave("partners", "throttled 5", times=60)
    assert left(world) >= {("platform/alerts", day(0)), ("platform/partner_delivery", day(0))}
    taken = inbox(services, "blog.example")
    assert sorted(ids(taken)) == [f"e{n:03}" for n in range(24)]
    for page in ("/a", "/b"):
        assert ids(taken, page=page) == sorted(ids(taken, page=page))
    minutes = [record["event_time"][:16] for record in taken]
    assert minutes == sorted(minutes)
    assert min(record["event_time"] for record in taken) == f"{day(0)}T09:00:00.000000Z"
    sent = [row["visit_id"] for row in world.rows("silver/visits") if row["referrer"]]
    assert sorted(row["record_id"] for row in world.rows("platform/partner_delivery")) == sorted(sent)
    shown = world.materialization("platform/partner_delivery", day(0))
    assert (shown["delivered"], shown["pending"], shown["requests"] > 0) == (len(sent), 0, True)


def test_alerts_left_in_the_order_in_which_they_landed(world, services):
    """One after the other, whatever the time of the visit."""
    failed = [row for row in world.rows("silver/visits") if row["status"] == 500]
    landed = sorted(failed, key=lambda row: (row["source_file"], row["line_number"]))
    expected = [row["visit_id"] for row in landed]
    assert [one for one in ids(inbox(services, "alerts")) if one in expected] == expected


def test_late_visits_are_delivered_and_nothing_else_again(world, services, monkeypatch):
    """They come after what was delivered, although an answer is lost; asked for again, nothing is sent."""
    monkeypatch.setenv("DEDP_SERVICES", services.url)
    before = len(world.rows("platform/partner_delivery"))
    services.behave("partners", "lost")
    world.land(day(1), [], late=[embedded(50, "09:00:30"), embedded(51, "09:00:40", status=503)])
    compute(world, "bronze/visits", number=1)
    compute(world, "silver/visits", "platform/partner_delivery", "platform/alerts")
    assert ids(inbox(services, "blog.example"))[24:] == ["e050", "e051"]
    assert ids(inbox(services, "alerts"))[-1] == "e051"
    assert len(world.rows("platform/partner_delivery")) == before + 2
    services.requests("partners")
    assert world.compute("platform/partner_delivery", day(0), **{FORCE: "true"}).failure == ""
    assert services.requests("partners") == 0


@pytest.mark.slow
def test_a_delivery_that_is_killed_between_sending_and_its_receipts_is_gone_on_with(world, services, monkeypatch):
    """What the partner took before has a receipt that says so, nothing is there twice, and nothing is missing."""
    monkeypatch.setenv("DEDP_SERVICES", services.url)
    late = [f"e{n:03}" for n in range(60, 66)]
    lines = [embedded(int(one[1:]), f"09:10:{n:02}", partner="shop.example") for n, one in enumerate(late)]
    world.land(day(2), [], late=lines)
    compute(world, "bronze/visits", number=2)
    compute(world, "silver/visits")
    killed_at(world, "before commit", "platform/partner_delivery")
    assert ids(inbox(services, "shop.example")) == late
    assert [row for row in world.rows("platform/partner_delivery") if row["record_id"] in late] == []
    world.restart()
    assert ("platform/partner_delivery", day(0)) in left(world)
    assert ids(inbox(services, "shop.example")) == late
    receipts = [row for row in world.rows("platform/partner_delivery") if row["record_id"] in late]
    assert sorted((row["record_id"], row["was_present"]) for row in receipts) == [(one, True) for one in late]


@pytest.mark.slow
def test_alerts_go_to_a_topic_where_there_is_a_broker(spark, tmp_path, kafka, monkeypatch):
    """One partition, in the order in which they landed; the topic is made by the first alert."""
    monkeypatch.setenv("DEDP_KAFKA", kafka.bootstrap)
    with world_in(tmp_path) as world:
        world.land(day(0), [embedded(9 - n, f"08:00:{n:02}", status=500) for n in range(6)])
        compute(world, "bronze/visits", "silver/visits", "platform/alerts")
        first = min(int(row["position"].removeprefix("0@")) for row in world.rows("platform/alerts"))
        reader = Consumer({**client(kafka.bootstrap), "group.id": "alerts", "enable.auto.commit": False})
        reader.assign([TopicPartition("alerts", 0, first)])
        found = [json.loads(message.value())["visit_id"] for message in reader.consume(6, timeout=30)]
        reader.close()
        assert found == [f"e{n:03}" for n in range(9, 3, -1)]
        positions = {row["record_id"]: row["position"] for row in world.rows("platform/alerts")}
        assert positions == {one: f"0@{first + n}" for n, one in enumerate(found)}
