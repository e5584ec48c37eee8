"""Visits reported by partners, in common columns around the untouched record."""

from dedp_assets.case_study.defs.bronze.partner_visits import EVENT_TIME, field
from dedp_assets.case_study.defs.bronze.partner_visits import PARTNER_VISITS as LANDED
from dedp_assets.case_study.defs.silver.visits import BY_EVENT_DATE
from dedp_assets.graph.declare import About, Pinned, lake_table
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, overwrite_partition, wrap_records
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.value.wrapper import RAW

_RECORD = ", ".join(f"{name}: {column.type}" for name, column in LANDED.columns.items())
PARTNER_VISITS = TableSpec(
    "silver/partner_visits",
    {
        "visit_id": Column("STRING", "identity of the visit at its partner"),
        "partner": Column("STRING", "partner that reported it", required=True),
        "event_time": Column("TIMESTAMP", "when it happened, UTC"),
        "user_id": Column(
            "STRING",
            "the partner's pseudonym of the visitor",
            classification="personal",
            subject="visitor of a partner",
        ),
        "page": Column("STRING", "path that was visited"),
        "user_agent": Column("STRING", "the visitor's program", classification="personal"),
        "os_name": Column("STRING", "operating system of the visitor's program, or unknown", required=True),
        "device_type": Column("STRING", "desktop, phone, tablet, or unknown", required=True),
        "problem": Column("STRING", "what could not be read of the record; NULL if all could"),
        "event_date": Column("DATE", "UTC day of event_time; the landing day, if that is not known", required=True),
        RAW: Column(f"STRUCT<{_RECORD}>", "the record as it landed", required=True, classification="personal"),
    },
    partition_by=("event_date",),
    event_time="event_time",
    checks={
        "known_os": "os_name IN ('iOS', 'Android', 'macOS', 'Windows', 'Linux', 'unknown')",
        "known_device": "device_type IN ('desktop', 'phone', 'tablet', 'unknown')",
    },
    comment="One row per landed record. Computed columns are flat and what landed is in `raw`, which stays in silver.",
)
SHAPES = {
    "visit_id": {"magazine": field("id"), "radio": field("visit.uuid")},
    "event_time": EVENT_TIME,
    "user_id": {"magazine": field("user"), "radio": field("u_id")},
    "page": {"magazine": field("page"), "radio": f"nullif(regexp_extract({field('url')}, '/embed(/.*)$', 1), '')"},
    "user_agent": {"magazine": field("agent"), "radio": field("browser")},
}
"""Common column -> partner -> SQL over the record."""
OS_NAME = """
    CASE WHEN user_agent RLIKE 'iPhone|iPad' THEN 'iOS' WHEN user_agent RLIKE 'Android' THEN 'Android'
         WHEN user_agent RLIKE 'Mac OS X|Macintosh' THEN 'macOS' WHEN user_agent RLIKE 'Windows' THEN 'Windows'
         WHEN user_agent RLIKE 'Linux|X11' THEN 'Linux' ELSE 'unknown' END
"""
DEVICE_TYPE = """
    CASE WHEN user_agent RLIKE 'iPad|Tablet' THEN 'tablet' WHEN user_agent RLIKE 'iPhone|Mobile' THEN 'phone'
         WHEN user_agent RLIKE 'Macintosh|Windows NT|X11' THEN 'desktop' ELSE 'unknown' END
"""
PROBLEMS = {
    "the partner is unknown": f"partner NOT IN ({', '.join(map(quoted, EVENT_TIME))})",
    "the line is not valid UTF-8": "raw.line_bytes IS NOT NULL",
    "the line is no JSON, or has a key twice": "try_parse_json(raw.line) IS NULL",
    **{f"{name} cannot be read": f"{name} IS NULL" for name in ("visit_id", "event_time", "user_id", "page")},
    "event_time is not plausible": "event_time IS NOT NULL AND raw.event_date IS NULL",
}
PROBLEM = (
    f"nullif(concat_ws('; ', {', '.join(f'if({sql}, {quoted(text)}, NULL)' for text, sql in PROBLEMS.items())}), '')"
)
AUDITS = (
    Audit(
        name="most_records_can_be_read",
        of="unreadable",
        where="problem IS NOT NULL",
        per="written",
        warn_above=0,
        fail_above=0.5,
        approvable=True,
    ),
)
DERIVED = {
    **dict.fromkeys((*SHAPES, "os_name", "device_type", "problem"), ("line",)),
    "event_date": ("event_date", "landed_on"),
    RAW: tuple(LANDED.columns),
}


@lake_table(
    PARTNER_VISITS,
    reads={LANDED: BY_EVENT_DATE},
    runs=DAILY,
    gates=AUDITS,
    about=About(
        owner="team:partners",
        used_by="who looks after partners; engineers, who find in `raw` what a partner sent",
        fresh_hours=26,
        derived=DERIVED,
    ),
    patterns=[wrap_records, overwrite_partition],
)
def partner_visits(landed: Pinned, into: Target) -> WriteResult:
    """Convert the partner records of one event date to common columns, with the delivered record in a column."""
    common = wrap_records(landed.rows(), computed={"partner": "partner", **SHAPES}, by="partner")
    rows = common.selectExpr(
        "*",
        f"{OS_NAME} AS os_name",
        f"{DEVICE_TYPE} AS device_type",
        f"{PROBLEM} AS problem",
        "coalesce(raw.event_date, raw.landed_on) AS event_date",
    )
    return overwrite_partition(rows.select(*PARTNER_VISITS.columns), into, allow_empty=True)
