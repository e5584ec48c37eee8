"""Orders as one big table: with user, plan and payments, so that a question is one scan."""

from dataclasses import replace

from dedp_assets.case_study.defs.bronze.sales import ORDERS, PAYMENTS, PLANS
from dedp_assets.case_study.defs.silver.users import USERS_CURRENT
from dedp_assets.graph.declare import About, Every, Gates, Job, Pinned, Runs, lake_table
from dedp_assets.patterns import (
    Column,
    TableSpec,
    Target,
    WriteResult,
    join_entities,
    judge_breadth,
    nest_children,
)
from dedp_assets.patterns.storage.normalizer import Entity

ENTITIES = {"user": Entity(["active"]), "plan": Entity(["plan"], ["monthly_euros"])}
ORDERS_WIDE = TableSpec(
    "gold/orders_wide",
    {
        "order_id": ORDERS.columns["order_id"],
        "user_id": ORDERS.columns["user_id"],
        "active": USERS_CURRENT.columns["active"],
        "plan_id": ORDERS.columns["plan_id"],
        "plan": Column("STRING", "name of the plan", classification="public"),
        "monthly_euros": Column("DECIMAL(8,2)", "price of a month now, in euros", classification="public"),
        "booked_at": ORDERS.columns["booked_at"],
        "booked_on": ORDERS.columns["booked_on"],
        "unknown": Column(
            "ARRAY<STRING>",
            "what the order refers to and is not known: user, plan",
            required=True,
            classification="public",
        ),
        "payments": Column(
            "ARRAY<STRUCT<paid_at: TIMESTAMP, amount: DECIMAL(10,2)>>",
            "its payments, the oldest first",
            required=True,
            classification="public",
        ),
    },
    key=("order_id",),
    event_time="booked_at",
    comment="One row per order, with user and plan as they are now, and all payments.",
)
JOB = Job(
    "widen_orders",
    "All orders with all that belongs to them, and what agencies see of the orders.",
    'key:"gold/orders_wide" or key:"serving/orders_for_agencies"',
)


@lake_table(
    ORDERS_WIDE,
    reads=[ORDERS, PAYMENTS, USERS_CURRENT, PLANS],
    runs=Runs(when=Every("10 1 * * *", description="At 01:10 UTC, all orders."), job=JOB),
    gates=Gates(reports={"table_is_about_one_thing": "Neither the name nor the columns tell of many entities."}),
    about=About(
        used_by="support, who look at an order with all that belongs to it",
        fresh_hours=28,
        unchecked={"completeness": "each run stores all orders"},
    ),
    patterns=[nest_children, judge_breadth],
)
def orders_wide(orders: Pinned, payments: Pinned, users: Pinned, plans: Pinned, into: Target) -> WriteResult:
    """Join all orders to users and plans, and nest their payments."""
    parts = {
        "user": users.rows().select("user_id", "active"),
        "plan": plans.rows().selectExpr("plan_id", "name AS plan", "monthly_euros"),
    }
    wide = join_entities(orders.rows(), parts, entities=ENTITIES, unknown="unknown", keep_references=True)
    paid = payments.rows().selectExpr("order_id", "booked_at AS paid_at", "amount")
    nested = nest_children(wide, paid, keys=["order_id"], column="payments", order_by=["paid_at"])
    written = into.by("storage.denormalizer").stage(nested).publish()
    return replace(written, findings=(*written.findings, judge_breadth(ORDERS_WIDE, entities=ENTITIES)))
