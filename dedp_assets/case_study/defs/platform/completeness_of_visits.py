"""Completeness of each day's visits: rows against the landed lines, missing and unknown values, unknown devices."""

from http import HTTPStatus

from dedp_assets.case_study.defs.bronze.visits import VISITS as LANDED
from dedp_assets.case_study.defs.silver.devices import DEVICES_CURRENT
from dedp_assets.case_study.defs.silver.visits import BY_EVENT_DATE, EDITION, VISITS
from dedp_assets.graph.declare import About, Gates, Nightly, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, audit_write_audit_publish
from dedp_assets.patterns.observability.completeness_check import SourceCount, check_completeness

COMPLETENESS = TableSpec(
    "platform/completeness_of_visits",
    {
        "event_date": Column("DATE", "UTC day of the visits", required=True),
        "figure": Column("STRING", "what was counted, such as nulls of referrer", required=True),
        "rows": Column("BIGINT", "number of visits; of source rows, number of landed lines", required=True),
    },
    partition_by=("event_date",),
    comment="One row per day and figure.",
)
# Duplicates and dead letters are landed lines, too; silver/visits warns of a tenth of duplicates.
TOLERANCE = 0.1
NULL_SHARES = {
    "user_id": 0.0,
    "status": 0.1,
    "user_agent": 0.5,
    # Bookmarks and crawlers bring none: only its loss as a whole tells of a broken collector.
    "referrer": 0.95,
}
# 499 is nginx's word for a client that hung up.
STATUSES = [*(str(each.value) for each in HTTPStatus), "499"]
REPORTS = {
    "rows_values_and_references_are_present": "Warns if visits are missing by the number of landed lines, if values "
    "are missing or unknown, and of kinds of devices that are not delivered."
}
_COUNTED = ["visit_id", *NULL_SHARES, *EDITION.origins("device_type"), "raw", "type"]
DERIVED = dict.fromkeys(("figure", "rows"), _COUNTED)


@lake_table(
    COMPLETENESS,
    reads=Reads({VISITS: same("event_date"), LANDED: BY_EVENT_DATE}, references=[DEVICES_CURRENT]),
    runs=Runs(DAILY, Nightly("50 2 * * *", lookback=14), job="check_completeness_of_visits"),
    gates=Gates(reports=REPORTS, if_empty="Figures are there also for a day without visits."),
    about=About(used_by="whoever looks after a source of visits", fresh_hours=28, derived=DERIVED),
    patterns=[check_completeness, audit_write_audit_publish],
    code_version=EDITION.reader("1"),
)
def completeness_of_visits(visits: Pinned, landed: Pinned, devices: Pinned, into: Target) -> WriteResult:
    """Check one day's visits, and keep the counts."""
    found = check_completeness(
        visits.rows().selectExpr(*NULL_SHARES, f"{EDITION.sql('device_type')} AS device_type"),
        {"device_type": devices.rows().select("type")},
        max_null_shares=NULL_SHARES,
        known_values={"status": STATUSES},
        source=SourceCount(rows=landed.count(), tolerance=TOLERANCE),
        allow_empty=True,
        severity="warn",
    )
    rows = into.table.session.createDataFrame([*found.figures.items()], "figure STRING, rows BIGINT")
    day = f"DATE '{into.partition['event_date']}' AS event_date"
    return audit_write_audit_publish(rows.selectExpr(day, "*"), into.reading(findings=[found]))
