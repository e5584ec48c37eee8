"""A column's name is the user's own: a pattern does the same whatever its columns are called."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.error_management import windowed_deduplicator as deduplicator
from dedp_assets.patterns.error_management.dead_letter import Field, divert_unprocessable
from dedp_assets.patterns.error_management.filter_interceptor import intercept_filters
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from dedp_assets.patterns.idempotency.keyed_idempotency import FIRST, LAST, add_stable_key
from dedp_assets.patterns.value.distributed_aggregator import aggregate, merge_aggregates
from dedp_assets.patterns.value.dynamic_joiner import JoinTimes, join_latest, join_within
from dedp_assets.patterns.value.incremental_sessionizer import SessionRule, sessionize_partition, show_partial
from dedp_assets.patterns.value.stateful_sessionizer import sessionize_stream, sessionize_with_state
from dedp_assets.patterns.value.static_joiner import AsOf, join_static, judge_reference
from dedp_assets.patterns.value.wrapper import change_layout, separate, wrap_records
from tests.contracts import names_of_tables
from tests.renaming import ANY, MAPPED, STORED, Renaming, at

pytestmark = pytest.mark.spark


def aggregated(n):
    rows = n.frame("day STRING, tv STRING, ms INT", ("mon", "x", 1), ("mon", None, 2), ("tue", "x", 3))
    measures = {n("number"): "count(*)", n("ms sum"): f"sum({n.q('ms')})", n("all"): f"distinct({n.q('tv')})"}
    salted = aggregate(rows, keys=n.all("day", "tv"), measures=measures, salt=2)
    yield aggregate(rows, keys=n.all("day", "tv"), measures=measures, sets=[n.all("day", "tv"), n.all("day")])
    yield merge_aggregates(salted, salted, keys=n.all("tv"), measures=measures)


def joined(n):
    facts = n.frame("id INT, page STRING, at TIMESTAMP", (1, "/a", at(12)), (2, "/b", at(12)), (3, None, at(1)))
    ads = n.frame("ad INT, ad_page STRING, shown TIMESTAMP", (7, "/a", at(10)), (8, "/a", at(11)), (9, "/b", at(13)))
    options = {"keys": {n("page"): n("ad_page")}, "times": JoinTimes(fact=n("at"), other=n("shown"))}
    yield join_within(facts, ads, **options, from_seconds=-120, to_seconds=0)
    yield join_latest(facts, ads, **options, identity=n.all("id"), within_seconds=600, order_by=n.all("ad"))


def joined_static(n):
    facts = n.frame("id INT, user INT, at STRING", (1, 1, "10"), (2, 1, "12"), (3, 2, "12"), (4, None, "12"))
    told = [(1, "old", "09", "12"), (1, "new", "12", None), (3, "x", "09", None), (3, "y", "10", None)]
    users, valid = n.frame("uid INT, email STRING, since STRING, until STRING", *told), (n("since"), n("until"))
    found = judge_reference(users, keys=n.all("uid"), valid=valid)
    yield [{"note": found.note, **found.figures}]
    options = {"keys": {n("user"): n("uid")}, "columns": {n("email"): n("mail")}, "matched": n("met")}
    yield join_static(facts, users, **options, judged=replace(found, passed=True), as_of=AsOf(n("at"), valid))


EVENT = "user STRING, at TIMESTAMP, id INT, page STRING"
EVENTS = [("Ada", at(1), 1, "/a"), ("Ada", at(2), 2, "/out"), ("Ada", at(3), 3, "/b"), ("Bob", at(59), 4, "/a")]


def rule(n):
    return SessionRule(n.all("user"), event_time=n("at"), event_id=n("id"), gap_seconds=600, keep=n.all("page"))


def sessions(n):
    rows, ends = n.frame(EVENT, *EVENTS), f"{n.q('page')} = '/out'"
    first = sessionize_partition(rows, None, rule=replace(rule(n), ends=ends), until=at(4))
    second = sessionize_partition(rows.limit(0), first["pending"], rule=replace(rule(n), ends=ends), until=at(59))
    yield first["completed"]
    yield show_partial(second["completed"], second["pending"])


def streamed_sessions(n):
    found = sessionize_stream(n.stream(EVENT), rule=rule(n), lateness="1 minute")
    yield [dict.fromkeys([*found.columns, *found.schema["events"].dataType.elementType.names])]


def sessions_by_state(n):
    ends = f"{n.q('page')} = '/out'"
    yield n.taken(sessionize_with_state(n.stream(EVENT, EVENTS), rule=replace(rule(n), ends=ends), lateness="1 day"))


def deduplicated_stream(n):
    found = deduplicator.deduplicate_stream(n.stream(EVENT), keys=n.all("user"), event_time=n("at"), window="1 hour")
    yield [dict.fromkeys(found.columns)]


def wrapped(n):
    rows = n.frame("id INT, site STRING", (1, "a"), (2, "b"), (None, "c"))
    made = {n("twice"): {"a": f"{n.q('id')} * 2", "b": f"{n.q('id')} * 3"}, n("one"): "1"}
    flat = wrap_records(rows, computed=made, by=n("site"), layout="flat")
    yield change_layout(change_layout(flat, layout="flat", to="raw_flat"), layout="raw_flat", to="computed_flat")
    yield separate(flat, key=n.all("id"), layout="flat").joined(layout="raw_flat")


def keyed(n):
    rows = n.frame("user STRING, seq INT, part INT", ("Ada", 7, 1), ("Ada", 5, 1), (None, 3, 2))
    given = add_stable_key(rows, entity=n.all("user"), appended=n.all("seq"), key=n("key"))
    known = given.select(*map(identifier, [*n.all("user", "key"), FIRST, LAST])).distinct()
    later, options = rows.filter(f"{n.q('seq')} <> 5"), {"entity": n.all("user"), "appended": n.all("seq")}
    yield add_stable_key(later, known, **options, key=n("key"), if_purged="keep")


def deduplicated(n):
    seen = [("a", 1, "x"), ("a", 2, "y"), ("b", 1, "x"), (None, 1, "x"), ("c", 1, "z")]
    rows, keys = n.frame("id STRING, at INT, page STRING", *seen), n.all("id")
    split = deduplicator.deduplicate(rows, n.frame("id STRING", ("c",)), keys=keys, order_by=n.all("at"), keep="last")
    yield from (split[part] for part in split.parts)
    yield [deduplicator.judge_uniqueness(rows, keys=keys).figures]


def late(n):
    rows = n.frame("id INT, at STRING", (1, "2026-01-05 09:59"), (2, "2026-01-05 10:10"), (3, "noon"))
    times = {"event_time": f"try_to_timestamp({n.q('at')})", "arrived": f"timestamp({n.q('id')} + 1767700000)"}
    yield detect_late_data(rows, watermark=at(0), **times)["late"]


def diverted(n):
    texts = json.dumps({n("amount"): 7}), json.dumps({n("amount"): "seven"}), "{"
    rows = n.frame("id INT, line STRING, user STRING", *[(i, text, "u") for i, text in enumerate(texts)])
    options = {"payload": n("line"), "identity": n.all("id"), "carry": n.all("user"), "schema": {n("amount"): "BIGINT"}}
    split = divert_unprocessable(rows, rows.limit(2), rules={"none": f"{n.q('amount')} > 0"}, **options)
    yield split["valid"]
    yield split["dead"].drop(n("line"), "reason")


def diverted_columns(n):
    lines = [(1, "7", "[1]", "2026-01-05 10:00:00"), (2, "x", "[y]", None)]
    rows = n.frame("id INT, amount STRING, list STRING, at STRING", *lines)
    schema = {n("amount"): "INT", n("list"): "ARRAY<INT>", n("at"): Field("TIMESTAMP", event_time=True)}
    split = divert_unprocessable(rows, schema=schema, identity=n.all("id"))
    yield split["valid"]
    yield split["dead"].drop("raw", "reason")


OF_ROWS = (aggregated, joined, joined_static, sessions, streamed_sessions, sessions_by_state, deduplicated_stream)


OF_ROWS += (wrapped, keyed, deduplicated, late, diverted, diverted_columns)
CASES = dict.fromkeys(OF_ROWS, ANY) | dict.fromkeys(names_of_tables.CASES, STORED)
CASES[names_of_tables.merged_by_delta] = MAPPED


HANDED_ON = {
    joined_static: ("id", "email"),
    deduplicated_stream: ("id", "page"),
    deduplicated: ("page",),
    keyed: ("part",),
    diverted: ("user",),
    names_of_tables.decorated: ("id", "page"),
    names_of_tables.filed: ("note",),
    names_of_tables.upserted: ("number",),
    names_of_tables.merged: ("name",),
    names_of_tables.replicated: ("id",),
    names_of_tables.overwritten: ("id",),
}
"""Columns that a pattern does nothing with but keep. In all others a map is refused, but one that is read as JSON."""
READ_AS_JSON = {diverted_columns: {"list"}}


@pytest.mark.promise("a-pattern-does-the-same")
@pytest.mark.parametrize(("case", "odd"), CASES.items(), ids=[case.__name__ for case in CASES])
def test_a_pattern_does_the_same_whatever_its_columns_are_called_and_hold(spark, make_table, tmp_path, case, odd):
    """Under odd names, and words that SQL or the library use themselves, the rows are those of plain names.

    So they are if options have the names in capitals, and what is handed on is a map, which nothing can compare.
    Elsewhere a map is refused by the name of its column, or of the measure that is of it.
    """
    renaming = partial(Renaming, spark=spark, make_table=make_table, folder=tmp_path)
    plain, other = renaming(""), renaming(odd, wrapped=HANDED_ON.get(case, ()), shout=True)
    expected, found = ([n.rows(part) for part in case(n)] for n in (plain, other))
    assert any(expected)
    assert found == expected
    for name in plain.columns_used - other.wrapped - READ_AS_JSON.get(case, set()) if odd != MAPPED else ():
        holding = renaming("", wrapped=[name])
        with pytest.raises(PatternError, match=f"(?<![a-z]){name}(?![a-z])|^measure pages "):
            [holding.rows(part) for part in case(holding)]


def _diverted(rows, **options):
    return divert_unprocessable(rows, **{"schema": {"a": "INT"}, "identity": ["b"], **options})


def _filtered(rows):
    split = Split(rows.withColumn("part", F.lit("valid")), {"valid": tuple(rows.columns)}, outcome="part")
    return intercept_filters(split, conditions={"c": "true"})


def _entity(rows):
    return sessionize_partition(
        rows, None, rule=SessionRule(entity=["__dedp_ends"], event_time="b", event_id="a", gap_seconds=1), until=at(1)
    )


@pytest.mark.parametrize(
    ("columns", "use"),
    [
        ("a STRING, b INT, `a text` STRING", partial(_diverted, carry=["a text"])),
        ("a STRING, b INT, `a text` STRING", partial(_diverted, schema={"a": "INT", "a text": "STRING"})),
        ("a STRING, b INT", partial(_diverted, raw=["b"])),
        ("a STRING, b INT", partial(_diverted, schema={"__dedp_misfits": "INT"}, payload="a")),
        ("a INT, filtered_by STRING", _filtered),
        ("__dedp_ends STRING, a INT, b TIMESTAMP", _entity),
        ("a INT, b INT", partial(add_stable_key, entity=["a"], appended=["b"], key=FIRST)),
        ("a INT, b INT", partial(add_stable_key, entity=["a"], appended=["b"], key="__dedp_record")),
        ("__dedp_rows INT", partial(deduplicator.judge_uniqueness, keys=["__dedp_rows"])),
        ("__dedp_key INT", partial(judge_reference, keys=["__dedp_key"])),
    ],
)
def test_a_column_that_is_called_as_one_that_is_added_is_refused(spark, columns, use):
    """What a step adds would take the place of the user's own column: the refusal names it, and no row is wrong."""
    with pytest.raises(ConfigError, match=r"a text|\['b'\]|__dedp_|filtered_by|first_record"):
        use(spark.createDataFrame([], columns))


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "a{b", "a)b", "a\nb", "a\tb", "a=b"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_name_that_no_file_can_have_is_refused_when_the_table_is_made(make_table, name, inside):
    """Delta says which name it does not take, of a column or inside of one; nothing is left of the table."""
    nested = Column(f"STRUCT<{identifier(name)}: INT>")
    table = make_table(TableSpec("names/refused", {"id": Column("INT"), "s" if inside else name: nested}))
    told = re.escape(name.partition("\n")[0])
    words = rf"names/refused cannot be made as it is declared: .*invalid character.*names:.*{told}"
    with pytest.raises(ConfigError, match=words):
        table.ensure()
    assert not table.ledger.exists()


def test_what_an_earlier_filter_dropped_keeps_its_reason(spark):
    """A second filter passes the rows through that the first one dropped, as it says of every other part."""
    ages = spark.createDataFrame([(1, 20), (2, 1), (3, 30)], "id INT, age INT")
    split = intercept_filters(intercept_filters(ages, conditions={"a": "age > 3"}), conditions={"b": "age > 25"})
    assert sorted(map(tuple, split["filtered"].collect())) == [(1, 20, "b"), (2, 1, "a")]


@pytest.mark.parametrize("name", ["contents", "key_contents"])
def test_a_dead_letter_is_found_again_whatever_its_identity_is_called(spark, name):
    """The names by which letters are looked up are no names of columns that are added on the way."""
    lines = spark.createDataFrame([(1, '{"x": 1}')], f"{name} INT, line STRING")
    split = divert_unprocessable(lines, lines, payload="line", schema={"x": "INT"}, identity=[name])
    assert [row["was_dead_lettered"] for row in split["valid"].collect()] == [True]
