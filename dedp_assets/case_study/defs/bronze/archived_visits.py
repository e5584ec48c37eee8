"""Visits from before the platform, on their way out of a folder of Parquet files."""

from dedp_assets.graph.declare import About, Inputs, OnRequest, Reads, Request, Runs, Source, lake_table
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, migrate_format

DATASET = "visits_archive"
ARCHIVE = Source(
    f"landing/{DATASET}",
    "Parquet files with visits from before the platform, to which the web team adds what it finds.",
    kinds=("parquet", "file"),
    owner="team:web-analytics",
)
ARCHIVED_VISITS = TableSpec(
    "bronze/archived_visits",
    {
        "visit_id": Column("STRING", "key", required=True),
        "event_time": Column("TIMESTAMP", "when it happened", required=True),
        "page": Column("STRING", "path that was visited"),
    },
    comment="One row per visit of the archive. The folder stays beside it until its readers have moved.",
)


def added(request: Request) -> Inputs:
    """Name the inputs of a run by the run's id: each run looks for new files in the folder."""
    return Inputs({ARCHIVE.name: request.run_id})


@lake_table(
    ARCHIVED_VISITS,
    reads=Reads(sources=[ARCHIVE], inputs=added),
    runs=Runs(when=OnRequest()),
    about=About(
        used_by="analysts, who compare with the years before the platform",
        unchecked={
            "freshness": "an archive, which changes on request",
            "completeness": "each run takes every new file",
        },
    ),
    patterns=[migrate_format],
)
def archived_visits(into: Target, landing: Landing, clock: Clock) -> WriteResult:
    """Take new files of the archive, and let readers read the table once both hold the same rows."""
    return migrate_format(into, now=clock.now(), folder=str(landing.folder(DATASET)), to="switched")
