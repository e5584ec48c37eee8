"""The peak hour of each day, in a job that the producer of the hours starts itself."""

from dedp_assets.case_study.reporting.defs.contracts import AFTER_THE_LAST_HOUR, PRODUCER
from dedp_assets.graph.declare import About, Gates, Job, OnRequest, Reads, Runs, Step, Target, finished, lake_table
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Column, TableSpec, WriteResult, overwrite_partition

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
    SELECT hour, sum(views) AS views, DATE {day} AS day FROM {views}
    GROUP BY hour ORDER BY views DESC, hour LIMIT 1
"""


@lake_table(
    PEAK_HOURS,
    reads=Reads(sources=[PRODUCER], inputs=finished(AFTER_THE_LAST_HOUR)),
    runs=Runs(
        DAILY,
        OnRequest(),
        job=Job("report_peak_hours", "The peak hour of a day. The producer of the hours starts it after the last one."),
    ),
    gates=Gates(if_empty="A day without views has no peak."),
    about=About(owner="team:reporting", used_by="the operators of the website"),
    patterns=[overwrite_partition],
    code_version="1",
)
def peak_hours(step: Step, into: Target) -> WriteResult:
    """Find the hour of one day with the most views."""
    views = step.inputs.found.rows()
    return overwrite_partition(into.table.session.sql(QUERY, views=views, day=step.key), into)
