"""Dimensional Mart."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.modeling.dimensional_mart import Link, publish_mart, read_mart
from tests.contracts.known_calls import known_calls
from tests.faults.failpoints import dying
from tests.helpers import a_run, read_back
from tests.patterns.modeling.changes import moment
from tests.patterns.modeling.stars import FACTS, LINKS, ORDERS, PLANS, dimensions_of, order, segment_at
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = [pytest.mark.spark, pytest.mark.budget(45, "five tables are published together at each refresh")]

CHANGES = {"ann": [(0, "basic"), (10, "premium")]}
SOLD = [order("o1", "ann", "basic", 3, 5), order("o2", "ann", "team", 12, 7), order("o3", "eve", "gold", 12, 11)]
NAMES = {
    "order": "order_id",
    "customer_segment": "user_key.segment",
    "plan_name": "plan_key.name",
    "sold_on": "sold_key.date",
    "revenue_euros": "euros",
}
JOINED = TableSpec(
    "gold/sales",
    {
        "order": Column("STRING", required=True),
        "customer_segment": Column("STRING"),
        "plan_name": Column("STRING"),
        "sold_on": Column("DATE"),
        "revenue_euros": Column("DECIMAL(10,2)"),
    },
)
UNPARTITIONED = replace(FACTS, partition_by=(), key=("order_id",))
MEMBERS = {
    "users": TableSpec(
        "gold/sales_users",
        {
            "user_key": Column("STRING", required=True),
            "user": Column("STRING", classification="personal"),
            "segment": Column("STRING"),
            "valid_from": Column("TIMESTAMP"),
            "valid_to": Column("TIMESTAMP"),
            "is_current": Column("BOOLEAN"),
            "is_deleted": Column("BOOLEAN"),
        },
        key=("user_key",),
    ),
    "plans": TableSpec(
        "gold/sales_plans",
        {"plan_key": Column("STRING", required=True), "plan": Column("STRING"), "name": Column("STRING")},
        key=("plan_key",),
    ),
    "days": TableSpec("gold/sales_days", {"date_key": Column("INT", required=True), "date": Column("DATE")}),
}


class Mart:
    """The tables of a mart, and how they are refreshed."""

    def __init__(self, spark, make_table):
        self.spark, self.joined, self.facts = spark, make_table(JOINED), make_table(UNPARTITIONED)
        self.members = {name: make_table(spec) for name, spec in MEMBERS.items()}

    def publish(self, orders, dimensions, run="r", audits=(), **options):
        who = a_run(run_id=run, inputs={run: 1})
        members = {name: table.target(who) for name, table in self.members.items()}
        targets = self.joined.target(who), self.facts.target(who, audits=audits), options.pop("members", members)
        rows = self.spark.createDataFrame(orders, ORDERS)
        return publish_mart(rows, *targets, dimensions, **{"links": LINKS, "names": NAMES, **options})

    def read(self):
        """Rows of each table at one refresh, by the last part of its name."""
        found = read_mart(self.joined, self.facts, self.members)
        return {name.rpartition("/")[2]: rows.collect() for name, rows in found.items()}


@pytest.fixture
def mart(spark, make_table):
    return Mart(spark, make_table)


def modelled(orders, changes, plans=PLANS):
    """The joined rows by plain Python."""
    names = dict(plans)

    def segment(user, day):
        return segment_at(changes, user, (day - moment(0).date()) / timedelta(days=1)) or "unknown segment"

    return Counter(
        (
            name,
            segment(user, day),
            names.get(plan),
            day,
            euros,
        )
        for name, user, plan, _, day, euros, _ in orders
    )


def test_the_mart_equals_a_model_and_is_refreshed_as_one(spark, mart):
    """Acceptance 1: as many rows as facts under the names of the business, after a refresh as after the first time.

    Each key of a fact is in its dimension; vanished facts and plans are gone from all tables.
    """
    mart.publish(SOLD, dimensions_of(spark, CHANGES))
    found = mart.read()
    assert Counter(map(tuple, found["sales"])) == modelled(SOLD, CHANGES)
    assert len(found["sales"]) == len(found["fact_orders"]) == 3
    keys = {row["user_key"] for row in found["sales_users"]}
    assert {row["user_key"] for row in found["fact_orders"]} <= keys

    changes, plans = {"ann": [(0, "basic")], "eve": [(11, "premium")]}, [("gold", "Gold")]
    done = mart.publish(SOLD[1:], dimensions_of(spark, changes, plans), run="next")
    assert {each.table for each in (done, *done.beside)} == {
        each.name for each in (mart.joined, mart.facts, *mart.members.values())
    }
    found = mart.read()
    assert Counter(map(tuple, found["sales"])) == modelled(SOLD[1:], changes, plans)
    assert {row["name"] for row in found["sales_plans"]} == {"Gold", None}
    before = read_back(mart.joined)
    mart.publish(SOLD[1:], dimensions_of(spark, changes, plans), run="next")
    assert read_back(mart.joined) == before


def test_a_refused_or_killed_refresh_leaves_a_whole_mart(spark, mart):
    """Acceptance 2: a broken grain, an audit and a bad dimension change nothing; a death is rolled forward."""
    with pytest.raises(NotReady, match="not published together yet"):
        mart.read()
    mart.publish(SOLD, dimensions_of(spark, CHANGES))
    before = mart.read()
    others = dimensions_of(spark, {"ann": [(0, "gold")]}, [])
    with pytest.raises(AuditFailed, match=r"one for each order_id, not as \[\{'order_id': 'o1', 'rows': 2\}\]"):
        mart.publish([*SOLD, SOLD[0]], others, run="twice")
    with pytest.raises(AuditFailed, match="few_euros"):
        mart.publish(SOLD, others, run="audited", audits=[Audit.none_where("few_euros", "euros > 10")])
    with pytest.raises(AuditFailed, match="plans: 0 unknown members"):
        mart.publish(SOLD, {**others, "plans": others["plans"].limit(0)}, run="without")
    assert mart.read() == before
    with dying("before", below="sales/_delta_log"), pytest.raises(Exception, match="killed"):
        mart.publish(SOLD[:1], others, run="killed")
    found = mart.read()
    assert Counter(map(tuple, found["sales"])) in (
        modelled(SOLD, CHANGES),
        modelled(SOLD[:1], {"ann": [(0, "gold")]}, []),
    )
    mart.publish(SOLD[:1], others, run="killed")
    assert Counter(map(tuple, mart.read()["sales"])) == modelled(SOLD[:1], {"ann": [(0, "gold")]}, [])


def test_a_mart_that_does_not_fit_is_refused(spark, mart, make_table):
    """Names of other columns than the table's, columns of no table, and targets for other dimensions."""
    dimensions = dimensions_of(spark, CHANGES)
    with pytest.raises(ConfigError, match=r"names must be the columns of gold/sales, order, .*, not order$"):
        mart.publish(SOLD, dimensions, names={"order": "order_id"})
    with pytest.raises(ConfigError, match="no column city"):
        mart.publish(SOLD, dimensions, names={**NAMES, "plan_name": "user_key.city"})
    with pytest.raises(ConfigError, match=r"no column shops\.name"):
        mart.publish(SOLD, dimensions, names={**NAMES, "plan_name": "shops.name"})
    with pytest.raises(ConfigError, match="a target for each dimension of links, not for plans"):
        mart.publish(
            SOLD, dimensions, members={"plans": mart.members["plans"].target(a_run(run_id="r", inputs={"r": 1}))}
        )
    assert not mart.joined.ledger.exists() or read_back(mart.joined) == []


SMALL = "id STRING!, plan STRING, plan_key STRING!, paid INT"
TO_PLANS = {"plan_key": Link(dimension="plans", keys={"plan": "plan"})}
PLAN = "plan_key STRING!, plan STRING"


@any_names(STORED)
def marts(n):
    joined = n.table("order STRING!, tariff STRING, euros INT")
    facts = n.table("id STRING!, plan STRING, plan_key STRING!, paid INT", key=(n.declared("id"),))
    members = n.table("plan_key STRING!, plan STRING", key=(n.declared("plan_key"),))
    known = n.frame("plan_key STRING, plan STRING", ("k1", "basic"), ("unknown", None))
    sold = n.frame("id STRING, plan STRING, paid INT", ("a", "basic", 5), ("b", "gold", 9))
    links = {n("plan_key"): Link(dimension="plans", keys={n("plan"): n("plan")})}
    names = {
        n.declared("order"): n("id"),
        n.declared("tariff"): f"{n('plan_key')}.{n('plan')}",
        n.declared("euros"): n("paid"),
    }
    into, of_facts, of_members = (each.target(a_run()) for each in (joined, facts, members))
    publish_mart(sold, into, of_facts, {"plans": of_members}, {"plans": known}, links=links, names=names)
    yield joined
    yield facts
    yield read_mart(joined, facts, {"plans": members})[joined.name]


@known_calls
def calls_that_work(known):
    plans = known.frame("plan_key STRING, plan STRING", ("k1", "basic"), ("unknown", None))
    joined, facts = known.table("gold/m", "id STRING, plan STRING"), known.table("gold/m_facts", SMALL, key=("id",))
    members = known.table("gold/m_plans", PLAN, key=("plan_key",))
    rows = known.frame("id STRING, plan STRING, paid INT", ("a", "basic", 5))
    targets = [each.target(known.run) for each in (joined, facts, members)]
    names = {"id": "id", "plan": "plan_key.plan"}
    publish_mart(rows, *targets[:2], {"plans": targets[2]}, {"plans": plans}, links=TO_PLANS, names=names)
    return {"read_mart": {"joined": joined, "facts": facts, "members": {"plans": members}}}


@two_runs(under_one_lock=True)
def marts_at_once(world):
    world.table("joined", "id STRING, tariff STRING")
    world.table("facts", SMALL, key=("id",))
    world.table("members", PLAN, key=("plan_key",))

    def publish(w, name, *sold):
        plans = w.frame("plan_key STRING, plan STRING", ("unknown", None), ("k1", "basic"))
        into, facts, members = (w.into(table, name) for table in ("joined", "facts", "members"))
        rows, names = w.frame("id STRING, plan STRING, paid INT", *sold), {"id": "id", "tariff": "plan_key.plan"}
        return publish_mart(rows, into, facts, {"plans": members}, {"plans": plans}, links=TO_PLANS, names=names)

    publish(world, "base", ("a", "basic", 1))
    yield lambda w: publish(w, "1", ("a", "basic", 1), ("b", "basic", 1))
    yield lambda w: publish(w, "2", ("c", "gold", 2))
