"""Payments as facts: with user, plan and day as of each payment."""

from dataclasses import replace

import dagster as dg

from dedp_assets.case_study.defs.bronze.sales import ORDERS, PAYMENTS
from dedp_assets.case_study.defs.gold.dimensions import DIM_DATE, DIM_PLANS, DIM_USERS
from dedp_assets.graph.declare import About, Every, Job, Nightly, Pinned, Reads, Runs, lake_job, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.appending import appending
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, build_facts, relink_facts
from dedp_assets.patterns.modeling.dimensional_modeling import Additivity, Link

FACT_PAYMENTS = TableSpec(
    "gold/fact_payments",
    {
        "payment_id": PAYMENTS.columns["payment_id"],
        "order_id": PAYMENTS.columns["order_id"],
        "user_id": replace(ORDERS.columns["user_id"], required=False),
        "plan_id": replace(ORDERS.columns["plan_id"], required=False),
        "booked_at": PAYMENTS.columns["booked_at"],
        "user_key": Column(
            "STRING", "the user as of the payment, in gold/dim_users", required=True, classification="quasi"
        ),
        "plan_key": Column("STRING", "the plan, in gold/dim_plans", required=True, classification="public"),
        "date_key": Column("INT", "the day, in gold/dim_date", required=True, classification="public"),
        "amount": PAYMENTS.columns["amount"],
        "discount_percent": PAYMENTS.columns["discount_percent"],
        "booked_on": PAYMENTS.columns["booked_on"],
    },
    partition_by=("booked_on",),
    key=("payment_id", "booked_on"),
    event_time="booked_at",
    comment="One row per payment, with the keys of its dimensions.",
)
LINKS = {
    "user_key": Link(dimension="users", keys={"user_id": "user_id"}, at="booked_at"),
    "plan_key": Link(dimension="plans", keys={"plan_id": "plan_id"}),
    "date_key": Link(dimension="dates", keys={"booked_on": "date"}),
}
MEASURES = {
    "amount": Additivity(),
    "discount_percent": Additivity(adds=False, instead="sum(amount * discount_percent) / sum(amount)"),
    "order_id": Additivity(adds=False, instead="count(DISTINCT order_id)"),
}
AUDITS = (
    Audit.none_where("days_are_in_the_calendar", "date_key = -1"),
    Audit.none_where("plans_are_known", "plan_key = 'unknown'", approvable=True),
    Audit(
        name="users_are_known",
        of="unknown users",
        sql="count_if(user_key = 'unknown')",
        where="user_key = 'unknown'",
        per="written",
        warn_above=0.2,
    ),
)
QUERY = """
    SELECT payment_id, order_id, user_id, plan_id, payments.booked_at, amount, discount_percent, payments.booked_on
    FROM {payments} AS payments LEFT JOIN {orders} AS orders USING (order_id)
"""


@lake_table(
    FACT_PAYMENTS,
    reads=Reads({PAYMENTS: same("booked_on")}, references=[ORDERS, DIM_USERS, DIM_PLANS, DIM_DATE]),
    runs=Runs(DAILY, Nightly("55 0 * * *", lookback=14)),
    gates=AUDITS,
    about=About(used_by="analysts, who ask for payments by user, plan and day", fresh_hours=28),
    patterns=[build_facts],
)
def fact_payments(
    payments: Pinned, orders: Pinned, users: Pinned, plans: Pinned, dates: Pinned, into: Target
) -> WriteResult:
    """Find user, plan and day of one day's payments."""
    rows = payments.rows()
    paid = rows.sparkSession.sql(QUERY, payments=rows, orders=orders.rows())
    dimensions = {"users": users.rows(), "plans": plans.rows(), "dates": dates.rows()}
    return build_facts(paid, into, dimensions, links=LINKS, measures=MEASURES, allow_empty=True)


@lake_job(
    Job("relink_payments", description="Payments whose user or plan came late, or has another version now."),
    Every("5 1 * * *", description="At 01:05 UTC, payments whose dimensions changed get their keys."),
    pool="gold_fact_payments",
    reads=[DIM_USERS, DIM_PLANS, DIM_DATE],
    writes=[FACT_PAYMENTS],
)
def relink(context: dg.OpExecutionContext, lake: Lake, clock: Clock) -> None:
    """Repair the payments whose dimensions came late."""
    table = lake.table(FACT_PAYMENTS)
    with appending(context, table, code_version="1", column="booked_on", at=clock.now()) as step:
        dimensions = {
            name: lake.table(spec).read()
            for name, spec in (("users", DIM_USERS), ("plans", DIM_PLANS), ("dates", DIM_DATE))
        }
        relink_facts(dimensions, Target(table, step.provenance), links=LINKS)
