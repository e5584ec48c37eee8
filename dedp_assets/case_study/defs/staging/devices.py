"""The devices reference in staging: production's table, byte for byte."""

from dataclasses import replace

from dedp_assets.case_study.defs.bronze.devices import AUDITS, DEVICES
from dedp_assets.graph.declare import About, OnRequest, Pinned, lake_table
from dedp_assets.patterns import Target, WriteResult, declare_replica, replicate_table, volume_guard

REPLICA = declare_replica(DEVICES, name="staging/devices")


@lake_table(
    REPLICA,
    reads=[DEVICES],
    runs=OnRequest(),
    gates=(*AUDITS, *volume_guard()),
    about=About(owner="team:ingestion", used_by="tests of the next version, on real data"),
    patterns=[replicate_table],
)
def devices(source: Pinned, into: Target) -> WriteResult:
    """Replicate the newest version and the log, so that checks and metadata are production's."""
    # The copied log holds the verdicts of the audits: none is judged again.
    return replicate_table(source.table, replace(into, audits=()), version=source.version)
