"""Dynamic Late Data Integrator: exactly the partitions that late data touched are processed again, oldest first.

Problem: a fixed lookback window reprocesses days that did not change and misses data older than the window.
Solution: compare, by partition, the newest upstream version that changed it with the version downstream applied last,
    and reprocess only where upstream is ahead. Both numbers stand in the tables' own logs.
Consequences: versions decide, not clocks: compaction changes no row and wakes nobody, and what arrives during a run is
    found by the next plan. A stateful consumer has to replay everything after the late partition: cap how far back.
Choose instead: Static Late Data Integrator, if every run may afford a fixed lookback.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.delta.tables import Table
from dedp_assets.patterns.error_management import _leases as leases

__all__ = ["plan_late_partitions", "lease_partition", "release_partition"]


def plan_late_partitions(
    changed: Mapping[str, int],
    applied: Mapping[str, int],
    *,
    current: str,
    in_flight: Collection[str] = (),
    oldest: str = "",
    replay_history: bool = False,
    limit: int | None = None,
) -> Plan:
    """Choose the partitions to process again, oldest first.

    Args:
        changed: partition -> newest upstream version that changed its rows. Keys sort as dates do (ISO 8601).
        applied: partition -> upstream version that downstream applied last; without one it was never processed.
        current: the partition that regular processing works on; only strictly earlier ones are late.
        in_flight: partitions that somebody is processing right now.
        oldest: accepted maximum lateness as a partition key: earlier ones are reported and left out.
        replay_history: for stateful consumers: from the first late partition on, every known one before ``current``
            follows, until it has applied at least the version that the ones before it have.
        limit: most partitions to choose at once; the rest waits for the next plan.

    Returns:
        A plan whose ``cursor`` holds the upstream version each partition has to reach. Causes are ``late-data``,
        ``first-seen`` (an old partition that did not exist downstream) and ``follows <partition>``.

    Raises:
        ConfigError: for a limit below 1.

    Example:
        >>> plan_late_partitions({"12-17": 3, "12-18": 9}, {"12-17": 5, "12-18": 5}, current="12-21").partitions
        ('12-18',)
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit={limit} would never choose a partition: give at least 1")
    causes: dict[str, str] = {}
    held: dict[str, str] = {}
    for key in sorted(changed):
        if changed[key] <= applied.get(key, -1):
            continue
        reason = _held(key, current, in_flight, oldest)
        if reason:
            held[key] = reason
        else:
            causes[key] = "late-data" if key in applied else "first-seen"
    cursor = {key: changed[key] for key in causes}
    if replay_history:
        for key, (before, version) in _followers(applied, cursor, current).items():
            (held if key in in_flight else causes).setdefault(key, f"follows {before}")
            cursor[key] = version
    chosen = sorted(causes)[:limit]
    held.update({key: f"the next of {len(causes)}: {limit} at once" for key in sorted(causes) if key not in chosen})
    return Plan(
        tuple(chosen),
        f"{len(chosen)} partitions changed after they were processed" if chosen else "nothing is late",
        causes={key: causes[key] for key in chosen},
        held=held,
        cursor={key: cursor[key] for key in chosen},
    )


def lease_partition(
    table: Table, partition: Mapping[str, str], *, owner: str, now: datetime, lease_seconds: float
) -> bool:
    """Lease a partition for processing, for orchestrators without run keys of their own: exactly one caller gets it.

    The lease stands in the downstream table's log. It ends when it is released or after ``lease_seconds``, so a run
    that holds one and dies does not block the partition for good.

    Returns:
        Whether ``owner`` has it now.
    """
    return leases.take(table.ledger, partition, owner=owner, now=now, seconds=lease_seconds)


def release_partition(table: Table, partition: Mapping[str, str], *, owner: str, now: datetime) -> None:
    """Give a leased partition back, so that data which arrived meanwhile can be planned at once."""
    leases.give_back(table.ledger, partition, owner=owner, now=now)


def _followers(applied: Mapping[str, int], late: Mapping[str, int], current: str) -> dict[str, tuple[str, int]]:
    """Find partitions that applied less than an earlier one did or will: key -> the earlier one and its version."""
    found: dict[str, tuple[str, int]] = {}
    before, reached = "", -1
    for key in sorted({*applied, *late}):
        if key < current:
            has = max(applied.get(key, -1), late.get(key, -1))
            if has < reached or (key in late and applied.get(key, -1) < reached):
                found[key] = (before, max(reached, has))
            elif has > reached:
                before, reached = key, has
    return found


def _held(key: str, current: str, in_flight: Collection[str], oldest: str) -> str:
    if key >= current:
        return f"not before {current}: regular processing brings it in"
    if oldest and key < oldest:
        return f"older than {oldest}, the oldest date accepted"
    return "is being processed" if key in in_flight else ""
