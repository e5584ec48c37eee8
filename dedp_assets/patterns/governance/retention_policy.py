"""Retention Policy: rows leave when the retention of their classes is over, by rule, with an audit.

Problem: personal values stay for ever: nobody knows which tables hold them, or dares to delete what may be read.
Solution: a policy states days by class of column. The shortest of a table's classes decides; a plan of the log alone
    names the partitions that go and those that stay, and the run removes exactly the former, in a commit with the rule.
Consequences: whole partitions by a date leave, at the first midnight (UTC) at which each row is old enough. A legal
    hold and the backfill window of a reader win over age. Files stay until a vacuum; rows computed downstream stay.
Choose instead: TableLayout.keep_days, for one table by a number; an erasure request, for the rows of one person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone

from dedp_assets.patterns.core.classes import Classification
from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import Plan, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import (
    Partition,
    Table,
    TableState,
    Target,
    apart_from_held,
    holds,
    partition_name,
    shown_holds,
)
from dedp_assets.patterns.delta.maintenance import older_partitions, remove_expired
from dedp_assets.patterns.delta.snapshots.tiers import tiered

__all__ = ["plan_retention", "apply_retention", "Retention", "POLICY"]

_CENTURIES = 400_000
"""Days: more cannot be subtracted from every time."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of a class of columns.

    Attributes:
        of: the class; a table with such a column is bound by the rule.
        days: number of whole days for which rows stay.

    Raises:
        ConfigError: for less than a day.
    """

    of: Classification
    days: int

    def __post_init__(self) -> None:
        require_types(self)
        if not 1 <= self.days <= _CENTURIES:
            raise ConfigError(f"days of {self.of or 'no class'} must be between 1 and {_CENTURIES}, not {self.days}")


POLICY: Sequence[Retention] = (
    Retention("personal", 30),
    Retention("sensitive", 30),
    Retention("free text", 30),
    Retention("secret", 30),
    Retention("quasi", 365),
)
"""Default retention by class; rows with columns of other classes alone, such as public, have no limit."""


@typed
def plan_retention(
    table: Table,
    *,
    now: datetime,
    policy: Sequence[Retention] = POLICY,
    by: str = "",
    readers: Mapping[str, int] | None = None,
) -> Plan:
    """Plan the removal of the partitions past the retention of a table, without Spark.

    Args:
        table: the table, with the classes of its columns.
        now: current time, with time zone; ages are in UTC.
        policy: the rules, one for a class; the shortest of those of the table's classes decides.
        by: partition column of type DATE or TIMESTAMP that tells the age; the first one unless stated.
        readers: name of a downstream table -> days that it may compute again (its backfill window); partitions in the
            window stay.

    Returns:
        The partitions that go, oldest first, with the rule as cause, and table and version as ``cursor``.
        Those past their retention that stay are ``held``: on legal hold, read by a reader, on a storage tier, or
        without a date.

    Raises:
        ConfigError: for a bound table that is not partitioned by a time, two rules of a class, and windows below 0.

    Example:
        >>> from datetime import date, datetime, timezone
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> columns = {"day": Column("DATE"), "login": Column("STRING", classification="personal")}
        >>> old, new = (date(2026, 1, 1), "ada"), (date(2026, 1, 2), "bob")
        >>> logins = table(TableSpec("silver/logins", columns, ("day",)), "", old, new)
        >>> plan = plan_retention(logins, now=datetime(2026, 2, 1, tzinfo=timezone.utc))
        >>> plan.partitions, plan.reason
        (('day=2026-01-01',), '1 partitions of silver/logins are older than 30 days, the retention of personal (login)')
        >>> done = apply_retention(plan, logins.target(run))
        >>> rows(logins.read().selectExpr("login"))
        [('bob',)]
    """
    require_distinct("policy", [rule.of for rule in policy])
    if wrong := {reader: days for reader, days in (readers or {}).items() if days < 0}:
        raise ConfigError(f"readers must state windows of 0 days or more, not {wrong}")
    kept = {rule.days: rule for rule in sorted(policy, key=lambda rule: -rule.days) if _columns(table, rule)}
    if not kept:
        return Plan((), f"no column of {table.name} is of a class with a retention: all partitions stay")
    rule = kept[min(kept)]
    state = table.ledger.state()
    by = _column(table, state, by, rule)
    found = older_partitions(state, by, days=rule.days, now=now)
    held = _held(table, state, found, by, now, readers or {})
    away = [part for part in tiered(state) if by not in part.partition or _age(part.partition[by], now) > rule.days]
    held |= {slice_name(p.partition): f"on tier {p.tier}: bring_back first (cost.storage_tiering)" for p in away}
    names = [name for key in found if (name := partition_name(key)) not in held]
    cause = f"older than {rule.days} days, the retention of {rule.of} ({', '.join(_columns(table, rule))})"
    reason = f"{len(names)} partitions of {table.name} are {cause}"
    return Plan(
        tuple(names),
        f"{reason}; {len(held)} are held" if held else reason,
        causes=dict.fromkeys(names, cause),
        held=held,
        cursor=dict.fromkeys(names, f"{table.name}@{state.version}"),
    )


@demanding(replaces="table")
@typed
def apply_retention(plan: Plan, into: Target) -> WriteResult:
    """Remove exactly the partitions of a plan, in one commit with the rule, without a read of rows.

    The commit is no change for tables downstream: nothing is computed again for it. Run again, nothing happens. Files
    stay until a vacuum (``ingestion.compactor.vacuum``).

    Args:
        plan: plan of :func:`plan_retention` for the table.
        into: target of the write: the whole table.

    Returns:
        The write; ``figures`` say how many partitions expired, and their bytes.

    Raises:
        Conflict: if a partition of the plan was written or held since; nothing is removed: plan again.
        ConfigError: for a plan of another kind, or a table that only takes appends.
    """
    into = into.by("governance.retention_policy")
    table, state = into.table, into.table.ledger.state()
    if not plan.partitions:
        return WriteResult(table.name, state.version, applied=False, changed=False, reason=plan.reason)
    since = _version(plan, table.name, state)
    there = {partition_name(key): key for key in state.statistics()}
    keys = [there[name] for name in plan.partitions if name in there]
    _, held = apart_from_held(table.ledger, keys)
    if held:
        raise Conflict(f"{table.name} is {held} since the plan of version {since}: plan again")
    return remove_expired(table, keys, into.run, rule=plan.causes[plan.partitions[0]], since=since)


def _version(plan: Plan, table: str, state: TableState) -> int:
    """Return the version of a table that a plan was made at."""
    name, _, version = str(plan.cursor.get(plan.partitions[0], "")).rpartition("@")
    if name != table or len({*plan.cursor.values()}) > 1 or int(version) > state.version:
        raise ConfigError(f"plan must be one of plan_retention for {table} as it is there, not: {plan.reason}")
    return int(version)


def _columns(table: Table, rule: Retention) -> list[str]:
    """List the columns of a table that a rule binds."""
    return [name for name, column in table.spec.columns.items() if column.classification == rule.of]


def _column(table: Table, state: TableState, by: str, rule: Retention) -> str:
    named = by or next(iter(state.partition_columns), "")
    found = next((column for column in state.kinds if column.lower() == named.lower()), "")
    if state.kinds.get(found) not in ("date", "timestamp"):
        raise ConfigError(
            f"by must be a partition column of {table.name} of type DATE or TIMESTAMP, not {named or 'nothing'}: it "
            f"has {rule.of} columns ({', '.join(_columns(table, rule))}), which stay {rule.days} days"
        )
    return found


def _held(
    table: Table, state: TableState, found: Sequence[Partition], by: str, now: datetime, readers: Mapping[str, int]
) -> dict[str, str]:
    """Return the reason for each old partition that stays, legal holds before readers."""
    standing, held = holds(table.ledger), dict[str, str]()
    for key in found:
        age = _age(dict(key)[by], now)
        met = [hold for hold in standing if hold.meets(dict(key))]
        reasons = [shown_holds(met)] if met else []
        reasons += [
            f"{reader} may compute the last {days} days again" for reader, days in readers.items() if age <= days
        ]
        held |= {partition_name(key): "; ".join(reasons)} if reasons else {}
    undated = [key for key in state.statistics() if dict(key)[by] is None]
    return held | {partition_name(key): f"{by} is NULL, so that it has no age" for key in undated}


def _age(value: str | None, now: datetime) -> int:
    """Return the age of a partition in days, by the date in UTC."""
    return (now.astimezone(timezone.utc).date() - date.fromisoformat(str(value)[:10])).days
