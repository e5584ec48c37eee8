"""Sessions of visitors, from a stream of visits; each session is published once the gap has passed."""

from dedp_assets.case_study.defs.bronze.visits import EVENT_TIME, FOLLOWS_A_TOPIC
from dedp_assets.case_study.defs.bronze.visits import VISITS as LANDED
from dedp_assets.case_study.defs.gold.sessions import PUBLIC, RULE
from dedp_assets.case_study.defs.silver.visits import DEAD_LETTER, EVENT
from dedp_assets.graph.checks.letters import taken
from dedp_assets.graph.declare import About, Every, Pinned, Runs, lake_table
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, append_checkpointed, sessionize_stream

SESSIONS_LIVE = TableSpec(
    "gold/sessions_live",
    {
        "session_id": Column(
            "STRING", "of the visitor and of the session's first visit", required=True, classification="quasi"
        ),
        "user_id": EVENT["user_id"],
        "started_at": Column("TIMESTAMP", "first visit, UTC", required=True, classification="quasi"),
        "ended_at": Column("TIMESTAMP", "last visit, UTC", required=True, classification="quasi"),
        "visits": Column("BIGINT", "visits of the session", required=True, classification="public"),
        "pages": Column("ARRAY<STRING>", "paths that were visited, in order", required=True, classification="quasi"),
    },
    checks={"it_ends_after_it_started": "ended_at >= started_at"},
    comment="One row per session, once no visit less than an hour late can change it: early, and without what came "
    "later than that. The sessions of all visits are in gold/sessions, under the same ids.",
)
_TEXTS = [f"get_json_object(raw, '$.{name}') AS {name}" for name in ("visit_id", "user_id", "page")]
_USABLE = "trim(visit_id) <> '' AND trim(user_id) <> '' AND trim(page) <> '' AND event_time IS NOT NULL"


@lake_table(
    SESSIONS_LIVE,
    reads=[LANDED],
    runs=Runs(
        # The stream goes on by itself, and leaves out what is later than its watermark.
        when=Every(
            "*/5 * * * *",
            name="live_sessions_every_five_minutes",
            description="Every five minutes; to be started where visits come by a topic.",
            running=False,
        ),
        job="compute_live_sessions",
    ),
    about=About(
        used_by="whoever answers visitors while they are there",
        derived=dict.fromkeys(SESSIONS_LIVE.columns, ("raw",)),
        figures={"dropped_by_watermark": "late visits left out"},
        unchecked=FOLLOWS_A_TOPIC,
    ),
    patterns=[sessionize_stream, append_checkpointed],
)
def sessions_live(landed: Pinned, into: Target, lake: Lake) -> WriteResult:
    """Add the visits landed since the last run to the sessions; a forced run starts over."""
    read = landed.table.stream().selectExpr(*_TEXTS, f"{EVENT_TIME} AS event_time")
    visits = taken(read, rest=DEAD_LETTER, where=_USABLE)
    sessions = sessionize_stream(visits, rule=RULE, lateness="1 hour")
    return append_checkpointed(
        sessions.selectExpr(*PUBLIC),
        into,
        checkpoint=lake.checkpoint(SESSIONS_LIVE.name),
        restart=into.run.replay,
    )
