"""The trigger of another team's report: a step of its own after the data that the report is made of."""

from dedp_assets.case_study.defs.gold.page_views_by_hour import PAGE_VIEWS_BY_HOUR
from dedp_assets.graph.declare import Gates, OnMarkers, OnRequest, Pinned, Runs, Step, lake_table
from dedp_assets.graph.declare.isolated import MarkerLog
from dedp_assets.graph.declare.partitions import HOURLY
from dedp_assets.graph.outcomes.run_tags import CAUSE, REQUEST, request_of
from dedp_assets.graph.systems.orchestrator import Orchestrator
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, overwrite_partition, plan_by_markers

REPORT_TRIGGERS = TableSpec(
    "platform/report_triggers",
    {
        "day": Column("DATE", "day of the report", required=True),
        "location": Column("STRING", "code location of the report", required=True),
        "job": Column("STRING", "job of the report", required=True),
        "run_id": Column("STRING", "run that was started; NULL if the day was not due"),
        "hour": Column("STRING", "UTC hour after which the trigger looked", required=True),
    },
    partition_by=("hour",),
    comment="One row per hour: the run that it started in another code location, if its day was due.",
)
# All that this team knows of the other one.
LOCATION, JOB = "reporting", "report_peak_hours"
AT_LAST_HOUR = OnMarkers(PAGE_VIEWS_BY_HOUR, period="day", start="last_marker")


@lake_table(
    REPORT_TRIGGERS,
    reads=[PAGE_VIEWS_BY_HOUR],
    runs=Runs(HOURLY, OnRequest()),
    gates=Gates(if_empty="An hour says whether its day was due."),
    about="whoever asks which run of a report an hour started",
    patterns=[plan_by_markers, overwrite_partition],
)
def report_triggers(step: Step, views: Pinned, into: Target, orchestrator: Orchestrator) -> WriteResult:
    """Start the report of a day after the commit of the day's last hour, and again after a change of an hour."""
    day = step.key.rpartition("-")[0]
    markers = MarkerLog("hour").poll(views.table.ledger)
    plan = AT_LAST_HOUR.plan({hour: version for hour, version in markers.items() if hour.startswith(day)}, {})
    started = None
    for due in plan.partitions:
        tags = {CAUSE: "trigger", REQUEST: request_of(f"{LOCATION}/{JOB}", due, plan.cursor[due])}
        started = orchestrator.launch(LOCATION, JOB, partition=due, tags=tags, request=REQUEST)
    columns = "day STRING, location STRING, job STRING, run_id STRING, hour STRING"
    rows = into.table.session.createDataFrame([(day, LOCATION, JOB, started, step.key)], columns)
    return overwrite_partition(rows.selectExpr("CAST(day AS DATE) AS day", "location", "job", "run_id", "hour"), into)
