"""Conversion: what does not fit becomes NULL and stays readable as the text it was."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest

from dedp_assets.patterns.core.conversion import MISFITS, SYNTAX, convert_columns, convert_json

SCHEMA = {
    "name": "STRING",
    "n": "BIGINT",
    "small": "INT",
    "amount": "DOUBLE",
    "price": "DECIMAL(10,2)",
    "ok": "BOOLEAN",
    "at": "TIMESTAMP",
    "day": "DATE",
}
TYPED = [column for column in SCHEMA if column != "name"]
SYNTAX = {
    '{"name": "a"': "malformed JSON",
    '{"name": "a",}': "malformed JSON",
    "no json": "malformed JSON",
    '{"n": 007}': "malformed JSON",
    '{"name": "a"} trailing': "malformed JSON",
    '{"name": "a"}]': "malformed JSON",
    '{"name": "a"}{"name": "b"}': "malformed JSON",
    '{"name": "a"} {"name": "b"}': "malformed JSON",
    '{"name": "a"},{"name": "b"}': "more than one JSON value",
    '{"name": "a"}, null': "more than one JSON value",
    '[{"name": "a"}]': "not a JSON object",
    "[]": "not a JSON object",
    "5": "not a JSON object",
    '"text"': "not a JSON object",
    "true": "not a JSON object",
    "null": "not a JSON object",
    "": "blank line",
    "   ": "blank line",
    "\r": "blank line",
    "\t": "blank line",
    None: "malformed JSON",
}


@pytest.fixture
def convert(spark):
    """``convert(text, ...)``: one converted row for each text, in order."""

    def converted(*texts, schema=SCHEMA):
        rows = spark.createDataFrame(list(enumerate(texts)), "place INT, payload STRING")
        found = convert_json(rows, "payload", schema).collect()
        return [row.asDict() for row in sorted(found, key=lambda row: row["place"])]

    return converted


def values(row, schema=SCHEMA):
    return {column: row[column] for column in schema if row[column] is not None}


@pytest.mark.both
def test_an_object_becomes_typed_columns(convert):
    """Every type, with unknown fields tolerated and missing or null ones NULL, neither of them an error."""
    full = {
        "name": "a",
        "n": 9223372036854775807,
        "small": -3,
        "amount": 1.5,
        "price": 1.25,
        "ok": True,
        "at": "2026-01-05T10:00:00Z",
        "day": "2026-01-05",
        "unknown": {"deep": [1]},
    }
    whole, empty, null = convert(json.dumps(full), "{}", '{"name": null, "n": null}')
    moment = whole.pop("at")
    assert moment.astimezone(timezone.utc) == datetime(2026, 1, 5, 10, tzinfo=timezone.utc)
    assert values({**whole, "at": None}) == {
        **{name: full[name] for name in ("name", "n", "small", "amount", "ok")},
        "price": Decimal("1.25"),
        "day": date(2026, 1, 5),
    }
    for row in (whole, empty, null):
        assert row[SYNTAX] is None
    for row in (empty, null):
        assert values(row) == {}
        assert [row[f"{column} text"] for column in TYPED] == [None] * len(TYPED)


def test_a_record_that_is_not_one_object_says_what_it_is(convert):
    """Nothing of it passes silently, not even an object with something behind it."""
    rows = convert(*SYNTAX)
    assert {row["payload"]: row[SYNTAX] for row in rows} == SYNTAX


def test_space_around_and_within_an_object_is_no_error(convert):
    """A carriage return at the end of a line is space too."""
    rows = convert(' {"name": "a"} ', '{"name": "a"}\r', '\t{"name":\t"a"}')
    assert [(row[SYNTAX], row["name"]) for row in rows] == [(None, "a")] * 3


@pytest.mark.both
def test_values_of_a_wrong_type_are_null_with_their_text_beside(convert):
    """Each column for itself: one misfit leaves its neighbours alone, and the rules name exactly the misfits."""
    wrong = {
        "n": "abc",
        "small": 99999999999,
        "amount": "xyz",
        "price": "?",
        "ok": "perhaps",
        "at": "soon",
        "day": "2026-13-01",
    }
    row, half = convert(json.dumps({"name": "a", **wrong}), json.dumps({"n": 1, "amount": "xyz"}))
    assert values(row) == {"name": "a"}
    assert {column: row[f"{column} text"] for column in TYPED} == {c: str(v) for c, v in wrong.items()}
    assert (values(half), half["amount text"]) == ({"n": 1}, "xyz")


def test_misfits_are_told_from_values_that_were_never_there(convert):
    """Fitting, absent and null values have no sentence, and each misfit has one."""
    texts = ['{"n": 1}', "{}", '{"n": null}', '{"n": "x"}', '{"n": ""}', '{"n": 1.5}', '{"n": [1]}', '{"n": {"a": 1}}']
    rows = convert(*texts, schema={"name": "STRING", "n": "BIGINT"})
    assert [row[MISFITS] or [] for row in rows] == [[]] * 3 + [["n is not a BIGINT"]] * 5


def test_a_string_column_takes_any_value_as_its_text(convert):
    """Numbers, booleans, nested objects and lists included."""
    texts = {
        "5": "5",
        "true": "true",
        "123456789012345678901234567890": "123456789012345678901234567890",
        '{"a": [1, 2]}': '{"a":[1,2]}',
        '[1, "b"]': '[1,"b"]',
        '""': "",
        r'"\u2028\n\""': '\u2028\n"',
    }
    rows = convert(*[f'{{"name": {value}}}' for value in texts])
    assert [(row[SYNTAX], row["name"]) for row in rows] == [(None, text) for text in texts.values()]


def test_a_number_too_big_for_its_type_is_a_misfit(convert):
    """No overflow and no rounding: NULL, and the digits stay."""
    numbers = ["9223372036854775808", "123456789012345678901234567890", "-9223372036854775809"]
    rows = convert(*[f'{{"n": {number}}}' for number in numbers])
    assert [(row[SYNTAX], row["n"], row["n text"]) for row in rows] == [(None, None, number) for number in numbers]


def test_a_word_that_json_does_not_have_is_no_integer(convert):
    """NaN in an integer column is a misfit that can be seen."""
    (row,) = convert('{"n": NaN}')
    assert (row["n"], row[SYNTAX]) == (None, "malformed JSON")


def test_keys_are_compared_letter_by_letter(convert):
    """A field of another case is another field."""
    assert values(convert('{"N": 5, "NAME": "x"}')[0]) == {}


def test_a_time_without_a_date_is_no_timestamp(convert):
    """Otherwise the day of the run would slip into the rows, and a rerun would give others."""
    rows = convert('{"at": "12:30"}', '{"at": "T12:30:00"}')
    assert [(row["at"], row["at text"]) for row in rows] == [(None, "12:30"), (None, "T12:30:00")]


def test_text_that_holds_a_value_is_taken_as_that_value(convert):
    """Numbers in quotes are common and unambiguous."""
    assert values(convert('{"n": "7", "amount": "1.5"}')[0]) == {"n": 7, "amount": 1.5}


def test_nested_columns_are_parsed_and_told_from_misfits(convert):
    """A list or an object of the declared shape is taken; another value is NULL, with its text beside."""
    fits, text, absent = convert('{"tags": ["a", "b"]}', '{"tags": "a"}', "{}", schema={"tags": "ARRAY<STRING>"})
    assert (fits["tags"], fits["tags text"]) == (["a", "b"], None)
    assert (text["tags"], text["tags text"]) == (None, "a")
    assert (absent["tags"], absent["tags text"]) == (None, None)


def test_other_columns_of_the_row_stay(spark):
    """A line keeps its file and number through the conversion."""
    rows = spark.sql("SELECT 'a.log' AS source_file, 7L AS line_number, '{\"n\": 1}' AS raw")
    (row,) = convert_json(rows, "raw", {"n": "BIGINT"}).collect()
    assert (row["source_file"], row["line_number"], row["raw"], row["n"]) == ("a.log", 7, '{"n": 1}', 1)


def test_a_schema_of_nothing_but_text_needs_no_second_look(convert):
    """And still notices what is not one object."""
    schema = {"a": "STRING", "b": "STRING"}
    good, bad = convert('{"a": 1, "b": {"x": 1}}', '{"a": 1} x', schema=schema)
    assert (good[SYNTAX], good["a"], good["b"]) == (None, "1", '{"x":1}')
    assert bad[SYNTAX] == "malformed JSON"


@pytest.mark.both
def test_columns_are_cast_with_their_text_beside(spark):
    """The same rule for rows that are columns already; other columns stay."""
    rows = spark.sql("SELECT * FROM VALUES (1, '5', 'a'), (2, 'x', 'b'), (3, NULL, 'c') AS t(id, n, name)")
    found = sorted(convert_columns(rows, {"n": "BIGINT", "name": "STRING"}).collect(), key=lambda row: row["id"])
    assert [(row["n"], row["n text"], row["name"], row[SYNTAX]) for row in found] == [
        (5, "5", "a", None),
        (None, "x", "b", None),
        (None, None, "c", None),
    ]
