"""Personal values are found in what was made of their rows, however they are written; what cannot be proven is said."""

from __future__ import annotations

import base64
import unicodedata

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.ingestion._crossing import MEASURES, NothingCrossed, compared, unprovable

MAIL, PHONE = "ada@example.org", "+49 (0)170 123-4567"
TEXTS = [
    # original, shown, whether it shows
    (MAIL, '{"mail": "ADA@Example.org"}', True),
    (MAIL, '{"mail": "bob@example.org"}', False),
    (MAIL, "ada_example_org", True),
    (MAIL, "m=ada%40example.org&discount=100%", True),
    (MAIL, MAIL.encode().hex(), True),
    (MAIL, f"to {MAIL}".encode().hex().upper(), True),
    *[(MAIL, base64.b64encode(f"{'x' * skipped}{MAIL} and more".encode()).decode(), True) for skipped in range(4)],
    (MAIL, base64.b64encode(b"bob@example.org and more").decode(), False),
    (None, "anything", False),
    ("anything", None, False),
    ("", "anything", False),
    ("-", "-", False),
    ("%.*[weird\\", "a %.*[weird\\ b", True),
    # short
    ("Ada", "call Ada!", True),
    ("Ada", '{"by":"ADA"}', True),
    ("Ada", "Adagio", False),
    ("Li Wu", "LiWu", True),
    ("Li Wu", "ask li-wu", True),
    ("Li Wu", "coli wux", False),
    ("a\nb cd", "a b cd", True),
    # letters and accents
    ("Zoë", unicodedata.normalize("NFD", "by zoë"), True),
    ("Zoë", "by Zoe", True),
    ("Zoe", "ZOË", True),
    ("Zoë", "Zoëy", False),
    ("Zoë", '{"n": "Zo\\u00eb"}', True),
    ("Zoë", '{"n": "{\\"n\\": \\"Zo\\\\u00eb\\"}"}', True),
    ("Zoë", "?n=Zo%C3%AB", True),
    ("Zoë 👩", '{"n": "Zo\\u00eb \\ud83d\\udc69"}', True),
    ("한국인", unicodedata.normalize("NFD", "한국인"), True),
    ("張偉", "聯繫張偉先生", True),
    ("ada", "\uff21\uff24\uff21", True),
    ("Strauß", "STRAUSS", True),
    ("finn", "ﬁnn", True),
    ("Łukasz", "lukasz", True),
    ("Ada Lovelace", "Ada\\nLovelace", True),
    ("Ada Lovelace", "Ada\nLovelace", True),
    ("Ada Lovelace", "ada\u00adlove\u200blace", True),
    # telephones and addresses
    (PHONE, "0049170 1234567", True),
    (PHONE, "call 0170/1234567 now", True),
    ("0170 1234567", "+491701234567", True),
    ("555-1234", "5551234", True),
    ("555-1234", "555-12345", False),
    ("203.0.113.1", "for=203.0.113.1, 8.8.8.8", True),
    ("203.0.113.1", "203.0.113.12, 203.0.113.2", False),
    ("٤٧١١", "4711", True),
    ("2026-01-05", "on 2026-01-05", True),
]
TYPES = {
    "long": "BIGINT",
    "money": "DECIMAL(22,2)",
    "place": "DOUBLE",
    "short": "FLOAT",
    "words": "STRING",
    "caseless": "STRING COLLATE UNICODE_CI",
    "bytes": "BINARY",
    "people": "ARRAY<STRUCT<name: STRING, n: INT>>",
    "names": "MAP<STRING, STRING>",
    "doc": "VARIANT",
    "flag": "BOOLEAN",
    "day": "DATE",
    "moment": "TIMESTAMP",
}
TYPED = [
    ("long", "4711", "long", "4711", True),
    ("long", "4711", "long", "47112", False),
    ("long", "4711", "money", "4711.00", True),
    ("long", "4711", "place", "4711.0D", True),
    ("long", "4711", "words", "'n 4,711 of'", True),
    ("long", "4711", "words", "'user4711'", False),
    ("long", "123456", "words", "'user123456'", True),
    ("long", "123456789", "place", "1.23456789E8D", True),
    ("long", "123456789", "words", "'x99123456789x'", True),
    ("words", "'0123456789'", "long", "123456789", True),
    ("money", "1250.50", "people", "array(named_struct('name', '1250.5', 'n', 1))", True),
    ("money", "12345678901234567890.10", "words", "'12345678901234567890.1'", True),
    ("place", "48.8566D", "words", "'near 48.8566, 2.35'", True),
    ("place", "48.8566D", "words", "'48,8566 N'", True),
    ("place", "DOUBLE('NaN')", "words", "'nan'", False),
    ("short", "1.25F", "words", "'1.25'", True),
    ("bytes", "X'00FFABCDEF010203'", "words", "'00ffabcdef010203'", True),
    ("bytes", "X'00FFABCDEF010203'", "bytes", "X'FF'", False),
    ("words", "'Leonhard'", "bytes", "CAST('by leonhard' AS BINARY)", True),
    ("people", "array(named_struct('name', 'Leonhard', 'n', 1))", "words", "'by leonhard'", True),
    ("words", "'Leonhard'", "people", "array(named_struct('name', 'by leonhard', 'n', 1))", True),
    ("long", "4711", "people", "array(named_struct('name', '', 'n', 4711))", True),
    ("names", "map('x', 'Leonhard')", "words", "'by leonhard'", True),
    ("names", "map('Leonhard', 'x')", "words", "'by leonhard'", True),
    ("words", "'Leonhard'", "names", "map('Leonhard', 'x')", True),
    ("doc", """parse_json('{"name": ["Leonhard, Euler"]}')""", "words", "'by leonhard euler'", True),
    ("doc", """parse_json('{"name": ["Leonhard, Euler"]}')""", "words", "'name'", False),
    ("words", "'Leonhard'", "doc", """parse_json('{"name": ["Leonhard"]}')""", True),
    ("caseless", "'Leonhard'", "caseless", "'by LEONHARD'", True),
    ("flag", "true", "flag", "true", False),
    ("flag", "true", "words", "'true'", False),
    ("day", "DATE '1984-03-10'", "words", "'1984-03-10'", False),
    ("moment", "TIMESTAMP '1984-03-10 00:00:00'", "day", "DATE '1984-03-10'", False),
]


@pytest.mark.promise("a-text-is-found-however")
@pytest.mark.both
def test_a_text_is_found_however_it_is_written(spark):
    """Whole, as words and within words; in any case, accent, letter form, punctuation, escape or encoding."""
    rows = spark.createDataFrame(
        [(n, original, shown) for n, (original, shown, _) in enumerate(TEXTS)], "n INT, `o.x` STRING, `s``x` STRING"
    )
    found = compared(rows, originals=["o.x"], shown=["s`x"], instead={}).filter("__dedp_crossed").select("n").collect()
    assert {TEXTS[row["n"]] for row in found} == {case for case in TEXTS if case[2]}


def test_a_value_of_any_type_is_found_in_any_other(spark):
    """Numbers are numbers in columns, texts and nested values; what is nested is looked at part by part."""
    names = [f"{side}_{name}" for side in "os" for name in TYPES]

    def row(number, given):
        values = [f"{given.get(name, 'NULL')} AS {name}" for name in names]
        return f"SELECT {number} AS n, {', '.join(values)}"

    given = [row(n, {f"o_{kind}": o, f"s_{other}": s}) for n, (kind, o, other, s, _) in enumerate(TYPED)]
    kinds = [f"CAST({side}_{name} AS {kind}) AS {side}_{name}" for side in "os" for name, kind in TYPES.items()]
    rows = spark.sql(" UNION ALL ".join(given)).selectExpr("n", *kinds)
    judged = compared(rows, originals=names[: len(TYPES)], shown=names[len(TYPES) :], instead={})
    found = judged.filter("__dedp_crossed").select("n").collect()
    assert {TYPED[row["n"]] for row in found} == {case for case in TYPED if case[4]}
    assert unprovable(rows, names[: len(TYPES)]) == (
        "o_flag (truth values coincide by nature)",
        "o_day (dates and times coincide by nature)",
        "o_moment (dates and times coincide by nature)",
    )


def test_a_value_that_was_not_replaced_shows_whatever_it_is(spark):
    """A rule that gives back what it got is none, except for NULL and nothing, and where equal values say nothing."""
    values = [("-", "-", True), ("-", "x", True), ("", "", True), (None, None, True), ("-", None, True)]
    rows = spark.createDataFrame(values, "v STRING, w STRING, b BOOLEAN")
    judged = compared(rows, originals=["v", "b"], shown=["w", "b"], instead={"v": "w", "b": "b"})
    assert [row[0] for row in judged.select("__dedp_crossed").collect()] == [True, False, False, False, False]


def figures_of(spark, *pairs):
    rows = compared(spark.createDataFrame(list(pairs), "o STRING, s STRING"), originals=["o"], shown=["s"], instead={})
    return rows.agg(*[F.expr(sql).alias(name) for name, sql in MEASURES.items()]).collect()[0].asDict()


def test_what_stands_elsewhere_by_chance_counts_once_it_does_so_often(spark):
    """Small numbers and single characters: named as not provable in some rows, refused as a copied column would be."""
    audit = NothingCrossed(name="nothing_crossed", of="crossed", fail_above=0, unproven=("born (dates)",))
    seldom = figures_of(spark, ("42", "room 42"), ("07", "8"), ("F", "x"), ("Ada", "x"))
    assert seldom == {"crossed": 0, "chance_rows": 3, "chance_shown": 1}
    finding = audit.judge(seldom)
    assert finding.passed
    assert finding.note == (
        "not provable: born (dates), 3 rows with a number of at most two digits or a single character: 1 show it"
    )
    often = figures_of(spark, ("42", "room 42"), ("07", "7.0"), ("F", "x"))
    refused = audit.judge(often)
    assert refused.refuses
    assert refused.note.startswith("a number of at most two digits or a single character shows in 2 of 3 rows")
    assert refused.note.endswith("; not provable: born (dates)")
    crossed = audit.judge({**seldom, "crossed": 2})
    assert (crossed.refuses, crossed.figures, crossed.note[:21]) == (True, {"crossed": 2}, "above 0; not provable")
    assert audit.judge({}).refuses, "what was not measured is not proven"


def test_nested_values_that_cannot_be_compared_are_named_by_their_path(spark):
    """So that nobody takes a passed check for a proof of them."""
    kind = "STRUCT<born: DATE, seen: ARRAY<TIMESTAMP>, is: MAP<STRING, BOOLEAN>, name: STRING>"
    rows = spark.createDataFrame([], f"who {kind}, name STRING")
    assert [text.split(" (")[0] for text in unprovable(rows, ["who", "name"])] == [
        "who.born",
        "who.seen.element",
        "who.is.value",
    ]
