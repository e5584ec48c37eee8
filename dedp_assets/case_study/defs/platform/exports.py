"""Exports of the page views: a weekly copy for auditors, and the milestone of the copied version."""

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.graph.declare import About, Nightly, Pinned, Reads, Runs, Touches, day_to_week, lake_table
from dedp_assets.graph.declare.partitions import WEEKLY
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Target, WriteResult
from dedp_assets.patterns.storage.snapshot_export import declare_exports, export_snapshot
from dedp_assets.patterns.storage.time_travel import set_milestone

EXPORTS = declare_exports(name="platform/exports", by="week")
MILESTONE = "newest-export"
_FOLDER = "snapshots"


@lake_table(
    EXPORTS,
    reads=Reads(
        {DAILY_PAGE_VIEWS: day_to_week("event_date")},
        touches=Touches(writes=[DAILY_PAGE_VIEWS], files=[_FOLDER]),  # a milestone, and the exports
    ),
    runs=Runs(WEEKLY, Nightly("0 5 * * 1", lookback=4), job="weekly_exports"),
    about=About(owner="team:platform", used_by="auditors, who read the exports as tables", fresh_hours=8 * 24),
    patterns=[export_snapshot],
)
def exports(views: Pinned, into: Target, lake: Lake) -> WriteResult:
    """Export the table's version at the end of the week, and keep the version until the next export."""
    # The newest version may be the milestone's own commit: a rerun would export once more.
    version = views.changed
    set_milestone(views.table.target(into.run), name=MILESTONE, at=version, change="move")
    return export_snapshot(views.table, into, to=lake.files(_FOLDER), version=version)
