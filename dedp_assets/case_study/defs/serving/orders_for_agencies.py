"""Copy of the orders for agencies, by their policy, refreshed in the run of the orders."""

from dedp_assets.case_study.defs.gold.orders_wide import ORDERS_WIDE
from dedp_assets.case_study.defs.serving.policies import AGENCIES, AUDIENCES
from dedp_assets.graph.declare import About, OnRequest, Pinned, lake_table
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, refresh_copy

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
    patterns=[refresh_copy],
)
def orders_for_agencies(orders: Pinned, into: Target, secrets: Secrets) -> WriteResult:
    """Refresh the copy for agencies by their policy."""
    key, policies = secrets.masking_key().of(into.name), AUDIENCES.in_force(ORDERS_WIDE.name, into.run)
    return refresh_copy(orders.table, into, key, policies=policies, audience=AGENCIES, version=orders.version)
