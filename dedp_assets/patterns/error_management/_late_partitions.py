"""Late partitions: applied upstream versions, reasons for exclusion from a plan, and dependents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import Table

__all__ = ["applied_versions", "by_key", "followers", "held_back"]


def by_key(table: Table, keys: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the partition values of each key, for a table partitioned by a single column.

    Raises:
        ConfigError: if it is not, or for a key that is no text.
    """
    if len(table.spec.partition_by) != 1:
        raise ConfigError(f"{table.name} is not partitioned by one column, which late data is integrated by")
    named = list(keys)
    if wrong := [key for key in named if not isinstance(key, str) or not key]:
        raise ConfigError(f"{table.name} has no partition {wrong[0]!r}: name each by the text of its value")
    return {key: {table.spec.partition_by[0]: key} for key in named}


def applied_versions(table: Table, partitions: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Return the upstream version last applied by partition; unprocessed partitions are left out."""
    cursors = table.ledger.transactions()
    versions = {key: cursors.applied(table.name, values) for key, values in partitions.items()}
    return {key: version for key, version in versions.items() if version is not None}


def followers(applied: Mapping[str, int], late: Mapping[str, int], current: str) -> dict[str, tuple[str, int]]:
    """Find the partitions behind an earlier partition: key -> earlier key and version."""
    found: dict[str, tuple[str, int]] = {}
    before, reached = "", -1
    for key in sorted({*applied, *late}):
        if key < current:
            version = max(applied.get(key, -1), late.get(key, -1))
            if version < reached or (key in late and applied.get(key, -1) < reached):
                found[key] = (before, max(reached, version))
            elif version > reached:
                before, reached = key, version
    return found


def held_back(key: str, current: str, in_flight: Collection[str], oldest: str) -> str:
    """Return the reason why a plan leaves out a late partition; empty if included."""
    if key >= current:
        return f"not before {current}: regular processing brings it in"
    if oldest and key < oldest:
        return f"older than {oldest}, the oldest date accepted"
    return "is being processed" if key in in_flight else ""
