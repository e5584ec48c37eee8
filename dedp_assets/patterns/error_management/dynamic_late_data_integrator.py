"""Dynamic Late Data Integrator: exactly the partitions with late data are reprocessed, oldest first.

Problem: a fixed lookback window reprocesses days that did not change and misses data older than the window.
Solution: compare, by partition, the newest upstream version that changed it with the version downstream applied last,
    and reprocess only where upstream is ahead. Both numbers stand in the tables' own logs, as do the leases of runs
    that plan side by side.
Consequences: versions decide, not clocks: compaction changes no row and wakes nobody, and what arrives during a run is
    found by the next plan. A stateful consumer has to replay everything after the late partition: cap how far back.
Choose instead: Static Late Data Integrator, if every run may afford a fixed lookback.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Plan
from dedp_assets.patterns.delta import Table, in_turn
from dedp_assets.patterns.error_management import _leases as leases
from dedp_assets.patterns.error_management._late_partitions import applied_versions, by_key, followers, held_back

__all__ = ["plan_late_partitions", "claim_late_partitions", "judge_late_partitions", "Claim"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Partitions leased by a single run.

    Attributes:
        plan: what it may process, in this order, and what it has to leave to others.
        table: the downstream table, whose log holds the leases.
        owner: who claimed.
    """

    plan: Plan
    table: Table = field(repr=False)
    owner: str

    def release(self, partition: str, *, now: datetime) -> None:
        """End the lease of a partition, so that data arrived meanwhile can be planned at once."""
        leases.require_zone(now)
        values = by_key(self.table, [partition])[partition]
        leases.give_back(self.table.ledger, values, owner=self.owner, now=now)


@typed
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
        reason = held_back(key, current, in_flight, oldest)
        if reason:
            held[key] = reason
        else:
            causes[key] = "late-data" if key in applied else "first-seen"
    cursor = {key: changed[key] for key in causes}
    if replay_history:
        for key, (before, version) in followers(applied, cursor, current).items():
            (held if key in in_flight else causes).setdefault(key, f"follows {before}")
            cursor[key] = version
    chosen = sorted(causes)[:limit]
    held.update({key: f"the next of {len(causes)}: {limit} at once" for key in sorted(causes)[len(chosen) :]})
    return Plan(
        tuple(chosen),
        f"{len(chosen)} partitions changed after they were processed" if chosen else "nothing is late",
        causes={key: causes[key] for key in chosen},
        held=held,
        cursor={key: cursor[key] for key in chosen},
    )


@typed
def claim_late_partitions(
    changed: Mapping[str, int],
    table: Table,
    *,
    current: str,
    owner: str,
    now: datetime,
    lease_seconds: float,
    oldest: str = "",
    replay_history: bool = False,
) -> Claim:
    """Plan and lease the late partitions and the current partition, unless leased by another owner.

    What is processed and by whom is read from the downstream table's log, and the leases are committed there if nobody
    else has committed since: of runs that plan side by side each partition goes to one. A run may process all of its
    claim, late ones first, or hand late ones over to runs of their own that claim them under the same owner. A lease
    ends when it is released or after ``lease_seconds``, so a run that dies blocks nothing for good.

    Args:
        changed: as for :func:`plan_late_partitions`.
        table: the downstream table, partitioned by one column.
        current: the partition that the run is for.
        owner: who claims; what it holds already is chosen again, so that a retry goes on.
        now: the time.
        lease_seconds: how long the claim lasts, in seconds.
        oldest: as there.
        replay_history: as there.

    Raises:
        ConfigError: if the table is not partitioned by one column, or an owner, a time or a lease cannot be one.
    """
    leases.require_lease(owner, now, lease_seconds)
    partitions = by_key(table, [*changed, current])

    def claim() -> tuple[Plan, dict[str, str]]:
        state = table.ledger.state()
        held = leases.of_partitions(table.ledger, partitions, after=now)
        others = {key: lease.owner for key, lease in held.items() if lease.owner != owner}
        plan = plan_late_partitions(
            changed,
            applied_versions(table, partitions),
            current=current,
            in_flight=others,
            oldest=oldest,
            replay_history=replay_history,
        )
        named = {key: f"is being processed by {others[key]}" for key in others if key in (*plan.held, current)}
        mine = plan if current in others else _with_current(plan, current, changed)
        leased = [partitions[key] for key in mine.partitions]
        leases.note(table.ledger, state, leased, owner=owner, now=now, seconds=lease_seconds)
        return mine, named

    mine, named = in_turn(table.store, claim)
    return Claim(replace(mine, held={**mine.held, **named}), table, owner)


@typed
def judge_late_partitions(
    changed: Mapping[str, int], table: Table, *, current: str, now: datetime, oldest: str = ""
) -> Finding:
    """Judge whether late data is integrated; warn of too old data and of expired, unfinished leases.

    The arguments are those of :func:`claim_late_partitions`.
    """
    leases.require_zone(now)
    partitions = by_key(table, sorted(changed))
    applied = applied_versions(table, partitions)
    behind = {k: p for k, p in partitions.items() if k < current and changed[k] > applied.get(k, -1)}
    held = {key: lease for key, lease in leases.of_partitions(table.ledger, behind).items() if lease.owner}
    late = {key: f"{key} is older than {oldest}, the oldest date accepted" for key in behind if key < oldest}
    dead = {
        key: f"{key} was leased by {lease.owner} until {lease.until}, and is not done"
        for key, lease in held.items()
        if lease.ends <= now.timestamp()
    }
    return Finding(
        "late_data_is_brought_in",
        passed=not late and not dead,
        severity="warn",
        figures={
            "behind": len(behind),
            "in flight": len(held) - len(dead),
            "not done": len(dead),
            "too old": len(late),
        },
        note="; ".join([*late.values(), *dead.values()]),
    )


def _with_current(plan: Plan, current: str, changed: Mapping[str, int]) -> Plan:
    return replace(
        plan,
        partitions=(*plan.partitions, current),
        causes={**plan.causes, current: "current"},
        held={key: reason for key, reason in plan.held.items() if key != current},
        cursor={**plan.cursor, **({current: changed[current]} if current in changed else {})},
    )
