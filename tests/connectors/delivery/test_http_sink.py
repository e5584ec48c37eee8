"""An HTTP service as a sink, against the inboxes of partners."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.request import urlopen

import pytest

from dedp_assets.case_study.sources.partner_inbox import MOST
from dedp_assets.patterns.connectors.delivery.http_sink import HttpSink
from dedp_assets.patterns.connectors.delivery.sinks import Answer, Outgoing, send
from dedp_assets.patterns.connectors.web.http import Patience, Service
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.parsing.json_schemas import record_schema_of
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.helpers import NOW

RECORDS = [Outgoing(str(n), f"page {n}", json.dumps({"n": n})) for n in range(12)]


@pytest.fixture
def sink(services):
    """The inboxes, without pauses."""
    return HttpSink(Service(f"{services.url}/partners", Patience(lambda: NOW, sleep=lambda _: None)))


def inbox(services, partner):
    """The ids that a partner has, in order of acceptance."""
    with urlopen(f"{services.url}/partners/{partner}", timeout=30) as reply:  # noqa: S310
        return [record["id"] for record in json.loads(reply.read())["records"]]


def test_records_are_taken_once_and_listed_in_order(services, sink):
    """By partner, however it is called; a record that is there already keeps its position."""
    name = "a b/c?é"
    assert sink.send(name, RECORDS[:2]) == [Answer("accepted", "0"), Answer("accepted", "1")]
    assert sink.send(name, RECORDS[1:3]) == [Answer("present", "1"), Answer("accepted", "2")]
    assert inbox(services, "a%20b%2Fc%3F%C3%A9") == ["0", "1", "2"]
    assert inbox(services, "another") == []


def test_a_request_may_be_taken_in_part(services, sink):
    """Some records fail, by a seed, and are there after they were sent again; what was taken is not taken twice."""
    services.behave("partners", "throttled 3")
    outcomes = [answer.outcome for answer in sink.send("part", RECORDS)]
    assert {*outcomes} == {"accepted", "failed"}
    services.behave("partners", "throttled 3", times=3)
    answers, requests = send(sink, "part", RECORDS, backoff=Backoff(attempts=9, first_seconds=0))
    assert {answer.outcome for answer in answers} <= {"accepted", "present"}
    assert requests > 1
    assert sorted(inbox(services, "part"), key=int) == [record.id for record in RECORDS]


@pytest.mark.parametrize("told", ["lost", "down", "busy"])
def test_a_request_without_an_answer_is_sent_again(services, sink, told):
    """Whether it was taken or not, each record is there once."""
    services.behave("partners", told, times=2)
    assert {answer.outcome for answer in sink.send(told, RECORDS)} == {"present" if told == "lost" else "accepted"}
    assert inbox(services, told) == [record.id for record in RECORDS]


def test_another_value_under_a_known_id_is_refused(sink):
    """It is not the record that was accepted."""
    sink.send("changed", RECORDS[:1])
    (answer,) = sink.send("changed", [Outgoing("0", "page 0", "{}")])
    assert answer == Answer("refused", "", "another value came under this id")


def test_a_service_that_stays_away_or_talks_nonsense_is_an_error(services, sink):
    """Neither counts as an answer for any record."""
    services.behave("partners", "down", times=4)
    with pytest.raises(NotReady, match="does not answer after 4 attempts"):
        sink.send("away", RECORDS)
    services.behave("partners", "garbled")
    with pytest.raises(ContractError, match="no JSON"):
        sink.send("away", RECORDS)
    with pytest.raises(ConfigError, match=f"1 to {MOST} records, not {MOST + 1}"):
        sink.send("away", [Outgoing(str(n), "", "") for n in range(MOST + 1)])
    assert inbox(services, "away") == []


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([{"id": "1", "outcome": "accepted"}], "lacks '0'"),
        ([{"id": "0", "outcome": "accepted"}, {"id": "1", "outcome": "done"}], "outcomes that nobody knows: 'done'"),
    ],
)
def test_an_answer_that_is_not_for_the_records_sent_is_refused(monkeypatch, sink, items, said):
    """Nobody guesses which record it means, or what became of it."""
    monkeypatch.setattr(Service, "post", lambda *_: {"records": items})
    with pytest.raises(ContractError, match=said):
        sink.send("lies", RECORDS[:2])


def test_a_record_that_breaks_its_contract_is_refused_before_the_service_has_it(services, sink):
    """The others of the request are taken; without any there is no request."""
    known = TableSpec("silver/numbers", {"n": Column("INT")}, checks={"few": "n BETWEEN 1 AND 2"})
    held = replace(sink, contracts={"held": record_schema_of(known)})
    answers = held.send("held", RECORDS[:4])
    assert [answer.outcome for answer in answers] == ["refused", "accepted", "accepted", "refused"]
    assert answers[3].reason == "silver/numbers: n: the value is greater than the maximum of 2"
    assert inbox(services, "held") == ["1", "2"]
    services.requests("partners")
    assert [answer.outcome for answer in held.send("held", RECORDS[3:5])] == ["refused", "refused"]
    assert services.requests("partners") == 0
