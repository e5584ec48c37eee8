"""Records that leave the lake keep a contract, made of the declaration of the visits."""

from __future__ import annotations

import json

import pytest

from dedp_assets.case_study.defs.platform import alerts, partner_delivery
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.graph.systems.registry import lacking
from dedp_assets.graph.systems.services import Services
from dedp_assets.patterns.connectors.delivery import topic_sink
from dedp_assets.patterns.connectors.delivery.sinks import Outgoing
from dedp_assets.patterns.connectors.kafka.schema_registry import latest_schema
from dedp_assets.patterns.connectors.web import http
from dedp_assets.patterns.core.errors import NotReady
from tests.connectors.delivery.test_sinks import Producer
from tests.registry import schemas_in_memory

VISIT = {"visit_id": "e1", "event_time": "2026-01-05T09:00:00.000001Z", "page": "/a", "status": 503}
BROKEN = {
    "no identity": ({**VISIT, "visit_id": None}, "visit_id: "),
    "a time without a zone": ({**VISIT, "event_time": "2026-01-05T09:00:00"}, "event_time: "),
    "no page": ({name: value for name, value in VISIT.items() if name != "page"}, '"page" is a required property'),
    "a text for a number": ({**VISIT, "status": "503"}, "status: "),
    "no status of HTTP": ({**VISIT, "status": 700}, "status: "),
    "a column that nobody declared to be sent": ({**VISIT, "user_id": "u1"}, "'user_id' was unexpected"),
}


def record(visit):
    return Outgoing(str(visit["visit_id"]), "/a", json.dumps(visit))


@pytest.fixture
def posted(monkeypatch):
    """What an HTTP service is asked to take, which takes all of it."""
    asked = []

    def post(_, body):
        asked.extend(each["id"] for each in body["records"])
        return {"records": [{"id": each["id"], "outcome": "accepted"} for each in body["records"]]}

    monkeypatch.setattr(http.Service, "post", post)
    return asked


@pytest.fixture
def produced(monkeypatch):
    """What a producer of Kafka is given; no broker is asked for a topic."""
    producer = Producer()
    monkeypatch.setattr(topic_sink.confluent_kafka, "Producer", lambda _: producer)
    monkeypatch.setattr(Kafka, "create", lambda *_, **__: None)
    return producer.given


@pytest.fixture
def registry(monkeypatch):
    """A registry that the settings name."""
    with schemas_in_memory() as made:
        monkeypatch.setenv("DEDP_REGISTRY", made.url)
        yield made


def alerts_by(kafka):
    return alerts.sink(Kafka(bootstrap=kafka, topic=""), Services(url="http://nobody.example"))


@pytest.mark.parametrize(("visit", "said"), BROKEN.values(), ids=BROKEN)
def test_no_sink_of_the_platform_sends_a_record_that_breaks_its_contract(posted, produced, visit, said):
    """Partners and those on duty, by HTTP and by a topic: the refusal names the reason, and nobody was asked."""
    partners = partner_delivery.sink(Services(url="http://nobody.example"))
    for sink, destination in (
        (partners, "blog.example"),
        (alerts_by(""), alerts.DESTINATION),
        (alerts_by("broker:1"), alerts.DESTINATION),
    ):
        (answer,) = sink.send(destination, [record(visit)])
        assert (answer.outcome, said in answer.reason) == ("refused", True), answer
    assert (posted, produced) == ([], [])


def test_records_as_they_are_declared_are_sent(posted, produced):
    """A failed visit to all; partners get one without a status as well, which is no alert."""
    partners = partner_delivery.sink(Services(url="http://nobody.example"))
    unknown = {**VISIT, "visit_id": "e2", "status": None}
    assert [each.outcome for each in partners.send("a", [record(VISIT), record(unknown)])] == ["accepted"] * 2
    for sink in (alerts_by(""), alerts_by("broker:1")):
        sent = sink.send(
            alerts.DESTINATION, [record(VISIT), record(unknown), record({**VISIT, "visit_id": "e3", "status": 200})]
        )
        assert [each.outcome for each in sent[:2]] == ["accepted", "refused"]
        assert sent[2].outcome == ("refused" if sink.partial else "failed")
    assert (posted, produced) == (["e1", "e2", "e1"], [("alerts", "e1")])


def test_alerts_of_a_topic_name_their_schema_where_a_registry_is_configured(registry, monkeypatch, produced):
    """The contract is the newest schema of the topic's subject; a registry that does not answer stops the delivery."""
    assert alerts_by("broker:1").send(alerts.DESTINATION, [record(VISIT)])[0].outcome == "accepted"
    assert json.loads(latest_schema(registry, "alerts-value").text) == alerts.CONTRACTS[alerts.DESTINATION].schema
    monkeypatch.setenv("DEDP_REGISTRY", "http://127.0.0.1:1")
    with pytest.raises(NotReady, match=r"the schema registry at http://127.0.0.1:1 does not answer"):
        alerts_by("broker:1").send(alerts.DESTINATION, [record(VISIT)])
    assert produced == [("alerts", "e1")]
    assert "does not answer" in lacking(settings())
    monkeypatch.setenv("DEDP_REGISTRY", registry.url)
    assert lacking(settings()) == ""


def test_without_a_registry_alerts_go_as_they_are(monkeypatch, tmp_path):
    """No address is set, and none is announced in the home."""
    monkeypatch.delenv("DEDP_REGISTRY", raising=False)
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.setattr(Kafka, "create", lambda *_, **__: None)
    assert alerts_by("broker:1").schemas is None
    assert lacking(settings()) == ""
