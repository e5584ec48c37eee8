"""Visits in staging: production's rows without what is personal in them."""

from dedp_assets.defs.silver.visits import VISITS
from dedp_assets.graph.batches import Step
from dedp_assets.graph.feeds import Pinned, same
from dedp_assets.graph.tables import lake_table
from dedp_assets.partitions import DAILY
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta.tables import Table
from dedp_assets.patterns.ingestion.transformation_replicator import (
    NOTHING_CROSSED,
    declare_transformed,
    replicate_transformed,
)
from resources.secrets import Secrets

REPLICA = declare_transformed(VISITS, name="staging/visits")


@lake_table(
    REPLICA,
    reads={VISITS: same("event_date")},
    follows=False,
    used_by="tests of the next version, on real data",
    partitions=DAILY,
    audits=(NOTHING_CROSSED,),
    checks={"input_is_not_empty": "Warns of a date without visits."},
    patterns=[replicate_transformed],
    owner="team:web-analytics",
    code_version="1",
)
def visits(step: Step, source: Pinned, replica: Table, secrets: Secrets) -> WriteResult:
    """Push one event date: personal columns leave, or become pseudonyms, as silver declares them."""
    return replicate_transformed(
        source.table,
        replica.target(step.provenance, partition=step.owned(replica)),
        key=secrets.masking_key(),
        version=source.version,
        allow_empty=True,
    )
