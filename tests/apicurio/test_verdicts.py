"""Verdicts on schema changes, held against those of another registry, recorded by ``recording``."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator

from dedp_assets.patterns.quality.schema_compatibility_enforcer import judge_schema
from tests.apicurio.recording import MODES, RECORD, digest
from tests.patterns.quality.compatibility.test_avro_compatibility import CHANGES as AVRO
from tests.patterns.quality.compatibility.test_json_compatibility import CHANGES as JSON
from tests.patterns.quality.compatibility.test_json_compatibility import FINE

CHANGES = {"AVRO": AVRO, "JSON": JSON}
HELD = json.loads(RECORD.read_text())
UNKNOWN = "Apicurio takes a schema that is false for no JSON Schema; the specification has it"
DEFAULT = (
    "Confluent documents a required property with a default as compatible, since a reader fills it in; Apicurio goes "
    "by validation alone, which knows no defaults"
)
DISAGREEMENTS = {
    # (change, mode): why the verdict here is another one than Apicurio's
    ("false to anything", "BACKWARD"): UNKNOWN,
    ("false to anything", "FORWARD"): UNKNOWN,
    ("anything to false", "BACKWARD"): "by the specification false allows nothing; Apicurio compares no boolean schema",
    ("anything to false", "FORWARD"): "by the specification nothing is valid for false, so nothing breaks a reader",
    ("one type to several", "BACKWARD"): "the list holds the former type; Confluent documents it as compatible",
    ("several types to one", "FORWARD"): "the same change in the other direction",
    ("minLength of nothing added", "BACKWARD"): "0 is the default of minLength by the specification",
    ("plain to oneOf with it", "BACKWARD"): "one branch is the former schema; Confluent documents it as compatible",
    ("open: property of any kind added", "BACKWARD"): "the empty schema allows what was there; so Confluent documents",
    ("closed: required property with default added", "BACKWARD"): DEFAULT,
    ("required entry with default added", "BACKWARD"): DEFAULT,
    ("closed: property that nobody may have removed", "BACKWARD"): (
        "a property that is false was in no data; Confluent documents it as compatible"
    ),
    ("partially open: covered property removed", "FORWARD"): (
        "new data may hold a number where old readers take integers alone, as the value below shows"
    ),
}


def verdict(kind, old, new, mode):
    return judge_schema(json.dumps(new), [json.dumps(old)], mode=mode, dialect=kind).passed


@pytest.mark.parametrize("kind", CHANGES)
def test_the_record_is_of_these_changes(kind):
    """Each change that is tested here was judged there, by the same schemas: otherwise record it again."""
    assert {name: held["of"] for name, held in HELD[kind].items()} == {
        name: digest(old, new) for name, (old, new, *_) in CHANGES[kind].items()
    }


@pytest.mark.parametrize("kind", CHANGES)
def test_another_registry_says_the_same_of_each_change_but_those_with_a_reason(kind):
    """Avro without an exception; of JSON Schema those listed, no more and no fewer."""
    others = {
        (name, mode)
        for name, (old, new, *_) in CHANGES[kind].items()
        for mode in MODES
        if verdict(kind, old, new, mode) != HELD[kind][name][mode]
    }
    assert others == (set(DISAGREEMENTS) if kind == "JSON" else set())


def test_a_value_decides_where_apicurio_is_the_milder_one():
    """Valid for the new schema and not for the old one; and for false, valid before and not after."""
    old, new, _ = JSON["partially open: covered property removed"]
    assert Draft7Validator(new).is_valid({"a": 0.5})
    assert not Draft7Validator(old).is_valid({"a": 0.5})
    milder = {pair for pair in DISAGREEMENTS if HELD["JSON"][pair[0]][pair[1]] is True}
    assert milder == {("partially open: covered property removed", "FORWARD"), ("anything to false", "BACKWARD")}
    assert JSON["anything to false"][2] is not FINE
