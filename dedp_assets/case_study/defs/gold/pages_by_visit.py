"""Pages of each visitor's day, in order."""

from dedp_assets.case_study.defs.silver.visits import EVENT
from dedp_assets.case_study.defs.silver.visits_by_visitor import BY_VISITOR, VISITS_BY_VISITOR
from dedp_assets.graph.declare import Pinned, lake_table
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, aggregate_locally, overwrite_partition

PAGES_BY_VISIT = TableSpec(
    "gold/pages_by_visit",
    {
        "event_date": Column("DATE", "UTC day; a visit ends with it", required=True, classification="public"),
        "user_id": EVENT["user_id"],
        "pages": Column(
            "ARRAY<STRING>", "paths in the order in which they were visited", required=True, classification="quasi"
        ),
        "started_at": Column("TIMESTAMP", "first page, UTC", required=True, classification="quasi"),
        "ended_at": Column("TIMESTAMP", "last page, UTC", required=True, classification="quasi"),
    },
    partition_by=("event_date",),
    checks={"it_ends_after_it_started": "ended_at >= started_at AND size(pages) > 0"},
    comment="One row per visitor and day.",
)
MEASURES = {
    "pages": "transform(array_sort(collect_list(struct(event_time, visit_id, page))), each -> each.page)",
    "started_at": "min(event_time)",
    "ended_at": "max(event_time)",
}
AUDITS = (Audit.all_read("every_page_is_on_a_way", "pages_shown", "size(pages)"),)


@lake_table(
    PAGES_BY_VISIT,
    reads=[VISITS_BY_VISITOR],
    gates=AUDITS,
    about="whoever designs the site, who looks at ways through it",
    patterns=[aggregate_locally, overwrite_partition],
)
def pages_by_visit(visits: Pinned, into: Target) -> WriteResult:
    """List the pages of each visit of one day, bucket by bucket of visitors."""
    ways = aggregate_locally(
        visits.table,
        keys=["event_date", "user_id"],
        measures=MEASURES,
        layout=BY_VISITOR,
        partitions=visits.partitions,
        version=visits.version,
    )
    return overwrite_partition(
        ways,
        into.reading(figures={"read": visits.count()}, represented="pages_shown"),
        allow_empty=True,
    )
