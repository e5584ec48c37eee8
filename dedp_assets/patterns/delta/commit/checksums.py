"""Version checksums (``.crc`` files): files, bytes and schema of a table after a commit.

Delta takes protocol and properties of a table from there instead of computing them from its log, and holds the rest
against what it computes. A checksum follows from the one before it and the actions of one commit; where none stands
before it, or an action is none that is known here, none stands after it until Spark writes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["EMPTY", "following"]

EMPTY: Mapping[str, Any] = {"tableSizeBytes": 0, "numFiles": 0, "setTransactions": [], "domainMetadata": []}
"""What stands before the first commit of a table."""

_MOST_TRANSACTIONS = 100
_WITHOUT_EFFECT = {"commitInfo", "cdc"}
_COUNTED_FURTHER = {"deletionVectors", "inCommitTimestamp", "rowTracking"}
"""Features of which a checksum has more to say."""


def following(before: Mapping[str, Any], content: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Compute the checksum of a version from the previous checksum and the commit's actions.

    Args:
        before: the checksum of the version before, or :data:`EMPTY`.
        content: the actions of the commit: files that were not there, and removals of files that were.

    Returns:
        The content of the version's ``.crc`` file; ``None`` if the effect of an action on the counts is unknown.
    """
    found: dict[str, Any] = {name: before.get(name) for name in ("tableSizeBytes", "numFiles", "metadata", "protocol")}
    moved: dict[str, Mapping[str, Any]] = {}
    for kind, action in (pair for actions in content for pair in actions.items()):
        if kind in ("add", "remove"):
            if "size" not in action or found["numFiles"] is None or found["tableSizeBytes"] is None:
                return None
            sign = 1 if kind == "add" else -1
            found["numFiles"] += sign
            found["tableSizeBytes"] += sign * action["size"]
        elif kind in ("protocol", "metaData"):
            found["metadata" if kind == "metaData" else kind] = action
        elif kind == "txn":
            moved[action["appId"]] = action
        elif kind not in _WITHOUT_EFFECT:
            return None
    certain = None not in found.values() and not _COUNTED_FURTHER & {*found["protocol"].get("writerFeatures", ())}
    return {**found, "numMetadata": 1, "numProtocol": 1, **_carried(before, found, moved)} if certain else None


def _carried(
    before: Mapping[str, Any], found: Mapping[str, Any], moved: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the optional checksum fields: domain metadata, and transaction ids up to a maximum number."""
    carried = {} if before.get("domainMetadata") is None else {"domainMetadata": before["domainMetadata"]}
    known = before.get("setTransactions")
    expires = "delta.setTransactionRetentionDuration" in found["metadata"].get("configuration", {})
    if known is not None and not expires:
        transactions = {**{each["appId"]: each for each in known}, **moved}
        if len(transactions) <= _MOST_TRANSACTIONS:
            carried["setTransactions"] = list(transactions.values())
    return carried
