"""The schema registry of ``dedp up``: by the platform's client, and by Confluent's own client for Python."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from urllib.request import urlopen

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from dedp_assets.graph.systems.registry import address, client
from dedp_assets.laptop.servers import registry
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.connectors.delivery.sinks import Outgoing
from dedp_assets.patterns.connectors.kafka.schema_registry import (
    SchemaRegistry,
    find_schema,
    incompatibilities,
    latest_schema,
    register_schema,
)
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.core.parsing.json_schemas import record_schema_of
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.connectors.kafka.test_schema_registry import VISITS, producer, sent_by  # noqa: F401 - a fixture
from tests.faults.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.budget(40, "starts a Java server three times")]

V1 = json.dumps({"type": "record", "name": "Visit", "fields": [{"name": "a", "type": "int"}]})
V2 = V1.replace("]}", ', {"name": "b", "type": "int", "default": 0}]}')
V3 = V1.replace('"int"', '"string"')
DRAFT = '{"$schema": "http://json-schema.org/draft-07/schema#", '


@contextmanager
def served(settings):
    """A registry in the settings' home, as ``dedp up`` starts one, until the end of the block."""
    port = free_port()
    process = subprocess.Popen(registry.command(settings, port=port), stdout=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: answers(registry.url(port)), seconds=120)
        yield registry.url(port)
    finally:
        process.terminate()
        process.wait(timeout=60)


def answers(url):
    try:
        with urlopen(f"{url}/subjects", timeout=5) as answer:  # noqa: S310 - on loopback
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def home(test_settings, tmp_path_factory):
    """Settings of a home that asks for a registry of its own."""
    return replace(test_settings, home=tmp_path_factory.mktemp("registry"), registry="own")


@pytest.fixture(scope="module")
def url(home):
    with served(home) as found:
        yield found


@pytest.fixture
def schemas(url):
    return SchemaRegistry(url)


def test_schemas_are_registered_and_found(schemas):
    """The newest of a subject, each by id; one that does not fit is refused with the field, and gets no version."""
    first = register_schema(schemas, "a/b", V1)
    assert register_schema(schemas, "a/b", V1) == first
    assert incompatibilities(schemas, "a/b", V2) == ()
    second = register_schema(schemas, "a/b", V2)
    assert incompatibilities(schemas, "a/b", V3) != ()
    said = r"subject a/b does not take the schema, because its mode is BACKWARD: .*STRING not compatible"
    with pytest.raises(ContractError, match=said):
        register_schema(schemas, "a/b", V3)
    newest = latest_schema(schemas, "a/b")
    assert (newest.id, newest.version, newest.dialect, json.loads(newest.text)) == (second, 2, "AVRO", json.loads(V2))
    assert json.loads(find_schema(schemas, first).text) == json.loads(V1)
    assert incompatibilities(schemas, "nobody", V1) == ()


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("AVRO", '{"type": "nothing"}'),
        ("AVRO", '{"type": "record", "name": "A", "aliases": 5, "fields": []}'),
        ("AVRO", "{"),
        ("JSON", f'{DRAFT}"required": [{{}}]}}'),
        ("JSON", f'{DRAFT}"type": 5}}'),
    ],
)
def test_a_text_that_is_no_schema_is_refused(schemas, dialect, text):
    """As an error of the sender: whoever sends the schema again gets the same answer."""
    with pytest.raises(ContractError, match="finds the request wrong"):
        register_schema(schemas, "malformed", text, dialect=dialect)


@pytest.mark.parametrize(
    ("subject", "one", "same"),
    [
        ("text", '"string"', '{"type": "string"}'),
        ("blanks", V1, json.dumps(json.loads(V1), indent=2)),
        (
            "names",
            '{"type": "record", "name": "R", "namespace": "org.ex", "fields": []}',
            '{"type": "record", "name": "org.ex.R", "fields": []}',
        ),
    ],
)
def test_another_spelling_of_an_avro_schema_is_the_same_schema(schemas, subject, one, same):
    """By Avro's canonical form, where a producer asks for the id of the schema in its code."""
    number = register_schema(schemas, f"spelled-{subject}", one)
    assert schemas.ask("POST", f"subjects/spelled-{subject}", {"schema": same})[1]["id"] == number


def test_a_contract_that_readers_of_before_cannot_take_stops_the_sink(schemas, producer):  # noqa: F811
    """By the subject's own level, with the field; no record was sent, and with an optional column all are."""
    sent_by(schemas, VISITS, Outgoing("1", "k", '{"id": "a"}'))
    producer.taken.clear()
    new = replace(VISITS, columns={**VISITS.columns, "page": Column("STRING", required=True)})
    with pytest.raises(ContractError, match=r"subject visits-value does not take the schema, .* BACKWARD: .*"):
        sent_by(schemas, new, Outgoing("1", "k", '{"id": "a", "page": "/"}'))
    assert producer.taken == []
    softer = replace(new, columns={**VISITS.columns, "page": Column("STRING")})
    (answer,) = sent_by(schemas, softer, Outgoing("1", "k", '{"id": "a", "page": "/"}'))
    assert answer.outcome == "accepted"


KINDS = ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "VARCHAR(3)", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ",
         "BINARY", "ARRAY<STRING>", "MAP<STRING,INT>", "STRUCT<x: INT>")  # fmt: skip


def test_the_contract_of_a_table_of_any_types_is_a_schema_that_can_follow_itself(schemas):
    """Registered, and judged against the contract with a further optional column."""
    wide = TableSpec("silver/wide", {f"c{n}": Column(kind, required=n % 2 == 0) for n, kind in enumerate(KINDS)})
    wider = replace(wide, columns={**wide.columns, "more": Column("STRING", "another one")})
    for spec in (wide, wider):
        text = json.dumps(record_schema_of(spec).schema)
        assert incompatibilities(schemas, "wide-value", text, dialect="JSON") == ()
        register_schema(schemas, "wide-value", text, dialect="JSON")
    assert latest_schema(schemas, "wide-value").version == 2


def test_confluents_client_registers_judges_refers_and_reads(url):
    """Levels, a refusal with Confluent's code, references, deletion, and records read by the newest schema."""
    with SchemaRegistryClient({"url": url, "max.retries": 0}) as public:
        public.register_schema("s-value", Schema(V1, "AVRO"))
        with pytest.raises(SchemaRegistryError) as refused:
            public.register_schema("s-value", Schema(V3, "AVRO"))
        assert refused.value.http_status_code == 409
        context, written = SerializationContext("s", MessageField.VALUE), []
        for text, record in ((V1, {"a": 1}), (V2, {"a": 2, "b": 3})):
            written.append(AvroSerializer(public, text)(record, context))
        read = AvroDeserializer(public, V2)
        assert [read(each, context) for each in written] == [{"a": 1, "b": 0}, {"a": 2, "b": 3}]
        public.set_compatibility("s-value", "NONE")
        public.register_schema("s-value", Schema(V3, "AVRO"))
        assert public.get_versions("s-value") == [1, 2, 3]
        place = V1.replace("Visit", "shop.Place")
        public.register_schema("place", Schema(place, "AVRO"))
        order = {"type": "record", "name": "Order", "fields": [{"name": "at", "type": "shop.Place"}]}
        named = [SchemaReference("shop.Place", "place", 1)]
        made = public.register_schema("orders", Schema(json.dumps(order), "AVRO", named))
        assert public.get_referenced_by("place", 1) == [made]
        assert public.delete_version("s-value", 3) == 3
        assert public.get_versions("s-value") == [1, 2]


def test_schemas_and_their_ids_survive_the_end_of_the_server(home):
    """Started again in the same home it gives the schema by its id; while it does not run, no record is sent."""
    apart = replace(home, home=home.home / "again")
    with served(apart) as first:
        number = register_schema(SchemaRegistry(first), "kept", V2)
        assert address(apart) == first
    with pytest.raises(NotReady, match=r"DEDP_REGISTRY is own, and no registry runs in .*: start `dedp up`"):
        client(apart)
    with served(apart) as second:
        assert json.loads(find_schema(SchemaRegistry(second), number).text) == json.loads(V2)
