"""Optional migration ``devices`` of silver's visits, which ``dedp demo --migrate`` plays."""

from __future__ import annotations

from collections.abc import Mapping

from dedp_assets.graph.declare import edition_of
from dedp_assets.graph.declare.editions import Edition
from dedp_assets.patterns import Column, Migration

__all__ = ["devices_edition"]


def devices_edition(event: Mapping[str, Column]) -> Edition:
    """Return the edition of the table of visits for the phase that the table's log knows.

    Args:
        event: columns of a visit before the migration.
    """
    moves = Migration(
        name="devices",
        rename={"bytes": "response_bytes"},
        nest={"device": {"type": "device_type", "version": "device_version"}},
    )
    kind, described = "STRUCT<type: STRING, version: STRING>", "kind and version of the visitor's device"
    device = Column(kind, described, classification=event["device_type"].classification)
    return edition_of("silver/visits", moves, {"response_bytes": event["bytes"], "device": device})
