"""Visits laid out by visitor: the visits of a visitor's day lie in one bucket."""

from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Job, Nightly, Pinned, Runs, lake_table
from dedp_assets.patterns import Audit, Layout, TableLayout, TableSpec, Target, WriteResult, lay_out, tally

# Another number of buckets is a rewrite of all days: dedp layout silver/visits_by_visitor --apply
BY_VISITOR = Layout(by=("user_id",), buckets=4)
VISITS_BY_VISITOR = TableSpec(
    "silver/visits_by_visitor",
    {name: VISITS.columns[name] for name in ("visit_id", "event_time", "user_id", "page", "event_date")},
    partition_by=("event_date",),
    event_time="event_time",
    layout=TableLayout(buckets=BY_VISITOR),
    comment="One row per visit, all of one visitor's day in one bucket.",
)
EVERY_VISIT = Audit(name="every_visit_is_laid_out", of="written", per="read", fail_below=1, fail_above=1)
JOB = Job(
    "daily_layout",
    "Visits of a day laid out by visitor, and the ways of its visits; and those of the days before it that visits came "
    "late for.",
    'key:"silver/visits_by_visitor"+ and not key:"gold/visits_of_users"',
)


@lake_table(
    VISITS_BY_VISITOR,
    reads=[VISITS],
    runs=Runs(when=Nightly("50 1 * * *", lookback=14, follows_late=True), job=JOB),
    gates=[EVERY_VISIT],
    about=About(fresh_hours=28),
    patterns=[lay_out],
    code_version=f"1 in {BY_VISITOR.buckets}",
)
def visits_by_visitor(visits: Pinned, into: Target) -> WriteResult:
    """Lay out one day's visits in buckets of visitors; another number of buckets needs a new code version."""
    columns = [name for name in VISITS_BY_VISITOR.columns if name != BY_VISITOR.column]
    rows, seen = tally(visits.rows().select(*columns), identity=["visit_id"])
    return lay_out(rows, into.reading(seen), allow_empty=True)
