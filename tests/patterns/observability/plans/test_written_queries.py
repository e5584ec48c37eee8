"""Column lineage of queries that are written together with it: right, or marked as unknown."""

from __future__ import annotations

import pytest
from hypothesis import settings

from dedp_assets.patterns.observability.fine_grained_tracker import trace_columns
from tests.patterns.observability.plans.written_queries import ODD, PLAIN, TABLES, query

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "the plans of a hundred wide queries")]
COUNT = settings().max_examples // 2
"""Queries of a test: more of them with `make fuzz`."""


@pytest.fixture(autouse=True)
def _views(spark):
    """Temporary views without rows: a plan needs none."""
    for name, columns in TABLES.items():
        spark.createDataFrame([], columns).createOrReplaceTempView(name)


def traced(spark, found):
    """Inputs of each column, why it is opaque, the influences, and the gaps."""
    lineage = trace_columns(spark.sql(found.sql))
    inputs = {name: frozenset(map(str, each.inputs)) for name, each in lineage.columns.items()}
    opaque = {name: each.opaque for name, each in lineage.columns.items() if each.opaque}
    return inputs, opaque, frozenset(f"{each.effect} {each}" for each in lineage.influences), lineage.gaps


def test_the_lineage_of_a_query_is_the_one_that_it_was_written_with(spark):
    """Casts, nested fields, cases, unions, windows, views of arrays, subqueries; unknown where a plan does not tell."""
    for seed in range(COUNT):
        found = query(seed, PLAIN)
        inputs, opaque, influences, gaps = traced(spark, found)
        assert opaque.keys() <= {*found.hard}, (opaque, found.sql)
        right = {name: each for name, each in inputs.items() if name not in opaque}
        assert right == {name: found.columns[name] for name in right}, found.sql
        assert gaps or influences == found.influences, found.sql


def test_texts_that_look_like_a_plan_make_no_column_wrong(spark):
    """Brackets, commas, quotes, names with ids, words of a CASE, nodes: unknown at most, and mostly not even that."""
    right = unknown = 0
    for seed in range(COUNT, 2 * COUNT):
        found = query(seed, ODD)
        inputs, opaque, influences, gaps = traced(spark, found)
        for name in inputs.keys() - opaque.keys():
            assert inputs[name] == found.columns[name], (name, found.sql)
        assert gaps or influences == found.influences, found.sql
        right, unknown = right + len(inputs) - len(opaque), unknown + len(opaque)
    assert unknown < right


BRACKETS = (
    "SELECT concat(name, '{}') AS a, address.zip AS b, CAST(address.zip AS INT) + 1 AS c, upper(name) AS d FROM people"
)


@pytest.mark.parametrize("text", ["(", ")", "[", "]", "((", ")]", ", (", "a) AS x", "it''s", '"', "], ["])
def test_a_bracket_in_a_text_is_no_concern_of_other_columns(spark, text):
    """Nor of its own, where nothing else could be meant."""
    lineage = trace_columns(spark.sql(BRACKETS.format(text)))
    assert {name: [*map(str, each.inputs)] for name, each in lineage.columns.items()} == {
        "a": ["people.name"],
        "b": ["people.address.zip"],
        "c": ["people.address.zip"],
        "d": ["people.name"],
    }
    assert not any(each.opaque for each in lineage.columns.values())
