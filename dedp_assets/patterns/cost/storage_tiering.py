"""Storage Tiering: partitions move to cheaper storage by age, and come back.

Problem: most data is written once and seldom read again, but all of it lies on the dearest storage.
Solution: tiers are stated by age, price and place. The files of a partition are copied to the place of its tier with
    checksums, then leave the table in a commit that changes no row and marks the partition. The log never moves. A
    partition on legal hold neither moves nor expires, whatever its age.
Consequences: a tier that is read costs its latency; a partition on one that is not is refused by name, as is a write
    to either. Readers without the library see the rows that are left. Each move is paid for as requests and transfer.
Choose instead: the classes of an object store, where it has them, as tiers without a place; Snapshot Export, to keep a
    copy of rows that stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.cost._tiers import Dated, Tier, root_of, units_of
from dedp_assets.patterns.delta import Ledger, Store, TableState, Target, require_partition, shown_holds
from dedp_assets.patterns.delta.maintenance import bring_in, move_out, require_movable, to_tier
from dedp_assets.patterns.delta.snapshots.tiers import Placed, tiered

__all__ = ["move_to_tiers", "bring_back", "estimate_savings", "Savings", "Tier"]

_GB = 10**9
_CENTURY = 876_000
"""Hours: more cannot be subtracted from every time."""


@dataclass(frozen=True, slots=True)
class Savings:
    """Monthly cost of a table on the first tier alone, and by tiers.

    Attributes:
        current: cost of a month, with all files on the first tier.
        tiered: cost of a month, with each partition on the tier of its age, or where a legal hold keeps it.
        due: partition -> the present tier and the tier of the age, for each partition that the next move moves.
        held: partition that would move -> who holds the partition, and why.
    """

    current: Decimal
    tiered: Decimal
    due: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)

    @property
    def monthly(self) -> Decimal:
        """Saving of a month."""
        return self.current - self.tiered

    @property
    def annual(self) -> Decimal:
        """Saving of twelve months."""
        return 12 * self.monthly

    @property
    def percent(self) -> Decimal:
        """Saving in percent of the current cost, rounded to two digits; 0 where nothing costs anything."""
        return round(100 * self.monthly / self.current, 2) if self.current else Decimal(0)


@demanding(replaces="table")
@typed
def move_to_tiers(
    into: Target, *, tiers: Sequence[Tier], by: str, now: datetime, keep_hours: float = 168
) -> WriteResult:
    """Move each partition to the tier for the age, in one commit that changes no row.

    Files are copied first, so that a run after a crash goes on with those that are missing; run again, nothing moves.
    A partition that is written or put on hold meanwhile stays for the next run. Partitions of the future, without a
    date, and on legal hold (``dedp hold TABLE day=2023-01-01 --by legal --because 'case 17'``) stay.

    Args:
        into: target of the write: the whole table.
        tiers: the tiers by age, the first one from 0 days and in the table's folder.
        by: partition column of type DATE that tells the age.
        now: the current time, with time zone; ages are in UTC days.
        keep_hours: how long a copy on a tier stays after its partition has left the tier, in hours: readers of earlier
            versions, and those that are at it, have their rows there.

    Returns:
        Partitions and bytes moved, partitions that another writer changed, partitions on legal hold, and copies
        removed, in ``figures``; ``reason`` says who holds which partition, and why.

    Raises:
        ConfigError: for tiers, or a column, that cannot be, a tier whose place is not there, before anything is
            written; or a table whose files only Spark exchanges.
        Conflict: if other writers do not yield.

    Example:
        >>> from datetime import date, datetime, timezone
        >>> old, new = (date(2023, 1, 1), 1), (date(2026, 1, 1), 2)
        >>> visits = table("visits", "day DATE, id INT", old, new, partition_by=["day"])
        >>> cold = visits.location.with_name("cold")
        >>> cold.mkdir()
        >>> tiers = [Tier("hot", 0, 0.023), Tier("cold", 365, 0.004, at=str(cold))]
        >>> now = datetime(2026, 1, 5, tzinfo=timezone.utc)
        >>> move_to_tiers(visits.target(run), tiers=tiers, by="day", now=now).figures["partitions_moved"]
        1
        >>> [len(visits.read({"day": day}).collect()) for day, _ in (old, new)]
        [1, 1]
    """
    into = into.by("cost.storage_tiering")
    table, state = into.table, into.table.ledger.state()
    if not 0 <= keep_hours <= _CENTURY:
        raise ConfigError(f"keep_hours must be between 0 and {_CENTURY}, not {keep_hours}")
    require_movable(into.name, state)
    units = units_of(table.ledger, state, tiers, by, now)
    due, held = [unit for unit in units if unit.is_due], [unit for unit in units if unit.is_of_age and unit.holds]
    roots = {unit.wanted.at: root_of(unit.wanted, table.store) for unit in due}
    moved = [_copied(table.ledger, state, unit, roots[unit.wanted.at]) for unit in due]
    made = move_out(table, state, moved, into.run, now=now, keep_hours=keep_hours)
    names = {slice_name(part.partition) for part in made.parts}
    figures = {"partitions_moved": len(names), "bytes_moved": sum(part.size_bytes for part in made.parts)}
    figures |= {"partitions_changed_meanwhile": len(due) - len(names), "copies_removed": made.removed}
    figures["partitions_held"] = len(held)
    shown = {name: how for name, how in _moves(due, tiers).items() if name in names}
    reason = _reason(shown, len(due), made.removed, shown_holds([hold for unit in held for hold in unit.holds]))
    return WriteResult(into.name, made.version, applied=made.applied, changed=False, reason=reason, figures=figures)


@typed
def bring_back(into: Target, *, now: datetime) -> WriteResult:
    """Bring a partition back from a tier, in one commit that changes no row.

    Its copy on the tier goes with a later run of :func:`move_to_tiers`.

    Args:
        into: target of the write, with the partition.
        now: the current time, with time zone.

    Raises:
        ConfigError: without a partition.
        ContractError: if files of the tier are damaged; nothing is committed.
        Conflict: if other writers do not yield.
    """
    into = into.by("cost.storage_tiering", "partition")
    table, state = into.table, into.table.ledger.state()
    owned = require_partition(into.name, state, into.owned)
    if not owned:
        raise ConfigError(f"the target of bring_back must have a partition of {into.name}, not be the whole table")
    found = [part for part in tiered(state) if part.meets(owned)]
    version = state.version
    for part in found:
        version = bring_in(table, part, into.run, now=now)
    figures = {"partitions_moved": len(found), "bytes_moved": sum(part.size_bytes for part in found)}
    named = ", ".join(f"{slice_name(part.partition)} ({part.tier})" for part in found)
    reason = f"{named} is in the table again" if found else f"{slice_name(owned)} is on no tier: nothing to do"
    return WriteResult(
        into.name, version, applied=bool(found), changed=False, reason=reason, partition=owned, figures=figures
    )


@typed
def estimate_savings(ledger: Ledger, *, tiers: Sequence[Tier], by: str, now: datetime) -> Savings:
    """Estimate the savings by tiers from the sizes in the log.

    What is due is what :func:`move_to_tiers` moves with the same arguments. Requests, transfer and least durations of
    a tier are left out.

    Args:
        ledger: the table's ledger.
        tiers: the tiers by age, as of :func:`move_to_tiers`.
        by: partition column of type DATE that tells the age.
        now: the current time, with time zone.

    Raises:
        ConfigError: for tiers, or a column, that cannot be.
    """
    state = ledger.state()
    units = units_of(ledger, state, tiers, by, now)
    everything = sum(each.bytes for each in state.statistics().values()) + sum(
        each.size_bytes for each in tiered(state)
    )
    undated = everything - sum(unit.size_bytes for unit in units)
    sizes = [(undated, tiers[0]), *((unit.size_bytes, unit.tier_after(tiers)) for unit in units)]
    costs = [Decimal(size) / _GB * Decimal(str(tier.price)) for size, tier in sizes]
    current = Decimal(sum(size for size, _ in sizes)) / _GB * Decimal(str(tiers[0].price))
    held = {slice_name(each.partition): shown_holds(each.holds) for each in units if each.is_of_age and each.holds}
    return Savings(current, sum(costs, Decimal(0)), _moves([unit for unit in units if unit.is_due], tiers), held)


def _copied(ledger: Ledger, state: TableState, unit: Dated, root: Store) -> Placed:
    """Copy a date from the table, or from the present tier."""
    source, version = (Ledger(unit.placed.place, name=ledger.name), 0) if unit.placed else (ledger, state.version)
    return to_tier(source, version, unit.partition, unit.wanted.name, root, online=unit.wanted.online)


def _moves(due: Sequence[Dated], tiers: Sequence[Tier]) -> dict[str, str]:
    """Describe moves: partition -> present tier and tier by age."""
    return {
        slice_name(unit.partition): f"{unit.placed.tier if unit.placed else tiers[0].name} -> {unit.wanted.name}"
        for unit in due
    }


def _reason(shown: Mapping[str, str], due: int, removed: int, held: str) -> str:
    moves = ", ".join(f"{name} ({how})" for name, how in list(shown.items())[:3])
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    parts = [f"{len(shown)} partition{'s' if len(shown) != 1 else ''} moved{': ' if shown else ''}{moves}{more}"]
    parts = parts if due else ["every partition is on the tier of its age" if not held else "no partition moved"]
    parts += [held] if held else []
    parts += [f"{due - len(shown)} changed meanwhile and stay"] if due > len(shown) else []
    parts += [f"{removed} former cop{'ies' if removed != 1 else 'y'} removed"] if removed else []
    return "; ".join(parts)
