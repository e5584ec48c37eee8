"""Anomaly Detection."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.observability.anomaly_detection import FLAGS, flag_anomalies
from tests.renaming import any_names

pytestmark = pytest.mark.spark

COLUMNS = "id INT, shop STRING, amount DECIMAL(12,2), items INT"


@pytest.fixture(scope="module")
def sold():
    """2,000 sales of two shops, of which one sells for a hundred times as much; the last five are wrong."""
    chance = random.Random(64)  # noqa: S311 - seeded
    usual = [
        (n, "ab"[n % 2], Decimal(round((100 if n % 2 else 1) * chance.gauss(50, 5), 2)), chance.randint(1, 9))
        for n in range(1995)
    ]
    wrong = [
        (1995, "a", Decimal(5000), 2),
        (1996, "a", Decimal("0.5"), 2),
        (1997, "b", Decimal(50), 2),
        (1998, "b", Decimal(5000), 500),
        (1999, "a", None, None),
    ]
    return [*usual, *wrong]


@pytest.fixture(scope="module")
def flagged(spark, sold):
    """Key -> columns at fault, of sales flagged by shop."""
    found = flag_anomalies(spark.createDataFrame(sold, COLUMNS), columns=["amount", "items"], by=["shop"])
    return {row["id"]: row for row in found.collect()}


def test_injected_records_are_flagged_with_their_columns_and_every_key_stays(flagged):
    """In decimals as well; what is usual in one shop is an anomaly in the other."""
    wrong = {key: flagged[key]["anomaly_columns"] for key in range(1995, 1999)}
    assert wrong == {1995: ["amount"], 1996: ["amount"], 1997: ["amount"], 1998: ["items"]}
    assert all(flagged[key]["is_anomaly"] and flagged[key]["anomaly_score"] > 3.5 for key in wrong)
    assert flagged.keys() == set(range(2000))


def test_few_usual_records_are_flagged(flagged):
    """Of normally distributed values, fewer than 2 in 1,000."""
    assert sum(bool(flagged[key]["is_anomaly"]) for key in range(1995)) <= 4


def test_a_record_without_a_value_is_not_judged(flagged):
    """Neither an anomaly nor none."""
    assert [flagged[1999][name] for name in FLAGS] == [None, None, []]


def test_the_same_rows_have_the_same_flags_in_any_order(spark, sold, flagged):
    """No sample, no seed, and no part of a file decides."""
    rows = spark.createDataFrame(sold[::-1], COLUMNS).repartition(3)
    again = flag_anomalies(rows, columns=["amount", "items"], by=["shop"]).collect()
    assert {row["id"]: row for row in again} == flagged


def test_constant_and_nearly_constant_columns_small_groups_and_odd_numbers_are_defined(spark):
    """No spread, no outlier; one value beside equal ones is far; too few values of a group are not judged."""
    values = [
        *[("same", 7.0)] * 12,
        *[("nearly", 0.0)] * 30,
        ("nearly", 5.0),
        *[("few", each) for each in (1.0, 1.1, 900.0)],
        *[(None, float(n % 4)) for n in range(12)],
        (None, float("nan")),
        (None, float("inf")),
        (None, 400.0),
    ]
    found = flag_anomalies(spark.createDataFrame(values, "kind STRING, x DOUBLE"), columns=["X"], by=["kind"])
    seen = {(row["kind"], str(row["x"])): row["is_anomaly"] for row in found.collect()}
    assert seen["same", "7.0"] is False
    assert (seen["nearly", "0.0"], seen["nearly", "5.0"]) == (False, True)
    assert {seen["few", value] for value in ("1.0", "1.1", "900.0")} == {None}
    assert [seen[None, value] for value in ("3.0", "nan", "inf", "400.0")] == [False, None, True, True]


def test_no_rows_give_no_rows(spark):
    """And no error, with and without groups."""
    none = spark.createDataFrame([], COLUMNS)
    for by in ([], ["shop"]):
        assert flag_anomalies(none, columns=["amount"], by=by).collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": []}, "columns must name the columns"),
        ({"columns": ["shop"]}, "column shop is STRING, which is no number"),
        ({"columns": ["id", "ID"]}, "columns= names id twice"),
        ({"columns": ["id"], "limit": 0.0}, "limit must be above 0, not 0"),
        ({"columns": ["id"], "minimum_rows": 1}, "minimum_rows must be 2 or more, not 1"),
        ({"columns": ["nope"]}, "no column nope"),
    ],
)
def test_what_can_never_be_judged_is_refused(spark, options, message):
    """By name."""
    with pytest.raises(ConfigError, match=message):
        flag_anomalies(spark.createDataFrame([], COLUMNS), **options)


@any_names(handed_on=["id"])
def flagged_by_group(names):
    amounts = [(n, "x", n % 3) for n in range(12)] + [(12, "x", 900), (13, None, 1)]
    rows = names.frame("id INT, kind STRING, amount INT", *amounts)
    yield flag_anomalies(rows, columns=names.all("amount"), by=names.all("kind")).drop("anomaly_columns")
