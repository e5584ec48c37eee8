"""Orders and payments of the applications' database by day, and all plans."""

from dataclasses import replace

import dagster as dg

from dedp_assets.case_study.windows import closed_windows, due_days, window_of
from dedp_assets.graph.declare import About, Every, Inputs, Reads, Request, Runs, Source, Step, lake_table
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns import (
    Audit,
    Column,
    TableSpec,
    Target,
    WriteResult,
    load_full,
    load_increment,
    volume_guard,
)

ORDERS_SOURCE, PAYMENTS_SOURCE, PLANS_SOURCE = "public.orders", "public.payments", "public.plans"
DATABASE = Source(
    "postgres/sales",
    "Orders, payments and plans of the applications, in their PostgreSQL.",
    kinds=("postgres", "table"),
    owner="team:applications",
)
_BOOKED = {
    "booked_at": Column("TIMESTAMP", "when the database booked it", required=True, classification="public"),
    "booked_on": Column("DATE", "UTC day of booked_at", required=True, classification="public"),
}
PAYMENTS = TableSpec(
    "bronze/payments",
    {
        "payment_id": Column("BIGINT", "key", required=True, classification="public"),
        "order_id": Column("BIGINT", "order that was paid", required=True, classification="public"),
        "amount": Column("DECIMAL(10,2)", "in euros", required=True, classification="public"),
        "discount_percent": Column(
            "INT", "discount on the price of the plan, in percent", required=True, classification="public"
        ),
        **_BOOKED,
    },
    partition_by=("booked_on",),
    event_time="booked_at",
    comment="One row per payment.",
)
ORDERS = TableSpec(
    "bronze/orders",
    {
        "order_id": Column("BIGINT", "key", required=True, classification="public"),
        "user_id": Column("STRING", "who ordered", required=True, classification="personal", subject="user"),
        "plan_id": Column("STRING", "plan that was ordered", required=True, classification="public"),
        **_BOOKED,
    },
    partition_by=("booked_on",),
    event_time="booked_at",
    comment="One row per order.",
)
PLANS = TableSpec(
    "bronze/plans",
    {
        "plan_id": Column("STRING", "key", required=True, classification="public"),
        "name": Column("STRING", "name in the price list", required=True, classification="public"),
        "monthly_euros": Column("DECIMAL(8,2)", "price of a month, in euros", required=True, classification="public"),
        "changed_at": Column("TIMESTAMP", "when the price changed last", required=True, classification="public"),
    },
    comment="One row per plan, as the applications' database has it.",
)
AUDITS = (
    Audit(name="every_row_has_a_delta_value", of="undated", fail_above=0, approvable=True),
    Audit.none_where("every_row_has_its_key", "`payment_id` IS NULL"),
)


def sales_every_day(
    context: dg.ScheduleEvaluationContext, lake: Lake, operational: OperationalDatabase
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request the due days by the log of payments; the day before is read again for late rows."""
    return due_days(context, lake, operational, table=PAYMENTS)


@lake_table(
    PAYMENTS,
    beside={ORDERS: [load_increment]},
    reads=Reads(sources=[DATABASE], inputs=closed_windows(PAYMENTS_SOURCE, ORDERS_SOURCE)),
    runs=Runs(
        DAILY,
        Every(
            "35 0 * * *",
            ask=sales_every_day,
            description="At 00:35 UTC, the days of the last week whose payments are not loaded, and the one before "
            "them.",
        ),
        job="load_sales",
    ),
    gates=AUDITS,
    about=About(
        used_by="the star of payments",
        fresh_hours=26,
        unchecked={"completeness": "its schedule asks for the days of its lookback that are missing"},
    ),
    patterns=[load_increment],
)
def sales(step: Step, into: Target, orders: Target, operational: OperationalDatabase) -> WriteResult:
    """Load orders and payments of one day; another load of the day adds rows that became visible since."""
    session, window = into.table.session, window_of(step.key)
    done = []
    for source, target, key in ((ORDERS_SOURCE, orders, "order_id"), (PAYMENTS_SOURCE, into, "payment_id")):
        with operational.rows(session, source, column="booked_at", window=window) as rows:
            done.append(load_increment(rows, target, delta="booked_at", window=window, keys=[key]))
    return replace(done[1], beside=(done[0],))


def listed(request: Request) -> Inputs:
    """Name the inputs of a run by the run's time: each run reads all plans again."""
    return Inputs({PLANS_SOURCE: request.at.isoformat()})


@lake_table(
    PLANS,
    reads=Reads(sources=[DATABASE], inputs=listed),
    runs=Runs(when=Every("25 0 * * *", description="At 00:25 UTC, all plans."), job="load_plans"),
    gates=volume_guard(),
    about=About(
        used_by="the star of payments",
        fresh_hours=26,
        figures={"present": "rows before"},
        unchecked={
            "completeness": "each run loads all plans",
            "volume": "a whole price list per load, held against the one before by the loader's audit",
        },
    ),
    patterns=[load_full],
)
def plans(into: Target, operational: OperationalDatabase, clock: Clock) -> WriteResult:
    """Replace all plans by the plans of the database."""
    today = window_of(clock.now().date().isoformat())
    with operational.rows(into.table.session, PLANS_SOURCE, column="changed_at", window=today) as rows:
        return load_full(rows, into)
