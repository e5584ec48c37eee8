"""A schema registry as topics use it: one that judges nothing, and one that answers anything."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from dedp_assets.patterns.connectors.delivery import topic_sink as topic_sinks
from dedp_assets.patterns.connectors.delivery.sinks import Outgoing, send
from dedp_assets.patterns.connectors.delivery.topic_sink import TopicSink
from dedp_assets.patterns.connectors.kafka.schema_registry import (
    SchemaRegistry,
    decoded,
    find_schema,
    framed,
    latest_schema,
    register_schema,
)
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.parsing.json_schemas import record_schema_of
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.fixtures import answering
from tests.registry import schemas_in_memory

V1 = json.dumps({"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}]})
V2 = V1.replace("]}", ', {"name": "n", "type": "int", "default": 0}]}')


@pytest.fixture
def registry():
    """A registry without schemas."""
    with schemas_in_memory() as made:
        yield made


def test_a_schema_is_asked_for_by_its_id_once(registry, monkeypatch):
    """It never changes; the newest one of a subject may, and is asked for each time."""
    register_schema(registry, "s", V1)
    known = find_schema(registry, 1)
    monkeypatch.setattr(SchemaRegistry, "ask", lambda *_: pytest.fail("it was asked for again"))
    assert find_schema(registry, 1) is known


def test_what_is_not_there_yet_may_come_and_what_is_wrong_does_not_pass(registry):
    """A subject without a schema is waited for; an id that nobody gave is not."""
    with pytest.raises(NotReady, match="subject none has no schema in the registry: register one first"):
        latest_schema(registry, "none")
    assert find_schema(registry, 99) is None
    with pytest.raises(NotReady, match=r"the schema registry at http://127.0.0.1:1 does not answer"):
        latest_schema(SchemaRegistry("http://127.0.0.1:1"), "s")
    with pytest.raises(ConfigError, match="no address of a schema registry"):
        SchemaRegistry("file:///etc/passwd")


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, b"{}", NotReady),
        (429, b"", NotReady),
        (401, b"who are you", ConfigError),
        (302, b"", ConfigError),
        (200, b"<html>", ContractError),
        (200, b"[]", ContractError),
        (200, b'{"id": "1", "schema": ""}', ContractError),
        (200, b'{"id": 1}', ContractError),
    ],
)
def test_answers_that_nobody_expects_are_errors_of_the_library(status, body, error):
    """Another server stands there, or a proxy speaks for it."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    def answer(_):
        return Response(body, status, {"Location": "/elsewhere"} if status == 302 else {})

    with answering(Starlette(routes=[Route("/{path:path}", answer)]), lifespan="off") as url, pytest.raises(error):
        latest_schema(SchemaRegistry(url), "s")


@pytest.mark.parametrize("body", [b"", b"{}", b"\x00" * 9])
@pytest.mark.parametrize("schema_id", [0, 1, 2**32 - 1])
def test_a_header_is_taken_off_as_it_was_put_on(schema_id, body):
    """Whatever the body is."""
    assert decoded(framed(schema_id, body)) == (schema_id, body)


@pytest.mark.parametrize("payload", [b"", b'{"a": 1}', b"\x00\x00\x00\x01", b"\x01" + b"\x00" * 16])
def test_a_record_without_a_header_is_refused(payload):
    """JSON, a record that is cut, and one that names its schema in another way."""
    with pytest.raises(ContractError, match="a record must begin with a zero byte"):
        decoded(payload)


class Producer:
    """A producer whose broker takes everything."""

    def __init__(self):
        self.taken, self.told = [], []

    def produce(self, _topic, value, *_, on_delivery, **__):
        self.taken.append(value)
        self.told.append(on_delivery)

    def flush(self):
        for told in self.told:
            told(None, SimpleNamespace(partition=lambda: 0, offset=lambda: 0))
        self.told.clear()


@pytest.fixture
def producer(monkeypatch):
    made = Producer()
    monkeypatch.setattr(topic_sinks.confluent_kafka, "Producer", lambda _: made)
    return made


RECORDS = [Outgoing("1", "k", '{"page": "/é"}'), Outgoing("2", "k", "{}")]


def test_records_go_out_with_the_id_of_their_schema_if_that_is_wanted(registry, producer):
    """The newest one at that time; without a registry they go out as they are."""
    sink = TopicSink({"bootstrap.servers": "b:1"}, schemas=registry)
    for number, text in enumerate((V1, V2), start=1):
        register_schema(registry, "visits-value", text)
        assert {answer.outcome for answer in sink.send("visits", RECORDS)} == {"accepted"}
        assert [decoded(value) for value in producer.taken] == [(number, one.value.encode()) for one in RECORDS]
        producer.taken.clear()
    TopicSink({"bootstrap.servers": "b:1"}).send("visits", RECORDS)
    assert producer.taken == [one.value.encode() for one in RECORDS]


VISITS = TableSpec("silver/visits", {"id": Column("STRING", required=True), "status": Column("INT")})


def sent_by(registry, spec, *records):
    """The answers of a topic's sink with a table's contract."""
    contracts = {"visits": record_schema_of(spec)}
    return TopicSink({"bootstrap.servers": "b:1"}, schemas=registry, contracts=contracts).send("visits", records)


def test_a_contract_is_registered_before_the_first_record_and_read_back_by_another_client(registry, producer):
    """Confluent's own client finds the schema by the header and reads the record; one contract is one schema."""
    for name in ("a", "b"):
        (answer,) = sent_by(registry, VISITS, Outgoing(name, "k", json.dumps({"id": name, "status": 500})))
        assert answer.outcome == "accepted"
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
        read = JSONDeserializer(None, schema_registry_client=client)
        context = SerializationContext("visits", MessageField.VALUE)
        assert [read(value, context) for value in producer.taken] == [{"id": n, "status": 500} for n in ("a", "b")]
        assert json.loads(client.get_latest_version("visits-value").schema.schema_str)["title"] == "silver/visits"


def test_without_a_schema_nothing_is_sent(registry, producer):
    """The delivery waits until somebody has registered one."""
    sink = TopicSink({"bootstrap.servers": "b:1"}, schemas=registry)
    with pytest.raises(NotReady, match="subject visits-value has no schema"):
        send(sink, "visits", RECORDS, backoff=Backoff(attempts=3, first_seconds=0))
    assert producer.taken == []
