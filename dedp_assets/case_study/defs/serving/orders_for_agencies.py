"""Copy of the orders for agencies, by their policy, refreshed in the run of the orders."""

from dedp_assets.case_study.defs.gold.orders_wide import ORDERS_WIDE
from dedp_assets.graph.declare import About, OnRequest, Pinned, lake_table
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import Column, ColumnMask, Policy, TableSpec, Target, WriteResult, read_for, refresh_copy

AGENCIES = "agencies"
POLICIES = [
    Policy(AGENCIES, ["order_id", "user_id", "plan", "booked_on"], {"user_id": ColumnMask("hash")}, rows="active"),
    Policy("support", [*ORDERS_WIDE.columns], rows="true", max_rows=100),
]
"""What each audience sees of the orders; whoever has no policy sees nothing."""
_COLUMNS = ORDERS_WIDE.columns
ORDERS_FOR_AGENCIES = TableSpec(
    "serving/orders_for_agencies",
    {
        "order_id": _COLUMNS["order_id"],
        "user_id": Column(
            "STRING", "keyed hash of the user", required=True, classification="personal", purpose=("billing",)
        ),
        "plan": _COLUMNS["plan"],
        "booked_on": _COLUMNS["booked_on"],
    },
    comment="One row per order of an active user. A new policy replaces all rows, and older ones are refused.",
)


@lake_table(
    ORDERS_FOR_AGENCIES,
    reads=[ORDERS_WIDE],
    runs=OnRequest(),
    about=About(used_by="agencies, who settle their commissions"),
    patterns=[read_for, refresh_copy],
)
def orders_for_agencies(orders: Pinned, into: Target, secrets: Secrets) -> WriteResult:
    """Refresh the copy for agencies by their policy."""
    key = secrets.masking_key().of(into.name)
    return refresh_copy(orders.table, into, key, policies=POLICIES, audience=AGENCIES, version=orders.version)
