"""Visits in two parts: the columns of each question, and what is known of device and place, which many visits share."""

from dedp_assets.case_study.defs.silver.visits_enriched import VISITS_ENRICHED
from dedp_assets.graph.declare import About, Nightly, Pinned, lake_table
from dedp_assets.patterns import Column, TableLayout, TableSpec, Target, WriteResult, write_parts

_COLUMNS = VISITS_ENRICHED.columns
_HOT = ("visit_id", "event_time", "user_id", "page")
_SHARED = ("device_type", "device_version", "device_name", "country", "region")
_CONTEXT = Column("STRING", "hash of device and place, in silver/visit_contexts", required=True)
VISIT_CONTEXTS = TableSpec(
    "silver/visit_contexts",
    {"context": _CONTEXT, **{name: _COLUMNS[name] for name in (*_SHARED, "event_date")}},
    partition_by=("event_date",),
    key=("context", "event_date"),
    comment="One row per day, device and place that a visit came from; of the last 90 days, nightly maintenance sees "
    "to that.",
    layout=TableLayout(keep_days=90),
)
VISITS_HOT = TableSpec(
    "silver/visits_hot",
    {**{name: _COLUMNS[name] for name in _HOT}, "context": _CONTEXT, "event_date": _COLUMNS["event_date"]},
    partition_by=("event_date",),
    key=("visit_id", "event_date"),
    event_time="event_time",
    comment="One row per visit, without what few questions are about.",
)


@lake_table(
    VISITS_HOT,
    beside={VISIT_CONTEXTS: [write_parts]},
    reads=[VISITS_ENRICHED],
    runs=Nightly("50 3 * * *", lookback=14),
    about=About(used_by="analysts, who count visits by the hour", fresh_hours=28),
    patterns=[write_parts],
)
def visits_hot(visits: Pinned, into: Target, contexts: Target) -> WriteResult:
    """Split one day's visits into hot columns and context, which is stored once."""
    return write_parts(visits.rows().select(*_HOT, *_SHARED, "event_date"), into, contexts, allow_empty=True)
