"""Distributed Aggregator."""

from __future__ import annotations

import io
import math
import re
from collections import defaultdict
from contextlib import redirect_stdout
from decimal import Decimal
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.value import _states
from dedp_assets.patterns.value.distributed_aggregator import (
    GROUPING,
    aggregate,
    aggregate_query,
    merge_aggregates,
)
from tests.contracts.known_calls import known_calls
from tests.renaming import any_names

COLUMNS = "case INT, shard INT, device STRING, site STRING, ms INT, cost DECIMAL(9,2), score DOUBLE, who STRING"
MEASURES = {
    "rows": "count(*)",
    "measured": "count(ms)",
    "ms": "sum(ms)",
    "cost": "sum(cost)",
    "least": "min(score)",
    "most": "max(score)",
    "who": "distinct(who)",
    "scores": "distinct(score)",
}
KEYS = ["case", "device", "site"]
SETS = [["case", "device", "site"], ["case", "device"], ["case", "site"], ["case"]]
NAN = float("nan")


def generated(cases=60, seed=7):
    """Rows of many small cases at once: values that are special, few groups, one that holds most rows, and no rows."""
    random = Random(seed)  # noqa: S311 - test data

    def row(case):
        device = random.choices(["tv", None, "", "pc"], weights=[90, 5, 3, 2])[0]
        values = (
            random.choice([None, 0, -3, 7, 2_000_000_000]),
            random.choice([None, Decimal("0.10"), Decimal("-9999999.99"), Decimal("9999999.99")]),
            random.choice([None, NAN, 0.0, -0.0, math.inf, -math.inf, 1e-300, 2.5]),
            random.choice([None, "", "a", "A", "é", "a "]),
        )
        return (case, random.randrange(3), device, random.choice([None, "x", "none"]), *values)

    return [row(case) for case in range(cases) for _ in range(random.choice([0, 1, 2, 30]))]


def same(value):
    """A value to compare by: every NaN is one, and a negative zero is a zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return tuple(map(same, value)) if isinstance(value, list | tuple) else value


def ordered(values):
    """Values in Spark's order, in which NaN is the greatest."""
    return sorted(values, key=lambda value: (value == "NaN", 0 if value == "NaN" else value))


def model(rows, *, sets=SETS):
    """What one machine computes of the same rows."""
    groups = defaultdict(list)
    for case, _, device, site, *values in rows:
        for keys in sets:
            number = ("device" not in keys) * 2 + ("site" not in keys)
            group = (case, device if "device" in keys else None, site if "site" in keys else None, number)
            groups[group].append(tuple(same(each) for each in values))
    return {group: measured(list(zip(*held, strict=True))) for group, held in groups.items()}


def measured(columns):
    ms, cost, score, who = ([value for value in column if value is not None] for column in columns)
    scores = ordered(set(score))
    return (
        len(columns[0]),
        len(ms),
        sum(ms) if ms else None,
        sum(cost) if cost else None,
        scores[0] if scores else None,
        scores[-1] if scores else None,
        tuple(sorted(set(who))),
        tuple(scores),
    )


def found(states, keys=(*KEYS, GROUPING)):
    """Groups with what was measured of them; fails if a group is there twice."""
    rows = states.select(*keys, *MEASURES).collect()
    groups = {tuple(row)[: len(keys)]: tuple(same(value) for value in tuple(row)[len(keys) :]) for row in rows}
    assert len(groups) == len(rows)
    return groups


PARTIAL = ["Filter", "HashAggregate", "Exchange"]


def steps(frame):
    """The filters, aggregates and exchanges of the physical plan, in the order in which rows meet them."""
    with redirect_stdout(io.StringIO()) as shown:
        frame.explain("formatted")
    tree = shown.getvalue().partition("\n\n")[0]
    return re.findall(r"(Filter|HashAggregate|Exchange)\b", tree)[::-1]


@pytest.fixture(scope="module")
def cases(spark):
    return generated(), spark.createDataFrame(generated(), COLUMNS).repartition(3).persist()


@pytest.mark.spark
def test_any_data_has_the_groups_of_one_machine_salted_or_not(spark, cases):
    """NULL, empty text, NaN, both zeros, infinity, a group with 90 % of the rows: as plain Python says, by any salt."""
    rows, frame = cases
    expected = model(rows)
    assert found(aggregate(frame, keys=KEYS, measures=MEASURES, sets=SETS)) == expected
    for salt in (2, 5):
        assert found(aggregate(frame, keys=KEYS, measures=MEASURES, sets=SETS, salt=salt)) == expected
    # The sign of a zero and the order of a set depend on nothing either.
    shown = aggregate(frame.coalesce(1), keys=["case"], measures=MEASURES).selectExpr("CAST(struct(*) AS STRING)")
    again = aggregate(frame, keys=["case"], measures=MEASURES, salt=4).selectExpr("CAST(struct(*) AS STRING)")
    assert sorted(shown.collect()) == sorted(again.collect())
    assert not [row for row in shown.collect() if "-0.0" in row[0]]


@pytest.mark.promise("states-merge-to-what-all")
@pytest.mark.spark
def test_states_merge_to_what_all_rows_give_in_any_grouping_and_order(spark, cases):
    """Parts of uneven size, merged at once, in two steps, and from several stores, are the whole; averages are none."""
    rows, frame = cases
    expected = model(rows)
    shards = aggregate(frame, keys=["shard", *KEYS], measures=MEASURES, sets=[["shard", *each] for each in SETS])
    merged = merge_aggregates(shards, keys=[*KEYS, GROUPING], measures=MEASURES)
    assert found(merged) == expected
    stores = [aggregate(frame.filter(f"shard = {n}"), keys=KEYS, measures=MEASURES, sets=SETS) for n in range(3)]
    assert found(merge_aggregates(*stores, keys=[*KEYS, GROUPING], measures=MEASURES)) == expected
    assert merged.schema == shards.drop("shard").schema
    twice = merge_aggregates(merged, keys=["case", GROUPING], measures=MEASURES).filter(f"{GROUPING} = 0")
    totals = {(case, 0): held for (case, _, _, number), held in expected.items() if number == 3}
    assert found(twice, keys=("case", GROUPING)) == totals


@pytest.mark.spark
def test_no_rows_are_no_groups_with_or_without_keys(spark, cases):
    """Of nothing there is no total, and nothing over everything; salted, merged or not; of a row there is."""
    nothing = cases[1].filter("false")
    for salt in (1, 3):
        assert aggregate(nothing, keys=KEYS, measures=MEASURES, sets=[*SETS, []], salt=salt).collect() == []
        assert aggregate(nothing, keys=["device"], measures=MEASURES, salt=salt).collect() == []
        states = aggregate(nothing, keys=[], measures=MEASURES, salt=salt)
        assert states.collect() == merge_aggregates(states, states, keys=[], measures=MEASURES).collect() == []
        one = aggregate(spark.range(1), keys=[], measures={"n": "count(*)", "id": "sum(id)"}, salt=salt)
        assert [tuple(row) for row in one.collect()] == [(1, 0)]
    assert aggregate_query("r", keys=[], measures={"n": "count(*)"}).endswith("FROM r HAVING count(*) > 0")


@pytest.mark.spark
def test_sketches_are_merged_and_not_added(spark):
    """Of 30,000 visitors who come on two days, the merged estimate is within five standard errors of 1.6 %, in 5 KB."""
    days = spark.range(60_000).selectExpr("id % 2 AS day", "id % 30000 AS who")
    measures = {"who": "sketch(who)"}
    states = aggregate(days, keys=["day"], measures=measures, salt=2)
    (row,) = merge_aggregates(states, keys=[], measures=measures).selectExpr("hll_sketch_estimate(who)").collect()
    assert abs(row[0] - 30_000) < 30_000 * 5 * 0.016
    assert max(len(row[0]) for row in states.select("who").collect()) < 5_000


@pytest.mark.both
def test_rows_are_aggregated_in_part_before_one_exchange(spark):
    """The plan: filter, partial aggregate, exchange by the keys, final aggregate; salted there is one exchange more."""
    rows = spark.range(0, 100, 1, 4).selectExpr("id % 7 AS `a.b`", "id AS ms").filter("ms > 9")
    assert steps(aggregate(rows, keys=["a.b"], measures={"ms": "sum(ms)"})) == [*PARTIAL, "HashAggregate"]
    salted = aggregate(rows, keys=["a.b"], measures={"ms": "sum(ms)"}, salt=3)
    assert steps(salted) == [*PARTIAL, "HashAggregate", *PARTIAL[1:], "HashAggregate"]


@pytest.mark.spark
def test_what_does_not_merge_is_refused_before_anything_runs(spark):
    """Averages, sums of floating point, unknown columns, totals beside groups, names that are taken, odd sets."""
    rows = spark.createDataFrame([], COLUMNS)
    refused = [
        ({"measures": {"a": "avg(ms)"}}, "average of averages"),
        ({"measures": {"a": "sum(score)"}}, "DECIMAL"),
        ({"measures": {"a": "sum(*)"}}, "only rows are counted"),
        ({"measures": {"device": "count(*)"}}, "names of their own"),
        ({"measures": {}}, "names of their own"),
        ({"measures": {"__dedp_a": "count(*)"}}, "names of their own"),
        ({"keys": ["nobody"]}, "no column nobody"),
        ({"salt": 0}, "at least 1"),
        ({"sets": [["device"], ["device"]]}, "different sets"),
        ({"sets": [["device"], ["DEVICE"]]}, "different sets"),
        ({"sets": [["site"]]}, "different sets"),
        ({"sets": []}, "different sets"),
    ]
    for options, message in refused:
        with pytest.raises(ConfigError, match=message):
            aggregate(rows, **{"keys": ["device"], "measures": {"a": "count(*)"}, **options})
    states = aggregate(rows, keys=["device"], measures={"a": "count(*)"}, sets=[["device"], []])
    with pytest.raises(ConfigError, match="totals hold their groups"):
        merge_aggregates(states, keys=["device"], measures={"a": "count(*)"})
    with pytest.raises(ConfigError, match="totals hold their groups"):
        merge_aggregates(
            states.withColumnRenamed("grouping_id", "GROUPING_ID"), keys=["device"], measures={"a": "count(*)"}
        )
    with pytest.raises(ConfigError, match="sums floating point"):
        merge_aggregates(rows, keys=["device"], measures={"score": "sum(score)"})


@pytest.mark.spark
def test_a_bad_measure_is_handled_by_a_rule_and_reported(spark):
    """Negative and missing values are counted apart and summed by nobody."""
    rows = spark.createDataFrame([("a", 5), ("a", -3), ("a", None)], "device STRING, ms INT")
    measures = {
        "rows": "count(*)",
        "ms": "sum(if(ms >= 0, ms, NULL))",
        "negative": "count(if(ms < 0, 1, NULL))",
        "measured": "count(ms)",
    }
    (row,) = aggregate(rows, keys=["device"], measures=measures).collect()
    assert tuple(row) == ("a", 3, 5, 1, 2)


VALUES = {
    "TINYINT": ["1Y", "-2Y"],
    "INT": ["1", "2147483647"],
    "BIGINT": ["9007199254740993L", "2L"],
    "DECIMAL(10,2)": ["CAST(1.10 AS DECIMAL(10,2))", "CAST(-0.05 AS DECIMAL(10,2))"],
    "INTERVAL DAY TO SECOND": ["INTERVAL '1 02:03:04' DAY TO SECOND", "INTERVAL '0 00:00:01' DAY TO SECOND"],
    "DOUBLE": ["1.5D", "double('NaN')"],
    "STRING": ["'it''s'", "'b'"],
    "BOOLEAN": ["true", "false"],
    "DATE": ["DATE '2026-01-05'", "DATE '0001-01-01'"],
    "TIMESTAMP": ["TIMESTAMP '2026-01-05 00:00:00.000001Z'", "TIMESTAMP '1900-01-01 00:00:00Z'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ '2026-01-05'", "TIMESTAMP_NTZ '9999-12-31'"],
    "BINARY": ["X'00'", "X'FF'"],
    "VOID": ["NULL", "NULL"],
}
"""Of each type two values; a group holds the first one twice, the second one and a NULL."""
SUMMED = ("TINYINT", "INT", "BIGINT", "DECIMAL(10,2)", "INTERVAL DAY TO SECOND")


@pytest.mark.spark
def test_every_function_of_every_type_is_sqls_or_refused(spark):
    """In any spelling: number, least and greatest of any type, and a sum of what is summed exactly; no other one."""
    columns = {f"c{n}": values for n, values in enumerate(VALUES.values())}
    lines = [", ".join(f"{values[row]} AS {c}" for c, values in columns.items()) for row in (0, 0, 1)]
    lines.append(", ".join(f"CAST(NULL AS {kind}) AS {c}" for kind, c in zip(VALUES, columns, strict=True)))
    rows = spark.sql(" UNION ALL ".join(f"SELECT 'k' AS k, {line}" for line in lines)).repartition(3)
    measures, expected = {"all": " COUNT ( * ) "}, {"all": "count(*)"}
    for kind, c in zip(VALUES, columns, strict=True):
        for function in ("count", "MIN", "Max"):
            measures[f"{function}_{c}"] = f"{function}( `{c}` )"
            expected[f"{function}_{c}"] = f"{function}({c})"
        if kind in SUMMED:
            measures[f"sum_{c}"], expected[f"sum_{c}"] = f"Sum({c})", f"sum({c})"
        else:
            with pytest.raises(ConfigError, match=r"^m sums [A-Z a-z_]+, .*give sum\(try_cast\(c\d+ AS DECIMAL"):
                aggregate(rows, keys=["k"], measures={"m": f"sum({c})"})
    (plain,) = rows.groupBy("k").agg(*[F.expr(sql).alias(name) for name, sql in expected.items()]).collect()
    states = aggregate(rows, keys=["k"], measures=measures)
    shouted = merge_aggregates(states.filter("false"), states, keys=["K"], measures=measures)
    for found in (states, shouted):
        assert [repr(tuple(row)) for row in found.collect()] == [repr(tuple(plain))]
    totals = aggregate(rows, keys=["k"], measures={"n": "count(*)"}, sets=[["K"], []])
    assert sorted(tuple(row)[1:] for row in totals.collect()) == [(0, 4), (1, 4)]


@pytest.mark.parametrize("function", ["count", "SUM", "min", "max", "distinct", "sketch"])
def test_a_measure_of_two_expressions_is_refused(function):
    """They would be one struct, which is never NULL: all rows would be counted. A comma inside of a call is none."""
    for inner in ("a, b", "a,b", "'(', b", "coalesce(a, b), c", "a, 'it''s'"):
        with pytest.raises(ConfigError, match="of one expression"):
            _states.parse({"m": f"{function}({inner})"}, [])
    for inner in (
        "coalesce(a, b)",
        "if(a = 'x, y', 1, 0)",
        "map['a,b']",
        "if(a = 'it''s', 1, 0)",
        "`a,b`",
        r"if(a = '\',', 1, 0)",
    ):
        (measure,) = _states.parse({"m": f"{function}({inner})"}, [])
        assert (measure.kind, measure.of) == (function.lower(), inner)


@given(st.text(alphabet="ab() ", max_size=12))
def test_a_measure_is_one_call(inner):
    """What closes its parentheses early is no measure: it would be two expressions."""
    depths = list(accumulate((character == "(") - (character == ")") for character in inner))
    if inner.strip() and min(depths) >= 0 and depths[-1] == 0:
        assert _states.parse({"m": f"sum({inner})"}, []) == [_states.Measure("m", "sum", inner.strip())]
    else:
        with pytest.raises(ConfigError, match="cannot be merged"):
            _states.parse({"m": f"sum({inner})"}, [])


def test_a_parenthesis_in_a_quoted_text_is_text():
    """As in SQL."""
    (measure,) = _states.parse({"m": "sum(if(a = ')', 1, 0))"}, [])
    assert measure.of == "if(a = ')', 1, 0)"


def test_a_sketch_cannot_be_asked_of_postgresql():
    """No other system makes Spark's sketches."""
    with pytest.raises(ConfigError, match="take distinct"):
        aggregate_query("visits", keys=["day"], measures={"who": "sketch(who)"})


@pytest.mark.slow
def test_two_stores_aggregate_as_one(spark, database, cases):
    """Half of the rows lie in PostgreSQL: only its groups are read, and the merged ones are those of all rows."""
    rows, frame = cases
    measures = {name: text for name, text in MEASURES.items() if name not in ("scores", "who")}
    measures |= {"who": "distinct(who)", "scores": "distinct(score + 0.0)"}
    here, there = frame.filter("shard = 0"), [row for row in rows if row[1] != 0]
    with database.connect() as connection, connection.cursor() as cursor:
        kinds = COLUMNS.replace("STRING", "TEXT").replace("DOUBLE", "DOUBLE PRECISION").replace("case ", '"case" ')
        cursor.execute(f"CREATE TABLE visits ({kinds})")
        places = ", ".join(["%s"] * 8)
        cursor.executemany(f"INSERT INTO visits VALUES ({places})", there)
    query = aggregate_query("visits", keys=KEYS, measures=measures, sets=SETS)
    remote = spark.read.format("jdbc").options(**database.jdbc(), query=query).load()
    assert remote.count() == len(model(there)) < len(there)
    local = aggregate(here, keys=KEYS, measures=measures, sets=SETS)
    assert found(merge_aggregates(local, remote, keys=[*KEYS, GROUPING], measures=measures)) == model(rows)
    alone = merge_aggregates(local.limit(0), remote, keys=[*KEYS, GROUPING], measures=measures)
    assert found(alone) == model(there)


@any_names()
def aggregated(n):
    rows = n.frame("day STRING, tv STRING, ms INT", ("mon", "x", 1), ("mon", None, 2), ("tue", "x", 3))
    measures = {n("number"): "count(*)", n("ms sum"): f"sum({n.q('ms')})", n("all"): f"distinct({n.q('tv')})"}
    salted = aggregate(rows, keys=n.all("day", "tv"), measures=measures, salt=2)
    yield aggregate(rows, keys=n.all("day", "tv"), measures=measures, sets=[n.all("day", "tv"), n.all("day")])
    yield merge_aggregates(salted, salted, keys=n.all("tv"), measures=measures)


@known_calls
def calls_that_work(known):
    counted = {"keys": ["day"], "measures": {"visits": "count(*)"}}
    states = known.frame("day STRING, visits BIGINT", ("mon", 1))
    return {
        "aggregate": {"rows": known.visits, **counted, "sets": [["day"]], "salt": 2},
        "aggregate_query": {"relation": "visits", **counted, "sets": [["day"]]},
        "merge_aggregates": {"states": states, **counted},
    }
