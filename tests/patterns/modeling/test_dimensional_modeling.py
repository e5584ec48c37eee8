"""Dimensional Modeling."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import reduce

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, SchemaMismatch
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.modeling.dimensional_members import add_members
from dedp_assets.patterns.modeling.dimensional_modeling import Additivity, Link, build_facts, relink_facts, sum_measures
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, files_of, read_back
from tests.patterns.modeling.changes import moment
from tests.patterns.modeling.stars import (
    FACTS,
    LINKS,
    MEASURES,
    ORDERS,
    PLANS,
    VERSIONS,
    day_of,
    dimensions_of,
    order,
    segment_at,
)
from tests.renaming import STORED, any_names, at
from tests.two_runs import two_runs

pytestmark = [pytest.mark.spark, pytest.mark.budget(45, "facts are built and repaired at several states of dimensions")]

CHANGES = {"ann": [(0, "basic"), (10, "premium")], "bob": [(5, "basic"), (15, None), (20, "basic")]}
SOLD = [
    order("o1", "ann", "basic", 3, 5),
    order("o2", "ann", "team", 12, 7),
    order("o3", "bob", "gold", 6, 11),
    order("o4", "eve", "basic", 6, 13),
    order("o5", None, None, 6, 17),
]


@pytest.fixture
def build(spark, make_table):
    """Build the facts of orders by the changes of users, into a table of the test."""
    table = make_table(FACTS)

    def built(orders, dimensions, run="r", day=None, audits=()):
        partition = {} if day is None else {"sold_on": str(day_of(day))}
        into = table.target(a_run(run_id=run), partition=partition, audits=audits)
        return build_facts(spark.createDataFrame(orders, ORDERS), into, dimensions, links=LINKS, measures=MEASURES)

    built.table = table
    return built


def relink(table, dimensions, run="repair", **options):
    return relink_facts(dimensions, table.target(a_run(run_id=run), **options), links=LINKS)


def segments(table, dimensions):
    """What each order says of its user by an inner join with the dimension, and of its plan."""
    users = {row["user_key"]: row["segment"] for row in dimensions["users"].collect()}
    plans = {row["plan_key"]: row["plan"] for row in dimensions["plans"].collect()}
    facts = read_back(table)
    return {row["order_id"]: (users[row["user_key"]], plans[row["plan_key"]], row["sold_key"]) for row in facts}


def test_a_fact_has_the_version_of_its_time_and_the_unknown_member_otherwise(spark, build):
    """Acceptance 1 and 5: an order before a change of segment has the old key, though loaded later; none is lost.

    A version begins at its very instant, a deleted one is no match, and revenue by segment is as computed by hand.
    """
    dimensions = dimensions_of(spark, CHANGES)
    times = {"a": moment(10), "b": moment(10) - timedelta(microseconds=1), "c": moment(-1)}
    at_the_edge = [(name, "ann", "basic", when, day_of(10), Decimal(1), 1) for name, when in times.items()]
    build([*SOLD, *at_the_edge, order("d", "bob", "basic", 16)], dimensions)
    assert segments(build.table, dimensions) == {
        "o1": ("basic", "basic", 20260104),
        "o2": ("premium", "team", 20260113),
        "o3": ("basic", None, 20260107),
        "o4": ("unknown segment", "basic", 20260107),
        "o5": ("unknown segment", None, 20260107),
        "a": ("premium", "basic", 20260111),
        "b": ("basic", "basic", 20260111),
        "c": ("unknown segment", "basic", 20260111),
        "d": ("unknown segment", "basic", 20260117),
    }
    assert sum(row["euros"] for row in read_back(build.table)) == sum(row[5] for row in SOLD) + 4
    joined = build.table.read().join(dimensions["users"].select("user_key", "segment"), "user_key")
    found = sum_measures(joined, measures=MEASURES, by=["segment"], sums=["euros"])
    revenue = {"basic": 16 + 1, "premium": 7 + 1, "unknown segment": 30 + 2}
    assert {row["segment"]: row["euros"] for row in found.collect()} == revenue


def test_a_broken_grain_is_refused_and_a_rerun_changes_nothing(spark, build):
    """Acceptance 2 and 3: refused with samples and no personal value, before anything is published.

    One day is replaced, with orders that vanished gone, and the files of the others stay.
    """
    dimensions = dimensions_of(spark, CHANGES)
    build(SOLD, dimensions)
    before, others = read_back(build.table), {name for name in files_of(build.table) if str(day_of(6)) not in name}
    broken = [*SOLD, order("o2", "ann", "team", 12, 8), (None, *SOLD[0][1:])]
    with pytest.raises(AuditFailed, match=r"one for each order_id, sold_on, not as \[\{'order_id'") as refused:
        build(broken, dimensions, run="twice")
    assert "'order_id': 'o2', 'sold_on': datetime.date(2026, 1, 13), 'rows': 2}" in str(refused.value)
    assert "'order_id': None" in str(refused.value)
    assert "ann" not in str(refused.value)
    assert read_back(build.table) == before
    build(SOLD[2:4], dimensions, run="day", day=6)
    assert {row["order_id"] for row in read_back(build.table)} == {"o1", "o2", "o3", "o4"}
    assert others <= {*files_of(build.table)}
    before = read_back(build.table)
    build(SOLD[2:4], dimensions, run="again", day=6)
    assert read_back(build.table) == before


def test_overlapping_versions_are_refused_instead_of_doubling_facts(spark, build):
    """Acceptance 2: two versions at a time, a repeated key and a missing unknown member are named."""
    dimensions = dimensions_of(spark, CHANGES)
    overlapping = [("ann", "a", moment(0), moment(9), False, False), ("ann", "b", moment(5), None, True, False)]
    frame = spark.createDataFrame(overlapping, VERSIONS)
    versions = add_members(frame, key="user_key", natural=["user"], valid_from="valid_from")
    with pytest.raises(AuditFailed, match="users: overlaps: 1"):
        build(SOLD, {**dimensions, "users": versions})
    twice = dimensions["plans"].unionAll(dimensions["plans"].filter("plan = 'team'"))
    with pytest.raises(AuditFailed, match="plans: 4 rows with 3 different plan_key"):
        build(SOLD, {**dimensions, "plans": twice})
    with pytest.raises(AuditFailed, match=r"plans: 0 unknown members.*add_members"):
        build(SOLD, {**dimensions, "plans": dimensions["plans"].filter("plan IS NOT NULL")})
    assert not build.table.ledger.exists() or read_back(build.table) == []


def test_facts_of_a_late_dimension_are_repaired_and_no_others_touched(spark, build):
    """Acceptance 4: a user and a plan come late, one version is split; files without such a fact stay."""
    build(SOLD, dimensions_of(spark, CHANGES))
    known = files_of(build.table)
    late = dimensions_of(spark, {**CHANGES, "eve": [(2, "basic")]}, [*PLANS, ("gold", "Gold")])
    done = relink(build.table, late)
    assert done.figures["updated"] == 2
    assert {row["order_id"]: row["plan_key"] == "unknown" for row in read_back(build.table)}["o3"] is False
    assert segments(build.table, late)["o4"] == ("basic", "basic", 20260107)
    kept = {name for name in known if str(day_of(6)) not in name}
    assert len(kept) == 2
    assert kept <= {*files_of(build.table)}
    assert not relink(build.table, late, run="again").changed
    split = dimensions_of(spark, {**CHANGES, "ann": [(0, "basic"), (11.0, "gold"), (10, "premium")][:1]})
    assert relink(build.table, split, partition={"sold_on": str(day_of(12))}, run="moved").figures["updated"] == 1


DAYS = st.integers(0, 6)
PEOPLE = st.sampled_from(["u1", "u2", "u3"])


@st.composite
def stars(draw):
    """Users before and after late changes, and orders."""

    def changes():
        states = st.lists(
            st.tuples(DAYS, st.sampled_from(["a", "b", None])), max_size=3, unique_by=lambda each: each[0]
        )
        return {user: sorted(draw(states), key=lambda each: each[0]) for user in ("u1", "u2")}

    orders = draw(st.lists(st.tuples(st.none() | PEOPLE, DAYS, st.integers(0, 99)), min_size=1, max_size=12))
    return changes(), changes(), [order(f"o{n}", user, "team", day, e) for n, (user, day, e) in enumerate(orders)]


@settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    max_examples=2,
    phases=(Phase.explicit, Phase.generate),
)
@given(stars())
def test_a_repair_comes_to_what_a_build_with_the_newest_dimensions_has(spark, make_table, star):
    """Facts, keys and totals are those of a plain model, whichever changes of dimensions come later."""
    before, after, orders = star
    rows = spark.createDataFrame(orders, ORDERS)
    repaired, fresh = make_table(FACTS), make_table(replace(FACTS, name="gold/fresh"))
    early, late = dimensions_of(spark, before), dimensions_of(spark, after)
    build_facts(rows, repaired.target(a_run(run_id=f"{star}")), early, links=LINKS, measures=MEASURES)
    relink(repaired, late, run=f"repair of {star}")
    build_facts(rows, fresh.target(a_run(run_id=f"{star}")), late, links=LINKS, measures=MEASURES)
    assert sorted(read_back(repaired), key=repr) == sorted(read_back(fresh), key=repr)
    expected = {}
    for name, user, _, _, _, euros, _ in orders:
        day = next(row[4] for row in orders if row[0] == name) - day_of(0)
        expected[name] = (segment_at(after, user, day.days) or "unknown segment", euros)
    users = {row["user_key"]: row["segment"] for row in late["users"].collect()}
    assert {r["order_id"]: (users[r["user_key"]], r["euros"]) for r in read_back(repaired)} == expected


BALANCES = "account STRING, day_key INT, balance INT, rate DOUBLE, paid INT, note STRING"
ADDITIVITY = {
    "balance": Additivity(not_along=["day_key"], instead="the balance of the last day"),
    "rate": Additivity(adds=False, instead="avg(rate)"),
    "paid": Additivity(),
    "note": Additivity(),
}


def test_a_sum_along_a_refused_axis_is_an_error_with_the_alternative(spark):
    """Acceptance 6: a balance adds up over accounts and never over days; a rate never does."""
    rows = [("a", 1, 10, 0.1, 1, ""), ("b", 1, 20, 0.2, 1, ""), ("a", 2, 30, 0.3, 1, "")]
    balances = spark.createDataFrame(rows, BALANCES)

    def summed(by, *sums):
        return {tuple(row) for row in sum_measures(balances, measures=ADDITIVITY, by=by, sums=sums).collect()}

    assert summed(["day_key"], "balance", "paid") == {(1, 30, 2), (2, 30, 1)}
    assert summed([], "paid") == {(3,)}
    with pytest.raises(
        ConfigError, match="not balance along day_key: ask for the balance of the last day, or add day_"
    ):
        summed(["account"], "balance")
    with pytest.raises(ConfigError, match=r"not rate: ask for avg\(rate\)$"):
        summed(["account", "day_key"], "rate")
    with pytest.raises(ConfigError, match="sums must be numbers, not note"):
        summed([], "note")
    with pytest.raises(ConfigError, match="additivity of day_key, not only balance"):
        summed([], "day_key")


def columns_of(**more):
    return replace(FACTS, columns={**FACTS.columns, **more})


@pytest.mark.parametrize(
    ("table", "links", "measures", "why"),
    [
        (FACTS, {}, MEASURES, "links must name a foreign key"),
        (FACTS, {"shop_key": LINKS["plan_key"]}, MEASURES, "must declare shop_key, not only order_id"),
        (FACTS, {"plan_key": Link(dimension="plans", keys={"shop": "plan"})}, MEASURES, "must declare shop"),
        (columns_of(plan_key=Column("STRING")), LINKS, MEASURES, "must require plan_key, as a foreign key"),
        (FACTS, LINKS, {"euros": Additivity()}, "must state the additivity of percent: Additivity"),
        (FACTS, LINKS, {**MEASURES, "cost": Additivity()}, "must declare cost"),
        (replace(FACTS, key=("plan_key", "sold_on")), LINKS, MEASURES, "a grain without plan_key"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(spark, make_table, table, links, measures, why):
    """A foreign key that may be NULL, a number of unclear additivity, and columns that are not there."""
    rows, dimensions = spark.createDataFrame(SOLD, ORDERS), dimensions_of(spark, CHANGES)
    into = make_table(table).target(a_run())
    with pytest.raises(ConfigError, match=why):
        build_facts(rows, into, dimensions, links=links, measures=measures)
    assert not into.table.ledger.exists()


def test_dimensions_that_do_not_fit_are_refused(spark, build):
    """A dimension that is not there, one without its columns, and keys that do not meet."""
    dimensions = dimensions_of(spark, CHANGES)
    with pytest.raises(ConfigError, match="dimensions must hold days, not only users, plans"):
        build(SOLD, {name: rows for name, rows in dimensions.items() if name != "days"})
    with pytest.raises(ConfigError, match="no column valid_to"):
        build(SOLD, {**dimensions, "users": dimensions["users"].drop("valid_to")})
    with pytest.raises(SchemaMismatch, match="plan"):
        build(SOLD, {**dimensions, "plans": dimensions["plans"].selectExpr("plan_key", "length(plan) AS plan")})
    with pytest.raises(ConfigError, match="key of dimension plans must be a text or a whole number, not DOUBLE"):
        build(SOLD, {**dimensions, "plans": dimensions["plans"].selectExpr("1.5D AS plan_key", "plan")})
    with pytest.raises(ConfigError, match=r"Additivity\.instead must say"):
        Additivity(adds=False)
    with pytest.raises(ConfigError, match=r"Link\.keys must name"):
        Link(dimension="plans", keys={})


def test_no_rows_and_an_audit_stop_the_write(spark, build):
    """An empty source is usually broken; days that the calendar lacks are refused where an audit says so."""
    dimensions = dimensions_of(spark, CHANGES, days=5)
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        build([], dimensions)
    audit = Audit.none_where("days_are_in_the_calendar", "sold_key = -1")
    with pytest.raises(AuditFailed, match="days_are_in_the_calendar"):
        build(SOLD, dimensions, audits=[audit])


@any_names(STORED)
def facts_by_keys(n):
    versions = {"k1": ("u", at(0), at(5), False), "k2": ("u", at(5), None, True), "unknown": (None, at(0), None, True)}
    times = "valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN, is_deleted BOOLEAN"
    users = reduce(
        DataFrame.unionAll,
        [
            n.frame("u_key STRING, user STRING", (key, user)).crossJoin(
                n.spark.createDataFrame([(*each, False)], times)
            )
            for key, (user, *each) in versions.items()
        ],
    )
    facts = n.table("id INT!, user STRING, at TIMESTAMP, u_key STRING!, euros INT", key=(n.declared("id"),))
    links = {n("u_key"): Link(dimension="users", keys={n("user"): n("user")}, at=n("at"))}
    sold = n.frame("id INT, user STRING, at TIMESTAMP, euros INT", (1, "u", at(1), 5), (2, "u", at(6), 7))
    measures = {n("euros"): Additivity(), n("id"): Additivity(adds=False, instead="a count")}
    build_facts(sold, facts.target(a_run()), {"users": users}, links=links, measures=measures)
    yield facts
    yield sum_measures(facts.read(), measures=measures, by=n.all("u_key"), sums=n.all("euros"))
    moved = users.filter(f"{n.q('u_key')} <> 'k2'").selectExpr("* EXCEPT (valid_to)", "TIMESTAMP(NULL) AS valid_to")
    moved = moved.selectExpr("* EXCEPT (is_current)", "true AS is_current")
    relink_facts({"users": moved}, facts.target(a_run(run_id="repair")), links=links)
    yield facts


SMALL = "order_id STRING!, plan STRING, plan_key STRING!, euros INT"
TO_PLANS = {"plan_key": Link(dimension="plans", keys={"plan": "plan"})}


@known_calls
def calls_that_work(known):
    plans = known.frame("plan_key STRING, plan STRING", ("k1", "basic"), ("unknown", None))
    facts = known.table("gold/some_orders", SMALL, key=("order_id",))
    return {
        "relink_facts": {"dimensions": {"plans": plans}, "into": facts.target(known.run), "links": TO_PLANS},
        "sum_measures": {
            "facts": facts.read(),
            "measures": {"euros": Additivity()},
            "by": ["plan"],
            "sums": ["euros"],
        },
    }


@two_runs()
def facts_at_once(world):
    facts = world.table("orders", SMALL, key=("order_id",))
    columns = "order_id STRING, plan STRING, euros INT"

    def dimensions(w, *plans):
        return {"plans": w.frame("plan_key STRING, plan STRING", ("unknown", None), *((f"k-{p}", p) for p in plans))}

    sold, measures = [("a", "basic", 1), ("b", "team", 2)], {"euros": Additivity()}
    first = facts.target(world.run("base"))
    build_facts(world.frame(columns, *sold), first, dimensions(world, "basic"), links=TO_PLANS, measures=measures)
    yield lambda w: build_facts(
        w.frame(columns, *sold),
        w.into("orders", "1"),
        dimensions(w, "basic", "team"),
        links=TO_PLANS,
        measures=measures,
    )
    yield lambda w: relink_facts(dimensions(w, "basic", "team"), w.into("orders", "2"), links=TO_PLANS)
