"""Visitors of each ten minutes, counted as visits come in."""

from dedp_assets.case_study.defs.bronze.visits import EVENT_TIME, FOLLOWS_A_TOPIC
from dedp_assets.case_study.defs.bronze.visits import VISITS as LANDED
from dedp_assets.graph.declare import About, Every, Pinned, Runs, lake_table
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, append_checkpointed

VISITORS_BY_WINDOW = TableSpec(
    "gold/visitors_by_window",
    {
        "window_start": Column("TIMESTAMP", "start of ten minutes, UTC", required=True, classification="public"),
        "visitors": Column("BIGINT", "distinct visitors in them", required=True, classification="public"),
    },
    checks={"somebody_came": "visitors > 0"},
    comment="One row per ten minutes with visits, once no visit less than an hour late can change it: approximate, and "
    "early. Exact numbers by day are in gold/daily_visitors.",
)
QUERY = """
    SELECT window.start AS window_start, CAST(size(collect_set(user_id)) AS BIGINT) AS visitors
    FROM {visits} WHERE user_id IS NOT NULL GROUP BY window(event_time, '10 minutes')
"""


@lake_table(
    VISITORS_BY_WINDOW,
    reads=[LANDED],
    runs=Runs(
        when=Every(
            "*/10 * * * *",
            name="visitors_every_ten_minutes",
            description="Every ten minutes; to be started where visits come by a topic.",
            running=False,
        ),
        job="count_visitors",
    ),
    about=About(
        used_by="whoever watches the website now",
        derived={"window_start": ["raw"], "visitors": ["raw"]},
        figures={"dropped_by_watermark": "late visits left out"},
        unchecked=FOLLOWS_A_TOPIC,
    ),
    patterns=[append_checkpointed],
)
def visitors_by_window(landed: Pinned, into: Target, lake: Lake) -> WriteResult:
    """Count the visits landed since the last run; a forced run counts all visits again."""
    columns = [f"{EVENT_TIME} AS event_time", "get_json_object(raw, '$.user_id') AS user_id"]
    visits = landed.table.stream().selectExpr(*columns).withWatermark("event_time", "1 hour")
    return append_checkpointed(
        into.table.session.sql(QUERY, visits=visits),
        into,
        checkpoint=lake.checkpoint(VISITORS_BY_WINDOW.name),
        restart=into.run.replay,
    )
