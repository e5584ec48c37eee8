"""Abandoned stages: removal of refused or orphaned staged rows after a stated age."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote

from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.staging.stages import Stage, claim_of
from dedp_assets.patterns.delta.storage.coordination import table_lock
from dedp_assets.patterns.delta.storage.locations import STAGE, store_at
from dedp_assets.patterns.delta.storage.store import Entry, Store
from dedp_assets.patterns.delta.tables import Table

__all__ = ["Stages", "discard_stage", "remove_stages", "remove_unjudged"]


@dataclass(frozen=True, slots=True)
class Stages:
    """Counts of removed and kept stages without a commit.

    Attributes:
        removed: how many were removed.
        freed: the size of their files, in bytes.
        younger: how many stay, because they are not old enough.
        in_use: how many stay, because a running write may still publish them.
    """

    removed: int = 0
    freed: int = 0
    younger: int = 0
    in_use: int = 0


def remove_stages(table: Table, *, cutoff: datetime) -> Stages:
    """Remove the unclaimed stages without a commit in the log and without a file after ``cutoff``.

    A stage with a file that was written after ``cutoff`` stays, and so does one that is claimed, whatever its age. What
    a commit refers to is the table's, and for a vacuum to judge.

    Raises:
        Conflict: if other writers hold the table for too long.
    """
    store = table.store
    with table_lock(store) as held:
        stages = sorted({file.path.partition("/")[0] for file in store.files() if file.path.startswith(STAGE)})
        # After the stages, whose claims are older, and before the log: a claim ends after the commit of its stage.
        claims = _claims(store)
        free = [name for name in stages if name not in claims or not store.is_claimed(claim_of(name))]
        referred = _referred(table.ledger) if free else set()
        loose = {name: store.files(name) for name in free if name not in referred}
        old = {name: files for name, files in loose.items() if not any(_since(file, cutoff) for file in files)}
        for name in old:
            held.confirm()
            store.delete_folder(name)
            store.delete(claim_of(name))
    freed = sum(file.size_bytes for files in old.values() for file in files)
    return Stages(len(old), freed, younger=len(loose) - len(old), in_use=len(stages) - len(free))


def remove_unjudged(table: Table) -> None:
    """Remove the staged rows of killed runs: stages neither claimed nor published, thus never judged.

    The caller holds the right to replace the table, so whoever claimed such a stage and does not any more is gone.
    """
    if not table.ledger.exists():
        return
    store = table.store
    dead = [name for name in _claims(store) if not store.is_claimed(claim_of(name))]
    records = (commit.record for commit in table.ledger.newest_first()) if dead else ()
    published = {record.notes.get("stage") for record in records if record}
    for name in dead:
        if name not in published:
            store.delete_folder(name)
        store.delete(claim_of(name))


def _claims(store: Store) -> list[str]:
    """List the stages with a claim file, of a living writer or not."""
    names = [file.path for file in store.files(deep=False)]
    return [name[1:-6] for name in names if name.startswith(f".{STAGE}") and name.endswith(".claim")]


def discard_stage(address: str) -> None:
    """Remove the stage at the address in a refusal's message."""
    Stage(store_at(address)).discard()


def _referred(ledger: Ledger) -> set[str]:
    """List the table's folders with a file that a version in the log needs."""
    return {unquote(path).partition("/")[0] for path in _paths(ledger)}


def _paths(ledger: Ledger) -> Iterator[str]:
    yield from (file["path"] for file in ledger.state().files())
    yield from ledger.vector_files() or ()
    for commit in ledger.newest_first():
        yield from commit.files_past


def _since(file: Entry, cutoff: datetime) -> bool:
    return file.modified_ns >= cutoff.timestamp() * 1_000_000_000
