"""JSON Schemas of records: the producer's verdict is the table's, with the differences that the module names."""

from __future__ import annotations

import base64
import json
import re
from datetime import date, datetime, timedelta, timezone

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core import extras
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.parsing import json_schemas
from dedp_assets.patterns.core.parsing.json_checks import limits_of
from dedp_assets.patterns.core.parsing.json_schemas import record_faults, record_schema_of
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.conversion import MISFITS, SYNTAX, convert_json
from dedp_assets.patterns.delta import constraints

TYPES = {
    "tiny": "TINYINT",
    "long": "BIGINT",
    "real": "FLOAT",
    "double": "DOUBLE",
    "price": "DECIMAL(4, 2)",
    "count": "DECIMAL(3, 0)",
    "share": "DECIMAL(2, 2)",
    "flag": "BOOLEAN",
    "text": "STRING",
    "code": "VARCHAR(3)",
    "day": "DATE",
    "at": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
    "bytes": "BINARY",
    "tags": "ARRAY<INT>",
    "sizes": "MAP<STRING, DOUBLE>",
    "place": "STRUCT<x: INT, y: STRUCT<z: DATE>>",
}
CHECKED = {"small": "INT", "word": "STRING", "maybe": "INT", "name": "STRING", "ratio": "DOUBLE", "kind": "STRING"}
CHECKS = {
    "small_is_small": "small BETWEEN 1 AND 5 AND small <> 3",
    "word_is_known": "word IN ('a', 'b')",
    "maybe_is_positive": "maybe IS NULL OR maybe > 0",
    "name_has_two": "length(name) >= 2 AND `name` IS NOT NULL",
    "ratio_is_one": "(ratio >= 0.1) AND (ratio < 1)",
    "kind_is_x": "kind IS NULL OR kind = 'x'",
}
TABLE = TableSpec(
    "silver/all",
    {"id": Column("INT", required=True), **{name: Column(kind) for name, kind in {**TYPES, **CHECKED}.items()}},
    checks=CHECKS,
)
BASE = {"id": 1, "small": 1, "word": "a", "name": "ab", "ratio": 0.5}
CONTRACT = record_schema_of(TABLE)
_WRITTEN = r"""
0 1 -1 -0 5 3 6 127 128 -129 32768 2147483648 9223372036854775807 9223372036854775808 12.34 0.1 1.5 1.0 1e2 1e-3 3.4e38
3.5e38 1e400 1e-400 NaN Infinity 01 +1 .5 true false null [] [1] [1,null] ["1"] [1.5] [[1]] {} {"a":1} {"a":null}
{"a":"x"} {"x":1} {"x":1.5} {"x":null,"y":{"z":"2026-01-05"}} {"y":{"z":"2026-02-30"}} {"y":[]} {"x":1,"x":2} "" "a" "b"
"x" "ab" "abc" "abcd" "\u00e9\u00e9" "true" "1" "5" "12.34" "12.345" "123.45" "-0.99" "0.99" "1.00" "99.990" "-5"
"012" "5." ".5" "1e2" "2026-01-05" "2026-1-5" "2026-02-30" "2024-02-29" "0000-01-01" "9999-12-31" "10000-01-01"
"2026-01-05T10:00:00Z" "2026-01-05T10:00:00" "2026-01-05T10:00:00.123456Z" "2026-01-05T10:00:00.1234567Z"
"2026-01-05T10:00:00.1230000000Z" "2026-01-05T10:00:00+02:00" "2026-01-05T10:00:00-18:00" "2026-01-05T10:00:00+19:00"
"2026-01-05T10:00:00-00:00" "2026-01-05T24:00:00Z" "2026-01-05T23:59:60Z" "2026-02-30T10:00:00" "2026-01-05T10:00Z"
"2026-01-05t10:00:00z" "yesterday" "QQ==" "QR==" "QUI=" "QUJD" "QQ" "Q===" "\ud800" "a\u0000b" "${env:HOME}"
"""
VALUES = [*_WRITTEN.split(), '"2026-01-05 10:00:00"', '" 5"', '"5\\n"', '"2026-01-05\\n"', '"é"', "1 2", "", "nul"]
RECORDS = [
    '{"id":1}', "[]", "5", "null", '"x"', "", "{", '{"id":1,', '{"id":1,"id":2}', '{"id":1} x', '{"ID":1}',
    '{"id":null}', '{"small":1}', "{'id':1}", '{"id":1,"text":"\t"}',
]  # fmt: skip
WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def with_value(column, value):
    """A record that is sound but for the value of a column, which is JSON text."""
    others = {name: held for name, held in BASE.items() if name != column}
    return f"{json.dumps(others)[:-1]}, {json.dumps(column)}: {value}}}"


def faults(record):
    return record_faults(record, CONTRACT)


def table_takes(spark, table, records):
    """Tell of each record whether it becomes a row: read exactly, and held to the constraints of the table."""
    table.ensure()
    rules = constraints(table.name, table.ledger.state()).values()
    sound = " AND ".join(f"coalesce({rule}, false)" for rule in rules)
    frame = spark.createDataFrame(list(enumerate(records)), "record INT, payload STRING").repartition(1)
    kinds = {name: column.type for name, column in table.spec.columns.items()}
    read = convert_json(frame, "payload", kinds)
    taken = read.selectExpr(
        "record", f"{SYNTAX} IS NULL AND coalesce(size({MISFITS}), 0) <= 0 AND {sound} AS sound"
    ).collect()
    return [row["sound"] for row in sorted(taken, key=lambda row: row["record"])]


def lenient_at_the_producer(kind, value):
    """`1.0` as an integer, and a FLOAT that vanishes: the only values that a producer sends and the table refuses."""
    number = re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", value)
    if kind in WHOLE and number:
        return float(value).is_integer() and re.search("[.eE]", value)
    if kind.startswith("ARRAY<INT>"):
        return "." in value or "e" in value.lower()
    return kind == "FLOAT" and number and abs(float(value)) < 1e-44


def lenient_at_the_table(kind, value):
    """Other spellings of a value: by another kind of JSON, or of a time; and keys that are no columns."""
    try:
        held = json.loads(value)
    except ValueError:
        return False
    if kind.startswith(("ARRAY", "MAP", "STRUCT")):
        return isinstance(held, list | dict)  # within them the same holds
    wanted = (int, float) if kind in (*WHOLE, "FLOAT", "DOUBLE") else bool if kind == "BOOLEAN" else str
    if not isinstance(held, wanted) or (isinstance(held, bool) and kind != "BOOLEAN"):
        return True
    padded = kind.startswith("DECIMAL") and re.search(r"\.\d*0$|[eE]|^-?\.|\.$|^\+", str(held))
    return padded or (kind.startswith("TIMESTAMP") and not re.search(r"T.*(Z|:\d\d)$", held)) or kind == "TIMESTAMP"


def moments(zone):
    return st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=zone)  # noqa: DTZ001 - the zone comes by zone


OFFSETS = st.integers(-18 * 60, 18 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
PROPER = {
    "tiny": st.integers(-128, 127),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "real": st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "price": st.decimals("-99.99", "99.99", places=2).map(str),
    "count": st.integers(-999, 999).map(str),
    "share": st.decimals("-0.99", "0.99", places=2).map(str),
    "flag": st.booleans(),
    "text": st.text(st.characters(codec="utf-8")),
    "code": st.text(st.characters(codec="utf-8"), max_size=3),
    "day": st.dates().map(date.isoformat),
    "at": moments(OFFSETS).map(lambda at: at.isoformat()),
    "local": moments(st.none()).map(lambda at: at.isoformat()),
    "bytes": st.binary(max_size=9).map(lambda value: base64.b64encode(value).decode()),
    "tags": st.lists(st.none() | st.integers(-9, 9), max_size=3),
    "sizes": st.dictionaries(st.text("abc", min_size=1), st.none() | st.floats(-9, 9), max_size=3),
    "place": st.fixed_dictionaries(
        {}, optional={"x": st.none() | st.integers(0, 9), "y": st.just({"z": "2026-01-05"})}
    ),
    "small": st.sampled_from([1, 2, 4, 5]),
    "word": st.sampled_from("ab"),
    "maybe": st.none() | st.integers(1, 9),
    "name": st.text(st.characters(codec="utf-8"), min_size=2),
    "ratio": st.floats(0.1, 1, exclude_max=True),
    "kind": st.none() | st.just("x"),
}


def drawn():
    """Records with a proper value in each column, of many kinds."""
    found = []

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(st.fixed_dictionaries({"id": st.integers(0, 9), **PROPER}))
    def draw(record):
        found.append(json.dumps(record))

    draw()
    return found


@pytest.mark.spark
def test_producer_and_table_agree_on_every_class_of_values(spark, make_table):
    """Each type with each class of values, records of wrong shapes, and drawn ones: more than a thousand verdicts.

    Nothing that the table refuses is sent but what the module names, and nothing is refused but other spellings.
    """
    kinds, proper = {**TYPES, **CHECKED}, drawn()
    cases = [(column, value, with_value(column, value)) for column in kinds for value in VALUES]
    cases += [("", "", record) for record in (*RECORDS, *proper)]
    taken = table_takes(spark, make_table(TABLE), [record for *_, record in cases])
    sent = [not faults(record) for *_, record in cases]
    lax, strict = [], []
    for (column, value, record), takes, sends in zip(cases, taken, sent, strict=True):
        if sends and not takes and not (column and lenient_at_the_producer(kinds[column], value)):
            lax.append(record)
        if takes and not sends and not (column and lenient_at_the_table(kinds[column], value)):
            strict.append((record, faults(record)))
    assert not [*lax, *strict]
    assert taken[-len(proper) :] == [True] * len(proper)
    assert len(cases) > 1_000
    assert 200 < sum(sent) < len(cases) - 1_000


@given(st.fixed_dictionaries({"id": st.integers(0, 9), **PROPER}))
def test_every_value_of_a_type_has_a_form_that_is_sent(record):
    """Whatever a column holds by its type and its constraints breaks no contract; the table is asked above."""
    assert faults(json.dumps(record)) == ()


# --- the schema alone


def test_the_schema_is_one_of_the_draft_and_says_the_same_to_another_validator():
    """By the draft's own meta-schema; a library of somebody else refuses and accepts as ours does."""
    jsonschema.Draft7Validator.check_schema(CONTRACT.schema)
    other = jsonschema.Draft7Validator(CONTRACT.schema)
    told = ["5", '"5"', "null", "6", "[]", '"ab"', "0.5", "12.34", "1.0"]
    for column in TABLE.columns:
        for value in told:
            record = with_value(column, value)
            assert other.is_valid(json.loads(record)) == (not faults(record)), record


def test_every_fault_of_a_record_is_named_with_its_path_and_without_its_value():
    """All at once, at whatever depth; a value may be personal."""
    record = {**BASE, "tags": [1, "secret"], "place": {"y": {"z": "secret"}}, "secret_key": 1, "small": 9}
    found = faults(json.dumps({key: value for key, value in record.items() if key != "id"}))
    assert [fault.partition(":")[0] for fault in found] == [
        "place.y.z",
        "place.y.z",
        "small",
        "tags[1]",
        *["the record"] * 2,
    ]
    assert "secret'" not in str(found).replace("secret_key", "")
    assert '"id" is a required property' in str(found)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ('{"id": 1', "Expecting ',' delimiter"),
        ('{"id": 1, "id": 1}', "a key is there twice"),
        ('{"id": NaN}', "NaN is no number of JSON"),
        ('{"id": 1e999}', "a number is out of range"),
        ('{"id": 1e-999}', "a number is out of range"),
        ('{"id": "\\ud800"}', "half of a character"),
        ('{"id": "\ud800"}', "half of a character"),
        ("[" * 100_000, "it is nested too deep"),
    ],
)
def test_a_text_that_is_not_read_exactly_is_one_fault(record, why):
    """Nothing else is judged of it."""
    (fault,) = faults(record)
    assert fault.startswith(f"the record: no JSON that is read exactly ({why}")


def test_what_only_the_table_can_tell_is_listed():
    """Rules about other rows or several columns, values of the log, and types that JSON has no form for."""
    spec = TableSpec(
        "silver/some",
        {
            "day": Column("DATE"),
            "a": Column("INT"),
            "b": Column("DECIMAL(4, 2)"),
            "odd": Column("MAP<INT, STRING>"),
            "at": Column("TIMESTAMP"),
            "loaded_at": Column("TIMESTAMP", technical=True, required=True),
        },
        partition_by=("day",),
        key=("day", "a"),
        checks={
            "sum": "a + 1 > 0",
            "both": "a > 0 OR b > 0",
            "past": "at <= now()",
            "dear": "b > 1",
            "late": "loaded_at > at",
        },
    )
    found = record_schema_of(spec)
    beyond = {"day_is_a_partition_value", "day_a_is_a_key", "odd_is_a_MAP<INT, STRING>"}
    assert {*found.unchecked} == {*spec.checks, *beyond}
    assert found.schema["required"] == ["day", "a"]
    assert "loaded_at" not in found.schema["properties"]
    assert {*record_schema_of(spec, columns=["a"]).schema["properties"]} == {"a"}
    with pytest.raises(ConfigError, match="columns must be columns of silver/some, not c"):
        record_schema_of(spec, columns=["a", "c"])


KINDS = {"a": "integer", "b": "double", "s": "string", "f": "float", "d": "date", "p q": "long", "m": "decimal(4,2)"}


@pytest.mark.parametrize(
    ("check", "keywords"),
    [
        ("a > 0", [("a", False, {"exclusiveMinimum": 0})]),
        ("A >= -5", [("a", False, {"minimum": -5})]),
        ("((a < 5) AND b <= 2.5)", [("a", False, {"exclusiveMaximum": 5}), ("b", False, {"maximum": 2.5})]),
        ("a = 1", [("a", False, {"const": 1})]),
        ("s <> ''", [("s", False, {"not": {"const": ""}})]),
        (
            "`p q` BETWEEN 1 AND 2 AND a IN (1, 2)",
            [("p q", False, {"minimum": 1, "maximum": 2}), ("a", False, {"enum": [1, 2]})],
        ),
        ("s IS NULL OR char_length(s) < 4", [("s", True, {"minLength": 0, "maxLength": 3})]),
        ("LENGTH(s) = 2", [("s", False, {"minLength": 2, "maxLength": 2})]),
        ("length(s) BETWEEN 1 AND 3", [("s", False, {"minLength": 1, "maxLength": 3})]),
        ("d IS NOT NULL", [("d", False, {})]),
    ],
)
def test_a_comparison_with_constants_becomes_keywords(check, keywords):
    """Of a number, a text or the length of a text; NULL passes only where the check says so."""
    assert [(one.column, one.nullable, one.keywords) for one in limits_of(check, KINDS)] == keywords


@pytest.mark.parametrize(
    "check",
    [
        "a > b", "a + 1 > 0", "a > 0 OR a < -5", "NOT a > 0", "a <=> 5", "a == 5", "5 < a", "a IS NULL OR b > 0",
        "d > '2026-01-05'", "m > 1", "f > 0.1", "s > 'a'", "s LIKE 'a%'", "s = r'a'", "s = 'a' 'b'", "s = 'a\\nb'",
        "s = '${env:HOME}'", "a > 1 -- 2", "a > 1.0e3", "a > 0x10", "x > 1", "a.b > 1", "length(a) > 1",
        "a > '5'", "s = 5", "a > 0 AND", "(a > 0", "a > 0)", "a BETWEEN 1", "a IN ()", "a IS NULL OR a > 0 OR a < -5",
        "", "a", "a IS NULL", "length(s) > -2", "length(s) > a", "upper(s) = 'A'", "a > 1000000000000000000000",
        "a IN (1, NULL)", "a > NULL",
        "a IS NOT TRUE",
    ],
)  # fmt: skip
def test_a_predicate_with_another_meaning_has_no_translation(check):
    """Nothing is guessed: the rule stays at the table."""
    assert limits_of(check, KINDS) is None


def test_without_the_package_the_extra_is_named(monkeypatch):
    """A schema can be derived, which needs no package; to check a record needs one."""
    importing = extras.importlib.import_module

    def refuse(name, *more):
        if name == "jsonschema_rs":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return importing(name, *more)

    monkeypatch.setattr(extras.importlib, "import_module", refuse)
    monkeypatch.setattr(json_schemas, "jsonschema_rs", extras.optional("jsonschema_rs"))
    with pytest.raises(ConfigError, match=r"needs the extra \[contracts\]"):
        record_faults("{}", record_schema_of(TABLE))
