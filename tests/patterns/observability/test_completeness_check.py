"""Completeness Check."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.observability.completeness_check import SourceCount, check_completeness
from tests.renaming import any_names

pytestmark = pytest.mark.spark

COLUMNS = "id INT, user INT, kind STRING, amount DOUBLE"


@pytest.fixture(scope="module")
def orders(spark):
    """100 orders: one without a kind, two of unknown kinds, three without a user, four of users that nobody knows."""
    made = [(n, n % 5, "new" if n % 2 else "paid", 1.0) for n in range(90)]
    made += [(90, 1, None, 1.0), (91, 1, "lost", None), (92, 1, "NEW", 1.0)]
    made += [(n, None, "new", 1.0) for n in range(93, 96)]
    made += [(n, 7 if n < 99 else 8, "new", 1.0) for n in range(96, 100)]
    return spark.createDataFrame(made, COLUMNS).cache()


@pytest.fixture(scope="module")
def users(spark):
    """Five users, one of them twice, and NULL."""
    return spark.createDataFrame([*[(n,) for n in range(5)], (4,), (None,)], "id BIGINT")


@pytest.mark.parametrize(("most", "passed"), [(0.03, True), (0.029, False), (0, False), (1, True)])
def test_a_share_of_nulls_may_reach_its_bound(orders, most, passed):
    """Three of a hundred: 3 % pass, 2.9 % do not."""
    found = check_completeness(orders, max_null_shares={"user": most})
    assert (found.passed, found.figures) == (passed, {"rows": 100, "nulls of user": 3})
    assert found.note == ("" if passed else f"user: 3 of 100 rows are nulls, allowed are {100 * most:g} %")


@pytest.mark.parametrize(
    ("count", "passed"),
    [({"rows": 100}, True), ({"rows": 101}, False), ({"rows": 99}, False)]
    + [({"rows": rows, "tolerance": 0.5}, passed) for rows, passed in ((200, True), (201, False), (66, False))],
)
def test_rows_are_held_against_the_count_of_the_source(orders, count, passed):
    """Just inside and just outside of the bound, on both sides."""
    found = check_completeness(orders, source=SourceCount(**count))
    assert (found.passed, found.figures["source rows"]) == (passed, count["rows"])


@pytest.mark.parametrize(("tolerance", "passed"), [(0.5, True), (0.4, False), (None, True)])
def test_a_known_event_widens_the_bound_and_the_finding_says_so(orders, tolerance, passed):
    """Half of the rows on a day of a planned outage."""
    source = SourceCount(rows=200, tolerance=0.1, known_event="outage of the shop", event_tolerance=tolerance)
    found = check_completeness(orders, source=source)
    assert found.passed == passed
    widened = "any number of rows" if tolerance is None else f"allowed are {100 * tolerance:g} % instead of 10 %"
    assert f"known event 'outage of the shop': {widened}" in found.note


def test_orphans_are_counted_and_named_and_a_null_is_none(orders, users):
    """The most frequent keys first; a key that the reference has twice counts each row once."""
    found = check_completeness(orders, {"user": users}, max_null_shares={"user": 0.05})
    assert found.figures == {"rows": 100, "nulls of user": 3, "orphans of user": 4}
    assert found.note == "user: 4 of 100 rows are orphans, allowed are 0 %: '7' (3), '8' (1)"
    assert (found.severity, found.refuses) == ("fail", True)


def test_a_parent_that_arrives_later_clears_its_orphans(spark, orders, users):
    """The check run again passes."""
    grown = users.union(spark.createDataFrame([(7,), (8,)], "id BIGINT"))
    assert check_completeness(orders, {"user": grown}).passed


def test_values_that_nobody_knows_are_named(orders):
    """By their case; NULL is no value, and no more samples are shown than asked for."""
    found = check_completeness(orders, known_values={"kind": ["new", "paid"]}, severity="warn")
    assert found.note == "kind: 2 of 100 rows are unknown values, allowed are 0 %: 'NEW' (1), 'lost' (1)"
    assert (found.passed, found.refuses) == (False, False)
    assert check_completeness(orders, known_values={"kind": ["new", "paid", "lost", "NEW"]}).passed
    assert check_completeness(orders, known_values={"kind": []}, samples=1).note.endswith(": 'new' (52)")
    assert check_completeness(orders, known_values={"kind": []}, samples=0).note.endswith("allowed are 0 %")


def test_a_batch_without_rows_and_a_column_without_values_fail(spark, users):
    """As a finding, and not by an error; an empty batch may be allowed."""
    none = spark.createDataFrame([], COLUMNS)
    rules = {"max_null_shares": {"amount": 0.5}, "known_values": {"kind": ["new"]}}
    found = check_completeness(none, {"user": users}, **rules)
    assert (found.passed, found.note) == (False, "there are no rows")
    assert check_completeness(none, {"user": users}, allow_empty=True, **rules).passed
    missing = check_completeness(spark.createDataFrame([(1, 1, None, None)], COLUMNS), **rules)
    assert missing.note == "amount: 1 of 1 rows are nulls, allowed are 50 %"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_null_shares": {"user": 5}}, "max_null_shares must be shares between 0 and 1, not user: 5"),
        ({"max_null_shares": {"nope": 0}}, "no column nope"),
        ({"known_values": {"kind": "new"}}, "known_values must be a mapping whose values are each a list of texts"),
        ({"samples": -1}, "samples must be 0 or more, not -1"),
        ({"max_null_shares": {"user": 0, "USER": 0}}, "names user twice"),
    ],
)
def test_a_rule_that_can_never_hold_is_refused(orders, options, message):
    """By name."""
    with pytest.raises(ConfigError, match=message):
        check_completeness(orders, **options)


def test_a_reference_that_cannot_be_compared_is_refused(spark, orders):
    """Several columns, or texts beside numbers."""
    with pytest.raises(ConfigError, match=r"frames of one column, the key, not of \['id', 'user', .* for user"):
        check_completeness(orders, {"user": orders})
    with pytest.raises(SchemaMismatch, match="user"):
        check_completeness(orders, {"user": spark.createDataFrame([("1",)], "id STRING")})


@pytest.mark.parametrize(
    ("count", "message"),
    [
        ({"rows": -1}, "rows must be 0 or more, not -1"),
        ({"rows": 1, "tolerance": -0.1}, "tolerance must be 0 or more, not -0.1"),
        ({"rows": 1, "event_tolerance": 0.5}, "known_event must name the event of event_tolerance=0.5"),
    ],
)
def test_a_count_that_makes_no_sense_is_refused(count, message):
    """By name."""
    with pytest.raises(ConfigError, match=message):
        SourceCount(**count)


@any_names()
def checked(names):
    orders = names.frame("user INT, kind STRING", (1, "new"), (7, None), (None, "lost"))
    found = check_completeness(
        orders,
        {names("user"): names.frame("uid INT", (1,))},
        max_null_shares={names("user"): 0.1, names("kind"): 0.1},
        known_values={names("kind"): ["new"]},
    )
    yield [{"passed": found.passed, "counts": list(found.figures.values())}]
