"""Sending: answers record by record, what failed again, and nothing past what is missing."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.connectors.delivery import topic_sink as topic_sinks
from dedp_assets.patterns.connectors.delivery.sinks import Answer, Outgoing, in_requests, send
from dedp_assets.patterns.connectors.delivery.topic_sink import TopicSink
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.parsing.json_schemas import record_schema_of
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.sinks import Inbox, losing, refusing

RECORDS = [Outgoing(str(n), f"entity {n}", "{}") for n in range(5)]


def outcomes(sink, attempts=3):
    answers, requests = send(sink, "blog", RECORDS, backoff=Backoff(attempts=attempts, first_seconds=0))
    return [answer.outcome for answer in answers], requests


def test_only_what_failed_is_sent_again():
    """The second request holds the failed records and no others; answers stand in the order of the records."""
    sink = Inbox(fault=lambda record, n: Answer("failed") if record.id in "13" and n == 1 else None)
    assert outcomes(sink) == (["accepted"] * 5, 2)
    assert [ids for _, ids in sink.requests] == [["0", "1", "2", "3", "4"], ["1", "3"]]


def test_attempts_are_bounded():
    """What fails each time stays failed, and is sent as often as stated."""
    sink = Inbox(fault=lambda record, _: Answer("failed") if record.id == "2" else None)
    found, requests = outcomes(sink, attempts=3)
    assert (found[2], found.count("accepted"), requests) == ("failed", 4, 3)


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError("reset")])
def test_a_lost_answer_is_found_out_by_sending_again(error):
    """The sink took the request and nobody heard: asked again, it says that it has the records, each once."""
    sink = Inbox(fault=lambda record, n: error if record.id == "0" and n == 1 else None)
    assert outcomes(sink) == (["present"] * 5, 2)
    assert sink.ids("blog") == ["0", "1", "2", "3", "4"]


def test_an_error_that_says_nothing_of_the_answer_is_not_swallowed():
    """Only what leaves the outcome open is a failed attempt; an exception of the sink's own says whose it is."""
    with pytest.raises(ContractError, match="the inbox, sent 5 records for blog, failed with ValueError: defect"):
        outcomes(Inbox(fault=lambda *_: ValueError("defect")))


def test_a_refused_record_is_not_sent_again():
    """In a request of which parts are taken the others are; in one that is taken in order nothing behind it is."""
    assert outcomes(Inbox(fault=refusing("1"))) == (["accepted", "refused", "accepted", "accepted", "accepted"], 1)
    ordered = Inbox(partial=False, fault=refusing("1"))
    assert outcomes(ordered) == (["accepted", "refused", "failed", "failed", "failed"], 1)
    assert ordered.ids("blog") == ["0"]


@pytest.mark.parametrize(
    "given",
    [
        [Answer("accepted")],
        [],
        None,
        5,
        "12345",
        [None] * 5,
        [Answer("done")] * 5,
        [Answer("accepted")] * 6,
        ["accepted"] * 5,
        [Answer("accepted")] * 4 + [None],
        7,
        {number: Answer("accepted") for number in range(5)},
    ],
)
def test_answers_that_nobody_understands_leave_every_record_open(given):
    """Too few, too many, none, nonsense: asked again, the sink says that it has the records; or attempts are over."""
    sink = Inbox()
    taken, asked = sink.send, []

    def send_(*request):
        asked.append(taken(*request))
        return given if len(asked) == 1 else asked[-1]

    sink.send = send_
    assert outcomes(sink) == (["present"] * 5, 2)
    sink.send = lambda *_: given
    (answers, requests) = send(sink, "blog", RECORDS, backoff=Backoff(attempts=2, first_seconds=0))
    assert ({answer.outcome for answer in answers}, requests) == ({"failed"}, 2)
    assert answers[0].reason.startswith(f"{sink.name} must answer each of 5 records, not ")


def test_pauses_double(monkeypatch):
    """A busy sink gets time."""
    waited = []
    monkeypatch.setattr("dedp_assets.patterns.connectors.delivery.sinks.time.sleep", waited.append)
    backoff = Backoff(attempts=4, first_seconds=0.5, jitter=0)
    send(Inbox(fault=losing("0")), "blog", RECORDS, backoff=backoff)
    assert waited == [0.5]
    send(
        Inbox(fault=lambda *_: Answer("failed")),
        "blog",
        RECORDS,
        backoff=backoff,
    )
    assert waited[1:] == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(("count", "limit", "sizes"), [(0, 2, []), (4, 2, [2, 2]), (5, 2, [2, 2, 1])])
def test_records_are_cut_into_requests(count, limit, sizes):
    """None is empty and none is over the limit."""
    assert [len(request) for request in in_requests(range(count), limit)] == sizes


class Producer:
    """A producer of Kafka that remembers what it was given, and delivers it."""

    def __init__(self):
        self.given, self.waiting = [], []

    def produce(self, topic, *_, headers, on_delivery):
        self.given.append((topic, headers["id"]))
        self.waiting.append(on_delivery)

    def flush(self):
        for number, report in enumerate(self.waiting):
            report(None, Delivered(number))
        self.waiting.clear()


class Delivered:
    """Where a record lies."""

    def __init__(self, number):
        self.number = number

    def partition(self):
        return 0

    def offset(self):
        return self.number


def test_a_record_that_breaks_its_contract_is_refused_before_a_topic_has_it(monkeypatch):
    """With all reasons; nothing of it and nothing behind it is sent, and another topic has no such contract."""
    producer = Producer()
    monkeypatch.setattr(topic_sinks.confluent_kafka, "Producer", lambda _: producer)
    orders = TableSpec("silver/orders", {"id": Column("INT", required=True)}, checks={"small": "id < 9"})
    sink = TopicSink({"bootstrap.servers": "broker:9092"}, contracts={"orders": record_schema_of(orders)})
    records = [
        Outgoing("a", "k", '{"id": 1}'),
        Outgoing("b", "k", '{"id": 10, "no": 1}'),
        Outgoing("c", "k", '{"id": 2}'),
    ]
    first, second, third = sink.send("orders", records)
    assert [answer.outcome for answer in (first, second, third)] == ["accepted", "refused", "failed"]
    assert second.reason.startswith(
        "silver/orders: id: the value is greater than or equal to the maximum of 9; the record"
    )
    assert "'no' was unexpected" in second.reason
    assert producer.given == [("orders", "a")]
    assert {answer.outcome for answer in sink.send("others", records[1:])} == {"accepted"}
    assert producer.given[1:] == [("others", "b"), ("others", "c")]
