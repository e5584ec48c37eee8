"""Locations of the addresses of each day's visits, as answered by the location service."""

from functools import partial

from dedp_assets.case_study.defs.gold.country_sequence import COUNTRY_REPORT_STEPS
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.case_study.sources.ip_locations import MOST
from dedp_assets.graph.declare import About, Pinned, Reads, Runs, Source, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.systems.services import Services, lacking
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, join_static, keep_answers
from dedp_assets.patterns.connectors.web.http import ask_in_bulk
from dedp_assets.patterns.value.static_joiner import ANSWER

IP_LOCATIONS = TableSpec(
    "bronze/ip_locations",
    {
        "ip": Column("STRING", "network address", required=True, classification="personal"),
        "country": Column("STRING", "ISO 3166 code; NULL if nobody can tell"),
        "region": Column("STRING", "region of the country"),
        **ANSWER,
        "event_date": Column("DATE", "UTC day of the visits", required=True),
    },
    partition_by=("event_date",),
    comment="One row per day and address of its visits.",
)
SERVICE = Source(
    "services/locations",
    "An HTTP service that says where network addresses are, many at a time.",
    kinds=("http", "json"),
    owner="team:ingestion",
)
MOST_PER_DAY = 50_000


@lake_table(
    IP_LOCATIONS,
    reads=Reads({VISITS: same("event_date")}, sources=[SERVICE]),
    runs=Runs(DAILY, needs=lacking, sequence=COUNTRY_REPORT_STEPS),
    about=About(owner="team:web-analytics"),
    patterns=[join_static],
)
def ip_locations(visits: Pinned, into: Target, services: Services) -> WriteResult:
    """Ask the service for the day's unknown addresses; known answers of the day are kept."""
    asking = partial(ask_in_bulk, services.at("locations"), asks="addresses", answers="locations", size=MOST)
    return keep_answers(
        visits.rows(),
        into,
        key="ip",
        ask=lambda keys: [{"ip": item["address"], **item} for item in asking(keys, key="address")],
        most=MOST_PER_DAY,
    )
