"""Conversion: what does not fit becomes NULL and stays readable as the text it was."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.types.conversion import MISFITS, SYNTAX, convert_columns, convert_json

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
FAULTS = {
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
    rows = convert(*FAULTS)
    assert {row["payload"]: row[SYNTAX] for row in rows} == FAULTS


def test_space_around_and_within_an_object_is_no_error(convert):
    """A carriage return at the end of a line is space too."""
    rows = convert(' {"name": "a"} ', '{"name": "a"}\r', '\t{"name":\t"a"}')
    assert [(row[SYNTAX], row["name"]) for row in rows] == [(None, "a")] * 3


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


def test_a_number_is_no_text_because_another_member_says_the_same_in_quotes(convert):
    """A member of another name, of another object, or within a text; a text that looks like a number is one."""
    numbers = [
        '{"v": 1.40}',
        '{"xv": "1.4", "v": 1.40}',
        '{"v ": "1.4", "v":1.40, "w": "\\"v\\": \\"1.4\\""}',
        '{"w": {"v": "1.4"}, "v": 1.40}',
        '{"o": {"v": "1.4"}, "v": 1.40}',
        '{"o": [{"v": "1.4"}], "v": 1.40}',
    ]
    texts = ['{"v": "1.40"}', '{"v":"1.40", "w": "v"}', '{"v"  :\t"1.40"}', '{"w": {"v": 1.4}, "v": "1.40"}']
    schema = {"v": "STRING", "w": "STRING"}
    assert [row["v"] for row in convert(*numbers, *texts, schema=schema)] == ["1.40"] * 10
    twice, other = convert('{"v": 1.40, "v": "1.4"}', '{"v": "1.4", "v": 1.40}', schema=schema)
    assert twice[SYNTAX] == other[SYNTAX] == "v is there twice"


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


EXACT = {
    "STRING": ({text: text for text in ("1.10", "1e2", "-0", "12345678901234567890.123", "1e400")}, []),
    "BIGINT": ({"-0": 0, '"7"': 7}, ["1.0", "1e2", '"07"', '" 7"', '"+7"', '""', "9223372036854775808", "true"]),
    "TINYINT": ({"-128": -128}, ["200", "128"]),
    "DECIMAL(6,2)": (
        {
            "12.340": Decimal("12.34"),
            "1e2": Decimal(100),
            "150e-2": Decimal("1.5"),
            '"12.34"': Decimal("12.34"),
            '"1."': Decimal(1),
            '".5"': Decimal("0.5"),
            '"-.25"': Decimal("-0.25"),
            '"+5"': Decimal(5),
            '"+.50e1"': Decimal(5),
            '".0"': Decimal(0),
        },
        ["12.345", '"12,34"', "12345", "1e-3", "1e1000000000", "12.3400000000000000000000001", '"."', '"+"', '"01."'],
    ),
    "DOUBLE": (
        {"0.1": 0.1, "0.0": 0.0, "5e-324": 5e-324, '".5"': 0.5, '"-.25"': -0.25, '"5."': 5.0, '"+5"': 5.0},
        ["1e400", "-1e400", "1e-400", '"NaN"', '"Infinity"', '""', '"."', '"+-5"', '"05"', '"5.f"', '"5d"', '".e1"'],
    ),
    "FLOAT": ({"16777217.0000000001": 16777218.0, "0.5": 0.5, '".5"': 0.5}, ["1e39", "1e-46", '"NaN"']),
    "BOOLEAN": ({"true": True, '"false"': False}, ["1", '"t"', '"True"', '""']),
    "DATE": (
        {'"2026-01-05"': date(2026, 1, 5)},
        ['"2026"', '"2026-1-5"', '"2026-02-30"', "20", '"2026-01-05T10:00:00"'],
    ),
    "TIMESTAMP": (
        {},
        ['"2026-01-05"', '"2026-01-05T10:00"', '"2026-01-05T10:00:00.1234567Z"', '" 2026-01-05 10:00:00"'],
    ),
    "TIMESTAMP_NTZ": (
        {'"2026-01-05T10:00:00.5000000"': datetime.fromisoformat("2026-01-05T10:00:00.500000")},
        ['"2026-01-05T10:00:00Z"', '"2026-01-05"'],
    ),
    "BINARY": ({'"YWI="': b"ab", '""': b""}, ['"YWJ="', '"ab"', '"Y WI="']),
    "VARCHAR(3)": ({'"ä€😀"': "ä€😀"}, ['"abcd"', "1.10"]),
}


@pytest.mark.both
def test_a_time_that_the_clocks_of_the_sessions_zone_skip_is_a_misfit(spark):
    """In New York there is no 02:30 on 8 March; with an offset there is, and one that is there twice is taken."""
    before = spark.conf.get("spark.sql.session.timeZone")
    texts = ["2026-03-08T02:30:00", "2026-03-08T01:59:59", "2026-03-08T03:00:00", "2026-11-01T01:30:00"]
    zoned = ["2026-03-08T02:30:00Z", "2026-03-08T02:30:00-05:00"]
    frame = spark.createDataFrame(
        [(json.dumps({"at": text}), text) for text in (*texts, *zoned)], "j STRING, at STRING"
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for rows in (convert_json(frame, "j", {"at": "TIMESTAMP"}), convert_columns(frame, {"at": "TIMESTAMP"})):
            there = [row[0] for row in rows.selectExpr("CAST(unix_seconds(at) AS STRING)").collect()]
            assert there == [None, "1772953199", "1772953200", "1793511000", "1772937000", "1772955000"]
            assert rows.filter(f"at IS NULL AND size(`{MISFITS}`) = 1").count() == 1
        local = convert_columns(frame, {"at": "TIMESTAMP_NTZ"})
        assert [row[0] is None for row in local.select("at").collect()] == [False] * 4 + [True] * 2
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.both
def test_every_type_takes_exactly_the_texts_that_denote_a_value_of_it(spark):
    """In records and in columns of text alike, for the values and for the misfits of each type."""
    schema = {f"c {n}": kind for n, kind in enumerate(EXACT)}
    cases = [
        (name, text, value)
        for name, (fits, wrong) in zip(schema, EXACT.values(), strict=True)
        for text, value in [*fits.items(), *[(text, ...) for text in wrong]]
    ]
    records = [f'{{"{name}": {text}}}' for name, text, _ in cases]
    rows = spark.createDataFrame(list(enumerate(records)), "place INT, payload STRING")
    bare = [json.loads(text) if text.startswith('"') else text for _, text, _ in cases]
    columns = [[i, *[bare[i] if name == c else None for c in schema]] for i, (name, _, _) in enumerate(cases)]
    given = spark.createDataFrame(columns, ", ".join(["place INT", *[f"`{c}` STRING" for c in schema]]))
    for converted in (convert_json(rows, "payload", schema), convert_columns(given, schema)):
        for row, (name, text, value) in zip(sorted(converted.collect(), key=lambda r: r["place"]), cases, strict=True):
            if value is ...:
                assert (row[name], row[MISFITS]) == (None, [f"{name} is not a {schema[name]}"]), (name, text, row)
            else:
                assert (row[name], row[SYNTAX], row[MISFITS] or []) == (value, None, []), (name, text, row)


MOMENTS = [datetime(2026, 1, 5, 9, 7, 3), datetime(2026, 5, 13, 21, 30), datetime(2026, 12, 1), datetime(1999, 10, 11)]  # noqa: DTZ001 - of no zone
MADE = {
    "yyyy-MM-dd HH:mm": "%Y-%m-%d %H:%M",
    "yyyy-MM-dd'T'HH:mm": "%Y-%m-%dT%H:%M",
    "yyyy/MM/dd HH:mm:ss": "%Y/%m/%d %H:%M:%S",
    "M/d/yyyy H:mm:ss": "%m/%d/%Y %H:%M:%S",
    "M/d/yyyy H:mm": "%m/%d/%Y %H:%M",
    "M/d/yyyy h:mm:ss a": "%m/%d/%Y %I:%M:%S %p",
    "M/d/yyyy h:mm a": "%m/%d/%Y %I:%M %p",
    "d/M/yyyy H:mm:ss": "%d/%m/%Y %H:%M:%S",
    "d/M/yyyy H:mm": "%d/%m/%Y %H:%M",
    "d.M.yyyy H:mm:ss": "%d.%m.%Y %H:%M:%S",
    "d.M.yyyy H:mm": "%d.%m.%Y %H:%M",
    "yyyy/MM/dd": "%Y/%m/%d",
    "M/d/yyyy": "%m/%d/%Y",
    "d/M/yyyy": "%d/%m/%Y",
    "d.M.yyyy": "%d.%m.%Y",
    "yyyy-dd-MM": "%Y-%d-%m",
    "yyyyMMdd": "%Y%m%d",
    "dd-MM-yyyy": "%d-%m-%Y",
    "": "%Y-%m-%dT%H:%M:%S",
}
"""Spark's date pattern -> Python's; of the empty one, ISO 8601."""


def by_pattern(text, pattern):
    """What Python reads of a text by a pattern, and by nothing else."""
    try:
        return datetime.strptime(text, MADE[pattern])  # noqa: DTZ007 - of no zone
    except ValueError:
        return None


@pytest.mark.both
def test_a_time_is_read_by_its_pattern_and_by_nothing_else(spark):
    """Texts of every pattern and of ISO 8601 under each pattern: 5 January is never 1 May, nor is either of both."""
    texts = sorted({moment.strftime(python) for moment in MOMENTS for python in MADE.values()})
    texts += ["", " ", "2026-13-45", "now", "1767603600"]
    kinds = {f"{kind} {n}": (kind, pattern) for n, pattern in enumerate(MADE) for kind in ("DATE", "TIMESTAMP_NTZ")}
    kinds = {name: each for name, each in kinds.items() if each[1]}
    formats = {name: pattern for name, (_, pattern) in kinds.items()}
    schema = {name: kind for name, (kind, _) in kinds.items()}
    records = [(n, json.dumps(dict.fromkeys(kinds, text))) for n, text in enumerate(texts)]
    columns = spark.createDataFrame(
        [(n, *[text] * len(kinds)) for n, text in enumerate(texts)],
        ", ".join(["n INT", *[f"`{c}` STRING" for c in kinds]]),
    )
    rows = spark.createDataFrame(records, "n INT, raw STRING")
    for read in (convert_json(rows, "raw", schema, formats=formats), convert_columns(columns, schema, formats=formats)):
        for row in read.collect():
            for name, (kind, pattern) in kinds.items():
                moment = by_pattern(texts[row["n"]], pattern)
                wanted = moment.date() if moment and kind == "DATE" else moment
                assert row[name] == wanted, (pattern, texts[row["n"]])
                assert (f"{name} is not a {kind}" in row[MISFITS]) is (wanted is None), (pattern, texts[row["n"]])


def test_numbers_since_1970_are_times(spark):
    """In seconds or milliseconds, whole or not, within the years that a reader can show; no other text is one."""
    schema = {"a": "TIMESTAMP", "b": "TIMESTAMP", "c": "DATE"}
    formats = {"a": "epoch_millis", "b": "epoch_seconds", "c": "epoch_seconds"}
    texts = [
        '{"a": 1767603600500, "b": "1767603600.25", "c": 0}',
        '{"a": "99999999999999999", "b": -1, "c": "x"}',
        '{"a": " 1", "b": "2026-01-05T10:00:00Z", "c": "2026-01-05"}',
        '{"a": 1.7676036005E12, "b": 1.76760360025E9}',
    ]
    rows = spark.createDataFrame(list(enumerate(texts)), "n INT, raw STRING")
    found = convert_json(rows, "raw", schema, formats=formats).orderBy("n")
    shown = found.selectExpr("CAST(unix_micros(a) AS STRING)", "CAST(unix_micros(b) AS STRING)", "CAST(c AS STRING)")
    assert [tuple(row) for row in shown.collect()] == [
        ("1767603600500000", "1767603600250000", "1970-01-01"),
        (None, "-1000000", None),
        (None, None, None),
        ("1767603600500000", "1767603600250000", None),
    ]


def test_nan_and_infinities_are_values_where_the_source_has_types(spark):
    """Of a DOUBLE and a FLOAT, alone or inside of others, in the spelling of Spark and PostgreSQL; of no other type."""
    schema = {
        "d": "DOUBLE",
        "f": "FLOAT",
        "l": "ARRAY<DOUBLE>",
        "s": "STRUCT<x: FLOAT>",
        "n": "DECIMAL(5,2)",
        "i": "INT",
    }
    words = ["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "+Infinity", "1e400"]
    records = [(n, json.dumps({"d": w, "f": w, "l": [w], "s": {"x": w}, "n": w, "i": w})) for n, w in enumerate(words)]
    rows = spark.createDataFrame(records, "n_ INT, raw STRING")
    for special, count in ((list(schema), 3), ((), 0)):
        read = convert_json(rows, "raw", schema, special=special).orderBy("n_").collect()
        for number, row in enumerate(read):
            found = [row["d"], row["f"], row["l"] and row["l"][0], row["s"] and row["s"]["x"]]
            wanted = str(float(words[number])) if number < count else "None"
            assert {str(each) for each in found} == {wanted}, words[number]
            assert (row["n"], row["i"], len(row[MISFITS])) == (None, None, 2 if number < count else 6)


NESTED = {"s": "STRUCT<a: BIGINT, b: ARRAY<DECIMAL(6,2)>>", "m": "MAP<STRING, STRUCT<x: DATE NOT NULL>>"}


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('{"s": {"a": "oops"}}', ["s.a is not a BIGINT"]),
        ('{"s": {"b": [1.5, 1.555, null, "x"]}}', ["s.b[1] is not a DECIMAL(6,2)", "s.b[3] is not a DECIMAL(6,2)"]),
        ('{"s": {"b": {}}}', ["s.b is not a ARRAY<DECIMAL(6,2)>"]),
        ('{"s": []}', [f"s is not a {NESTED['s']}"]),
        ('{"s": ""}', [f"s is not a {NESTED['s']}"]),
        ('{"m": {"k": {"x": "2026"}}}', ["m.k.x is not a DATE"]),
        ('{"m": {"k": {}, "j": null}}', ["m.k.x is missing"]),
        ('{"m": {"k": {"x": "2026-01-05"}, "\\u006b": null}}', ["m.k is there twice"]),
        ('{"s": {"a": 1, "a": 1}}', ["s.a is there twice"]),
        ('{"other": [{"a": 1, "a": 1}]}', ["a key is there twice"]),
        ('{"s": {"a": 1, "b": [1.50, "2"], "A": "x"}, "m": {"k": {"x": "2026-01-05"}}, "other": {"a": 1}}', []),
    ],
)
def test_what_does_not_fit_inside_of_a_value_is_named_by_its_path(convert, text, sentences):
    """In objects, arrays and maps within each other; a key that is there twice too, wherever it is."""
    (row,) = convert(text, schema=NESTED)
    assert (row[SYNTAX], row[MISFITS] or []) == (None, sentences)
    if not sentences:
        assert row["s"].asDict() == {"a": 1, "b": [Decimal("1.50"), Decimal(2)]}
        assert row["m"]["k"]["x"] == date(2026, 1, 5)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"n": 1, "n": 2}', "n is there twice"),
        ('{"n": 1, "\\u006e": 1}', "n is there twice"),
        ('{"other": 1, "other": 1}', "other is there twice"),
        ('{"name": "\\ud800"}', "half of a surrogate pair"),
        ('{"name": "\\udc00\\ud83d"}', "half of a surrogate pair"),
        ('{"name": "\\ud83d\\ude00 \\\\ud800"}', None),
        ("{'name': 'a'}", "malformed JSON"),
        ('{"name": "a" /* b */}', "malformed JSON"),
        ('\ufeff{"name": "a"}', "malformed JSON"),
        ('{"name": "\t"}', "malformed JSON"),
        ('{"n": +1}', "malformed JSON"),
        ('{"n": .5}', "malformed JSON"),
        ("{1 : 2}", "malformed JSON"),
        ('{"other": %s}' % ("[" * 2000 + "]" * 2000), "malformed JSON"),
    ],
)
def test_a_record_that_json_does_not_define_is_refused_whole(convert, text, fault):
    """Repeated keys, halves of characters, and what lenient parsers add to JSON."""
    assert convert(text)[0][SYNTAX] == fault


def test_bytes_that_are_no_text_are_refused(spark):
    """A STRING column may hold them, and a parser would put other characters in their place."""
    rows = spark.sql(
        """SELECT CAST(concat(CAST('{"name": "' AS BINARY), X'FF', CAST('"}' AS BINARY)) AS STRING) AS raw"""
    )
    assert [row[SYNTAX] for row in convert_json(rows, "raw", SCHEMA).collect()] == ["not valid UTF-8"]


def test_a_lenient_column_takes_what_a_cast_takes(spark):
    """And only that column, in both entries; what no cast takes stays a misfit."""
    schema = {"price": "DECIMAL(6,2)", "day": "DATE"}
    rows = spark.createDataFrame(
        [(1, '{"price": " 12.345 ", "day": "2026"}'), (2, '{"price": "x"}')], "n INT, raw STRING"
    )
    columns = spark.createDataFrame([(1, " 12.345 ", "2026"), (2, "x", None)], "n INT, price STRING, day STRING")
    for converted in (
        convert_json(rows, "raw", schema, lenient=["price"]),
        convert_columns(columns, schema, lenient=["price"]),
    ):
        rounded, wrong = sorted(converted.collect(), key=lambda row: row["n"])
        assert (rounded["price"], rounded["day"], rounded[MISFITS]) == (Decimal("12.35"), None, ["day is not a DATE"])
        assert (wrong["price"], wrong[MISFITS]) == (None, ["price is not a DECIMAL(6,2)"])


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        ({"v": "VARIANT"}, {}, "can become a VARIANT"),
        ({"m": "MAP<INT, STRING>"}, {}, "declare MAP<STRING"),
        ({"a": "ARRAY<VARIANT>"}, {}, "can become a VARIANT"),
        ({"a": "STRING"}, {"lenient": ["a"]}, "lenient names a"),
        ({"a": "INT"}, {"lenient": ["b"]}, "lenient names b"),
    ],
)
def test_a_schema_that_no_json_can_fill_is_refused(spark, schema, options, words):
    """Before anything is read, with the column or the type."""
    with pytest.raises(ConfigError, match=words):
        convert_json(spark.createDataFrame([("{}",)], "raw STRING"), "raw", schema, **options)


def test_a_schema_may_name_columns_in_another_case(spark):
    """As Spark does; nested ones, too, and the column is there once, under the name of the schema."""
    rows = spark.sql("SELECT '7' AS amount, '[1]' AS list, 'x' AS other")
    (row,) = convert_columns(rows, {"Amount": "INT", "LIST": "ARRAY<INT>"}).collect()
    assert {name: row[name] for name in row.asDict() if name in ("Amount", "LIST", "other", "amount", "list")} == {
        "other": "x",
        "Amount": 7,
        "LIST": [1],
    }


def test_columns_that_are_typed_already_are_compared_by_their_text(spark):
    """What would be rounded, cut or completed is a misfit; a column that has the type passes as it is."""
    rows = spark.sql(
        "SELECT 1.5D AS n, TIMESTAMP '2026-01-05 10:00:00' AS day, named_struct('a', 'oops', 'b', NULL) AS s, "
        "array(1, 2) AS tags, CAST('NaN' AS DOUBLE) AS d, '[1, 2] x' AS broken, '[1, 2.0]' AS text"
    )
    lists = "ARRAY<BIGINT>"
    schema = {"n": "BIGINT", "day": "DATE", "s": "STRUCT<a: BIGINT, b: DATE>", "tags": lists, "d": "DOUBLE"}
    (row,) = convert_columns(rows, {**schema, "broken": lists, "text": lists}).collect()
    assert sorted(row[MISFITS]) == [
        f"broken is not a {lists}",
        "day is not a DATE",
        "n is not a BIGINT",
        "s.a is not a BIGINT",
        "text[1] is not a BIGINT",
    ]
    assert (row["tags"], str(row["d"]), row["n"], row["day"], row["s"]) == ([1, 2], "nan", None, None, None)
