"""The star of payments, from the applications' database to gold, and orders as one big table."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.case_study.defs.gold.orders_wide import ORDERS_WIDE
from dedp_assets.case_study.defs.serving.orders_for_agencies import ORDERS_FOR_AGENCIES
from dedp_assets.case_study.defs.serving.policies import AGENCIES, AUDIENCES
from dedp_assets.case_study.sources import operational
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.systems import postgres
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import read_for
from dedp_assets.patterns.core.errors import NotReady
from tests.helpers import within_one_day

pytestmark = [pytest.mark.spark, pytest.mark.budget(70, "a world is loaded from its database to gold, and repaired")]
NIGHT = timedelta(hours=25)


@pytest.fixture
def sold(world, database, monkeypatch):
    """A world whose applications sold something, before their users were captured and after; nothing is loaded.

    Versions of users begin at the time of the database's own clock.
    """
    within_one_day(timedelta(minutes=5))
    today = datetime.combine(Clock().now().date(), datetime.min.time(), timezone.utc)
    monkeypatch.setattr(postgres, "address", lambda _: database)
    with database.connect() as connection:
        operational.create(connection)
        operational.work(connection, at=today - timedelta(hours=12), steps=4)
    assert ("capture_users", "") in world.react()
    with database.connect() as connection:
        operational.work(connection, at=Clock().now() + timedelta(seconds=60), steps=4)
    world.days = [f"{day:%Y-%m-%d}" for day in (today - timedelta(days=1), today)]
    monkeypatch.setattr(Clock, "now", lambda _: today + NIGHT)
    return world


def ok(ended):
    assert ended.failure == ""


def source(database, statement):
    with database.connect() as connection:
        return connection.execute(statement).fetchall()


def night(world):
    """What the schedules of a night start, in their order."""
    for day in world.days:
        ok(world.run("load_sales", day))
    for job in ("load_plans", "store_dimensions"):
        ok(world.run(job))
    for day in world.days:
        ok(world.compute("gold/fact_payments", day))
    ok(world.run("widen_orders"))
    ok(world.run("publish_revenue"))


def test_the_star_and_the_big_table_are_those_of_the_database(sold, database):
    """Facts have the user as of the payment; one that comes late is linked by the repair; an order has its payments."""
    night(sold)
    before = star_of(sold, database)
    the_big_table_is_that_of(sold, database)
    the_mart_is_that_of(sold, database)
    agencies_see_orders_of_active_users(sold)
    assert sold.checks("gold/fact_payments")["days_are_in_the_calendar"]
    assert sold.checks("gold/orders_wide")["table_is_about_one_thing"]
    sold.react()
    ok(sold.run("store_dimensions"))
    ok(sold.run("relink_payments"))
    after = star_of(sold, database)
    moved = {payment for payment, key in after.items() if key != before[payment]}
    assert moved, "users that came after the first night"
    assert {before[payment] for payment in moved} >= {"unknown"}
    ok(sold.compute("gold/fact_payments", sold.days[1], **{"dedp/force": "true"}))
    assert star_of(sold, database) == after, "a rerun comes to what the repair did"


def star_of(world, database):
    """Compare facts and dimensions with plain Python, and return the user of each payment."""
    facts = world.rows("gold/fact_payments")
    users = {row["user_key"]: row for row in world.rows("gold/dim_users")}
    plans = {row["plan_key"]: row["plan_id"] for row in world.rows("gold/dim_plans")}
    days = {row["date_key"]: row["date"] for row in world.rows("gold/dim_date")}
    paid = source(database, "SELECT payment_id, amount, user_id, plan_id FROM payments JOIN orders USING (order_id)")
    found = [(row["payment_id"], row["amount"], row["user_id"], plans[row["plan_key"]]) for row in facts]
    assert sorted(found) == sorted(paid)
    for row in facts:
        known = [each for each in users.values() if each["user_id"] == row["user_id"] and holds(each, row["booked_at"])]
        assert [users[row["user_key"]]] == (known or [users["unknown"]])
        assert days[row["date_key"]] == row["booked_on"]
    assert {str(row["booked_on"]) for row in facts} == {*world.days}
    ordered = sorted(day for day in days.values() if day)
    assert ordered == [ordered[0] + timedelta(days=n) for n in range(len(ordered))]
    return {row["payment_id"]: row["user_key"] for row in facts}


def holds(version, at):
    ends = version["valid_to"]
    return not version["is_deleted"] and version["valid_from"] <= at and (ends is None or at < ends)


def the_big_table_is_that_of(world, database):
    """One row per order with its plan and an array of its payments, as the applications' joins have it."""
    payments = defaultdict(Counter)
    for order, amount in source(database, "SELECT order_id, amount FROM payments"):
        payments[order][amount] += 1
    plans = dict(source(database, "SELECT order_id, name FROM orders JOIN plans USING (plan_id)"))
    held = world.rows("gold/orders_wide")
    assert {row["order_id"]: row["plan"] for row in held} == plans
    assert {row["order_id"]: Counter(each["amount"] for each in row["payments"]) for row in held} == payments
    users = dict(source(database, "SELECT user_id, active FROM users"))
    active = {row["user_id"]: row["active"] for row in held if "user" not in row["unknown"]}
    assert active
    assert active.keys() <= users.keys()
    for table in ("gold/orders_wide", "gold/dim_users"):
        assert "@login" not in str(world.rows(table)), "a name to log in with, in the clear"


def agencies_see_orders_of_active_users(world):
    """By their policy, and by a hash that is one for each user; a copy of another policy is refused."""
    orders = {row["order_id"]: row for row in world.rows("gold/orders_wide") if row["active"]}
    held = world.rows("serving/orders_for_agencies")
    assert {row["order_id"]: row["plan"] for row in held} == {order: row["plan"] for order, row in orders.items()}
    pairs = {(row["user_id"], orders[row["order_id"]]["user_id"]) for row in held}
    assert len(pairs) == len({user for user, _ in pairs}) == len({user for _, user in pairs})
    assert all(len(user) == 64 for user, _ in pairs)
    policies = AUDIENCES.of(ORDERS_WIDE.name)
    recorded = AUDIENCES.log.changes(ORDERS_WIDE.name)
    assert [each["audience"] for each in recorded] == [each.audience for each in policies]
    assert all("of serving/orders_for_agencies" in each["by"] for each in recorded), "the run that applied them first"
    copy, key = lake_of(world.settings).table(ORDERS_FOR_AGENCIES), Secrets().masking_key().of(ORDERS_FOR_AGENCIES.name)
    assert read_for(copy, key, policies=policies, audience=AGENCIES).count() == len(held)
    tightened = [replace(policies[0], rows="active AND plan = 'none'"), *policies[1:]]
    with pytest.raises(NotReady, match="was written by another policy of agencies"):
        read_for(copy, key, policies=tightened, audience=AGENCIES)


def the_mart_is_that_of(world, database):
    """Revenue by month and plan, as the applications' database sums it."""
    paid = source(
        database,
        "SELECT date_trunc('month', p.booked_at AT TIME ZONE 'UTC')::date, name, count(*), sum(amount) "
        "FROM payments p JOIN orders USING (order_id) JOIN plans USING (plan_id) GROUP BY 1, 2",
    )
    held = world.rows("gold/revenue")
    assert sorted((row["month_start"], row["plan"], row["payments"], row["revenue_euros"]) for row in held) == sorted(
        paid
    )
    assert all(row["fiscal_year"] == row["month_start"].year + (row["month_start"].month >= 4) for row in held)
    assert len(world.rows("gold/revenue_facts")) == len(held)
