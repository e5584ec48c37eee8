"""A small star: users by version, plans, days, and facts; and a model of it in plain Python."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from hashlib import sha256

from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.modeling.dimensional_modeling import Additivity, Link
from tests.patterns.modeling.changes import moment

VERSIONS = (
    "user STRING, segment STRING, valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN, is_deleted BOOLEAN"
)
ORDERS = "order_id STRING, user STRING, plan STRING, at TIMESTAMP, sold_on DATE, euros DECIMAL(10,2), percent INT"
LINKS = {
    "user_key": Link(dimension="users", keys={"user": "user"}, at="at"),
    "plan_key": Link(dimension="plans", keys={"plan": "plan"}),
    "sold_key": Link(dimension="days", keys={"sold_on": "date"}, key="date_key"),
}
MEASURES = {"euros": Additivity(), "percent": Additivity(adds=False, instead="sum(percent * euros) / sum(euros)")}
FACTS = TableSpec(
    "gold/fact_orders",
    {
        "order_id": Column("STRING", required=True),
        "user": Column("STRING", classification="personal"),
        "plan": Column("STRING"),
        "at": Column("TIMESTAMP"),
        "sold_on": Column("DATE", required=True),
        "user_key": Column("STRING", required=True),
        "plan_key": Column("STRING", required=True),
        "sold_key": Column("INT", required=True),
        "euros": Column("DECIMAL(10,2)"),
        "percent": Column("INT"),
    },
    partition_by=("sold_on",),
    key=("order_id", "sold_on"),
)
PLANS = [("basic", "Basic"), ("team", "Team")]


def versions_of(changes):
    """The versions of users whose changes are ``user -> [(day, segment or None)]``, contiguous."""
    found = []
    for user, states in changes.items():
        for (day, segment), (end, _) in zip(states, [*states[1:], (None, None)], strict=False):
            last = end is None
            current = last and segment is not None
            found.append((user, segment, moment(day), None if last else moment(end), current, segment is None))
    return found


def segment_at(changes, user, day):
    """What a user was on a day; ``None`` before the first change, and where the user is deleted."""
    return next((segment for since, segment in reversed(changes.get(user, [])) if since <= day), None)


def dimensions_of(spark, changes, plans=PLANS, days=31):
    """The three dimensions, by name, with keys made in plain Python."""
    versions = [(key_in_python(user, begin), user, *more) for user, *more in versions_of(changes) if (begin := more[1])]
    unknown = ("unknown", None, "unknown segment", moment(0), None, True, False)
    dates = [*map(day_of, range(days))]
    return {
        "users": spark.createDataFrame([*versions, unknown], f"user_key STRING, {VERSIONS}"),
        "plans": spark.createDataFrame(
            [*((key_in_python(plan), plan, name) for plan, name in plans), ("unknown", None, None)],
            "plan_key STRING, plan STRING, name STRING",
        ),
        "days": spark.createDataFrame(
            [*((int(f"{each:%Y%m%d}"), each) for each in dates), (-1, None)], "date_key INT, date DATE"
        ),
    }


def key_in_python(*values):
    """The surrogate key of texts and times."""
    texts = [("s", value) if isinstance(value, str) else ("t", str(micros(value))) for value in values]
    return sha256("".join(f"{kind}{len(text.encode())}:{text}" for kind, text in texts).encode()).hexdigest()


def micros(at):
    return (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def order(name, user, plan, day, euros=1, percent=10):
    """An order, as a row of :data:`ORDERS`; on noon of a day."""
    return (name, user, plan, moment(day + 0.5), day_of(day), Decimal(euros), percent)


def day_of(day) -> date:
    return moment(day).date()
