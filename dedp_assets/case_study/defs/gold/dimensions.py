"""Dimensions of the star of payments: users by version, plans, and days."""

from dataclasses import replace
from datetime import date

from dedp_assets.case_study.defs.bronze.sales import PLANS
from dedp_assets.case_study.defs.silver.users import USERS
from dedp_assets.graph.declare import About, Every, Pinned, Runs, lake_table
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, add_members, list_dates
from dedp_assets.patterns.modeling.dimensional_members import DATES
from dedp_assets.patterns.modeling.versioned_dimension import VERSION

FIRST_DAY = date(2025, 1, 1)
FISCAL_MONTH = 4
HOLIDAYS = {f"{year}-{day}": name for year in range(2025, 2031) for day, name in (("01-01", "New Year"),)}
_VALIDITY = {name: column for name, column in VERSION.items() if name != "changes"}
DIM_USERS = TableSpec(
    "gold/dim_users",
    {
        "user_key": Column(
            "STRING",
            "hash of user and start of the version; unknown for the unknown user",
            required=True,
            classification="quasi",
        ),
        "user_id": replace(USERS.columns["user_id"], required=False),
        "active": USERS.columns["active"],
        **_VALIDITY,
    },
    key=("user_key",),
    comment="One row per state of a user, with the time it was true, and one for unknown users.",
)
DIM_PLANS = TableSpec(
    "gold/dim_plans",
    {
        "plan_key": Column(
            "STRING", "hash of the plan; unknown for the unknown plan", required=True, classification="public"
        ),
        **{name: replace(PLANS.columns[name], required=False) for name in ("plan_id", "name", "monthly_euros")},
    },
    key=("plan_key",),
    comment="One row per plan, and one for unknown plans.",
)
DIM_DATE = TableSpec("gold/dim_date", dict(DATES), key=("date_key",), comment="One row per day, without gaps.")
_COLUMNS = [name for name in DIM_USERS.columns if name != "user_key"]


@lake_table(
    DIM_USERS,
    beside={DIM_PLANS: [add_members], DIM_DATE: [list_dates]},
    reads=[USERS, PLANS],
    runs=Runs(
        when=Every("45 0 * * *", description="At 00:45 UTC, users, plans and days of the star of payments."),
        job="store_dimensions",
    ),
    about=About(
        used_by="analysts, who ask for payments by user, plan and day",
        fresh_hours=28,
        unchecked={"completeness": "each run stores all users, plans and days"},
    ),
    patterns=[add_members],
)
def dimensions(
    users: Pinned, plans: Pinned, into: Target, of_plans: Target, dates: Target, clock: Clock
) -> WriteResult:
    """Store the dimensions with keys and unknown members, and the days to the end of next year."""
    states = users.rows().select(*_COLUMNS)
    versions = add_members(states, key="user_key", natural=["user_id"], valid_from="valid_from")
    listed = plans.rows().select("plan_id", "name", "monthly_euros")
    members = add_members(listed, key="plan_key", natural=["plan_id"], unknown={"name": "unknown"})
    days = list_dates(
        into.table.session,
        first=FIRST_DAY,
        last=date(clock.now().year + 1, 12, 31),
        fiscal_month=FISCAL_MONTH,
        holidays=HOLIDAYS,
    )
    rows = ((into, versions), (of_plans, members), (dates, days))
    done = [each.by("modeling.dimensional_members").stage(frame).publish() for each, frame in rows]
    return replace(done[0], beside=tuple(done[1:]))
