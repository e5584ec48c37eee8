"""Countries of visits with an array of regions."""

from dedp_assets.case_study.defs.silver.visits_normalized import VISIT_REGIONS
from dedp_assets.graph.declare import About, Every, Pinned, Runs, lake_table
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, nest_children

COUNTRIES = TableSpec(
    "silver/countries",
    {
        "country": Column("STRING", "country of addresses, or unknown", required=True),
        "regions": Column("ARRAY<STRUCT<region: STRING, region_id: STRING>>", "its regions, by name", required=True),
    },
    comment="One row per country that a visit came from.",
)


@lake_table(
    COUNTRIES,
    reads=[VISIT_REGIONS],
    runs=Runs(
        when=Every("40 3 * * *", description="At 03:40 UTC, countries with the regions of all visits."),
        job="nest_countries",
    ),
    about=About(
        used_by="analysts, who show a country with its regions without a join",
        fresh_hours=28,
        unchecked={"completeness": "each run nests all regions that are known"},
    ),
    patterns=[nest_children],
)
def countries(regions: Pinned, into: Target) -> WriteResult:
    """Nest the regions in their country."""
    known = regions.rows().selectExpr("coalesce(country, 'unknown') AS country", "region", "region_id")
    names = known.groupBy("country").count().select("country")
    nested = nest_children(names, known, keys=["country"], column="regions", order_by=["region"])
    return into.by("storage.denormalizer").stage(nested).publish()
