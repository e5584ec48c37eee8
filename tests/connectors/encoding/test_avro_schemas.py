"""Types and texts of Avro values: as a plain model in Python says, for records of any schema."""

from __future__ import annotations

import base64
import io
import json
import math
import struct
from datetime import date, timezone
from decimal import Decimal
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.encoding.avro_files import avro_texts, open_avro
from dedp_assets.patterns.connectors.encoding.avro_schemas import node_of
from dedp_assets.patterns.core.errors import ContractError


def iso(moment):
    return moment.isoformat(timespec="microseconds")


def floats(width):
    return st.floats(width=width)


def number(value):
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DAYS = st.dates()
MOMENTS = st.datetimes()
DIGITS = st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-6))
SCALARS = {
    "int": (st.integers(-(2**31), 2**31 - 1), lambda v: v, "INT"),
    "long": (st.integers(-(2**63), 2**63 - 1), lambda v: v, "BIGINT"),
    "boolean": (st.booleans(), lambda v: v, "BOOLEAN"),
    "string": (TEXT, lambda v: v, "STRING"),
    "double": (floats(64), number, "DOUBLE"),
    "float": (floats(32), number, "FLOAT"),
    "bytes": (st.binary(max_size=9), lambda v: base64.b64encode(v).decode(), "BINARY"),
    ("int", "date"): (DAYS, date.isoformat, "DATE"),
    ("long", "timestamp-micros"): (
        MOMENTS.map(lambda v: v.replace(tzinfo=timezone.utc)),
        lambda v: iso(v.replace(tzinfo=None)) + "Z",
        "TIMESTAMP",
    ),
    ("long", "timestamp-millis"): (
        MOMENTS.map(lambda v: v.replace(microsecond=v.microsecond // 1000 * 1000, tzinfo=timezone.utc)),
        lambda v: iso(v.replace(tzinfo=None)) + "Z",
        "TIMESTAMP",
    ),
    ("long", "local-timestamp-micros"): (MOMENTS, iso, "TIMESTAMP_NTZ"),
    ("long", "time-micros"): (st.times(), iso, "STRING"),
    ("int", "time-millis"): (
        st.times().map(lambda v: v.replace(microsecond=v.microsecond // 1000 * 1000)), iso, "STRING",
    ),
    ("string", "uuid"): (st.uuids(), str, "STRING"),
    ("bytes", "decimal"): (DIGITS, lambda v: v, "DECIMAL(20,6)"),
}  # fmt: skip


@st.composite
def scalars(draw):
    """A type without parts: schema, values, model of the JSON, SQL type."""
    key = draw(st.sampled_from(sorted(SCALARS, key=str)))
    schema = key if isinstance(key, str) else {"type": key[0], "logicalType": key[1]}
    if key == ("bytes", "decimal"):
        schema |= {"precision": 20, "scale": 6}
    return schema, *SCALARS[key]


def nullable(kind):
    schema, values, model, sql = kind
    return ["null", schema], st.none() | values, lambda v: None if v is None else model(v), sql


def listed(kind):
    schema, values, model, sql = kind
    return {"type": "array", "items": schema}, st.lists(values, max_size=3), lambda v: [*map(model, v)], f"ARRAY<{sql}>"


def mapped(kind):
    schema, values, model, sql = kind
    return (
        {"type": "map", "values": schema}, st.dictionaries(TEXT, values, max_size=3),
        lambda v: {key: model(each) for key, each in v.items()}, f"MAP<STRING, {sql}>",
    )  # fmt: skip


NAMES = iter(range(10**9))


def record(kinds):
    """A record of the kinds, in fields whose names are odd in other schemas."""
    names = [f"f{n}" for n in range(len(kinds))]
    schema = {"type": "record", "name": f"R{next(NAMES)}", "namespace": "some.space"}
    schema["fields"] = [{"name": name, "type": kind[0]} for name, kind in zip(names, kinds, strict=True)]
    models = dict(zip(names, [kind[2] for kind in kinds], strict=True))
    return (
        schema, st.fixed_dictionaries(dict(zip(names, [kind[1] for kind in kinds], strict=True))),
        lambda v: {name: model(v[name]) for name, model in models.items()},
        f"STRUCT<{', '.join(f'`{name}`: {kind[3]}' for name, kind in zip(names, kinds, strict=True))}>",
    )  # fmt: skip


def grown(kinds):
    return kinds.map(listed) | kinds.map(mapped) | st.lists(kinds, min_size=1, max_size=3).map(record)


KINDS = st.recursive(scalars() | scalars().map(nullable), grown, max_leaves=5)
RECORDS = st.lists(KINDS, min_size=1, max_size=4).map(record)


def parsed(text):
    return json.loads(text, parse_float=Decimal)


def is_same(found, wanted):
    """Compare without rounding; a float is what its text says."""
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(is_same(found[key], each) for key, each in wanted.items())
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(is_same, found, wanted))
    if isinstance(wanted, float):
        if float(found) == wanted:
            return math.copysign(1, float(found)) == math.copysign(1, wanted)
        return struct.pack("f", float(found)) == struct.pack("f", wanted)
    return found == wanted and (isinstance(wanted, Decimal) or type(found) is type(wanted))


@given(data=st.data(), kind=RECORDS, codec=st.sampled_from(["null", "deflate", "bzip2", "xz"]))
def test_records_are_the_texts_of_a_plain_model(tmp_path_factory, data, kind, codec):
    """Every type, nested, in blocks of any size."""
    schema, values, model, sql = kind
    records = data.draw(st.lists(values, max_size=5))
    file = tmp_path_factory.mktemp("any") / "a.avro"
    with file.open("wb") as out:
        fastavro.writer(out, schema, records, codec, sync_interval=data.draw(st.sampled_from([0, 30, 10_000])))
    made = open_avro(file)
    found = [*map(parsed, avro_texts(file, made))]
    assert made.records == len(records) == len(found)
    assert made.node.sql == sql
    assert all(map(is_same, found, map(model, records))), (found, records)


def texts(schema, *values):
    """The texts of values of one field, that are written without a logical type."""
    node = node_of({"type": "record", "name": "r", "fields": [{"name": "v", "type": schema}]}, "a.avro")
    return [json.loads(json.dumps(node.fields["v"].text(value))) for value in values]


def long_of(logical, kind="long", **more):
    return {"type": kind, "logicalType": logical, **more}


def test_numbers_are_written_as_spark_writes_them():
    """By the digits of Java: an exponent from ten millions on and below a thousandth; what is no number is a text."""
    doubles = [1.0, 1e7, 9999999.0, 0.001, 0.00099, 1.5e-300, -0.0, 123456.789, math.nan, -math.inf, 12345678.9]
    assert texts("double", *doubles) == [
        "1.0", "1.0E7", "9999999.0", "0.001", "9.9E-4", "1.5E-300", "-0.0", "123456.789", '"NaN"', '"-Infinity"',
        "1.23456789E7",
    ]  # fmt: skip
    tenth = struct.unpack("f", struct.pack("f", 0.1))[0]
    assert texts("float", tenth, 16777216.0) == ["0.1", "1.6777216E7"]
    kind = long_of("decimal", "bytes", precision=10, scale=7)
    assert texts(kind, b"\x01", b"\xff", b"\0", b"\x00\x98\x96\x80") == ["1E-7", "-1E-7", "0E-7", "1.0000000"]


def test_times_outside_of_the_years_stay_numbers_and_nanoseconds_are_cut():
    """A number is no value of a TIMESTAMP, and a dead letter with its value there."""
    last = 253402300799999999
    assert texts(long_of("timestamp-micros"), last, last + 1, -1) == [
        '"9999-12-31T23:59:59.999999Z"', str(last + 1), '"1969-12-31T23:59:59.999999Z"',
    ]  # fmt: skip
    assert texts(long_of("timestamp-nanos"), -1, 1999) == [
        '"1969-12-31T23:59:59.999999Z"', '"1970-01-01T00:00:00.000001Z"',
    ]  # fmt: skip
    assert texts(long_of("local-timestamp-millis"), 1) == ['"1970-01-01T00:00:00.001000"']
    assert texts(long_of("date", "int"), -719162, -719163, 2932896, 2932897) == [
        '"0001-01-01"', "-719163", '"9999-12-31"', "2932897"
    ]  # fmt: skip
    assert texts(long_of("time-micros"), 86_399_999_999, 86_400_000_000, -1) == [
        '"23:59:59.999999"', "86400000000", "-1"
    ]  # fmt: skip


def test_logical_types_that_are_unknown_or_do_not_fit_are_the_types_below():
    """As Avro asks of readers."""
    assert texts(long_of("weeks"), 1) == ["1"]
    assert texts(long_of("date"), 1) == ["1"]
    assert texts(long_of("decimal", "bytes", precision=1, scale=2), b"\x01") == ['"AQ=="']
    assert texts(long_of("decimal", "bytes"), b"\x01") == ['"AQ=="']


def test_types_with_names_are_known_where_they_are_named_again():
    """Enums, fixed values and records, in namespaces, with names that fastavro's writer would refuse."""
    money = {"type": "fixed", "name": "Money", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}
    fields = [
        {"name": "paid amount", "type": money},
        {"name": "back", "type": ["null", "Money"]},
        {"name": "kind", "type": {"type": "enum", "name": "x.Kind", "symbols": ["a-b", "b"]}},
        {"name": "kinds", "type": {"type": "array", "items": "x.Kind"}},
        {"name": "who", "type": {"type": "record", "name": "Who", "fields": [{"name": "id", "type": "int"}]}},
        {"name": "other", "type": ["some.Who", "null"]},
        {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}},
        {"name": "none", "type": "null"},
    ]
    node = node_of({"type": "record", "name": "some.R", "fields": fields}, "a.avro")
    assert {name: each.sql for name, each in node.fields.items()} == {
        "paid amount": "DECIMAL(4,2)", "back": "DECIMAL(4,2)", "kind": "STRING", "kinds": "ARRAY<STRING>",
        "who": "STRUCT<`id`: INT>", "other": "STRUCT<`id`: INT>", "id": "STRING", "none": "null",
    }  # fmt: skip
    stored = io.BytesIO(
        b"\x00\x96" + b"\x02\xff\x9c" + b"\x00" + b"\x04\x00\x02\x00" + b"\x02" + b"\x00\x04" + b"\7" * 16
    )
    value = fastavro.schemaless_reader(stored, fastavro.parse_schema(node.stored))
    assert json.loads(node.text(value), parse_float=Decimal) == {
        "paid amount": Decimal("1.50"), "back": Decimal("-1.00"), "kind": "a-b", "kinds": ["a-b", "b"],
        "who": {"id": 1}, "other": {"id": 2}, "id": str(UUID(bytes=b"\7" * 16)), "none": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("long", "a.avro holds no records with fields"),
        ({"type": "record", "name": "r", "fields": []}, "holds no records with fields"),
        (["string", "long"], "a union of STRING and BIGINT, which is not read"),
        ({"type": "array", "items": ["int", "string"]}, "a.avro has a column v, a union of INT and STRING"),
        (["null", "r"], "a.avro has a column v, a r within itself, which is not read"),
        ("Nobody", "a.avro has a column v of type Nobody, which its schema does not define"),
        ({"type": "array"}, "a.avro has no schema of Avro: KeyError"),
        (7, "a.avro has no schema of Avro"),
    ],
)
def test_schemas_that_are_not_read_are_refused_by_column(schema, said):
    """No record is guessed."""
    whole = {"type": "record", "name": "r", "fields": [{"name": "v", "type": schema}]}
    with pytest.raises(ContractError, match=said):
        node_of(schema if "no records" in said else whole, "a.avro")


def test_a_column_that_is_there_twice_is_refused():
    """One of the values would be lost."""
    fields = [{"name": "v", "type": "int"}, {"name": "v", "type": "string"}]
    with pytest.raises(ContractError, match=r"a\.avro has two columns v"):
        node_of({"type": "record", "name": "r", "fields": fields}, "a.avro")
