"""Protocol of closed tables: versions, tables that show a version, and exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dedp_assets.patterns.delta.log.table_state import CLOSED, TableState

__all__ = ["protocol_of"]

_IMPLIED = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
"""Writer version of the old protocols -> features that it brought."""


def protocol_of(*states: TableState) -> dict[str, Any]:
    """State the protocol of a closed table that has the features of all ``states``."""
    protocols = [state.protocol for state in states]
    writers = {CLOSED}.union(*(_features(protocol) for protocol in protocols))
    readers = sorted({feature for protocol in protocols for feature in protocol.get("readerFeatures") or ()})
    version = max(protocol["minReaderVersion"] for protocol in protocols)
    found = {"minReaderVersion": version, "minWriterVersion": 7, "writerFeatures": sorted(writers)}
    return {**found, "readerFeatures": readers} if version >= 3 else found


def _features(protocol: Mapping[str, Any]) -> set[str]:
    if protocol["minWriterVersion"] >= 7:
        return set(protocol["writerFeatures"])
    return {name for since, some in _IMPLIED.items() if since <= protocol["minWriterVersion"] for name in some}
