"""Visits of users who may log in, of others, and of nobody known, by day."""

from dedp_assets.case_study.defs.silver.users_by_visitor import USERS_BY_VISITOR
from dedp_assets.case_study.defs.silver.visits_by_visitor import BY_VISITOR, VISITS_BY_VISITOR
from dedp_assets.graph.declare import About, Nightly, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, join_buckets, overwrite_partition
from dedp_assets.patterns.storage.bucket import Bucketed

VISITS_OF_USERS = TableSpec(
    "gold/visits_of_users",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "active": Column(
            "BOOLEAN",
            "whether the user may log in; NULL for visitors who are no users, or deleted",
            classification="public",
        ),
        "visits": Column("BIGINT", "their visits", required=True, classification="public"),
    },
    partition_by=("event_date",),
    comment="One row per day and kind of visitor.",
)
COUNTED = Audit.all_read("every_visit_is_counted", "visits")


@lake_table(
    VISITS_OF_USERS,
    reads=Reads({VISITS_BY_VISITOR: same("event_date")}, references=[USERS_BY_VISITOR]),
    runs=Runs(DAILY, Nightly("5 2 * * *", lookback=14)),
    gates=[COUNTED],
    about=About(used_by="whoever asks how many visitors are users", fresh_hours=28),
    patterns=[join_buckets, overwrite_partition],
)
def visits_of_users(visits: Pinned, users: Pinned, into: Target) -> WriteResult:
    """Count one day's visits by the kind of the visitor, bucket by bucket of visitors and users."""
    day = Bucketed(visits.table, BY_VISITOR, ["event_date"], visits.partitions, visits.version)
    joined = join_buckets(day, Bucketed(users.table, BY_VISITOR, version=users.version), how="left")
    counted = joined.groupBy("event_date", "active").count().withColumnRenamed("count", "visits")
    read = {"read": visits.count()}
    return overwrite_partition(counted, into.reading(figures=read, represented="visits"), allow_empty=True)
