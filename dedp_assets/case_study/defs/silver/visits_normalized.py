"""Visits in third normal form, with references to devices and regions."""

from dataclasses import replace

from dedp_assets.case_study.defs.silver.visits_enriched import VISITS_ENRICHED
from dedp_assets.graph.declare import About, Every, Gates, Nightly, Pinned, Runs, lake_table
from dedp_assets.patterns import (
    Column,
    TableLayout,
    TableSpec,
    Target,
    WriteResult,
    judge_dependencies,
    normalize,
    overwrite_partition,
    upsert_keyed,
)
from dedp_assets.patterns.storage.normalizer import Entity

ENTITIES = {"device": Entity(["device_type", "device_version"]), "region": Entity(["region"], ["country"])}
DEPENDENT = "attributes_follow_from_their_key"
_VISIT = ("visit_id", "event_time", "user_id", "page")
_FLAT = (*_VISIT, *ENTITIES["device"].all, *ENTITIES["region"].all, "event_date")
_COLUMNS = VISITS_ENRICHED.columns
VISIT_DEVICES = TableSpec(
    "silver/visit_devices",
    {
        "device_id": Column("STRING", "hash of type and version", required=True),
        **{name: _COLUMNS[name] for name in ENTITIES["device"].all},
    },
    key=("device_id",),
    comment="One row per device that a visit came from.",
)
VISIT_REGIONS = TableSpec(
    "silver/visit_regions",
    {
        "region_id": Column("STRING", "hash of the region", required=True),
        **{name: _COLUMNS[name] for name in ENTITIES["region"].all},
    },
    key=("region_id",),
    comment="One row per region that a visit came from.",
)
VISITS_NORMALIZED = TableSpec(
    "silver/visits_normalized",
    {
        **{name: _COLUMNS[name] for name in _VISIT},
        "device_id": Column("STRING", "device, in silver/visit_devices"),
        "region_id": Column("STRING", "region of the address, in silver/visit_regions"),
        "event_date": _COLUMNS["event_date"],
    },
    partition_by=("event_date",),
    event_time="event_time",
    # A visit is looked up by its id, which no order of the others helps.
    layout=TableLayout(statistics=("event_time", "page"), bloom={"visit_id": 50_000}),
    comment="One row per visit, with references to what many visits share.",
)


@lake_table(
    VISIT_DEVICES,
    beside={VISIT_REGIONS: [upsert_keyed, normalize]},
    reads=[VISITS_ENRICHED],
    runs=Runs(
        when=Every("35 3 * * *", description="At 03:35 UTC, devices and regions of all visits."),
        job="store_visit_entities",
    ),
    about=About(
        used_by="analysts, who correct a region in one row",
        fresh_hours=28,
        unchecked={"completeness": "each run stores the devices and regions of all visits"},
    ),
    patterns=[upsert_keyed, normalize],
)
def visit_entities(visits: Pinned, devices: Target, regions: Target) -> WriteResult:
    """Store the devices and regions of all visits, each once."""
    rows = visits.rows().select(*_FLAT)
    stored = upsert_keyed(normalize(rows, entities=ENTITIES, of="region"), regions)
    return replace(upsert_keyed(normalize(rows, entities=ENTITIES, of="device"), devices), beside=(stored,))


@lake_table(
    VISITS_NORMALIZED,
    reads=[VISITS_ENRICHED],
    runs=Nightly("45 3 * * *", lookback=14),
    gates=Gates(checks={DEPENDENT: "No region lies in two countries; otherwise a reference would hide one of them."}),
    about=About(used_by="analysts, who join visits to devices and regions", fresh_hours=28),
    patterns=[overwrite_partition, normalize, judge_dependencies],
)
def visits_normalized(visits: Pinned, into: Target) -> WriteResult:
    """Replace the attributes of one day's devices and regions by references."""
    rows = visits.rows().select(*_FLAT)
    found = judge_dependencies(rows, entities=ENTITIES, name=DEPENDENT)
    normalized = normalize(rows, entities=ENTITIES)
    written = overwrite_partition(normalized, into.reading(findings=[found]), allow_empty=True)
    return replace(written, findings=(*written.findings, found))
