"""Expiry: removal of versions unused for long, by explicit call only; versions on hold stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Operation, Table, commit_actions, table_lock
from dedp_assets.patterns.delta.versions import exposures, folder_of, names

__all__ = ["expire", "held", "hold", "release"]


def expire(target: Table, *, cutoff: datetime, provenance: Provenance) -> WriteResult:
    """Remove the versions neither shown nor loaded since ``cutoff``, after a note in the log.

    The version that is shown now stays, and so does every one on hold. What a refused or killed load left goes, too.
    The names of removed versions are never given again.

    Raises:
        NotReady: if the table never showed a version.
    """
    with table_lock(target.store):
        _require_shown(target)
        gone = _old(target, cutoff) - held(target)
        record = CommitRecord.of(provenance, content=f"expiry up to {cutoff.isoformat()}")
        version = target.ledger.version()
        if gone:
            record = replace(record, notes={**record.notes, "expired": sorted(gone)})
            version = _note(target, record)
        for name in gone:
            target.store.delete_folder(f"{folder_of(target)}/{name}")
    reason = f"removed {', '.join(sorted(gone))}" if gone else f"no version is unneeded since {cutoff.isoformat()}"
    figures = {"versions_removed": len(gone), "versions_kept": len(names(target))}
    return WriteResult(target.name, version, applied=bool(gone), changed=False, reason=reason, figures=figures)


def hold(target: Table, name: str, *, because: str, provenance: Provenance) -> None:
    """Put a version on legal hold, which excludes the version from expiry until release.

    Raises:
        ConfigError: without a reason.
        NotReady: if there is no such version.
    """
    _change_hold(target, name, "held", because, provenance)


def release(target: Table, name: str, *, because: str, provenance: Provenance) -> None:
    """Release the hold of a version.

    Raises:
        ConfigError: without a reason.
        NotReady: if there is no such version.
    """
    _change_hold(target, name, "released", because, provenance)


def held(target: Table) -> set[str]:
    """List the versions on hold."""
    found: dict[str, bool] = {}
    for commit in target.ledger.newest_first():
        if record := commit.maintenance:
            found |= {
                n: how == "held" for how in ("held", "released") if (n := record.notes.get(how)) and n not in found
            }
    return {name for name, is_held in found.items() if is_held}


def _old(target: Table, cutoff: datetime) -> set[str]:
    """List the versions replaced (or, if never shown, loaded) before ``cutoff``."""
    newest_first = list(exposures(target))
    since = {newest_first[0].version: datetime.max.replace(tzinfo=timezone.utc)}
    for later in newest_first:
        since.setdefault(later.instead_of, later.at)
    return {name for name, begun in names(target).items() if since.get(name, begun) < cutoff}


def _change_hold(target: Table, name: str, how: str, because: str, provenance: Provenance) -> None:
    if not because.strip():
        raise ConfigError(f"{target.name}: say why {name} is {how}")
    with table_lock(target.store):
        _require_shown(target)
        if name not in names(target):
            raise NotReady(f"{target.name} has no version {name}: it has {', '.join(names(target))}")
        record = CommitRecord.of(provenance, content=f"{name} {how}")
        _note(target, replace(record, notes={**record.notes, how: name, "because": because}))


def _require_shown(target: Table) -> None:
    if not target.ledger.exists():
        raise NotReady(f"{target.name} never showed a version: load one first")


def _note(target: Table, record: CommitRecord) -> int:
    return commit_actions(target.store, target.ledger.state(), record=record, operation=Operation("KEEP VERSIONS"))
