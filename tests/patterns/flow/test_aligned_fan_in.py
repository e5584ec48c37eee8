"""Aligned Fan-In."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.flow.aligned_fan_in import BranchState, join_branches, plan_aligned, unite_branches
from tests.contracts.known_calls import known_calls

HOURS = [f"2026-01-05-{hour:02d}" for hour in range(24)]
STATES = ("succeeded", "failed", "running", "waiting")


def branch(state, version=1):
    return BranchState(state, version if state == "succeeded" else None)


def test_a_day_waits_for_the_one_hour_of_24_that_failed():
    """And says which; with it the day is chosen, at the newest version of its hours."""
    hours = {hour: branch("succeeded", number) for number, hour in enumerate(HOURS, 1)}
    waiting = plan_aligned({"2026-01-05": {**hours, HOURS[7]: branch("failed")}})
    assert waiting.partitions == ()
    assert waiting.held == {"2026-01-05": "waits for 1 of 24: 2026-01-05-07 (failed)"}
    ready = plan_aligned({"2026-01-05": hours})
    assert (ready.partitions, ready.cursor, ready.held) == (("2026-01-05",), {"2026-01-05": 24}, {})


branches = st.dictionaries(
    st.sampled_from(["mon", "tue", "wed"]),
    st.dictionaries(st.sampled_from(HOURS), st.builds(branch, st.sampled_from(STATES), st.integers(0, 9)), min_size=1),
)


@given(branches)
def test_the_plan_is_the_and_of_its_branches(by_day):
    """Whatever the states: a partition is chosen if all of them succeeded, and is held otherwise, by name."""
    plan = plan_aligned(by_day)
    for day, hours in by_day.items():
        lacking = sorted(hour for hour, each in hours.items() if each.state != "succeeded")
        assert (day in plan.partitions) == (not lacking)
        assert (day in plan.held) == bool(lacking)
        assert all(hour in plan.held[day] for hour in lacking)
        if not lacking:
            assert plan.cursor[day] == max(each.version for each in hours.values())
    assert list(plan.partitions) == sorted(plan.partitions)


def test_a_partition_without_branches_and_a_success_without_a_version_are_refused():
    """Nobody could say of what it is complete, nor which version to apply."""
    with pytest.raises(ConfigError, match="branches must name the upstream partitions of mon, not none"):
        plan_aligned({"mon": {}})
    with pytest.raises(ConfigError, match=r"^version must be that of a success alone, not None \(succeeded\)"):
        BranchState("succeeded")
    with pytest.raises(ConfigError, match=r"not 3 \(failed\)"):
        BranchState("failed", 3)


@pytest.mark.spark
def test_columns_in_another_order_are_united_by_name(spark):
    """By position, a page would have to become an identity."""
    one = spark.createDataFrame([(1, "/a")], "`the id` INT, `page.url` STRING")
    other = spark.createDataFrame([("/b", 2)], "`Page.URL` STRING, `THE ID` INT")
    united = unite_branches(one, other)
    assert united.schema.simpleString() == "struct<the id:int,page.url:string>"
    assert sorted(map(tuple, united.collect())) == [(1, "/a"), (2, "/b")]
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        one.union(other).collect()


@pytest.mark.spark
def test_a_column_that_a_branch_lacks_is_refused_or_null_and_never_another_one(spark):
    """On either side; NULL is what the branch's own rows get, if that is stated."""
    one = spark.createDataFrame([(1, "/a")], "id INT, page STRING")
    other = spark.createDataFrame([(2, "Ada")], "id INT, user STRING")
    lacks = "the rows lack user; the other branch lacks page: add the column, or state missing='null'"
    with pytest.raises(SchemaMismatch, match=lacks):
        unite_branches(one, other)
    filled = unite_branches(one, other, missing="null")
    assert filled.columns == ["id", "page", "user"]
    assert sorted(map(tuple, filled.collect())) == [(1, "/a", None), (2, None, "Ada")]


@pytest.mark.spark
def test_a_column_of_another_type_is_refused_unless_no_value_changes(spark):
    """A number that became a text is refused by name; an INT beside a BIGINT is a BIGINT."""
    one = spark.createDataFrame([(1,)], "views INT")
    with pytest.raises(SchemaMismatch, match="views is INT in the rows and STRING in the other branch"):
        unite_branches(one, spark.createDataFrame([("1",)], "views STRING"))
    longer = unite_branches(one, spark.createDataFrame([(2**40,)], "views BIGINT"))
    assert sorted(map(tuple, longer.collect())) == [(1,), (2**40,)]


@pytest.mark.spark
def test_branches_are_joined_by_key_with_as_many_rows_as_keys(spark):
    """Each way of keeping keys has its number of rows; columns have odd names, and key types widen."""
    views = spark.createDataFrame([(1, 10), (2, 20)], "`the id` INT, `views.all` INT")
    visitors = spark.createDataFrame([(5, 2), (7, 3)], "visitors INT, `The Id` BIGINT")
    found = {
        keep: sorted(map(tuple, join_branches(views, visitors, keys=["the id"], keep=keep).collect()), key=str)
        for keep in ("all", "first", "both")
    }
    assert found["all"] == [(1, 10, None), (2, 20, 5), (3, None, 7)]
    assert found["first"] == [(1, 10, None), (2, 20, 5)]
    assert found["both"] == [(2, 20, 5)]
    assert join_branches(views, visitors, keys=["the id"]).schema.simpleString() == (
        "struct<the id:bigint,views.all:int,visitors:int>"
    )


@pytest.mark.spark
def test_a_branch_without_rows_adds_nulls_or_leaves_no_row_as_stated(spark):
    """On either side, no row of the other branch is lost unless both have to have the key."""
    views = spark.createDataFrame([(1, 10), (2, 20)], "id INT, views INT")
    nobody = spark.createDataFrame([], "id INT, visitors INT")
    count = {
        keep: (
            len(join_branches(views, nobody, keys=["id"], keep=keep).collect()),
            len(join_branches(nobody, views, keys=["id"], keep=keep).collect()),
        )
        for keep in ("all", "first", "both")
    }
    assert count == {"all": (2, 2), "first": (2, 0), "both": (0, 0)}


@pytest.mark.spark
@pytest.mark.parametrize("keep", ["all", "first", "both"])
def test_a_key_that_a_branch_has_twice_stops_the_job(spark, keep):
    """On either side, instead of a row for each pair; rows without a key are no such key, and meet nothing."""
    once = spark.createDataFrame([(1, 10), (None, 30)], "id INT, views INT")
    twice = spark.createDataFrame([(1, 5), (1, 6)], "id INT, visitors INT")
    for pair, side in (((once, twice), "the other branch"), ((twice, once), "the rows")):
        with pytest.raises(PySparkException, match=rf"{side} have a key \(id\) twice"):
            join_branches(*pair, keys=["id"], keep=keep).collect()
    nameless = spark.createDataFrame([(None, 7), (None, 8)], "id INT, visitors INT")
    rows = join_branches(once, nameless, keys=["id"]).collect()
    assert sorted(map(tuple, rows), key=str) == [(1, 10, None), (None, 30, None), (None, None, 7), (None, None, 8)]


@pytest.mark.spark
def test_a_join_without_a_key_or_with_a_column_of_both_is_refused(spark):
    """By name; as are keys that do not meet."""
    one = spark.createDataFrame([(1, 10)], "id INT, views INT")
    with pytest.raises(ConfigError, match="keys must name the columns that the branches have in common, not none"):
        join_branches(one, one, keys=[])
    with pytest.raises(ConfigError, match="both branches have a column views, which is no key: rename one"):
        join_branches(one, one, keys=["id"])
    with pytest.raises(ConfigError, match="the rows have no column page"):
        join_branches(one, one.select("id"), keys=["id", "page"])
    with pytest.raises(SchemaMismatch, match="id is INT in the rows and STRING in the other branch"):
        join_branches(one, spark.createDataFrame([("1",)], "id STRING"), keys=["id"])


@known_calls
def calls_that_work(known):
    other = known.frame("id INT, name STRING", (1, "Ada"))
    return {
        "unite_branches": {"rows": known.visits, "other": known.visits, "missing": "null"},
        "join_branches": {"rows": known.visits, "other": other, "keys": ["id"], "keep": "all"},
    }
