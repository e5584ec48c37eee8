"""Texts of query plans, read without Spark: saved ones, damaged ones, and texts that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.types.exact import DAY, OFFSET, PARTS_OF_NUMBERS, TIME, exact
from dedp_assets.patterns.observability._plans import CUT, lineage_of
from dedp_assets.patterns.observability._plans.tree import parsed

PLAN = """== Parsed Logical Plan ==
'Project [*]
+- 'UnresolvedRelation [q], [], false

== Analyzed Logical Plan ==
n: string, total: double
Project [n#24, total#25, tag#30, top#31]
+- SubqueryAlias _pyspark_a52018
   +- View (`_pyspark_a52018`, [n#24, total#25, tag#30, top#31])
      +- WithCTE
         :- CTERelationDef 0, false
         :  +- SubqueryAlias u
         :     +- Project [id#0L, upper(first_name#1) AS n#24, tags#2]
         :        +- Filter (country#3 = de)
         :           +- SubqueryAlias `table bronze/users`
         :              +- Relation [id#0L,first_name#1,tags#2,country#3] parquet
         +- Project [n#44, total#25, tag#30, scalar-subquery#40 [id#43L] AS top#31]
            :  +- Aggregate [max(amount#12) AS max(amount)#50]
            :     +- Filter (user_id#11L = outer(id#43L))
            :        +- View (`orders`, [order_id#10L, user_id#11L, amount#12])
            :           +- LogicalRDD [order_id#10L, user_id#11L, amount#12], false
            +- Generate explode(tags#45), false, [tag#30]
               +- Join Inner, (id#43L = user_id#21L)
                  :- CTERelationRef 0, true, [id#43L, n#44, tags#45], false, false
                  +- Aggregate [user_id#21L], [user_id#21L, sum(amount#22) AS total#25]
                     +- View (`orders`, [order_id#20L, user_id#21L, amount#22])
                        +- LogicalRDD [order_id#20L, user_id#21L, amount#22], false

== Optimized Logical Plan ==
Project [n#24]
"""
COLUMNS = ["n", "total", "tag", "top"]
SHOWN = PLAN.replace("Project [n#24, total", "Project [n#44, total", 1)


def told(lineage):
    """Column -> inputs, and the influences."""
    inputs = {
        name: [f"{each.transformation} {each}" for each in origin.inputs] for name, origin in lineage.columns.items()
    }
    return inputs, [f"{each.effect} {each}" for each in lineage.influences]


def test_a_saved_plan_is_read_without_spark():
    """A table by its name, a WITH clause under new ids, a correlated subquery, a join of an aggregate."""
    lineage = lineage_of(SHOWN, COLUMNS, {})
    assert told(lineage) == (
        {
            "n": ["TRANSFORMATION bronze/users.first_name"],
            "total": ["AGGREGATION orders.amount"],
            "tag": ["TRANSFORMATION bronze/users.tags"],
            "top": ["AGGREGATION orders.amount"],
        },
        [
            "FILTER bronze/users.country",
            "FILTER bronze/users.id",
            "JOIN bronze/users.id",
            "FILTER orders.user_id",
            "GROUP_BY orders.user_id",
            "JOIN orders.user_id",
        ],
    )
    assert not lineage.gaps


def test_the_tree_follows_the_lines():
    """Subqueries stand apart from what a node reads; a text with a line break stays in its node."""
    root = parsed("Project [a#1]\n:  +- Range (0, 1)\n+- Filter (b#2 = x\ny)\n   +- OneRowRelation\n")
    assert [each.text for each in root.subqueries] == ["Range (0, 1)"]
    assert [each.text for each in root.children] == ["Filter (b#2 = x\ny)"]
    assert root.children[0].children[0].depth == 2


def test_what_is_unknown_is_opaque_and_the_rest_is_not():
    """A node of a later Spark, a branch that is not understood, a cut list, no plan at all."""
    later = SHOWN.replace("Generate explode(tags#45), false, [tag#30]", "Sprinkle explode(tags#45), [tag#30]")
    lineage = lineage_of(later, COLUMNS, {})
    assert all(
        "Sprinkle of the plan is not understood" in lineage.columns[name].opaque for name in ("n", "total", "tag")
    )
    assert [each.table for each in lineage.columns["top"].inputs] == ["orders"]
    assert lineage.gaps
    odd = SHOWN.replace("sum(amount#22) AS total#25]", "sum(amount#22) AS total#25, (")
    assert lineage_of(odd, COLUMNS, {}).columns["total"].opaque
    cut = SHOWN.replace("order_id#10L, user_id#11L", "... 2 more fields")
    assert {each.opaque for each in lineage_of(cut, COLUMNS, {}).columns.values()} == {CUT}
    assert lineage_of("", COLUMNS, {}).columns["n"].opaque == "the plan has no analysed part"
    assert lineage_of(SHOWN, ["x"], {}).columns["x"].opaque


def test_patterns_with_many_brackets_are_texts_or_opaque():
    """Of an exact conversion: read; of anything else: not read in all ways, of which there are billions."""
    exact = [rf"RLIKE(first_name#1, {part})" for part in PARTS_OF_NUMBERS]
    exact += [rf"RLIKE(first_name#1, \A(?:{DAY}[T ]{TIME}{zone})\z)" for zone in ("", OFFSET)] * 3
    many = f"regexp_extract(first_name#1, ^{'([a-z]+)://([^/]+)(/.*)?' * 4}$, 1)"
    for value, is_read in ((" AND ".join(f"({each} = true)" for each in exact), True), (many, False)):
        lineage = lineage_of(SHOWN.replace("upper(first_name#1)", f"({value})", 1), COLUMNS, {})
        assert (lineage.columns["n"].opaque == "") is is_read
        assert [str(each) for each in lineage.columns["n"].inputs] == ["bronze/users.first_name"]
        assert not any(lineage.columns[name].opaque for name in ("total", "tag", "top"))


PIECES = st.sampled_from(
    [
        *["[", "]", "(", ")", ",", "#1", "#24", "n#44", "if(", "Union", "Expand[[", "struct(", ")#7", "stack(2,"],
        " AS ",
        "CASE WHEN ",
        " THEN ",
        " END",
        "\n",
        "+- ",
        ":- ",
        "   ",
        " FILTER (",
        "list#1 [",
        " windowspecdefinition(",
    ]
)


@given(st.lists(st.tuples(st.integers(0, len(SHOWN)), st.integers(0, 40), PIECES | st.text(max_size=5)), max_size=6))
def test_no_text_raises_an_error(changes):
    """Whatever happened to a plan: there is an answer for each column, and no input that the plan does not have."""
    text = SHOWN
    for place, length, piece in changes:
        text = text[:place] + piece + text[place + length :]
    lineage = lineage_of(text, COLUMNS, {})
    assert [*lineage.columns] == COLUMNS
    assert all(name in text for origin in lineage.columns.values() for each in origin.inputs for name in each.column)


@given(st.text(max_size=200))
def test_any_expression_has_an_answer(text):
    """Also within a plan that is sound otherwise."""
    lineage = lineage_of(SHOWN.replace("upper(first_name#1)", text.replace("\ue000", "")), COLUMNS, {})
    assert [*lineage.columns] == COLUMNS


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATE", "DECIMAL(10,2)", "BINARY", "BIGINT"])
@pytest.mark.parametrize("brackets", [1, 2, 30])
def test_a_long_regular_expression_is_answered_and_keeps_its_inputs(kind, brackets):
    """Of a landed value's dozens of brackets there are more readings than anybody can look at: then it is opaque."""
    text = exact("first_name#1", kind) + ")]".join(["first_name#1"] * brackets)
    lineage = lineage_of(SHOWN.replace("upper(first_name#1)", text), COLUMNS, {})
    assert [str(each) for each in lineage.columns["n"].inputs] == ["bronze/users.first_name"]
    assert lineage.columns["n"].opaque or kind not in ("TIMESTAMP", "DECIMAL(10,2)")
    assert not lineage.columns["total"].opaque
