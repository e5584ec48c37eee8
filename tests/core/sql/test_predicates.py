"""Predicates that are known to be sound without Spark: never one that Spark refuses."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.sql.predicates import is_sound

KINDS = {
    "id": "long",
    "amount": "decimal(9,2)",
    "x y": "double",
    "name": "string",
    "day": "date",
    "at": "timestamp",
    "ok": "boolean",
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
    "left": "integer",
    "ti`ck": "string",
    "case": "integer",
    "e": "integer",
}
DECLARED = "id BIGINT, amount DECIMAL(9,2), `x y` DOUBLE, name STRING, day DATE, at TIMESTAMP, ok BOOLEAN"
OTHERS = "tags ARRAY<STRING>, `left` INT, `ti``ck` STRING, `case` INT, e INT"


@pytest.mark.parametrize(
    "predicate",
    [
        "amount IS NULL OR amount >= 0",
        "ID>0 and not (name in ('a', 'b') or name not like 'x%')",
        "id BETWEEN -1 AND 599 AND amount NOT BETWEEN 1.5 AND `x y`",
        "(`ti``ck` is  not\nnull)",
        "day = day AND at <> at",
        "tags IS NOT NULL",
        "left < 3",
    ],
)
def test_the_usual_predicates_are_known_to_be_sound(predicate):
    """Comparisons within one family of types, IN, BETWEEN, LIKE, IS NULL, and their combinations."""
    assert is_sound(predicate, KINDS)


UNKNOWN = r"""
id | ok | id > | > 0 | = IS NULL | (id > 0 | id > 0) | id > 0 OR | id IS NULL IS NULL | id id > 0 | nothing > 0
id > 'a' | name > 0 | tags = tags | id > 0; DROP TABLE x | id > 0 -- why | id > /* 1 */ 0 | length(name) > 0
id + 1 > 0 | id > 1e400 | id > 1.2.3 | name = 'a' 'b' | name = 'a\' | name = 'it''s' | case > 0 | id > 0 > 1
s.id > 0 | id.x > 0 | tags[0] = 'a' | id IN () | id IN (1, 'a') | name = '$x' | id BETWEEN 1 | id LIKE 'a' | ok = 1
day > '2026-01-05' | id == 1 | `id > 0 | NOT id | id NOT > 0
"""


@pytest.mark.parametrize("predicate", ["", *re.split(r" \| |\n", UNKNOWN.strip())])
def test_everything_else_is_left_to_spark(predicate):
    """Whether Spark refuses it, or knows more than is known here."""
    assert not is_sound(predicate, KINDS)


WORDS = "AND|OR|NOT|IS NULL|IS NOT NULL|BETWEEN|IN|LIKE|(|)|,|=|<=>|<|!=|1|-2|1.5|'a'|-|--|.|date|1e5"
NAMES = "id|amount|`x y`|name|day|ok|tags|left|case|e"
PARTS = st.sampled_from(f"{NAMES}|{WORDS}".split("|"))
VALUES = st.sampled_from(["id", "amount", "name", "day", "left", "1", "-2.5", "'a'", "`x y`", "e"])
SIMPLE = st.one_of(
    st.tuples(VALUES, st.sampled_from(["=", "<", "<=>"]), VALUES).map(" ".join),
    st.tuples(VALUES, VALUES, VALUES).map(lambda v: f"{v[0]} BETWEEN {v[1]} AND {v[2]}"),
    st.tuples(VALUES, VALUES, VALUES).map(lambda v: f"{v[0]} NOT BETWEEN {v[1]} AND {v[2]}"),
    st.tuples(VALUES, VALUES, VALUES).map(lambda v: f"{v[0]} IN ({v[1]}, {v[2]})"),
    VALUES.map(lambda value: f"{value} IS NOT NULL"),
)
COMBINED = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR ", " = ", " "]), inner).map("".join),
        inner.map(lambda one: f"NOT {one}"),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=4,
)


@pytest.fixture
def rows(spark):
    """No rows, with columns of every type."""
    return spark.createDataFrame([], f"{DECLARED}, {OTHERS}")


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(predicates=st.lists(st.one_of(COMBINED, st.lists(PARTS, min_size=2, max_size=7).map(" ".join)), min_size=40))
def test_what_is_known_to_be_sound_spark_can_evaluate(predicates, rows):
    """Generated from the words of predicates, well formed and not: whatever passes here passes there."""
    sound = [each for each in predicates if is_sound(each, KINDS)]
    if sound:
        assert rows.filter(" AND ".join(f"({each})" for each in sound)).schema == rows.schema
