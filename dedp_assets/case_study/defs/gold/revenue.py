"""Revenue by month and plan: a mart for finance, of facts, dimensions and the joined table."""

from dataclasses import replace

from dedp_assets.case_study.defs.gold.dimensions import DIM_DATE, DIM_PLANS
from dedp_assets.case_study.defs.gold.fact_payments import FACT_PAYMENTS, MEASURES
from dedp_assets.graph.declare import About, Every, Pinned, Runs, lake_table
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, publish_mart, sum_measures
from dedp_assets.patterns.modeling.dimensional_modeling import Additivity, Link

REVENUE = TableSpec(
    "gold/revenue",
    {
        "month_start": Column("DATE", "first day of the month", required=True, classification="public"),
        "fiscal_year": Column("INT", "year in which the fiscal year ends", classification="public"),
        "fiscal_quarter": Column("INT", "quarter of the fiscal year", classification="public"),
        "plan": Column("STRING", "name of the plan, or unknown", classification="public"),
        "payments": Column("BIGINT", "number of payments", required=True, classification="public"),
        "revenue_euros": Column("DECIMAL(20,2)", "sum of the payments", required=True, classification="public"),
    },
    comment="One row per month and plan, of the same refresh as facts and dimensions.",
)
REVENUE_FACTS = TableSpec(
    "gold/revenue_facts",
    {
        "month_start": Column("DATE", "first day of the month", required=True, classification="public"),
        "plan_id": Column("STRING", "the plan, or none", required=True, classification="public"),
        "date_key": Column(
            "INT", "first day of the month, in gold/revenue_dates", required=True, classification="public"
        ),
        "plan_key": Column("STRING", "the plan, in gold/revenue_plans", required=True, classification="public"),
        "payments": Column("BIGINT", "number of payments", required=True, classification="public"),
        "amount": Column("DECIMAL(20,2)", "sum of the payments, in euros", required=True, classification="public"),
    },
    key=("month_start", "plan_id"),
    comment="One row per month and plan.",
)
REVENUE_PLANS = replace(DIM_PLANS, name="gold/revenue_plans")
REVENUE_DATES = replace(DIM_DATE, name="gold/revenue_dates")
MONTHLY = "trunc(booked_on, 'MONTH') AS month_start", "coalesce(plan_id, 'none') AS plan_id", "amount", "1 AS payments"
LINKS = {
    "date_key": Link(dimension="dates", keys={"month_start": "date"}),
    "plan_key": Link(dimension="plans", keys={"plan_id": "plan_id"}),
}
NAMES = {
    "month_start": "month_start",
    "fiscal_year": "date_key.fiscal_year",
    "fiscal_quarter": "date_key.fiscal_quarter",
    "plan": "plan_key.name",
    "payments": "payments",
    "revenue_euros": "amount",
}


@lake_table(
    REVENUE,
    beside={REVENUE_FACTS: [publish_mart], REVENUE_PLANS: [publish_mart], REVENUE_DATES: [publish_mart]},
    reads=[FACT_PAYMENTS, DIM_PLANS, DIM_DATE],
    runs=Runs(when=Every("20 1 * * *", description="At 01:20 UTC, revenue of all months."), job="publish_revenue"),
    about=About(
        used_by="finance, who report revenue by month and plan",
        fresh_hours=28,
        unchecked={"completeness": "each run sums all payments"},
    ),
    patterns=[publish_mart],
)
def revenue(
    payments: Pinned, plans: Pinned, dates: Pinned, into: Target, facts: Target, of_plans: Target, of_dates: Target
) -> WriteResult:
    """Sum all payments by month and plan, and publish facts, dimensions and the joined table."""
    measures = {"amount": MEASURES["amount"], "payments": Additivity()}
    monthly = sum_measures(payments.rows().selectExpr(*MONTHLY), measures=measures, by=["month_start", "plan_id"])
    members = {"plans": of_plans, "dates": of_dates}
    dimensions = {"plans": plans.rows(), "dates": dates.rows()}
    return publish_mart(monthly, into, facts, members, dimensions, links=LINKS, names=NAMES)
