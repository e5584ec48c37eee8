"""Landed records as JSON objects: CSV of every dialect, and renamed members of JSON, held against Python's reader."""

from __future__ import annotations

import csv
import json
import random

import pytest

from dedp_assets.patterns.connectors.encoding.formats import Csv, JsonLines
from dedp_assets.patterns.connectors.encoding.record_texts import Naming, as_records

pytestmark = pytest.mark.spark
NAMES = ("a", "b", "c")
VALUES = [
    "1",
    "x y",
    'say "no"',
    "semi;colon",
    "comma,",
    "tab\t",
    "pipe|",
    "back\\slash",
    "it's",
    "ü€",
    "[0]",
    " ",
    "a\rb",
]
DIALECTS = [
    Csv(),
    Csv(delimiter=";", quote="'"),
    Csv(delimiter="\t"),
    Csv(delimiter="|", escape="\\"),
    Csv(delimiter="^", quote="$"),
]


def records(spark, lines, made, naming):
    """What becomes of lines: record, broken, layout."""
    header = json.dumps(NAMES)
    rows = spark.createDataFrame(
        [(line, header, n) for n, line in enumerate(lines)], "raw STRING, header STRING, n INT"
    )
    found = as_records(rows, made, naming).orderBy("n").select("record", "broken", "layout").collect()
    return [tuple(row) for row in found]


@pytest.mark.parametrize("made", DIALECTS, ids=repr)
def test_values_of_a_dialect_are_those_that_pythons_reader_finds(spark, made):
    """Quoted or not, with what has a meaning in the dialect inside."""
    options = {} if made.doubles else {"escapechar": made.escape, "doublequote": False, "quoting": csv.QUOTE_ALL}
    lines = []

    class Lines:
        def write(self, text):
            lines.append(text)

    writer = csv.writer(Lines(), delimiter=made.delimiter, quotechar=made.quote, lineterminator="", **options)
    wanted = [[one, other, "z"] for one in VALUES for other in (VALUES[0], VALUES[2], one)]
    for values in wanted:
        writer.writerow(values)
    found = records(spark, lines, made, Naming(NAMES, always=NAMES))
    assert [list(json.loads(record).values()) for record, _, _ in found] == wanted
    assert {row[1:] for row in found} == {(None, None)}


def test_a_line_that_is_no_record_says_why(spark):
    """Quotes that do not end, too few and too many values, and a blank line."""
    lines = ['1,"open,3', '"a"b,2,3', "1,2", "1,2,3,4", "", '1,"a ""b"" c",3', '1,x"y,', '"",NA,\r']
    found = records(spark, lines, Csv(nulls=("NA",)), Naming(NAMES, always=NAMES))
    quote = "a quoted value does not end before a delimiter; values with line feeds take the option multiline"
    counts = "the line has {} values, and the header 3"
    assert [broken for _, broken, _ in found][:5] == [quote, quote, counts.format(2), counts.format(4), "blank line"]
    assert [json.loads(record) for record, _, _ in found[5:]] == [
        {"a": "1", "b": 'a "b" c', "c": "3"}, {"a": "1", "b": 'x"y', "c": None}, {"a": None, "b": None, "c": None},
    ]  # fmt: skip


def test_names_of_files_become_those_of_the_declaration(spark):
    """Of CSV and of JSON."""
    naming = Naming(("id", "at", "c"), called={"id": "a", "at": "b"}, always=("at",), time="at")
    (good,) = records(spark, ["1,1/5/2026 9:07,x"], Csv(), naming)
    assert json.loads(good[0]) == {"id": "1", "at": "1/5/2026 9:07", "c": "x"}
    lines = [
        '{"a": 1.50, "b": "1/5/2026 9:07", "c": {"b": [1]}}',
        '{"a": 1, "b": 5.0}',
        '{"d": 1}',
        "torn",
        '{"a":1,"id":2}',
    ]
    found = records(spark, lines, JsonLines(), naming)
    assert found[0][0] == '{"id":1.50,"at":"1/5/2026 9:07","c":{"b":[1]}}'
    assert found[1][0] == '{"id":1,"at":5.0}'
    assert found[2][2] == "the record lacks at; no declared column is called d"
    assert found[3] == ("torn", None, None)
    assert found[4] == ('{"a":1,"id":2}', None, "the record lacks at; no declared column is called a")
    rows = spark.createDataFrame([(line,) for line in lines], "raw STRING")
    stated = as_records(rows, JsonLines(), naming).select("stated_time").collect()
    assert [row[0] for row in stated] == ["1/5/2026 9:07", "5.0", None, None, None]


ODD = [
    "1.10", "1e2", "-0.0", "1E400", "0." + "1" * 50, "9" * 60, "true", "null", '"1.10"', '":x"', '"x:"', '""',
    '"\\"\\\\ \\u00e9\\n\\ud83d\\ude00"', "[]", "{}", '[1.10, ":", {"b": [null, 1e2, "a, }"]}]',
    '{"x": 1.0, "y": {"x": "2:"}}',
]  # fmt: skip
"""Values of JSON that a reader may write otherwise than they are."""


def as_written(text):
    """A JSON text with every number as its own text."""
    return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=Number)


class Number(str):
    """A number as written, which no text equals."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return isinstance(other, Number) and str.__eq__(self, other)


def test_a_value_is_as_written_under_another_name(spark):
    """Numbers, texts and what they are in, at any depth: else a column of text would hold another text."""
    rng = random.Random(5)  # noqa: S311 - seeded values
    lines = [f'{{"a": {one}, "c" : {rng.choice(ODD)}}}\r' for one in ODD for _ in range(3)]
    naming = Naming(("id", "at", "c"), called={"id": "a"})
    found = records(spark, lines, JsonLines(), naming)
    wanted = [{"id": line["a"], "c": line["c"]} for line in map(as_written, lines)]
    assert [as_written(record) for record, _, _ in found] == wanted
    assert {row[1:] for row in found} == {(None, None)}


@pytest.mark.parametrize(
    "line",
    [
        '{"a": "\\ud800"}',
        '{"a": 1} {"a": 2}',
        '{"a": 1} x',
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 2}}',
        "[1]",
        "",
        "{",
    ],
)
def test_a_record_with_a_fault_stays_as_it_is(spark, line):
    """The conversion finds the fault; a record that was written anew would have none."""
    assert records(spark, [line], JsonLines(), Naming(("id",), called={"id": "a"}))[0][0] == line


def test_a_column_twice_in_a_header_breaks_its_lines(spark):
    """Nobody can tell which value is meant."""
    rows = spark.createDataFrame([("1,2", '["a", "a"]')], "raw STRING, header STRING")
    (row,) = as_records(rows, Csv(), Naming(("a",))).collect()
    assert (row["record"], row["broken"]) == (None, "the header names a column twice")
