"""Table features of the Delta protocol: features for readers, and features for writers.

A table states the features that readers and writers have to know. Whoever does not know one must leave the table alone,
and the library refuses such a table in a sentence with its name before an engine does in words of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["CATALOG", "named_features", "unreadable", "unwritable"]

_NEWEST_READER = 3
_NEWEST_WRITER = 7
CATALOG = frozenset({"catalogManaged", "catalogOwned-preview"})
"""Features of catalog-managed tables: the catalog alone knows the newest version."""

_READ = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features of tables that both deltalake and Spark's Delta open."""

_WRITTEN = _READ | {
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "checkpointProtection",
    "clustering",
    "domainMetadata",
    "generatedColumns",
    "icebergCompatV1",
    "icebergCompatV2",
    "icebergCompatV3",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "materializePartitionColumns",
    "rowTracking",
}
"""Writer features that Spark's Delta writer knows."""


def named_features(protocol: Mapping[str, Any], kind: str) -> frozenset[str]:
    """Return the features that a protocol names, of the kind ``reader`` or ``writer``."""
    return frozenset(protocol.get(f"{kind}Features") or ())


def unreadable(protocol: Mapping[str, Any]) -> list[str]:
    """List the reader features of a protocol that the library does not know, by name."""
    return _newer(protocol, "minReaderVersion", _NEWEST_READER) or sorted(named_features(protocol, "reader") - _READ)


def unwritable(protocol: Mapping[str, Any]) -> list[str]:
    """List the writer features of a protocol that neither the library nor Spark's Delta knows, by name."""
    return _newer(protocol, "minWriterVersion", _NEWEST_WRITER) or sorted(named_features(protocol, "writer") - _WRITTEN)


def _newer(protocol: Mapping[str, Any], of: str, newest: int) -> list[str]:
    version = int(protocol.get(of) or 0)
    return [f"version {version} of the protocol"] if version > newest else []
