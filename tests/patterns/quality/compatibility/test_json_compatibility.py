"""Rules of JSON Schema: an accepted change keeps old data valid, and each refused one has a value that it breaks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.quality.schema_compatibility_enforcer import judge_schema

TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
FILLED = {**TEXT, "default": "x"}
FINE = object()


def model(*required, rest=True, **properties):
    """An object with properties; open, closed, or open for properties of a schema."""
    made = {"type": "object", "properties": properties, "additionalProperties": rest}
    return {**made, "required": list(required)} if required else made


def closed(*required, **properties):
    return model(*required, rest=False, **properties)


def items(rest=True, *first):
    return {"type": "array", "items": list(first), "additionalItems": rest}


CHANGES = {
    # change: (old, new, FINE or a value of the old schema that the new one refuses)
    "title, description, default and id": (TEXT, {**TEXT, "title": "t", "description": "d", "default": "x"}, FINE),
    "anything to the empty schema": (closed("a", a=TEXT), {}, FINE),
    "anything to true": (TEXT, True, FINE),
    "false to anything": (False, TEXT, FINE),
    "anything to false": (TEXT, False, "x"),
    "empty schema to a type": ({}, TEXT, 1),
    "another type": (TEXT, {"type": "array"}, "x"),
    "integer to number": (INTEGER, NUMBER, FINE),
    "number to integer": (NUMBER, INTEGER, 0.5),
    "one type to several": (TEXT, {"type": ["string", "null"]}, FINE),
    "several types to one": ({"type": ["string", "null"]}, TEXT, None),
    "maxLength raised": ({**TEXT, "maxLength": 2}, {**TEXT, "maxLength": 3}, FINE),
    "maxLength lowered": ({**TEXT, "maxLength": 2}, {**TEXT, "maxLength": 1}, "ab"),
    "maxLength added": (TEXT, {**TEXT, "maxLength": 1}, "ab"),
    "maxLength removed": ({**TEXT, "maxLength": 1}, TEXT, FINE),
    "minLength raised": ({**TEXT, "minLength": 1}, {**TEXT, "minLength": 2}, "a"),
    "minLength lowered": ({**TEXT, "minLength": 2}, {**TEXT, "minLength": 1}, FINE),
    "minLength of nothing added": (TEXT, {**TEXT, "minLength": 0}, FINE),
    "minimum below zero added": (NUMBER, {**NUMBER, "minimum": -5}, -6),
    "maximum of an integer lowered": ({**INTEGER, "maximum": 9}, {**INTEGER, "maximum": 8}, 9),
    "exclusiveMaximum raised": ({**NUMBER, "exclusiveMaximum": 1}, {**NUMBER, "exclusiveMaximum": 2}, FINE),
    "maxItems lowered": ({"type": "array", "maxItems": 2}, {"type": "array", "maxItems": 1}, [1, 2]),
    "minProperties added": ({"type": "object"}, {"type": "object", "minProperties": 1}, {}),
    "pattern added": (TEXT, {**TEXT, "pattern": "^a"}, "b"),
    "pattern changed": ({**TEXT, "pattern": "^b"}, {**TEXT, "pattern": "^a"}, "b"),
    "pattern removed": ({**TEXT, "pattern": "^b"}, TEXT, FINE),
    "multipleOf reduced to a divisor": ({**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 2}, FINE),
    "multipleOf changed": ({**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 3}, 10),
    "multipleOf added": (NUMBER, {**NUMBER, "multipleOf": 3}, 1),
    "enum extended": ({"enum": ["a"]}, {"enum": ["a", "b"]}, FINE),
    "enum narrowed": ({"enum": ["a", "b"]}, {"enum": ["a"]}, "b"),
    "enum removed": ({**TEXT, "enum": ["a"]}, TEXT, FINE),
    "enum added": (TEXT, {**TEXT, "enum": ["a"]}, "b"),
    "const changed": ({"const": 1}, {"const": 2}, 1),
    "const to an enum that holds it": ({"const": 1}, {"enum": [1, 2]}, FINE),
    "plain to oneOf with it": (TEXT, {"oneOf": [TEXT, NUMBER]}, FINE),
    "plain to oneOf without it": (TEXT, {"oneOf": [{"type": "null"}, NUMBER]}, "x"),
    "anyOf branch added": ({"anyOf": [TEXT, NUMBER]}, {"anyOf": [TEXT, NUMBER, {"type": "null"}]}, FINE),
    "oneOf branch removed": ({"oneOf": [TEXT, NUMBER, {"type": "null"}]}, {"oneOf": [TEXT, NUMBER]}, None),
    "oneOf to anyOf": ({"oneOf": [TEXT, NUMBER]}, {"anyOf": [TEXT, NUMBER]}, FINE),
    "anyOf to oneOf": ({"anyOf": [INTEGER, NUMBER]}, {"oneOf": [INTEGER, NUMBER]}, 1),
    "allOf branch added": ({"allOf": [TEXT]}, {"allOf": [TEXT, {"maxLength": 1}]}, "ab"),
    "allOf branch removed": ({"allOf": [TEXT, {"maxLength": 1}]}, {"allOf": [TEXT]}, FINE),
    "not: excludes less": ({"not": NUMBER}, {"not": INTEGER}, FINE),
    "not: excludes more": ({"not": INTEGER}, {"not": NUMBER}, 0.5),
    "open: property removed": (model(a=TEXT, b=TEXT), model(a=TEXT), FINE),
    "open: property of any kind added": (model(a=TEXT), model(a=TEXT, b={}), FINE),
    "open: typed property added": (model(a=TEXT), model(a=TEXT, b=TEXT), {"b": 1}),
    "closed: optional property added": (closed(a=TEXT), closed(a=TEXT, b=TEXT), FINE),
    "closed: required property with default added": (
        closed(a=TEXT),
        closed("b", a=TEXT, b=FILLED),
        FINE,
    ),
    "closed: required property added": (closed(a=TEXT), closed("b", a=TEXT, b=TEXT), {"a": "x"}),
    "closed: property removed": (closed(a=TEXT, b=TEXT), closed(a=TEXT), {"b": "x"}),
    "closed: property that nobody may have removed": (closed(a=TEXT, b=False), closed(a=TEXT), FINE),
    "partially open: covered property added": (model(a=TEXT, rest=TEXT), model(a=TEXT, b=TEXT, rest=TEXT), FINE),
    "partially open: other property added": (model(rest=TEXT), model(b=NUMBER, rest=TEXT), {"b": "x"}),
    "partially open: covered property removed": (model(a=INTEGER, rest=NUMBER), model(rest=NUMBER), FINE),
    "partially open: other property removed": (model(a=TEXT, rest=NUMBER), model(rest=NUMBER), {"a": "x"}),
    "pattern property covers an added one": (
        {**closed(), "patternProperties": {"^I_": INTEGER}},
        {**closed(I_1=NUMBER), "patternProperties": {"^I_": INTEGER}},
        FINE,
    ),
    "required entry removed": (model("a", a=TEXT), model(a=TEXT), FINE),
    "required entry added": (model(a=TEXT), model("a", a=TEXT), {}),
    "required entry with default added": (
        model(a={**TEXT, "default": "x"}),
        model("a", a={**TEXT, "default": "x"}),
        FINE,
    ),
    "required entry without a property added": (model(), model("a"), {}),
    "additionalProperties added": (closed(a=TEXT), model(a=TEXT), FINE),
    "additionalProperties removed": (model(a=TEXT), closed(a=TEXT), {"b": 1}),
    "additionalProperties narrowed": (model(rest=NUMBER), model(rest=INTEGER), {"b": 0.5}),
    "items removed": ({"type": "array", "items": TEXT}, {"type": "array"}, FINE),
    "items added": ({"type": "array"}, {"type": "array", "items": TEXT}, [1]),
    "item type changed": ({"type": "array", "items": TEXT}, {"type": "array", "items": NUMBER}, ["x"]),
    "uniqueItems added": ({"type": "array"}, {"type": "array", "uniqueItems": True}, [1, 1]),
    "uniqueItems removed": ({"type": "array", "uniqueItems": True}, {"type": "array"}, FINE),
    "tuple: item added to closed": (items(False, TEXT), items(False, TEXT, NUMBER), FINE),
    "tuple: item added to open": (items(True, TEXT), items(True, TEXT, NUMBER), ["x", "y"]),
    "tuple: item removed from open": (items(True, TEXT, NUMBER), items(True, TEXT), FINE),
    "tuple: item removed from closed": (items(False, TEXT, NUMBER), items(False, TEXT), ["x", 1]),
    "reference to inline of the same": (
        {"properties": {"a": {"$ref": "#/definitions/t"}}, "definitions": {"t": TEXT}},
        {"properties": {"a": TEXT}},
        FINE,
    ),
    "reference to another type": (
        {"properties": {"a": {"$ref": "#/definitions/t"}}, "definitions": {"t": TEXT}},
        {"properties": {"a": {"$ref": "#/definitions/t"}}, "definitions": {"t": NUMBER}},
        {"a": "x"},
    ),
    "dependency added": (model(a=TEXT), {**model(a=TEXT), "dependencies": {"a": ["b"]}}, {"a": "x"}),
    "dependency removed": ({**model(a=TEXT), "dependencies": {"a": ["b"]}}, model(a=TEXT), FINE),
    "nested property changed": (model(a=closed(b=INTEGER)), model(a=closed(b=TEXT)), {"a": {"b": 1}}),
}


def judged(new, *history, **options):
    return judge_schema(json.dumps(new), [json.dumps(old) for old in history], dialect="JSON", **options)


@pytest.mark.parametrize(("old", "new", "broken"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_refused_exactly_if_a_value_says_why(old, new, broken):
    """Each refused change has a value that was valid and is not any more; forward is the same with both exchanged."""
    assert judged(new, old).passed == (broken is FINE)
    assert judged(old, new, mode="FORWARD").passed == (broken is FINE)
    if broken is not FINE:
        assert Draft7Validator(old).is_valid(broken)
        assert not Draft7Validator(new).is_valid(broken)


LEAVES = st.sampled_from(
    [
        *({}, True, False, TEXT, NUMBER, INTEGER, {"type": ["integer", "null"]}, {"type": "null"}),
        *({**TEXT, "maxLength": 1}, {**TEXT, "minLength": 1}, {**INTEGER, "maximum": 3}, {**NUMBER, "minimum": 0}),
        *({"enum": [1, "a"]}, {"enum": ["a", None]}, {"const": 1}, {**NUMBER, "multipleOf": 2}, {"not": TEXT}),
    ]
)


def around(inner):
    """Objects, arrays and choices of schemas."""
    names = st.sampled_from(["a", "b"])
    properties = st.dictionaries(names, inner, max_size=2)
    required = st.lists(names, unique=True, max_size=1)
    objects = st.builds(lambda p, r, q: model(*q, rest=r, **p), properties, inner, required)
    arrays = st.builds(lambda rest, first: items(rest, *first), inner, st.lists(inner, max_size=2))
    lists = st.builds(lambda kind: {"type": "array", "items": kind}, inner)
    several = st.lists(inner, min_size=1, max_size=2)
    names = st.sampled_from(["allOf", "anyOf", "oneOf"])
    choices = st.builds(lambda name, branches: {name: branches}, names, several)
    return objects | arrays | lists | choices


SCHEMAS = st.recursive(LEAVES, around, max_leaves=4)
SCALARS = st.sampled_from([None, True, 0, 1, 2, 4, -1, 0.5, "", "a", "ab"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=2),
    max_leaves=4,
)


@given(old=SCHEMAS, new=SCHEMAS, values=st.lists(VALUES, min_size=5, max_size=12))
def test_no_value_is_lost_by_an_accepted_change(old, new, values):
    """For any two schemas, a value that the old one allows is allowed by a new one that was accepted."""
    for one, other, mode in ((old, new, "BACKWARD"), (new, old, "FORWARD")):
        if judged(new, old, mode=mode).passed and not uses_one_of(other):
            assert [
                v for v in values if Draft7Validator(one).is_valid(v) and not Draft7Validator(other).is_valid(v)
            ] == []


def uses_one_of(schema):
    """Whether values that several branches allow may be refused, which the keywords alone do not say."""
    return "oneOf" in json.dumps(schema)


@given(schema=SCHEMAS)
def test_a_schema_is_compatible_with_itself(schema):
    """In every mode, whatever it says."""
    assert judged(schema, schema, mode="FULL").passed


def test_no_property_can_be_added_in_both_directions():
    """An open model cannot add backward, a closed one cannot add forward; the lenient policy lets both."""
    for make in (model, closed):
        old, new = make(a=TEXT), make(a=TEXT, b=TEXT)
        strict = judged(new, old, mode="FULL")
        assert [(each["path"], each["rule"]) for each in strict.figures["incompatibilities"]] == [
            ("b", "property_added_to_open_model" if make is model else "property_removed_from_closed_model")
        ]
        assert judged(new, old, mode="FULL", policy="LENIENT").passed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (closed(a=TEXT), closed(a=NUMBER)),
        (closed(a=TEXT), closed("b", a=TEXT, b=TEXT)),
        (model(a=TEXT), model(a=TEXT, b={"type": "array", "items": TEXT}, c=TEXT) | {"required": ["c"]}),
    ],
)
def test_the_lenient_policy_lets_no_type_change_and_no_required_property(old, new):
    """It is about which properties there are, and about nothing else."""
    assert not judged(new, old, policy="LENIENT").passed


def tree(kind, key="definitions"):
    """A schema that refers to itself."""
    node = closed(value=kind, next={"$ref": f"#/{key}/node"})
    return {key: {"node": node}, **closed(first={"$ref": f"#/{key}/node"})}


def test_a_schema_that_refers_to_itself_is_judged():
    """The walk ends, and the change inside is found once."""
    assert judged(tree(NUMBER), tree(INTEGER)).passed
    (found,) = judged(tree(INTEGER), tree(NUMBER)).figures["incompatibilities"]
    assert (found["path"], found["rule"]) == ("first.value", "type_narrowed")
    assert not judged({"not": {"$ref": "#"}}, {"not": {"$ref": "#"}}, mode="NONE").figures["incompatibilities"]


def test_newer_drafts_are_read():
    """prefixItems, $defs, dependentRequired and unevaluatedProperties of 2020-12 mean their forerunners."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    old = {**dialect, "type": "array", "prefixItems": [TEXT], "items": False}
    new = {**dialect, "type": "array", "prefixItems": [TEXT, NUMBER], "items": False}
    assert judged(new, old).passed
    assert not judged(old, new).passed
    assert Draft202012Validator(new).is_valid(["x", 1])
    assert not Draft202012Validator(old).is_valid(["x", 1])
    assert not judged(tree(INTEGER, "$defs"), tree(NUMBER, "$defs")).passed
    shut = {"type": "object", "properties": {"a": TEXT}, "unevaluatedProperties": False}
    assert judged({**shut, "properties": {"a": TEXT, "b": TEXT}}, shut).passed
    assert not judged({**model(a=TEXT), "dependentRequired": {"a": ["b"]}}, model(a=TEXT)).passed


def test_an_exclusive_limit_of_draft_4_is_read():
    """There it is a truth value beside the limit."""
    old, new = {**NUMBER, "maximum": 5, "exclusiveMaximum": True}, {**NUMBER, "exclusiveMaximum": 4}
    assert not judged(new, old).passed
    assert judged(old, new).passed


def test_all_incompatibilities_are_said_with_path_and_rule():
    """One verdict, all reasons."""
    old = closed(a=closed(b=TEXT), c={"type": "array", "items": NUMBER}, d=TEXT)
    new = closed(a=closed(b=NUMBER), c={"type": "array", "items": INTEGER})
    found = judged(new, old).figures["incompatibilities"]
    assert {(each["path"], each["rule"]) for each in found} == {
        ("a.b", "type_changed"),
        ("c[]", "type_narrowed"),
        ("d", "property_removed_from_closed_model"),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Expecting"),
        ("[]", "an object, true or false"),
        ('{"type": "text"}', "a type of JSON Schema"),
        ('{"properties": {"a": 1}}', "a must be an object"),
        ('{"properties": []}', "properties of"),
        ('{"required": "a"}', "required of"),
        ('{"maxLength": "1"}', "maxLength of"),
        ('{"$ref": "#/definitions/gone"}', "not to '#/definitions/gone'"),
        ('{"$ref": "other.json"}', "not to 'other.json'"),
    ],
)
def test_a_text_that_is_no_schema_is_refused(text, said):
    """With the reason, and before anything is compared."""
    with pytest.raises(ContractError) as error:
        judge_schema(text, [], dialect="JSON", mode="NONE")
    assert said in str(error.value)
