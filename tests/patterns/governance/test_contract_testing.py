"""Contract Testing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import product

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types.conversion import MISFITS, convert_json
from dedp_assets.patterns.governance._contracts import Contract, Quality, Sla
from dedp_assets.patterns.governance.contract_testing import Expectation, verify_consumer, verify_producer
from tests.contracts.known_calls import known_calls

ORDERS = Contract(
    name="silver/orders",
    version="1.2.0",
    owner="team:checkout",
    columns={
        "order_id": Column("STRING", required=True),
        "status": Column("STRING", required=True),
        "amount": Column("INT"),
        "ship": Column("STRUCT<to: STRING NOT NULL, weight: DECIMAL(6,2)>"),
        "tags": Column("ARRAY<STRING>"),
        "prices": Column("MAP<STRING, DECIMAL(10,2)>"),
        "day": Column("DATE", required=True),
        "at": Column("TIMESTAMP"),
    },
    partition_by=["day"],
    quality=Quality(
        checks={"positive": "amount > 0"},
        null_shares={"amount": 0.5},
        allowed={"status": ["pending", "shipped"]},
        daily_rows_min=2,
        daily_rows_max=4,
    ),
    sla=Sla(fresh_hours=1, due="06:40"),
)
REVENUE = Expectation(
    consumer="revenue",
    columns={"order_id": "STRING", "status": "STRING", "amount": "BIGINT", "ship": "STRUCT<to: STRING>"},
    required=["order_id", "status"],
    expected_values={"status": ["shipped"]},
    known_values={"status": ["pending", "shipped", "returned"]},
    partition_by=["day"],
    sla=Sla(fresh_hours=2, due="07:00"),
    daily_rows_min=1,
    daily_rows_max=10,
)


def test_a_contract_that_promises_enough_passes():
    """More than is needed is no fault: narrower types, further fields, fewer values, an earlier deadline."""
    assert verify_consumer(ORDERS, REVENUE).passed


def test_an_added_optional_field_passes():
    """At the top, and inside a struct that the consumer reads."""
    more = {**ORDERS.columns, "note": Column("STRING"), "ship": Column("STRUCT<to: STRING NOT NULL, by: STRING>")}
    assert verify_consumer(replace(ORDERS, columns=more), REVENUE).passed


def without(name):
    return {each: column for each, column in ORDERS.columns.items() if each != name}


def changed(name, column):
    return replace(ORDERS, columns={**ORDERS.columns, name: column})


QUALITY = ORDERS.quality
BREAKING = {
    "column gone": (replace(ORDERS, columns=without("amount"), quality=Quality()), "amount is not there"),
    "column of another type": (changed("amount", Column("STRING")), "amount is STRING, read as BIGINT"),
    "wider than it is read": (changed("amount", Column("DECIMAL(20,0)")), "amount is DECIMAL"),
    "field gone": (changed("ship", Column("STRUCT<by: STRING>")), "ship is STRUCT<by: STRING>, read as"),
    "values may be missing": (changed("order_id", Column("STRING")), "order_id may be NULL"),
    "value that is looked for": (
        replace(ORDERS, quality=replace(QUALITY, allowed={"status": ["pending"]})),
        "status is never shipped",
    ),
    "value that is not handled": (
        replace(ORDERS, quality=replace(QUALITY, allowed={"status": ["pending", "shipped", "lost"]})),
        "status may be lost, which is not handled",
    ),
    "any value": (replace(ORDERS, quality=replace(QUALITY, allowed={})), "status may be any value"),
    "partition": (replace(ORDERS, partition_by=[]), "partitioned by nothing, read by day"),
    "freshness": (replace(ORDERS, sla=replace(ORDERS.sla, fresh_hours=3)), "freshness is 3 h, needed are 2 h"),
    "no freshness": (replace(ORDERS, sla=replace(ORDERS.sla, fresh_hours=None)), "freshness is not promised"),
    "deadline": (replace(ORDERS, sla=replace(ORDERS.sla, due="07:01")), "due at 07:01 UTC, needed at 07:00 UTC"),
    "deadline a day later": (replace(ORDERS, sla=replace(ORDERS.sla, days_after=1)), "due at 06:40 UTC 1 days later"),
    "calendar": (replace(ORDERS, sla=replace(ORDERS.sla, weekdays=["monday"])), "due at 06:40 UTC on monday"),
    "no deadline": (replace(ORDERS, sla=Sla(fresh_hours=1)), "no deadline is promised"),
    "fewer rows": (replace(ORDERS, quality=replace(QUALITY, daily_rows_min=0)), "0 at least, needed are 1"),
    "more rows": (
        replace(ORDERS, quality=replace(QUALITY, daily_rows_max=None)),
        "not promised at most, needed are 10",
    ),
}


@pytest.mark.parametrize("change", BREAKING)
def test_a_breaking_change_of_the_producer_fails_the_consumers_test(change):
    """By types, values and service level, before the change is merged; the note names consumer, table and version."""
    contract, said = BREAKING[change]
    found = verify_consumer(contract, REVENUE)
    assert found.refuses
    assert found.note.startswith("revenue cannot read silver/orders 1.2.0: ")
    assert said in found.note


def test_all_violations_are_named_at_once():
    """Not the first alone."""
    columns = {"order_id": Column("BIGINT"), "status": Column("STRING", required=True)}
    bare = replace(ORDERS, columns=columns, partition_by=[], quality=Quality(), sla=Sla())
    assert len(verify_consumer(bare, REVENUE).figures["violations"]) == 10


def test_a_status_that_never_comes_is_found():
    """As in the source: the contract has no `completed`, and the revenue is filtered by it."""
    assert not verify_consumer(ORDERS, replace(REVENUE, expected_values={"status": ["completed"]})).passed


NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
GOOD = {"order_id": "a", "status": "pending", "amount": 3, "day": date(2026, 1, 5)}
FULL = {
    **GOOD,
    "ship": {"to": "Ada", "weight": Decimal("12.50")},
    "tags": ["a", None],
    "prices": {"EUR": Decimal("1.20")},
    "at": NOON,
}


def test_sample_records_that_keep_the_contract_pass():
    """As Python values and as texts of JSON; rules in SQL are named as not verified."""
    found = verify_producer(ORDERS, [FULL, {**GOOD, "day": "2026-01-05", "at": "2026-01-05T12:00:00Z"}])
    assert found.passed, found.note
    assert found.figures["not_verified"] == ["positive"]


WRONG = {
    "column missing": ({"status": "pending", "day": date(2026, 1, 5)}, "order_id is required and not there"),
    "required and NULL": ({**GOOD, "order_id": None}, "order_id is required and NULL"),
    "undeclared column": ({**GOOD, "note": 1}, "note is not in the contract"),
    "value that is not allowed": ({**GOOD, "status": "completed"}, "status must be one of pending, shipped"),
    "text for a number": ({**GOOD, "amount": "3"}, "amount must be INT, not '3'"),
    "truth for a number": ({**GOOD, "amount": True}, "amount must be INT, not True"),
    "too large": ({**GOOD, "amount": 2**31}, "amount must be INT"),
    "no date": ({**GOOD, "day": "yesterday"}, "day must be DATE"),
    "time for a date": ({**GOOD, "day": NOON}, "day must be DATE"),
    "no time": ({**GOOD, "at": 5}, "at must be TIMESTAMP"),
    "field missing": ({**GOOD, "ship": {"weight": Decimal(1)}}, "a struct without to"),
    "field unknown": ({**GOOD, "ship": {"to": "x", "by": 1}}, "a struct with by"),
    "field of another type": ({**GOOD, "ship": {"to": "x", "weight": "1,5"}}, "'1,5' in weight"),
    "too many digits": ({**GOOD, "ship": {"to": "x", "weight": Decimal("0.001")}}, "in weight"),
    "no struct": ({**GOOD, "ship": "x"}, "ship must be STRUCT"),
    "no list": ({**GOOD, "tags": "ab"}, "tags must be ARRAY<STRING>, not 'ab'"),
    "list of others": ({**GOOD, "tags": ["a", 1]}, "tags must be ARRAY<STRING>, not 1"),
    "no map": ({**GOOD, "prices": [1]}, "prices must be MAP"),
    "map of others": ({**GOOD, "prices": {"EUR": 1.5}}, "not 1.5"),
    "key of another type": ({**GOOD, "prices": {1: Decimal(1)}}, "prices must be MAP<STRING, DECIMAL(10,2)>, not 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_each_class_of_fault_is_found_in_a_sample(case):
    """With the version of the contract, the number of records and the first of them."""
    record, said = WRONG[case]
    found = verify_producer(ORDERS, [GOOD, record])
    assert found.refuses
    assert found.note.startswith("silver/orders 1.2.0: ")
    assert said in found.note
    assert "(1 of 2 records, first 1)" in found.note


@pytest.mark.parametrize(("text", "passes"), [("12345", True), ("123456", False), ("12\U0001f600", True)])
def test_a_text_is_no_longer_than_its_column(text, passes):
    """In characters, as Delta counts them; whatever the spelling of the type."""
    for kind in ("VARCHAR(5)", "varchar ( 5 )", "CHAR(5)"):
        found = verify_producer(changed("code", Column(kind)), [{**GOOD, "code": text}])
        assert found.passed == passes
        assert passes or f"code must be {kind}, not '123456'" in found.note


def test_case_is_no_difference_of_names():
    """Of columns, fields, keys and records, for producer and consumer: Spark and Delta tell no names apart by it."""
    record = {name.upper(): value for name, value in {**GOOD, "ship": {"TO": "Ada", "Weight": 1}}.items()}
    assert verify_producer(ORDERS, [record]).passed
    assert "AMOUNT is not in the contract" in verify_producer(ORDERS, [{**GOOD, "AMOUNT": 3}]).note
    upper = {name.upper(): kind.upper() for name, kind in REVENUE.columns.items()}
    assert verify_consumer(ORDERS, replace(REVENUE, columns=upper, partition_by=["Day"])).passed
    known = replace(REVENUE, columns=upper, known_values={"Status": ["pending"]})
    assert "STATUS may be shipped, which is not handled" in verify_consumer(ORDERS, known).note


def test_a_type_that_only_spark_can_read_is_named_as_not_verified():
    """Nothing is passed in silence."""
    found = verify_producer(changed("wait", Column("INTERVAL DAY")), [{**GOOD, "wait": "soon"}])
    assert found.passed
    assert found.figures["not_verified"] == ["positive", "wait is INTERVAL DAY"]


def test_several_faults_of_several_records_are_all_named():
    """Each kind once, with its count."""
    wrong = {**GOOD, "status": "x", "amount": "y"}
    found = verify_producer(ORDERS, [wrong, wrong, {**GOOD, "order_id": None}])
    assert len(found.figures["violations"]) == 3
    assert "(2 of 3 records, first 0)" in found.note


def test_no_records_and_nothing_but_missing_values_are_violations():
    """No division by zero, and no silent pass, as in the source."""
    assert "no records: nothing is proved" in verify_producer(ORDERS, []).note
    assert "order_id is required and NULL (2 of 2" in verify_producer(ORDERS, [{**GOOD, "order_id": None}] * 2).note


@pytest.mark.parametrize(("missing", "passes"), [(1, True), (2, True), (3, False)])
def test_the_bound_of_missing_values_is_inclusive(missing, passes):
    """A share of exactly one half keeps a bound of one half."""
    records = [{**GOOD, "amount": None}] * missing + [GOOD] * (4 - missing)
    assert verify_producer(ORDERS, records).passed == passes


@pytest.mark.parametrize(("rows", "passes"), [(1, False), (2, True), (4, True), (5, False)])
def test_the_volume_counts_for_whole_days_only_and_its_bounds_are_inclusive(rows, passes):
    """A part of a day is held to no volume: the source refused every small batch."""
    assert verify_producer(ORDERS, [GOOD] * rows, whole_day=True).passed == passes
    assert verify_producer(ORDERS, [GOOD] * rows).passed


def test_an_expectation_about_columns_that_are_not_read_is_refused():
    """By the name of the option."""
    with pytest.raises(ConfigError, match="expected_values must name columns that are read, not nope"):
        replace(REVENUE, expected_values={"nope": ["x"]})


KINDS = [
    "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4,2)", "BOOLEAN", "STRING", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ", "BINARY", "ARRAY<INT>", "STRUCT<a: INT, b: STRING>",
]  # fmt: skip
VALUES = [
    0, 127, 128, -129, 2**31, 2**63, -(2**63), 10**40, 0.0, 1.0, 0.1, 1e300, 1e-300, True, False, "", "a", "1", "1.5",
    "true", "99.99", "99.999", "100", "-0.01", "1e2", "NaN", "2026-01-05", "20260105", "2026-1-5", "2026-02-30",
    "0000-01-01", "2026-01-05T10:00:00", "2026-01-05 10:00:00", "2026-01-05T10:00:00Z", "2026-01-05T10:00:00+01:00",
    "2026-01-05T10", "2026-01-05T10:00:00.1234567Z", "2026-01-05T24:00:00Z", "2026-W02-1", "AP8=", "AP8", "\u00e9",
    [], [1],
    [1, None], [1.0], ["1"], {}, {"a": 1}, {"A": 1, "B": "x"}, {"a": "1"}, {"c": 1}, {"a": None, "b": ""},
]  # fmt: skip


@pytest.mark.spark
def test_a_sample_that_passes_is_one_that_the_table_takes(spark):
    """Each value as each type; the table takes more spellings, of which a producer is not told."""
    columns = {f"c{number}": Column(kind) for number, kind in enumerate(KINDS)}
    contract = Contract(name="silver/x", version="1.0.0", owner="team:x", columns=columns)
    texts = [(n, json.dumps(dict.fromkeys(columns, value))) for n, value in enumerate(VALUES)]
    rows = spark.createDataFrame(texts, "n INT, record STRING")
    found = convert_json(rows, "record", {name: column.type for name, column in columns.items()})
    refused = {row["n"]: " ".join(row[MISFITS] or ()) for row in found.collect()}
    for (number, value), (name, column) in product(enumerate(VALUES), columns.items()):
        passes = verify_producer(contract, [{name: value}]).passed
        assert not passes or f"{name} is not" not in refused[number], (column.type, value)


@known_calls
def calls_that_work(known):
    columns = {"day": Column("DATE"), "user": Column("STRING")}
    daily = Contract(name="gold/daily", version="1.0.0", owner="team:web", columns=columns)
    records = [{"day": date(2026, 1, 5), "user": "Ada"}]
    return {"verify_producer": {"contract": daily, "records": records, "whole_day": True}}
