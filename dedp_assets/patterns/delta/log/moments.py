"""Versions of a table by number, instant or milestone; milestones stand in the log.

Milestones are transaction ids, which outlive checkpoints, the cleanup of the log, and a RESTORE, which brings back
properties and files of the earlier version. So a milestone needs no other place than the table, and every vacuum of the
library finds it.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState

__all__ = ["RELEASED", "log_properties", "milestone_id", "milestones", "require_lasting", "version_at"]

RELEASED = -1
"""Version of the transaction id of a milestone that is no longer kept."""
_PREFIX = "dedp.milestone/"
_EXPIRE = "delta.setTransactionRetentionDuration"
_CLEANUP, _KEPT = "delta.enableExpiredLogCleanup", "dedp.log_kept"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


def milestone_id(name: str) -> str:
    """Name the transaction id of a milestone.

    Raises:
        ConfigError: for a name that could be a version or an instant, or has characters that not every log takes.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"name must be a letter and up to 99 letters, digits, dots, hyphens and underscores, not {name!r}"
        )
    return f"{_PREFIX}{name}"


def milestones(ledger: Ledger) -> dict[str, int]:
    """Return the milestones of a table: name -> version."""
    found = {action["appId"]: int(action["version"]) for action in ledger.actions("txn")}
    named = {app_id.removeprefix(_PREFIX): version for app_id, version in found.items() if app_id.startswith(_PREFIX)}
    return {name: version for name, version in sorted(named.items()) if version != RELEASED}


def log_properties(state: TableState, *, kept: bool) -> dict[str, str | None]:
    """Return the changes of table properties by which all engines keep the log, or clean up again.

    Without its commits a version cannot be read, whatever files are there. A cleanup that the owner of the table has
    turned off stays off.
    """
    if kept and state.properties.get(_CLEANUP, "").lower() != "false":
        return {_CLEANUP: "false", _KEPT: "for milestones"}
    return {_CLEANUP: None, _KEPT: None} if not kept and _KEPT in state.properties else {}


def require_lasting(name: str, state: TableState, what: str) -> None:
    """Refuse a table that forgets transaction ids, which milestones and legal holds are.

    Raises:
        ConfigError: names the table property.
    """
    if _EXPIRE in state.properties:
        raise ConfigError(
            f"{name} forgets its transaction ids ({_EXPIRE}): {what} are such ids, so take the property away"
        )


def version_at(ledger: Ledger, at: int | str) -> int:
    """Return the version of a table at a moment.

    Args:
        ledger: the table's ledger.
        at: a version, the name of a milestone, or an instant in ISO 8601, of UTC unless stated otherwise. At an instant
            the table has the version that was the newest then; after the last commit, the newest one.

    Raises:
        ConfigError: for an instant before the table's first commit, or a version that the log no longer holds.
        NotReady: if there is no such version or milestone, or no table.
    """
    newest = ledger.version()
    if isinstance(at, int) or at.strip().isdecimal():
        return _held(ledger, int(at), newest)
    if _NAME.fullmatch(at):
        known = milestones(ledger)
        if at not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise NotReady(f"{ledger.name} has no milestone {at}: {has}")
        return _held(ledger, known[at], newest)
    return _at_instant(ledger, _instant(at), newest)


def _held(ledger: Ledger, version: int, newest: int) -> int:
    if not 0 <= version <= newest:
        raise NotReady(f"{ledger.name} has no version {version}: its newest is {newest}")
    if version < (first := ledger.begins_at()):
        raise ConfigError(
            f"{ledger.name} can no longer be read at version {version}: its log was cleaned up and begins at version "
            f"{first}"
        )
    return version


def _instant(at: str) -> datetime:
    try:
        instant = datetime.fromisoformat(at.strip())
    except ValueError:
        raise ConfigError(
            f"a moment must be a version, an instant like 2026-01-05T10:00Z, or the name of a milestone, not {at!r}"
        ) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)


def _at_instant(ledger: Ledger, instant: datetime, newest: int) -> int:
    """Find the last version before the first commit after an instant, as clocks may have gone back."""
    before = None
    for commit in ledger.commits():
        if commit.timestamp > instant:
            if before is None:
                begins = f"{'its log begins' if commit.version else 'its first commit is'} at"
                raise ConfigError(
                    f"{ledger.name} has no version at {instant.isoformat()}: {begins} {commit.timestamp.isoformat()}"
                )
            return before
        before = commit.version
    return newest
