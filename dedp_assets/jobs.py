"""What people launch by name. Selections are by asset key, never by asset object."""

from __future__ import annotations

import dagster as dg

__all__ = [
    "CAPTURE_USERS",
    "DAILY_VISITS",
    "LOAD_LEGACY_VISITS",
    "MAINTAIN_TABLES",
    "REBUILD_GOLD",
    "REBUILD_SILVER",
    "REFRESH_DEVICES",
    "REPLICATE_DEVICES",
    "REPLICATE_VISITS",
]

_GOLD = dg.AssetSelection.assets(["gold", "daily_page_views"], ["gold", "daily_visitors"])
_SILVER = dg.AssetSelection.assets(["silver", "visits"], ["silver", "visits_dead_letter"])
_BRONZE = dg.AssetSelection.assets(["bronze", "visits"])

DAILY_VISITS = dg.define_asset_job(
    "daily_visits",
    selection=_BRONZE | _SILVER | _GOLD,
    description="One landing day from its delivery to gold.",
)
REBUILD_SILVER = dg.define_asset_job(
    "rebuild_silver_visits",
    selection=_SILVER,
    description="One event date's visits and dead letters, over everything that landed for it.",
)
REBUILD_GOLD = dg.define_asset_job(
    "rebuild_gold",
    selection=_GOLD,
    description="One event date's aggregates, from silver as it stands.",
)
REFRESH_DEVICES = dg.define_asset_job(
    "refresh_devices",
    selection=dg.AssetSelection.assets(["bronze", "devices"]),
    description="The devices reference, complete.",
)
MAINTAIN_TABLES = dg.define_asset_job(
    "maintain_tables",
    selection=dg.AssetSelection.assets(["platform", "maintenance"]),
    description="Compaction and vacuum of every table of the lake.",
)
CAPTURE_USERS = dg.define_asset_job(
    "capture_users",
    selection=dg.AssetSelection.assets(["bronze", "users"], ["bronze", "users_history"]),
    description="What was committed to the users of the applications' database since the last capture.",
)
LOAD_LEGACY_VISITS = dg.define_asset_job(
    "load_legacy_visits",
    selection=dg.AssetSelection.assets(["bronze", "legacy_visits"]),
    description="One day of what legacy applications wrote to their database.",
)
REPLICATE_DEVICES = dg.define_asset_job(
    "replicate_devices",
    selection=dg.AssetSelection.assets(["staging", "devices"]),
    description="The devices reference to staging, byte for byte.",
)
REPLICATE_VISITS = dg.define_asset_job(
    "replicate_visits",
    selection=dg.AssetSelection.assets(["staging", "visits"]),
    description="One event date to staging, without what is personal in it.",
)
