"""Remaking: by which rules a replica was made, which partitions they make again, and rows that a killed run left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta.copies.generations import current
from dedp_assets.patterns.delta.staging import claim_of
from dedp_assets.patterns.delta.store import as_folder
from dedp_assets.patterns.delta.tables import Table

__all__ = ["is_made_by", "parts_to_make", "remove_abandoned", "rules_of"]


def rules_of(declared: TableSpec, key: MaskingKey | None) -> dict[str, str]:
    """Identify everything that a replica is made by, as properties of its table."""
    columns = [[name, c.type, c.required, c.personal, c.replica] for name, c in declared.columns.items()]
    stated = json.dumps([columns, declared.partition_by, dict(declared.checks)])
    rules = hashlib.sha256(stated.encode()).hexdigest()[:16]
    return {"dedp.replica.rules": rules, "dedp.replica.key": key.id if key else ""}


def is_made_by(rules: Mapping[str, str], replica: Table) -> bool:
    """Tell whether there is a replica that these rules made."""
    shown = current(as_folder(replica.store)) is not None and replica.ledger.exists()
    return shown and rules.items() <= replica.ledger.state().properties.items()


def parts_to_make(replica: Table, kept: Sequence[str], owned: Mapping[str, str]) -> list[Mapping[str, str | None]]:
    """List the partition ``owned`` and those that the replica holds, by the columns it keeps; empty for all.

    Args:
        replica: the replica as it was made before.
        kept: columns that the new rules keep as they are.
        owned: the partition that is replicated now; empty for all.
    """
    if not owned:
        return []
    held = replica.ledger.state().statistics() if replica.ledger.exists() else {}
    parts: list[Mapping[str, str | None]] = [owned]
    parts += [p for key in held if not owned.items() <= (p := {c: v for c, v in key if c in kept}).items()]
    return parts if all(parts) else []


def remove_abandoned(replica: Table) -> None:
    """Remove the rows that a killed run staged and neither published nor refused: nobody judged them.

    The caller holds the right to replace the replica, so whoever claimed such a stage and does not any more is gone.
    """
    if not replica.ledger.exists():
        return
    store = replica.store
    stages = [name[1:-6] for name in store.list() if name.startswith(".staged-") and name.endswith(".claim")]
    dead = [name for name in stages if not store.is_claimed(claim_of(name))]
    records = (commit.record for commit in replica.ledger.history()) if dead else ()
    published = {record.notes.get("stage") for record in records if record}
    for name in dead:
        if name not in published:
            store.delete_folder(name)
        store.delete(claim_of(name))
