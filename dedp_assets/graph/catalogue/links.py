"""Links from Dagster's pages to the status page."""

from __future__ import annotations

from urllib.parse import quote

import dagster as dg

from dedp_assets.graph.resources.environments import settings

__all__ = ["status_link"]


def status_link(table: str) -> dict[str, dg.UrlMetadataValue]:
    """Return the metadata entry with a table's status page; empty where no status page is served.

    Args:
        table: name of the table.
    """
    address = settings().status_page
    return {"status page": dg.MetadataValue.url(f"{address}/table/{quote(table)}")} if address else {}
