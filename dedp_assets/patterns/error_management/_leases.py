"""Leases: exclusive claims of partitions by runs, kept in the table's own log.

A lease is a Delta transaction id whose version is the time the lease ends, in seconds since 1970. It is taken by an
empty commit under the table's lock, so of several planners exactly one gets it; the commit's note names the owner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta import Ledger, Operation, TableState, commit_actions, in_turn

__all__ = ["Lease", "give_back", "note", "of_partitions", "require_lease", "require_zone"]

_LEASED = "leased by "
_LONGEST = 366 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Lease:
    """The last lease of a partition.

    Attributes:
        owner: who took it; empty if it was given back, or the log no longer says.
        ends: when it ends, in seconds since 1970.
    """

    owner: str
    ends: int

    @property
    def until(self) -> str:
        """End of the lease, in ISO 8601."""
        return datetime.fromtimestamp(self.ends, timezone.utc).isoformat()


def require_zone(now: object) -> None:
    """Refuse a time without a time zone.

    Raises:
        ConfigError: for what is no time with a time zone.
    """
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise ConfigError(f"now={now!r} must be a datetime with a time zone, or runs would not agree when a lease ends")


def require_lease(owner: object, now: object, seconds: object) -> None:
    """Refuse an empty owner, a time without a zone, and a lease duration out of range.

    Raises:
        ConfigError: names the option.
    """
    if not isinstance(owner, str) or not owner or owner != owner.strip():
        raise ConfigError(
            f"owner={owner!r} must be a text that tells one run from the others, without blanks around it"
        )
    require_zone(now)
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not 0 < float(seconds) < _LONGEST:  # type: ignore[arg-type]
        raise ConfigError(f"lease_seconds={seconds!r} must be a number of seconds above 0 and below {_LONGEST}")


def of_partitions(
    ledger: Ledger, partitions: Mapping[str, Mapping[str, str]], *, after: datetime | None = None
) -> dict[str, Lease]:
    """Return the last lease of each partition.

    Args:
        ledger: the table's.
        partitions: key -> partition values.
        after: leave out leases that ended by then.
    """
    cursors, ids = ledger.transactions(), {_id(ledger, values): key for key, values in partitions.items()}
    ends = {app_id: end for app_id in ids if (end := cursors.transaction(app_id)) is not None}
    wanted = {app_id for app_id, end in ends.items() if after is None or end > after.timestamp()}
    found = {ids[app_id]: Lease("", ends[app_id]) for app_id in wanted}
    for commit in ledger.newest_first() if wanted else ():
        for app_id in wanted & commit.transactions.keys():
            owner = commit.note.removeprefix(_LEASED) if commit.note.startswith(_LEASED) else ""
            found[ids[app_id]] = Lease(owner, ends[app_id])
        if not (wanted := wanted - commit.transactions.keys()):
            break
    return found


def note(
    ledger: Ledger,
    state: TableState,
    partitions: Iterable[Mapping[str, str]],
    *,
    owner: str,
    now: datetime,
    seconds: float,
) -> None:
    """Commit a lease of the partitions for ``owner``, decided on at ``state``.

    Raises:
        Conflict: if another writer committed since ``state``.
    """
    ends = math.ceil(now.timestamp() + seconds)
    if moved := {_id(ledger, partition): ends for partition in partitions}:
        _commit(ledger, state, moved, f"{_LEASED}{owner}")


def give_back(ledger: Ledger, partition: Mapping[str, str], *, owner: str, now: datetime) -> None:
    """End the lease of ``partition`` now, if ``owner`` is still the holder."""

    def end() -> None:
        state = ledger.state()
        lease = of_partitions(ledger, {"": partition}).get("")
        if lease is not None and lease.owner == owner:
            moved = {_id(ledger, partition): int(now.timestamp())}
            _commit(ledger, state, moved, f"given back by {owner}")

    in_turn(ledger.store, end)


def _commit(ledger: Ledger, state: TableState, moved: Mapping[str, int], note: str) -> None:
    """Commit transaction ids alone, decided on at ``state``, without a change of rows."""
    written = Operation("WRITE")
    commit_actions(ledger.store, state, record=note, operation=written, transactions=moved, appends=True)


def _id(ledger: Ledger, partition: Mapping[str, str]) -> str:
    return f"{ledger.name}/{slice_name(partition)}/lease"
