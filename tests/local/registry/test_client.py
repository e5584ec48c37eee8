"""The registry as Confluent's own client for Python uses it, over HTTP, on each store."""

from __future__ import annotations

import json
import struct

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from tests.local.registry.judging import record

V1, V2, V3 = (Schema(record(*fields), "AVRO") for fields in (["a"], ["a", "b="], ["a", "b"]))
VISIT = {"type": "object", "properties": {"page": {"type": "string"}}, "additionalProperties": False}
JSON = Schema(json.dumps(VISIT | {"title": "Visit"}), "JSON")


def code(call, *arguments, **options):
    """Status and error code of a refused call."""
    with pytest.raises(SchemaRegistryError) as refused:
        call(*arguments, **options)
    return refused.value.http_status_code, refused.value.error_code


def fresh(client):
    """The client, which forgets what it knows."""
    client.clear_caches()
    return client


def test_a_schema_has_one_id_everywhere_and_a_version_in_each_subject(client):
    """Registered again nothing is added; another subject gets the same id; blanks make no other schema."""
    first = client.register_schema_full_response("visits-value", V1)
    assert (first.schema_id, first.version) == (1, 1)
    assert fresh(client).register_schema("visits-value", V1) == 1
    blanks = Schema(json.dumps(json.loads(V1.schema_str), indent=2), "AVRO")
    assert client.register_schema("visits-value", blanks) == 1
    assert client.register_schema("visits-value", V2) == 2
    assert client.register_schema("others-value", V2) == 2
    assert client.get_subjects() == ["others-value", "visits-value"]
    assert client.get_subjects(subject_prefix="v") == ["visits-value"]
    assert client.get_subjects(offset=1, limit=1) == ["visits-value"]
    assert client.get_versions("visits-value") == [1, 2]
    assert client.get_latest_version("visits-value").schema_id == 2
    assert json.loads(client.get_version("visits-value", 1).schema.schema_str) == json.loads(V1.schema_str)
    assert json.loads(client.get_schema(2).schema_str) == json.loads(V2.schema_str)
    assert client.get_subjects_by_schema_id(2) == ["others-value", "visits-value"]
    assert {(one.subject, one.version) for one in client.get_schema_versions(2)} == {
        ("others-value", 1),
        ("visits-value", 2),
    }
    assert client.lookup_schema("others-value", V2).version == 1
    assert fresh(client).get_schema_by_guid(first.guid).schema_str == client.get_schema(1).schema_str
    assert client.get_schema_types() == ["AVRO", "JSON"]


def test_members_in_another_order_are_the_same_schema_only_if_it_is_normalized(client):
    """Off by default, as at Confluent's."""
    client.register_schema("s", V1)
    turned = Schema(json.dumps(dict(reversed(json.loads(V1.schema_str).items()))), "AVRO")
    assert code(client.lookup_schema, "s", turned) == (404, 40403)
    assert client.lookup_schema("s", turned, normalize_schemas=True).schema_id == 1
    assert fresh(client).register_schema("s", turned, normalize_schemas=True) == 1
    assert fresh(client).register_schema("s", turned) == 2


def test_what_old_readers_or_new_readers_cannot_read_is_refused(client):
    """An incompatible schema gets no version and no id, and the last one stays what it was."""
    client.register_schema("s", V1)
    assert code(client.register_schema, "s", V3) == (409, 40901)
    assert client.get_versions("s") == [1]
    assert client.register_schema("s", V2) == 2
    client.set_compatibility("s", "full")
    assert client.get_compatibility("s") == "FULL"
    assert client.test_compatibility("s", V3) is True
    assert client.test_compatibility("s", V1) is True
    client.set_compatibility("s", "FULL_TRANSITIVE")
    assert client.test_compatibility_all_versions("s", V3) is False
    assert client.test_compatibility("s", V3) is True
    assert client.test_compatibility("s", V3, version=1) is False
    client.set_compatibility("s", "NONE")
    assert client.register_schema("s", V3) == 3


def test_another_type_of_schema_is_incompatible(client):
    """Avro after JSON Schema, unless the subject has no level."""
    client.register_schema("s", JSON)
    assert code(client.register_schema, "s", V1) == (409, 40901)
    assert client.test_compatibility("s", V1) is False
    client.set_compatibility("s", "NONE")
    assert client.register_schema("s", V1) == 2


def test_a_level_of_a_subject_is_before_the_level_of_everything(client):
    """Without its own, a subject has that of everything; the default is BACKWARD."""
    assert client.get_compatibility() == "BACKWARD"
    assert code(client.get_compatibility, "s") == (404, 40408)
    client.register_schema("s", V1)
    assert client.set_compatibility(level="NONE") == {"compatibility": "NONE"}
    assert client.test_compatibility("s", V3) is True
    client.set_compatibility("s", "BACKWARD")
    assert client.test_compatibility("s", V3) is False
    assert client.delete_config("s").compatibility_level.value == "BACKWARD"
    assert client.test_compatibility("s", V3) is True
    assert client.delete_config().compatibility_level.value == "NONE"
    assert client.get_config().compatibility_level.value == "BACKWARD"


def test_a_deleted_version_is_out_of_the_history_and_readable_by_id_until_it_is_removed(client):
    """First softly, then for good; a number that was softly deleted is not used again."""
    client.register_schema("s", V1)
    client.register_schema("s", V2)
    assert client.delete_version("s", 2) == 2
    assert (client.get_versions("s"), client.get_versions("s", deleted=True)) == ([1], [1, 2])
    assert client.get_versions("s", deleted_only=True) == [2]
    assert fresh(client).get_schema(2).schema_str
    assert client.get_subjects_by_schema_id(2) == []
    assert client.get_subjects_by_schema_id(2, deleted=True) == ["s"]
    again = fresh(client).register_schema_full_response("s", V2)
    assert (again.schema_id, again.version) == (2, 3)
    assert client.delete_subject("s") == [1, 3]
    assert client.get_subjects() == []
    assert client.get_subjects(deleted=True) == client.get_subjects(deleted_only=True) == ["s"]
    assert client.delete_subject("s", permanent=True) == [1, 2, 3]
    assert code(fresh(client).get_schema, 2) == (404, 40403)
    assert fresh(client).register_schema_full_response("s", V2).version == 1


def test_a_registry_to_be_read_only_takes_nothing(client):
    """Of everything or of a subject; what is there is still found, and other modes are refused."""
    client.register_schema("s", V1)
    assert client.get_global_mode() == "READWRITE"
    assert code(client.get_mode, "s") == (404, 40409)
    assert client.update_mode("s", "READONLY") == "READONLY"
    assert client.get_mode("s") == "READONLY"
    assert fresh(client).register_schema("s", V1) == 1
    for call in (
        lambda: client.register_schema("s", V2),
        lambda: client.delete_subject("s"),
        lambda: client.delete_version("s", 1),
        lambda: client.set_compatibility("s", "NONE"),
    ):
        assert code(call) == (422, 42205)
    assert client.register_schema("other", V2) == 2
    assert client.delete_mode("s") == "READONLY"
    assert client.register_schema("s", V2) == 2
    client.update_global_mode("READONLY")
    assert code(client.register_schema, "s", JSON) == (422, 42205)
    assert code(client.update_global_mode, "IMPORT") == (422, 42204)


def test_contexts_are_told_by_the_names_of_subjects(client):
    """A subject of the default context has one name, with and without the context."""
    client.register_schema(":.staging:visits", V1)
    client.register_schema(":.:visits", V1)
    assert client.get_contexts() == [".", ".staging"]
    assert client.get_subjects() == [":.staging:visits", "visits"]
    assert client.get_subjects(subject_prefix=":*:") == [":.staging:visits", "visits"]


def test_a_schema_may_name_a_version_of_another_subject(client):
    """An Avro schema is judged with what it refers to, and that is not deleted meanwhile."""
    client.register_schema("place", Schema(record("a", name="shop.Place"), "AVRO"))
    order = {"type": "record", "name": "Order", "fields": [{"name": "at", "type": "shop.Place"}]}
    named = [SchemaReference("shop.Place", "place", 1)]
    client.register_schema("orders", Schema(json.dumps(order), "AVRO", named))
    assert fresh(client).get_latest_version("orders").schema.references == named
    assert client.get_referenced_by("place", 1) == [2]
    assert code(client.delete_subject, "place") == (422, 42206)
    assert code(client.delete_version, "place", 1) == (422, 42206)
    unknown = Schema(json.dumps(order | {"name": "Other"}), "AVRO", [SchemaReference("shop.Place", "none", 1)])
    assert code(client.register_schema, "others", unknown) == (422, 42201)


def referring(document, **versions):
    """A JSON Schema that names versions of subjects: of ``text`` by the address ``text.json``."""
    named = [SchemaReference(f"{name}.json", f"{name}/all", version) for name, version in versions.items()]
    return Schema(json.dumps(document), "JSON", named)


def text(most):
    """A document with a short text in its definitions."""
    short = {"type": "string", "maxLength": most}
    return referring({"$id": "text.json", "definitions": {"short": short}, "type": "string"})


PLACE = {"type": "object", "properties": {"zip": {"$ref": "text.json#/definitions/short"}, "to": {"$ref": "#"}}}
ORDER = {"type": "object", "properties": {"at": {"$ref": "place.json"}, "note": {"$ref": "text.json"}}}


@pytest.fixture
def orders(client):
    """A schema of orders, which names places, which name texts."""
    client.register_schema("text/all", text(3))
    client.register_schema("place/all", referring(PLACE, text=1))
    made = referring(ORDER, place=1, text=1)
    assert client.register_schema("orders-value", made) == 3
    return made


def test_a_json_schema_may_name_a_version_of_another_subject(client, orders):
    """By the address in its $ref, through several documents; what is named is not deleted, and records keep to it."""
    assert fresh(client).get_latest_version("orders-value").schema.references == orders.references
    assert client.get_referenced_by("text/all", 1) == [2, 3]
    assert code(client.delete_version, "place/all", 1) == (422, 42206)
    assert code(client.register_schema, "others", referring(ORDER, place=9, text=1)) == (422, 42201)
    assert code(client.register_schema, "others", referring(ORDER, text=1)) == (422, 42201)
    context = SerializationContext("orders", MessageField.VALUE)
    serializer = JSONSerializer(orders, fresh(client), conf={"auto.register.schemas": False})
    assert serializer({"at": {"zip": "abc"}}, context)[:5] == b"\0\0\0\0\x03"
    with pytest.raises(SerializationError):
        serializer({"at": {"zip": "abcd"}}, context)


def test_a_json_schema_is_judged_with_what_it_names(client, orders):
    """A stricter text two documents away is a field that readers of now would refuse."""
    for subject, schema in (("text/all", text(2)), ("place/all", referring(PLACE, text=2))):
        client.set_compatibility(subject, "NONE")
        client.register_schema(subject, schema)
    shorter = referring(ORDER, place=2, text=1)
    assert client.test_compatibility("orders-value", shorter) is False
    with pytest.raises(SchemaRegistryError, match=r"version 1: at\.zip: maxLength is 2"):
        client.register_schema("orders-value", shorter)


def test_records_of_each_version_are_read_with_the_newest_schema(client):
    """Avro: the header names the writer's schema, and a default stands for what it did not have."""
    context, written = SerializationContext("visits", MessageField.VALUE), []
    for schema, visit in ((V1, {"a": 1}), (V2, {"a": 2, "b": 3})):
        written.append(AvroSerializer(client, schema.schema_str)(visit, context))
    assert [struct.unpack(">bI", one[:5]) for one in written] == [(0, 1), (0, 2)]
    read = AvroDeserializer(fresh(client), V2.schema_str)
    assert [read(one, context) for one in written] == [{"a": 1, "b": 0}, {"a": 2, "b": 3}]


def test_a_producer_that_registers_nothing_uses_the_newest_schema(client):
    """JSON Schema: a record that does not hold to it is refused before it is sent."""
    client.register_schema("visits-value", JSON)
    options = {"auto.register.schemas": False, "use.latest.version": True}
    context = SerializationContext("visits", MessageField.VALUE)
    serializer = JSONSerializer(JSON.schema_str, fresh(client), conf=options)
    sent = serializer({"page": "/a"}, context)
    assert (sent[:5], json.loads(sent[5:])) == (b"\x00\x00\x00\x00\x01", {"page": "/a"})
    assert JSONDeserializer(None, schema_registry_client=fresh(client))(sent, context) == {"page": "/a"}
    with pytest.raises(SerializationError, match="not of type 'string'"):
        serializer({"page": 1}, context)
    with pytest.raises(SchemaRegistryError, match="not found"):
        AvroSerializer(fresh(client), V1.schema_str, conf=options)({"a": 1}, SerializationContext("none", "value"))
