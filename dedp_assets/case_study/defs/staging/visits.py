"""Visits in staging: production's rows without personal values."""

from dedp_assets.case_study.defs.silver.visits import EDITION, VISITS
from dedp_assets.graph.declare import About, Gates, OnRequest, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.secrets import Secrets
from dedp_assets.patterns import Target, WriteResult, declare_transformed, replicate_transformed
from dedp_assets.patterns.ingestion.transformation_replicator import NOTHING_CROSSED

REPLICA = declare_transformed(VISITS, name="staging/visits")


@lake_table(
    REPLICA,
    reads=Reads({VISITS: same("event_date")}),
    runs=Runs(DAILY, OnRequest()),
    gates=Gates((NOTHING_CROSSED,), if_empty="Warns of a date without visits."),
    about=About(
        owner="team:web-analytics",
        used_by="tests of the next version, on real data",
        # A replica copies what is declared: it asks for no column by name, and so for no old one.
        derived={name: [] for name in {*REPLICA.columns} - {*EDITION.readable(REPLICA.columns)}},
        unchecked={
            "freshness": "made when somebody asks for it",
            "completeness": "made when somebody asks for it",
        },
    ),
    patterns=[replicate_transformed],
    code_version="1",
)
def visits(source: Pinned, into: Target, secrets: Secrets) -> WriteResult:
    """Replicate one event date: personal columns are removed or pseudonymised, as silver declares."""
    return replicate_transformed(
        source.table,
        into,
        key=secrets.masking_key(),
        version=source.version,
        allow_empty=True,
    )
