"""The peak hour of each day, in a job that the producer of the hours starts itself."""

from dedp_assets.case_study.reporting.defs.contracts import AFTER_THE_LAST_HOUR, PRODUCER
from dedp_assets.graph.declare import (
    OnRequest,
    Reads,
    Runs,
    finished,
    lake_query,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Column, TableSpec

PEAK_HOURS = TableSpec(
    "reporting/peak_hours",
    {
        "hour": Column("STRING", "UTC hour with the most views", required=True),
        "views": Column("BIGINT", "views of the hour", required=True),
        "day": Column("DATE", "UTC day", required=True),
    },
    partition_by=("day",),
    comment="One row per day.",
)
QUERY = """
    SELECT hour, sum(views) AS views, DATE {day} AS day FROM {found}
    GROUP BY hour ORDER BY views DESC, hour LIMIT 1
"""


@lake_query(
    PEAK_HOURS,
    reads=Reads(sources=[PRODUCER], inputs=finished(AFTER_THE_LAST_HOUR)),
    sql=QUERY,
    runs=Runs(DAILY, OnRequest(), job="report_peak_hours"),
    about="the operators of the website",
)
def peak_hours() -> None:
    """Find the hour of one day with the most views, on request of the hours' producer after the last hour."""
