"""Rules of Avro: each verdict is held against real reads of rows with the values that decide it."""

from __future__ import annotations

import io
import json
from datetime import datetime, timezone
from decimal import Decimal
from itertools import cycle, islice

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.quality.schema_compatibility_enforcer import judge_schema

_NONE = object()
MOMENT = datetime(2026, 1, 5, 12, 30, tzinfo=timezone.utc)
PRIMITIVE = {
    "null": [None],
    "boolean": [True, False],
    "int": [0, -1, 2**31 - 1],
    "long": [0, 2**40, -(2**63)],
    "float": [0.5, -2.0],
    "double": [0.1, 1e300],
    "string": ["", "é"],
    "bytes": [b"", b"ok"],
}
LOGICAL = {
    "decimal": lambda kind: [Decimal("12.34").quantize(Decimal(1).scaleb(-kind["scale"]))],
    "timestamp-millis": lambda _: [MOMENT],
    "timestamp-micros": lambda _: [MOMENT],
}


def field(name, kind, default=_NONE, **more):
    return {"name": name, "type": kind, **({} if default is _NONE else {"default": default}), **more}


def record(*fields, name="Visit", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def enum(*symbols, **more):
    return {"type": "enum", "name": "Kind", "symbols": list(symbols), **more}


def decimal(precision, scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def array(kind):
    return {"type": "array", "items": kind}


def mapped(kind):
    return {"type": "map", "values": kind}


def logical(kind, name):
    return {"type": kind, "logicalType": name}


def at(unit):
    return logical("long", f"timestamp-{unit}")


ID, PAGE = field("id", "long"), field("page", "string")
BASE = record(ID, PAGE)
ADDRESS = record(field("city", "string"), name="Address")
WIDER = record(field("city", "string"), field("zip", "string", ""), name="Address")
STRICTER = record(field("city", "string"), field("zip", "string"), name="Address")


def retyped(old, new, default=_NONE):
    return record(ID, field("x", old, default)), record(ID, field("x", new, default))


CHANGES = {
    # change: (old, new, new readers read old data, old readers read new data)
    "add field with default": (BASE, record(ID, PAGE, field("ad", "int", 0)), True, True),
    "add nullable field with default null": (BASE, record(ID, PAGE, field("ad", ["null", "int"], None)), True, True),
    "remove field with default": (record(ID, field("ad", "int", 0)), record(ID), True, True),
    "reorder fields": (BASE, record(PAGE, ID), True, True),
    "change doc": (BASE, record(ID, field("page", "string", doc="the path")), True, True),
    "change default": (record(ID, field("ad", "int", 0)), record(ID, field("ad", "int", 1)), True, True),
    "remove default of a field": (record(ID, field("ad", "int", 0)), record(ID, field("ad", "int")), True, True),
    "add default to a field": (record(ID, field("ad", "int")), record(ID, field("ad", "int", 0)), True, True),
    "change namespace": (BASE, record(ID, PAGE, namespace="com.shop"), True, True),
    "reorder union": (*retyped(["null", "int"], ["int", "null"]), True, True),
    "reorder enum": (*retyped(enum("A", "B"), enum("B", "A")), True, True),
    "add symbol to enum with default": (*retyped(enum("A", default="A"), enum("A", "B", default="A")), True, True),
    "remove symbol of enum with default": (*retyped(enum("A", "B", default="A"), enum("A", default="A")), True, True),
    "nested: add field with default": (*retyped(ADDRESS, WIDER), True, True),
    "string to bytes": (*retyped("string", "bytes"), True, True),
    "bytes to string": (*retyped("bytes", "string"), True, True),
    "decimal precision": (*retyped(decimal(10, 2), decimal(12, 2)), True, True),
    "decimal scale": (*retyped(decimal(10, 2), decimal(10, 3)), True, True),
    "millis to micros": (*retyped(at("millis"), at("micros")), True, True),
    "remove field without default": (BASE, record(ID), True, False),
    "rename field with alias": (BASE, record(ID, field("path", "string", aliases=["page"])), True, False),
    "rename record with alias": (BASE, record(ID, PAGE, name="View", aliases=["Visit"]), True, False),
    "int to long": (*retyped("int", "long"), True, False),
    "int to float": (*retyped("int", "float"), True, False),
    "int to double": (*retyped("int", "double"), True, False),
    "long to double": (*retyped("long", "double"), True, False),
    "float to double": (*retyped("float", "double"), True, False),
    "items: int to long": (
        *retyped(array("int"), array("long")),
        True,
        False,
    ),
    "int to nullable int": (*retyped("int", ["null", "int"]), True, False),
    "union: add branch": (*retyped(["null", "int"], ["null", "int", "string"]), True, False),
    "enum: add symbol": (*retyped(enum("A"), enum("A", "B")), True, False),
    "add field without default": (BASE, record(ID, PAGE, field("ad", "int")), False, True),
    "add nullable field without default": (BASE, record(ID, PAGE, field("ad", ["null", "int"])), False, True),
    "long to int": (*retyped("long", "int"), False, True),
    "double to float": (*retyped("double", "float"), False, True),
    "values: long to int": (*retyped(mapped("long"), mapped("int")), False, True),
    "nullable int to int": (*retyped(["null", "int"], "int"), False, True),
    "union: remove branch": (*retyped(["null", "int", "string"], ["null", "int"]), False, True),
    "enum: remove symbol": (*retyped(enum("A", "B"), enum("A")), False, True),
    "nested: add field without default": (*retyped(ADDRESS, STRICTER), False, True),
    "rename field": (BASE, record(ID, field("path", "string")), False, False),
    "rename record": (BASE, record(ID, PAGE, name="View"), False, False),
    "rename nested record": (*retyped(ADDRESS, {**ADDRESS, "name": "Place"}), False, False),
    "int to string": (*retyped("int", "string"), False, False),
    "fixed: another size": (
        *retyped({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}),
        False,
        False,
    ),
    "flat to nested": (record(ID, field("city", "string")), record(ID, field("address", ADDRESS)), False, False),
    "record to string": (*retyped(ADDRESS, "string"), False, False),
}


def values(kind):
    """The values of a type that decide whether all of them can be read."""
    if isinstance(kind, list):
        return [value for branch in kind for value in values(branch)]
    if isinstance(kind, str):
        return PRIMITIVE[kind]
    if kind.get("logicalType") in LOGICAL:
        return LOGICAL[kind["logicalType"]](kind)
    made = {
        "enum": lambda: kind["symbols"],
        "fixed": lambda: [b"x" * kind["size"]],
        "array": lambda: [[], values(kind["items"])],
        "map": lambda: [{}, {f"k{n}": value for n, value in enumerate(values(kind["values"]))}],
        "record": lambda: rows(kind),
    }
    return made[kind["type"]]() if kind["type"] in made else values(kind["type"])


def rows(schema):
    """As many rows as the field with the most values needs to show each of them."""
    held = {each["name"]: values(each["type"]) for each in schema["fields"]}
    most = max(map(len, held.values()))
    columns = [list(islice(cycle(some), most)) for some in held.values()]
    return [dict(zip(held, row, strict=True)) for row in zip(*columns, strict=True)]


def unreadable(reader, writer):
    """The rows, written by one schema, that fastavro cannot read by the other."""
    written, read = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    failed = []
    for row in rows(writer):
        held = io.BytesIO()
        fastavro.schemaless_writer(held, written, row)
        held.seek(0)
        try:
            fastavro.schemaless_reader(held, written, read)
        except Exception:
            failed.append(row)
    return failed


def judged(new, *history, **options):
    return judge_schema(json.dumps(new), [json.dumps(old) for old in history], **options)


@pytest.mark.parametrize(("old", "new", "backward", "forward"), CHANGES.values(), ids=CHANGES)
def test_each_mode_says_of_a_change_what_real_reads_say(old, new, backward, forward):
    """Backward new readers read all old rows, forward old readers all new rows, full is both, none asks nothing."""
    verdicts = {mode: judged(new, old, mode=mode).passed for mode in ("NONE", "BACKWARD", "FORWARD", "FULL")}
    assert verdicts == {"NONE": True, "BACKWARD": backward, "FORWARD": forward, "FULL": backward and forward}
    assert (not unreadable(new, old), not unreadable(old, new)) == (backward, forward)
    transitive = {mode: judged(new, old, mode=f"{mode}_TRANSITIVE").passed for mode in verdicts if mode != "NONE"}
    assert transitive == {mode: verdicts[mode] for mode in transitive}


def test_the_changes_are_at_least_those_of_the_reference():
    """42 changes were compared with two other implementations; none of them may get lost here."""
    assert len(CHANGES) >= 42


KINDS = st.sampled_from(
    [
        *(
            "int",
            "long",
            "double",
            "string",
            "boolean",
            ["null", "int"],
            ["null", "long", "string"],
            ["int", "boolean"],
        ),
        *(array("int"), array(["null", "long"])),
        *(mapped("long"), mapped("double")),
        *(
            enum("A", "B"),
            enum("B", "C"),
            enum("A", default="A"),
            ADDRESS,
            STRICTER,
            ["null", ADDRESS],
            ["null", WIDER],
        ),
        *({"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}),
    ]
)
DEFAULTS = {"int": 1, "long": 2, "double": 0.5, "string": "x", "boolean": True}


@st.composite
def records(draw):
    """A record with some of three fields, with and without defaults."""
    fields, seen = [], set()
    for name in draw(st.permutations(["a", "b", "c"]))[: draw(st.integers(1, 3))]:
        kind = draw(KINDS)
        # A schema defines a name once.
        named = {
            each["name"]
            for each in (kind if isinstance(kind, list) else [kind])
            if isinstance(each, dict) and "name" in each
        }
        if named & seen:
            kind, named = "int", set()
        seen |= named
        first = kind[0] if isinstance(kind, list) else kind
        default = None if first == "null" else DEFAULTS.get(first, _NONE) if isinstance(first, str) else _NONE
        fields.append(field(name, kind, default if draw(st.booleans()) else _NONE))
    return record(*fields)


@given(old=records(), new=records())
def test_any_two_records_are_compatible_exactly_if_all_rows_can_be_read(old, new):
    """The verdict of both directions agrees with fastavro, for any two records of any types."""
    assert judged(new, old).passed == (not unreadable(new, old))
    assert judged(new, old, mode="FORWARD").passed == (not unreadable(old, new))


def test_bytes_that_are_no_text_part_the_rules_from_one_reader():
    """By the rules bytes are read as a string; fastavro cannot read those that are no UTF-8, and names no rule."""
    old, new = retyped("bytes", "string")
    assert judged(new, old).passed
    written, held = fastavro.parse_schema(old), io.BytesIO()
    fastavro.schemaless_writer(held, written, {"id": 1, "x": b"\xff"})
    held.seek(0)
    with pytest.raises(UnicodeDecodeError):
        fastavro.schemaless_reader(held, written, fastavro.parse_schema(new))


@pytest.mark.parametrize(
    ("before", "after", "passed", "shown"),
    [
        (decimal(10, 2), decimal(10, 3), False, "decimal(10,2) would be read as decimal(10,3)"),
        (decimal(10, 2), decimal(12, 2), True, ""),
        (decimal(12, 2), decimal(10, 2), False, "decimal(12,2) would be read as decimal(10,2)"),
        (at("millis"), at("micros"), False, "timestamp-millis would be read as timestamp-micros"),
        (at("millis"), logical("long", "local-timestamp-millis"), False, "local-timestamp-millis"),
        (at("millis"), "long", False, "timestamp-millis would be read as long"),
        (
            {"type": "int", "logicalType": "time-millis"},
            {"type": "long", "logicalType": "time-micros"},
            False,
            "time-micros",
        ),
        (logical("string", "uuid"), "string", True, ""),
        (["null", decimal(10, 2)], ["null", decimal(10, 3)], False, "decimal(10,3)"),
    ],
)
def test_logical_types_are_judged_only_for_lake_tables(before, after, passed, shown):
    """Avro ignores another scale or unit, by which a reader that goes by its own type is off by powers of ten."""
    old, new = retyped(before, after)
    assert judged(new, old).passed
    found = judged(new, old, logical_types=True)
    assert (found.passed, shown in found.note) == (passed, True)
    rules = {each["rule"] for each in found.figures["incompatibilities"]}
    assert rules == (set() if passed else {"logical_type_changed"})


def test_readers_take_the_scale_of_the_writer():
    """Fastavro reads a decimal by the writer's scale: the value stays right, whatever the reader's schema says."""
    old, new = map(fastavro.parse_schema, retyped(decimal(10, 2), decimal(10, 3)))
    held = io.BytesIO()
    fastavro.schemaless_writer(held, old, {"id": 1, "x": Decimal("12.34")})
    held.seek(0)
    assert fastavro.schemaless_reader(held, old, new)["x"] == Decimal("12.34")


def test_a_mode_that_is_transitive_looks_at_all_versions():
    """Version 3 drops a default of version 2: it reads version 2, and not version 1 that lacks the field."""
    v1, v2 = record(field("f1", "string")), record(field("f1", "string"), field("f2", "string", "x"))
    v3 = record(field("f1", "string"), field("f2", "string"))
    for mode in ("BACKWARD", "FULL"):
        assert judged(v3, v1, v2, mode=mode).passed
        refused = judged(v3, v1, v2, mode=f"{mode}_TRANSITIVE")
        assert not refused.passed
        assert refused.note == (
            "BACKWARD, version 1: f2: the data has no such field, and the reader no default for it "
            "(field_without_default)"
        )
    for mode in ("FORWARD", "FULL"):
        assert judged(v1, v3, v2, mode=mode).passed
        (found,) = judged(v1, v3, v2, mode=f"{mode}_TRANSITIVE").figures["incompatibilities"]
        assert (found["direction"], found["version"], found["path"]) == ("FORWARD", 1, "f2")
    assert unreadable(v3, v1)
    assert not unreadable(v3, v2)


def test_all_incompatibilities_are_said_with_field_and_rule():
    """Fields at every depth, in arrays, maps and unions: one verdict, all reasons."""
    inner = record(field("zip", "int"), field("floor", "int"), name="Place")
    other = record(field("zip", "string"), field("floor", "boolean"), name="Place")
    old = record(field("at", ["null", inner]), field("all", mapped(array("long"))))
    new = record(field("at", ["null", other]), field("all", mapped(array("int"))))
    found = judged(new, old).figures["incompatibilities"]
    assert {(each["path"], each["rule"]) for each in found} == {
        ("at.zip", "type_changed"),
        ("at.floor", "type_changed"),
        ("all{}[]", "type_changed"),
    }


def node(kind, name="Node", **more):
    """A record within itself, with a value of a type."""
    return record(field("next", ["null", name], None), field("value", kind), name=name, **more)


def test_a_record_within_itself_is_judged_once_and_to_the_end():
    """A list of values of another type is refused wherever it stands, and a compatible one passes."""
    assert judged(node("long"), node("int")).passed
    assert [each["path"] for each in judged(node("int"), node("long")).figures["incompatibilities"]] == ["value"]
    old, new = (record(field("either", [node(kind), "string"]), field("then", "Node")) for kind in ("long", "int"))
    paths = [each["path"] for each in judged(new, old).figures["incompatibilities"]]
    assert {path.split(".")[0] for path in paths} == {"either", "then"}


def test_what_was_taken_for_readable_and_is_not_is_looked_at_again():
    """Two records hold each other: the inner one, judged inside of the other, must not stay accepted on its own."""

    def pair(kind):
        inner = record(field("outer", ["null", "Outer"], None), name="Inner")
        outer = record(field("inner", inner), field("value", kind), name="Outer")
        return record(field("first", ["string", outer]), field("second", "Inner"), name="Visit")

    found = {each["path"].split(".")[0] for each in judged(pair("int"), pair("long")).figures["incompatibilities"]}
    assert found == {"first", "second"}


def test_types_that_name_each_other_many_times_take_no_longer():
    """Thirty records of which each names the next twice: a walk along every path would not end."""
    old = "int"
    for depth in range(30):
        again = "int" if depth == 0 else f"R{depth - 1}"
        old = record(field("a", old), field("b", again), name=f"R{depth}")
    new = json.loads(json.dumps(old).replace('"type": "int"', '"type": "boolean"'))
    assert judged(old, old).passed
    assert not judged(new, old).passed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[1]", "has no type"),
        ('"visit"', "unknown type 'visit'"),
        (json.dumps({"type": "record", "name": "V"}), "has no fields"),
        (json.dumps({"type": "record", "name": "a b", "fields": []}), "must have a name"),
        (json.dumps(record(ID, ID)), "a name of their own"),
        (json.dumps(record(field("a", "int", "x"))), "default of a is no int"),
        (json.dumps(record(field("a", ["null", "int"], 0.5))), "default of a is no union"),
        (json.dumps(record(field("a", ["int", "int"]))), "a type twice"),
        (json.dumps(record(field("a", enum("A", "A")))), "different symbols"),
        (json.dumps(record(field("a", enum("A", default="B")))), "default of Kind"),
        (json.dumps(record(field("a", {"type": "fixed", "name": "F", "size": -1}))), "must have a size"),
        (json.dumps(record(field("a", ADDRESS), field("b", ADDRESS))), "defined twice"),
        (json.dumps(record(field("a", {"type": "array"}))), "has no items"),
        ('{"type": ' * 5_000 + '"int"' + "}" * 5_000, "nested too deep"),
        ('{"type": "int", "type": "string"}', "a key is there twice: 'type'"),
    ],
)
def test_a_text_that_is_no_schema_is_refused(text, said):
    """New or old, with the reason; the old ones by their place."""
    with pytest.raises(ContractError, match="new is no valid schema") as error:
        judge_schema(text, [])
    assert said in str(error.value)
    with pytest.raises(ContractError, match="version 2 of the history is no valid schema"):
        judge_schema('"int"', ['"int"', text])
