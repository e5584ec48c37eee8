"""Rebuild of replicas after a change of masking rules or key, with removal of abandoned rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dedp_assets.patterns.connectors.landing.editions import current, next_edition, replacing
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.permissions import restricted_to
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import LocalStore, Table, as_folder
from dedp_assets.patterns.delta.maintenance import discard_stage, remove_unjudged

__all__ = ["is_made_by", "parts_to_make", "remake", "rules_of"]

Write = Callable[[Table, Sequence[Mapping[str, str | None]], Mapping[str, str]], WriteResult]
"""Writes into a table, from these partitions of the source (all, if none is named), the partition it then owns."""


def rules_of(declared: TableSpec, key: MaskingKey | None) -> dict[str, str]:
    """Return a fingerprint of masking rules and key, as table properties of the replica."""
    columns = [[name, c.type, c.required, not c.shows("replica"), c.replica] for name, c in declared.columns.items()]
    declaration = json.dumps([columns, declared.partition_by, dict(declared.checks)])
    rules = hashlib.sha256(declaration.encode()).hexdigest()[:16]
    return {"dedp.replica.rules": rules, "dedp.replica.key": key.id if key else ""}


def remake(
    replica: Table, write: Write, *, rules: Mapping[str, str], kept: Sequence[str], owned: Mapping[str, str]
) -> WriteResult:
    """Write one partition or all of a replica; after a change of rules, rebuild and swap the replica.

    Args:
        replica: the replica.
        write: writes and judges the rows.
        rules: what the rows are made by, from :func:`rules_of`.
        kept: columns that the new rows keep as the source has them.
        owned: the partition to write; empty for all.

    Raises:
        AuditFailed: if the rows are refused; they are removed, because they must not lie in this environment.
    """
    try:
        if not isinstance(replica.store, LocalStore):
            return _write_in_bucket(replica, write, rules=rules, owned=owned)
        with replacing(replica.store):
            remove_unjudged(replica)
            if is_made_by(rules, replica):
                return write(replica, [owned] if owned else [], owned)
            parts = parts_to_make(replica, kept, owned)
            with next_edition(replica.store, keep_former=False) as made:
                fresh = Table(_declared_by(rules, replica), made.files, lambda: replica.session)
                return write(fresh, parts, owned if parts == [owned] else {})
    except AuditFailed as refused:
        if refused.stage:
            with restricted_to(None):  # of an edition beside the replica, which is no longer this block's
                discard_stage(refused.stage)
        raise AuditFailed(str(refused), findings=refused.findings) from None


def _write_in_bucket(
    replica: Table, write: Write, *, rules: Mapping[str, str], owned: Mapping[str, str]
) -> WriteResult:
    """Write one partition or all of a replica in a bucket, which exchanges no table as a whole.

    Raises:
        ConfigError: if the replica was made by other rules.
    """
    if replica.ledger.exists():
        remove_unjudged(replica)
        if not _has(rules, replica):
            raise ConfigError(
                f"{replica.name} was made by other masking rules or another key, and a bucket exchanges no table as a "
                f"whole: remove {replica.store.uri}, and run all of its partitions again"
            )
    made = Table(_declared_by(rules, replica), replica.store, lambda: replica.session)
    return write(made, [owned] if owned else [], owned)


def _declared_by(rules: Mapping[str, str], replica: Table) -> TableSpec:
    return replace(replica.spec, properties={**replica.spec.properties, **rules})


def is_made_by(rules: Mapping[str, str], replica: Table) -> bool:
    """Return whether the replica exists and was made by ``rules``."""
    shown = current(as_folder(replica.store)) is not None and replica.ledger.exists()
    return shown and _has(rules, replica)


def _has(rules: Mapping[str, str], replica: Table) -> bool:
    return rules.items() <= replica.ledger.state().properties.items()


def parts_to_make(replica: Table, kept: Sequence[str], owned: Mapping[str, str]) -> list[Mapping[str, str | None]]:
    """List ``owned`` and the replica's partitions, by the columns in ``kept``; empty for all.

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
