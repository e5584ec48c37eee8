"""Current users in the buckets of the visits by visitor, so that both are joined without a shuffle."""

from dataclasses import replace

from dedp_assets.case_study.defs.silver.users import USERS_CURRENT
from dedp_assets.case_study.defs.silver.visits_by_visitor import BY_VISITOR
from dedp_assets.graph.declare import About, Every, Gates, Pinned, Runs, lake_table
from dedp_assets.patterns import Finding, Table, TableLayout, TableSpec, Target, WriteResult, lay_out, read_keys
from dedp_assets.patterns.storage.bucket import Bucketed

USERS_BY_VISITOR = TableSpec(
    "silver/users_by_visitor",
    {name: USERS_CURRENT.columns[name] for name in ("user_id", "active")},
    layout=TableLayout(buckets=BY_VISITOR),
    comment="One row per user, who is not active if deleted, in as many buckets as the visits by visitor.",
)

FOUND = "users_are_found_by_key"
_SOME = 5


@lake_table(
    USERS_BY_VISITOR,
    reads=[USERS_CURRENT],
    runs=Runs(
        when=Every("40 1 * * *", description="At 01:40 UTC, before the visits of the day are laid out."),
        job="lay_out_users",
    ),
    gates=Gates(reports={FOUND: "The buckets that readers compute from a key are those that hold the rows."}),
    about=About(
        owner="team:applications",
        used_by="gold/visits_of_users",
        fresh_hours=28,
        unchecked={"completeness": "each run lays out all users"},
    ),
    patterns=[lay_out, read_keys],
    code_version=f"1 in {BY_VISITOR.buckets}",
)
def users_by_visitor(users: Pinned, into: Target) -> WriteResult:
    """Lay out the users as they are now; another number of buckets needs a new code version."""
    written = lay_out(users.rows().select("user_id", "active"), into, allow_empty=True)
    return replace(written, findings=(*written.findings, _found(into.table, written.version)))


def _found(table: Table, version: int) -> Finding:
    """Look some users up in the one bucket that the hash of their key names."""
    some = [{"user_id": row["user_id"]} for row in table.read(version=version).take(_SOME)]
    found = read_keys(Bucketed(table, BY_VISITOR, version=version), keys=some).count() if some else 0
    return Finding(FOUND, found == len(some), "warn", {"users": len(some), "found": found})
