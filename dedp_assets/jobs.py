"""What people launch by name. Selections are by asset key, never by asset object."""

from __future__ import annotations

import dagster as dg

__all__ = ["DAILY_VISITS", "REBUILD_GOLD", "REBUILD_SILVER", "REFRESH_DEVICES"]

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
