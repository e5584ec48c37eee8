"""Visits in staging: production's rows without personal values."""

from dedp_assets.case_study.defs.silver.visits import EDITION, VISITS
from dedp_assets.graph.declare import About, OnRequest, Pinned, lake_table
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import Target, WriteResult, declare_transformed, replicate_transformed
from dedp_assets.patterns.ingestion.transformation_replicator import NOTHING_CROSSED

REPLICA = declare_transformed(VISITS, name="staging/visits")
_OLD = {*REPLICA.columns} - {*EDITION.readable(REPLICA.columns)}


@lake_table(
    REPLICA,
    reads=[VISITS],
    runs=OnRequest(),
    gates=[NOTHING_CROSSED],
    # A replica copies what is declared: it asks for no column by name, and so for no old one.
    about=About(used_by="tests of the next version, on real data", derived=dict.fromkeys(_OLD, ())),
    patterns=[replicate_transformed],
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
