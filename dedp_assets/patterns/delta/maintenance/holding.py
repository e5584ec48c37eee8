"""Legal holds: commits that hold a partition, or release the hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.records import CommitRecord, Provenance, slice_name
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.log.holds import HELD, LegalHold, holds
from dedp_assets.patterns.delta.log.moments import RELEASED, require_lasting
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import require_open, require_partition
from dedp_assets.patterns.delta.snapshots.tiers import tiered
from dedp_assets.patterns.delta.storage.coordination import in_turn
from dedp_assets.patterns.delta.tables import Table

__all__ = ["hold_partition"]


def hold_partition(
    table: Table, partition: Mapping[str, object], run: Provenance, *, by: str, because: str, release: bool
) -> WriteResult:
    """Put a partition on legal hold, or release the hold, in one commit.

    Args:
        table: the table.
        partition: partition column -> value.
        run: the run that holds or releases.
        by: who holds the partition.
        because: why; stands in the commit.
        release: whether the hold is given up.

    Raises:
        ConfigError: without a partition that has rows, who or why; for a hold for another reason, a closed table, or a
            table whose transaction ids expire.
        NotReady: if there is nothing to release.
        Conflict: if other writers do not yield.
    """
    if not by.strip() or not because.strip():
        raise ConfigError(f"by and because must say who has a hold and why, not be {by!r} and {because!r}")

    def write() -> WriteResult:
        state = table.ledger.state()
        require_open(table.name, state)
        require_lasting(table.name, state, "legal holds")
        owned = _with_rows(table, state, partition)
        name, wanted, how = slice_name(owned), LegalHold(owned, by, because), "released" if release else "held"
        found = [each for each in holds(table.ledger) if (each.partition, each.by) == (owned, by)]
        if release and not found:
            raise NotReady(f"{table.name}: {name} is not held by {by}, so nothing is released")
        if not release and found:
            _require_same(table.name, found[0], wanted)
            reason = f"{found[0]} is held already"
            return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason, partition=owned)
        record = CommitRecord.of(run, content=f"{name} {how}")
        version = commits.commit_actions(
            table.store,
            state,
            record=replace(record, notes={**record.notes, how: name, "by": by, "because": because}),
            operation=commits.Operation("HOLD PARTITIONS"),
            transactions={hold.hold_id: RELEASED if release else HELD for hold in found or [wanted]},
        )
        reason = f"{wanted} is {how}"
        return WriteResult(table.name, version, applied=True, changed=False, reason=reason, partition=owned)

    return in_turn(table.store, write)


def _require_same(table: str, found: LegalHold, wanted: LegalHold) -> None:
    if found != wanted:
        raise ConfigError(
            f"{table}: {found} is held already: release that, or name another `by`, such as "
            f"'{wanted.by}, {wanted.because}'"
        )


def _with_rows(table: Table, state: TableState, partition: Mapping[str, object]) -> dict[str, str]:
    """Return a partition in the log's spelling; refuse one without rows, of which a hold keeps nothing."""
    owned = require_partition(table.name, state, partition)
    if not owned:
        raise ConfigError(f"a hold must be of a partition of {table.name}, not of the whole table")
    has_files = any(owned.items() <= dict(key).items() for key in state.statistics())
    if not has_files and not any(part.meets(owned) for part in tiered(state)):
        raise ConfigError(f"a hold must be of a partition of {table.name} with rows, not of {slice_name(owned)}")
    return owned
