"""Wrapper: the record as it came, what was computed from it, and no doubt which is which."""

from __future__ import annotations

import json
import random
from functools import reduce
from itertools import permutations
from typing import get_args

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.value.wrapper import Layout, change_layout, separate, wrap_records
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.renaming import any_names

pytestmark = pytest.mark.spark
LAYOUTS = get_args(Layout)
RECORD = (
    "`case` BIGINT, line STRING, bytes BINARY, `a.b c` DOUBLE, raw STRING, "
    "context STRUCT<referral: STRING, user: STRUCT<connected_since: TIMESTAMP>>, tags MAP<STRING, ARRAY<STRING>>"
)
LINES = [
    None,
    "",
    "not JSON",
    '{"user": "u1"',
    '{"user": "u1", "user": "u2"}',
    '{"user": 12345678901234567890.123456789012345678901234567890}',
    '{"user": 1.10e+00,\t"x": [1, {"y": null}]}  ',
    '["user"]',
    "null",
    '{"user": "\u00e9\u0000\U0001f600 \\ud83d"}',
    "\r",
]
VALUES = {
    "bytes": [None, b"", b"\xff\x00"],
    "a.b c": [None, 0.0, -0.0, float("nan"), float("inf"), 0.1],
    "raw": [None, "a `quoted` 'text'"],
    "context": [None, (None, None), ("r", (None,)), ("", None)],
    "tags": [None, {}, {"k": None}, {"k": [None, "v"], "": []}],
}
COMPUTED = {
    "user_id": "try_variant_get(try_parse_json(line), '$.user', 'string')",
    "a.b c": "upper(raw)",
    "is_connected": "context.user.connected_since IS NOT NULL",
    "computed": "named_struct('at', `case` * 2, 'tags', tags)",
}
USER = "try_variant_get(try_parse_json(line), '$.{}', 'string')".format


def records(spark, count=150):
    """Generated records: every line, and every value of the other columns, in many combinations."""
    chance = random.Random(7)  # noqa: S311
    rows = [
        (case, LINES[case % len(LINES)], *(chance.choice(values) for values in VALUES.values()))
        for case in range(count)
    ]
    return rows, spark.createDataFrame(rows, RECORD)


@pytest.mark.promise("every-record-stays-as-it")
@pytest.mark.both
def test_each_layout_keeps_the_record_and_converts_into_each_other_one_without_loss(spark):
    """Of generated records: from each layout by each other one, and by two tables, and back; in one Spark job."""
    rows, frame = records(spark)
    direct = {layout: wrap_records(frame, computed=COMPUTED, layout=layout) for layout in LAYOUTS}
    made = {"direct": direct["computed_flat"]}
    for layout, to in permutations(LAYOUTS, 2):
        changed = change_layout(direct[layout], layout=layout, to=to)
        assert changed.schema.simpleString() == direct[to].schema.simpleString()
        made[f"{layout} by {to}"] = change_layout(changed, layout=to, to="computed_flat")
    for layout in LAYOUTS:
        apart = separate(direct[layout], key=["case"], layout=layout)
        assert apart.raw.schema == frame.schema
        assert apart.joined(layout=layout).schema.simpleString() == direct[layout].schema.simpleString()
        made[f"{layout} by two tables"] = apart.joined()
    named = [wrapped.withColumn("way", F.lit(way)) for way, wrapped in made.items()]
    found: dict[str, list[str]] = {}
    for *row, way in reduce(lambda a, b: a.union(b), named).collect():
        found.setdefault(way, []).append(repr(plain(tuple(row))))
        assert repr(plain(row[-1])) == repr(plain(rows[row[-1].case]))
    assert found.keys() == made.keys()
    assert {tuple(sorted(ways)) for ways in found.values()} == {tuple(sorted(found["direct"]))}
    assert len(found["direct"]) == len(rows)


def plain(value):
    """A row of Spark's as the tuple that it was made of."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return sorted(value.items())
    return bytes(value) if isinstance(value, bytearray) else value


def test_shapes_of_two_providers_become_one_and_an_unknown_one_keeps_its_record(spark):
    """Both give the same user; a record without a known shape, or that nobody can read, has NULL and its line."""
    lines = [
        ("magazine", '{"user": "7"}'),
        ("radio", '{"u_id": 7}'),
        ("tv", '{"user": "7"}'),
        ("radio", '{"user": "7"}'),
        ("magazine", "{"),
        (None, None),
    ]
    shapes = {"magazine": USER("user"), "radio": USER("u_id")}
    frame = spark.createDataFrame(lines, "site STRING, line STRING")
    found = wrap_records(frame, computed={"user_id": shapes, "n": "length(line)"}, by="site").collect()
    assert [row.user_id for row in found] == ["7", "7", None, None, None, None]
    assert [tuple(row.raw) for row in found] == lines


def test_computed_values_of_nested_columns_are_those_of_a_person(spark):
    """A visitor is connected if there is a time since when; without a referral the key is the page, and no dash."""
    shape = "page STRING, context STRUCT<referral: STRING, user: STRUCT<connected_since: STRING>>"
    visits = [("/a", ("ads", ("2026-01-05",))), ("/a", ("ads", (None,))), ("/b", (None, None)), ("/c", None)]
    computed = {
        "is_connected": "context.user.connected_since IS NOT NULL",
        "page_referral_key": "concat_ws('-', page, context.referral)",
    }
    wrapped = wrap_records(spark.createDataFrame(visits, shape), computed=computed, layout="raw_flat")
    assert [tuple(row.computed) for row in wrapped.collect()] == [
        (True, "/a-ads"),
        (False, "/a-ads"),
        (False, "/b"),
        (False, "/c"),
    ]


VISITS = TableSpec(
    "silver/wrapped",
    {
        "user_id": Column("STRING"),
        "processing_context": Column("STRUCT<job_version: STRING>"),
        "raw": Column("STRUCT<id: INT, line: STRING>", required=True),
    },
)


def wrapped_by(records, version, user):
    """What one release computes."""
    context = f"named_struct('job_version', '{version}')"
    return wrap_records(records, computed={"user_id": user, "processing_context": context})


def test_a_stored_envelope_is_read_by_parts_and_computed_again_from_itself(spark, make_table):
    """A query of a computed column reads no record; another release changes its context alone.

    A better parser needs no other table than this one.
    """
    lines = ['{"user": "7"}', '{"u": "8"}', "{", None]
    landed = spark.createDataFrame(list(enumerate(lines)), "id INT, line STRING")
    table = make_table(VISITS)
    table.overwrite(wrapped_by(landed, "1", USER("user")), provenance=a_run(VISITS.name))
    plan = table.read().select("user_id")._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<user_id:string>" in plan

    before = read_back(table)
    table.overwrite(wrapped_by(landed, "2", USER("user")), provenance=a_run(VISITS.name, code_version="2"))
    after = read_back(table)
    assert {row["processing_context"]["job_version"] for row in after} == {"2"}
    old = {"job_version": "1"}
    assert sorted([{**row, "processing_context": old} for row in after], key=str) == sorted(before, key=str)

    own = change_layout(table.read(), layout="computed_flat", to="raw_flat").drop("computed")
    again = wrapped_by(own, "3", f"coalesce({USER('user')}, {USER('u')})")
    found = {row.raw.id: (row.raw.line, row.user_id) for row in again.collect()}
    assert found == dict(enumerate(zip(lines, ["7", "8", None, None], strict=True)))


def test_two_tables_join_one_to_one_on_their_key(spark):
    """No record without its computed columns and none the other way round; NULL is a key like any other."""
    frame = spark.createDataFrame([(None, 1, "a"), ("x", 1, "b"), ("x", 2, None)], "site STRING, id INT, line STRING")
    apart = separate(wrap_records(frame, computed={"letter": "upper(line)"}), key=["site", "id"])
    assert apart.computed.columns == ["site", "id", "letter"]
    assert apart.raw.count() == apart.computed.count() == 3
    found = apart.joined().collect()
    assert sorted((str(row.raw.site), row.raw.id, row.letter) for row in found) == [
        ("None", 1, "A"),
        ("x", 1, "B"),
        ("x", 2, None),
    ]


@pytest.mark.parametrize(
    ("columns", "computed", "named"),
    [
        ("id INT", {"raw": "1"}, "raw"),
        ("id INT", {"RAW": "1"}, "RAW"),
        ("id INT, computed INT", {"x": "1"}, "computed"),
        ("id INT, Computed_x INT", {"x": "1"}, "Computed_x"),
        ("id INT", {"x": "1", "X": "2"}, "x, X"),
        ("id INT, __dedp_x INT", {"x": "1"}, "__dedp_x"),
        ("id INT", {}, "name the columns"),
        ("id INT", {"x": {"a": "1"}}, "x has an expression for each shape"),
    ],
)
def test_a_name_that_would_mean_two_things_is_refused(spark, columns, computed, named):
    """Whatever the layout: it could not be converted into another one."""
    with pytest.raises(ConfigError, match=named):
        wrap_records(spark.createDataFrame([], columns), computed=computed, layout="flat")


def test_what_is_no_envelope_of_a_layout_is_refused(spark):
    """A wrong layout would take computed columns for the record's."""
    frame = spark.createDataFrame([(1, "a")], "id INT, line STRING")
    wrapped = wrap_records(frame, computed={"x": "id"})
    for wrong in ("raw_flat", "flat"):
        with pytest.raises(SchemaMismatch, match="no envelope of the layout"):
            change_layout(wrapped, layout=wrong, to="computed_flat")
    with pytest.raises(ConfigError, match="to must be raw_flat, computed_flat or flat, not 'nested'"):
        change_layout(wrapped, layout="computed_flat", to="nested")
    for key, said in (([], "not none"), (["x"], "not \\['x'\\]")):
        with pytest.raises(ConfigError, match=said):
            separate(wrapped, key=key)
    with pytest.raises(ConfigError, match="id is a key and a computed column"):
        separate(wrap_records(frame, computed={"id": "id + 1"}), key=["id"])
    with pytest.raises(ConfigError, match="no column site"):
        wrap_records(frame, computed={"x": {"a": "1"}}, by="site")
    with pytest.raises(ConfigError, match=r"^computed column x cannot be evaluated: \[UNSUPPORTED_GENERATOR"):
        wrap_records(frame, computed={"x": "explode(array(1, 2))"})


def test_names_are_told_apart_by_the_structs_and_not_by_luck(spark):
    """The same name in the record and among the computed columns, a record with a column called raw."""
    frame = spark.createDataFrame([(1, "a")], "id INT, raw STRING")
    (row,) = wrap_records(frame, computed={"id": "id + 1"}).collect()
    assert json.loads(json.dumps(row.asDict(recursive=True))) == {"id": 2, "raw": {"id": 1, "raw": "a"}}
    (flat,) = wrap_records(frame, computed={"id": "id + 1"}, layout="flat").collect()
    assert flat.asDict() == {"id": 1, "raw": "a", "computed_id": 2}


@any_names()
def wrapped(n):
    rows = n.frame("id INT, site STRING", (1, "a"), (2, "b"), (None, "c"))
    made = {n("twice"): {"a": f"{n.q('id')} * 2", "b": f"{n.q('id')} * 3"}, n("one"): "1"}
    flat = wrap_records(rows, computed=made, by=n("site"), layout="flat")
    yield change_layout(change_layout(flat, layout="flat", to="raw_flat"), layout="raw_flat", to="computed_flat")
    yield separate(flat, key=n.all("id"), layout="flat").joined(layout="raw_flat")


@known_calls
def calls_that_work(known):
    envelope = wrap_records(known.visits.select("id", "page"), computed={"twice": "id * 2"})
    return {
        "change_layout": {"wrapped": envelope, "layout": "computed_flat", "to": "flat"},
        "separate": {"wrapped": envelope, "key": ["id"]},
    }
