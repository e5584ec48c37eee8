"""Values in Confluent's wire format: headers and payloads apart, whatever a topic holds."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.kafka import framed_values
from dedp_assets.patterns.connectors.kafka.framed_values import (
    SCHEMA_ID,
    UNREAD,
    name_unread,
    unframed,
    without_headers,
)
from dedp_assets.patterns.connectors.kafka.schema_references import Reference, self_contained
from dedp_assets.patterns.connectors.kafka.schema_registry import (
    RegisteredSchema,
    SchemaRegistry,
    framed,
    register_schema,
)
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.results import Split
from tests.registry import schemas_in_memory

VISIT = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "paid", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
    ],
}
MIXED = {"type": "record", "name": "Mixed", "fields": [{"name": "a", "type": ["int", "string"]}]}
AT = 1_767_603_600_000_001


def avro(schema, record):
    held = io.BytesIO()
    fastavro.schemaless_writer(held, fastavro.parse_schema(json.loads(json.dumps(schema))), record)
    return held.getvalue()


PAYLOAD = avro(VISIT, {"page": "/é", "at": AT, "paid": Decimal("1.50")})
PLAIN = {"page": "/é", "at": "2026-01-05T09:00:00.000001Z", "paid": 1.5}


@pytest.fixture(scope="module")
def registry():
    """A registry with a schema of Avro (1), one of JSON (2), and one of a type that is not read (3)."""
    with schemas_in_memory() as found:
        assert register_schema(found, "visits-value", json.dumps(VISIT)) == 1
        assert register_schema(found, "orders-value", '{"type": "object"}', dialect="JSON") == 2
        assert register_schema(found, "mixed-value", json.dumps(MIXED)) == 3
        yield found


UNDECODED = {
    "an id that nobody gave": framed(99, PAYLOAD),
    "a record that is cut": framed(1, PAYLOAD[:-1]),
    "bytes behind the record": framed(1, PAYLOAD + b"\x00"),
    "JSON under a schema of Avro": framed(1, b'{"page": "/a"}'),
    "a type that is not read": framed(3, avro(MIXED, {"a": 1})),
    "a header that is cut": b"\x00\x00\x00\x01",
    "the zero byte alone": b"\x00",
}
PLAINLY = [b"", b'{"page": "/a"}', b"\xff\xfe", b"\x01" * 9]


def test_avro_becomes_json_by_the_schema_that_it_was_written_with(registry):
    """As landed Avro files do: times in UTC, decimals as numbers; JSON stays as written, byte for byte."""
    (found,) = without_headers([framed(1, PAYLOAD)], registry)
    assert json.loads(found) == PLAIN
    spaced = b'{ "a":  1.50 }'
    assert without_headers([framed(2, spaced), framed(2, b"\xff"), framed(2, b"")], registry) == [spaced, b"\xff", b""]


def test_what_confluents_serializer_wrote_is_read(registry):
    """Its header and its Avro, of a schema that it registered itself."""
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
        sent = AvroSerializer(client, json.dumps(point))({"x": 7}, SerializationContext("points", MessageField.VALUE))
    assert without_headers([sent], registry) == [b'{"x":7}']


def test_a_type_of_another_subject_is_found(registry):
    """By the reference in the schema of the header; the payload is as short as if the type stood there."""
    place = {"type": "record", "name": "Place", "namespace": "shop", "fields": [{"name": "zip", "type": "string"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "at", "type": "shop.Place"}]}
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
        client.register_schema("place", Schema(json.dumps(place), "AVRO"))
        named = [SchemaReference("shop.Place", "place", 1)]
        schema_id = client.register_schema("orders-of-places", Schema(json.dumps(order), "AVRO", named))
    assert without_headers([framed(schema_id, b"\x04ab")], registry) == [b'{"at":{"zip":"ab"}}']


def test_a_type_without_a_namespace_is_defined_once():
    """Also within one that has a namespace: an empty one is none, and not that around it."""
    place = {"type": "record", "name": "Place", "namespace": "", "fields": [{"name": "zip", "type": "string"}]}
    fields = [{"name": "start", "type": place}, {"name": "end", "type": "Place"}]
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    named = [Reference("Place", "place", 1)]
    assert json.loads(self_contained(json.dumps(order), named, lambda _: (json.dumps(place), []))) == order


@pytest.mark.parametrize("text", ['{"type": "record", "type": "int"}', '{"type": ' * 5_000 + '"int"' + "}" * 5_000])
def test_a_schema_that_readers_read_differently_reads_nothing(registry, monkeypatch, text):
    """A member twice, or too many levels: the value stays whole."""
    monkeypatch.setattr(framed_values, "find_schema", lambda _, schema_id: RegisteredSchema(schema_id, text, "AVRO"))
    assert without_headers([framed(7, b"\x02")], registry) == [framed(7, b"\x02")]


@pytest.mark.parametrize("value", UNDECODED.values(), ids=UNDECODED)
def test_a_value_that_no_schema_reads_stays_whole(registry, value):
    """With its header: nothing of it is lost."""
    assert without_headers([value], registry) == [value]


def test_a_registry_that_does_not_answer_decides_nothing():
    """The reading waits; a value without a header needs no registry."""
    gone = SchemaRegistry("http://127.0.0.1:1", timeout_seconds=1)
    assert without_headers(PLAINLY, gone) == PLAINLY
    with pytest.raises(NotReady, match="does not answer"):
        without_headers([framed(1, PAYLOAD)], gone)


def test_without_the_package_avro_is_refused_and_json_read(registry, monkeypatch):
    """The sentence names the extra; the value is no dead letter."""
    missing = type(optional("json"))("fastavro")
    missing.__getattr__ = lambda name: (_ for _ in ()).throw(ConfigError(f"fastavro.{name} needs the extra [avro]"))
    monkeypatch.setattr(framed_values, "fastavro", missing)
    assert without_headers([framed(2, b"{}")], registry) == [b"{}"]
    with pytest.raises(ConfigError, match=r"fastavro.parse_schema needs the extra \[avro\]"):
        without_headers([framed(1, PAYLOAD)], registry)


@given(st.lists(st.tuples(st.sampled_from([None, 1, 2, 2**32 - 1]), st.binary(max_size=9)), max_size=5))
def test_values_of_any_bytes_are_taken_apart_without_loss(values):
    """Any value is itself, or its header and what is left; one schema is asked for once."""
    asked = []

    def find(_, schema_id):
        asked.append(schema_id)
        return None if schema_id == 1 else RegisteredSchema(schema_id, "{}", "JSON")

    given = [body if schema_id is None else framed(schema_id, body) for schema_id, body in values]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framed_values, "find_schema", find)
        read = without_headers(given, SchemaRegistry("http://nobody.example"))
    for (schema_id, body), value, found in zip(values, given, read, strict=True):
        if schema_id == 1:
            assert found == value
        elif schema_id is not None:
            assert found == body
        elif found != value:
            assert value == framed(int.from_bytes(value[1:5], "big"), found)
    assert len(asked) == len(set(asked))


@pytest.mark.spark
@pytest.mark.both
def test_spark_reads_a_topic_of_all_kinds_as_python_does(spark, registry):
    """With a registry and without: ids of headers beside the values; the letter of what was not read says why."""
    framed_ones = [framed(1, PAYLOAD), framed(2, b"[]"), framed(2**32 - 1, b""), *UNDECODED.values()]
    values = [*framed_ones, *PLAINLY, None]
    rows = spark.createDataFrame([(n, value) for n, value in enumerate(values)], "n INT, value BINARY")
    for known in (registry, None):
        found = unframed(rows, known).selectExpr(
            "n",
            SCHEMA_ID,
            "value",
            "make_valid_utf8(CAST(value AS STRING)) AS raw",
            "if(is_valid_utf8(CAST(value AS STRING)), NULL, value) AS raw_bytes",
            "if(n < 3, NULL, 'malformed JSON') AS reason",
            "'malformed JSON' AS error_class",
        )
        read = name_unread(Split(found, {"dead": ()}, identity=("n",))).rows.orderBy("n").collect()
        expected = [*without_headers(values[:-1], known), None]
        assert [row["value"] and bytes(row["value"]) for row in read] == expected
        ids = [int.from_bytes(v[1:5], "big") if v and v[0] == 0 and len(v) > 4 else None for v in values]
        assert [row[SCHEMA_ID] for row in read] == ids
        for row, value in zip(read, expected, strict=True):
            unread = value is not None and value[:1] == b"\x00"
            reason = UNREAD[len(value) > 4] if unread else "malformed JSON"
            assert (row["reason"], row["error_class"]) == ((None, None) if row["n"] < 3 else (reason, reason))
