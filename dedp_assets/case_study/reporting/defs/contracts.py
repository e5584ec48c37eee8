"""Contracts with other teams: name, columns and partitions of the tables that the reports read."""

from dedp_assets.graph.declare import OnMarkers, Source
from dedp_assets.patterns import Column, TableSpec

HOURLY_VIEWS = TableSpec(
    "gold/page_views_by_hour",
    {"page": Column("STRING"), "views": Column("BIGINT"), "hour": Column("STRING")},
    partition_by=("hour",),
)
EVERY_HOUR_OF_A_DAY = OnMarkers(HOURLY_VIEWS, period="day")
AFTER_THE_LAST_HOUR = OnMarkers(HOURLY_VIEWS, period="day", start="last_marker")
PRODUCER = Source(
    HOURLY_VIEWS.name,
    "Views of each page by hour, of the team that owns the website's visits.",
    kinds=("deltalake",),
    owner="team:web-analytics",
)
