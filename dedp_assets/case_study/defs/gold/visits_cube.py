"""Visits by device and referring site: a cube for each day, and a cube of the days for each week."""

from dataclasses import replace

from dedp_assets.case_study.defs.silver.visits import EDITION, VISITS
from dedp_assets.graph.declare import (
    About,
    Gates,
    Nightly,
    Pinned,
    Runs,
    day_to_week,
    lake_table,
)
from dedp_assets.graph.declare.partitions import WEEKLY
from dedp_assets.patterns import (
    Audit,
    Column,
    TableSpec,
    Target,
    WriteResult,
    aggregate,
    judge_manifest,
    merge_aggregates,
    overwrite_listed,
    overwrite_partition,
)
from dedp_assets.patterns.value.distributed_aggregator import GROUPING

KEYS = ("device", "site")
MEASURES = {
    "visits": "count(*)",
    "sized": "count(bytes)",
    "bytes": "sum(bytes)",
    "largest": "max(bytes)",
    "first_visit_at": "min(event_time)",
    "last_visit_at": "max(event_time)",
    "visitor_ids": "distinct(user_id)",
}
VISITORS = "CAST(size(visitor_ids) AS BIGINT) AS visitors"
LEVELS = {0: KEYS, 1: ("device",), 2: ("site",), 3: ()}
"""Value of the grouping column -> keys that the row is not a total over."""

_CUBE = {
    "device": Column("STRING", "kind of device, or unknown; NULL in a total over devices", classification="public"),
    "site": Column(
        "STRING", "host that sent the visitor, or none; NULL in a total over sites", classification="public"
    ),
    GROUPING: Column(
        "BIGINT", "0: device and site, 1: device, 2: site, 3: everything", required=True, classification="public"
    ),
    "visits": Column("BIGINT", "visits", required=True, classification="public"),
    "sized": Column(
        "BIGINT",
        "visits whose response has a size: bytes / sized is the average",
        required=True,
        classification="public",
    ),
    "bytes": Column("BIGINT", "size of all responses, in bytes", classification="public"),
    "largest": Column("BIGINT", "size of the largest response, in bytes", classification="public"),
    "first_visit_at": Column("TIMESTAMP", "first visit, UTC", required=True, classification="public"),
    "last_visit_at": Column("TIMESTAMP", "last visit, UTC", required=True, classification="public"),
    "visitor_ids": Column("ARRAY<STRING>", "distinct visitors", required=True, classification="personal"),
    "visitors": Column(
        "BIGINT", "number of distinct visitors: it does not add up", required=True, classification="public"
    ),
}
_CHECKS = {
    "known_level": f"{GROUPING} IN ({', '.join(map(str, LEVELS))})",
    "a_total_has_no_value": "(device IS NULL) = ((grouping_id & 2) <> 0) AND (site IS NULL) = ((grouping_id & 1) <> 0)",
    "visitors_are_counted": "visitors = size(visitor_ids) AND visitors BETWEEN 1 AND visits",
}
VISITS_CUBE = TableSpec(
    "gold/visits_cube",
    {"event_date": Column("DATE", "UTC day", required=True, classification="public"), **_CUBE},
    partition_by=("event_date",),
    checks=_CHECKS,
    comment="One row per day and device and site, and per total over them.",
)
WEEKLY_CUBE = TableSpec(
    "gold/visits_cube_weekly",
    {"week": Column("DATE", "Monday of the week", required=True, classification="public"), **_CUBE},
    partition_by=("week",),
    checks=_CHECKS,
    comment="One row per week and device and site, and per total over them.",
)
PLACED = f"""
    SELECT visit_id, event_time, user_id, {EDITION.sql("bytes")} AS bytes,
        coalesce(nullif(trim({EDITION.sql("device_type")}), ''), 'unknown') AS device,
        coalesce(nullif(try_parse_url(trim(referrer), 'HOST'), ''), 'none') AS site
    FROM {{visits}}
"""  # noqa: S608 - names of columns
ALIKE = Audit(
    name="totals_agree",
    sql=f"""coalesce(sum(abs(visits) * CASE {GROUPING} WHEN 0 THEN 3 ELSE -1 END), 0)""",
    fail_below=0,
    fail_above=0,
)
AUDITS = (
    Audit.all_read("every_visit_is_counted", "counted", f"if({GROUPING} = 3, visits, 0)"),
    ALIKE,
    Audit(
        name="devices_are_known",
        of="visits_of_unknown_devices",
        sql=f"coalesce(sum(if({GROUPING} = 1 AND device = 'unknown', visits, 0)), 0)",
        per="read",
        warn_above=0.2,
    ),
)
LISTED = {"the_manifest_is_of_the_newest_version": "Warns if readers without Delta see an older version of the weeks."}
_DERIVED = {
    **dict.fromkeys(("sized", "bytes", "largest"), EDITION.origins("bytes")),
    "device": EDITION.origins("device_type"),
    GROUPING: EDITION.origins("device_type", "referrer"),
}


@lake_table(
    VISITS_CUBE,
    reads=[VISITS],
    runs=Runs(when=Nightly("45 1 * * *", lookback=14, follows_late=True), job="daily_cube"),
    gates=AUDITS,
    about=About(fresh_hours=28, derived=_DERIVED),
    patterns=[aggregate, overwrite_partition],
    code_version=EDITION.reader("1"),
)
def visits_cube(visits: Pinned, into: Target) -> WriteResult:
    """Aggregate one day's visits by device and site, with totals over both, as mergeable states."""
    placed = into.table.session.sql(PLACED, visits=visits.rows())
    cube = aggregate(placed, keys=KEYS, measures=MEASURES, sets=[*LEVELS.values()])
    rows = cube.selectExpr(f"DATE '{into.partition['event_date']}' AS event_date", "*", VISITORS)
    counted = into.reading(figures={"read": visits.count()}, represented="counted")
    return overwrite_partition(rows, counted, allow_empty=True)


@lake_table(
    WEEKLY_CUBE,
    reads={VISITS_CUBE: day_to_week("event_date")},
    runs=WEEKLY,
    gates=Gates([ALIKE], reports=LISTED),
    about=About(used_by="dashboards, which read the listed files by DuckDB", derived={"visitors": ["visitor_ids"]}),
    patterns=[aggregate, overwrite_listed],
)
def visits_cube_weekly(days: Pinned, into: Target) -> WriteResult:
    """Merge the cubes of a week's days: sums and sets of visitors; list the files."""
    cube = merge_aggregates(days.rows(), keys=[*KEYS, GROUPING], measures=MEASURES)
    rows = cube.selectExpr(f"DATE '{into.partition['week']}' AS week", "*", VISITORS)
    written = overwrite_listed(rows, into, allow_empty=True)
    return replace(written, findings=(*written.findings, judge_manifest(into.table)))
