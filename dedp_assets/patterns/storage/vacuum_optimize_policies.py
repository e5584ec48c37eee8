"""Vacuum Optimize Policies: maintenance by the class of a table, in quiet hours, where worthwhile.

Problem: hundreds of tables are optimized and vacuumed all alike: busy ones too rarely, archives for nothing, and by day
    in the way of readers.
Solution: the log tells how often a table is written and how large its files are. That makes a class, the class has a
    policy, and a plan names the jobs that are due and worthwhile, the most important layer first, and why others wait.
Consequences: a table changes its class by itself. An archive keeps replaced files for longer, since its vacuum is rare.
    A plan starts nothing: who runs the jobs passes those that run to the next plan.
Choose instead: Compactor, for a single table whose writer knows when it pays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Literal, get_args

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Plan
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.delta.maintenance import log_hours, safe_hours
from dedp_assets.patterns.storage._workloads import (
    DAY,
    HOUR,
    POLICIES,
    WEEK_HOURS,
    JobSlots,
    MaintenancePolicy,
    SeenCommits,
    TableClass,
    class_of,
)

__all__ = ["plan_maintenance", "workload_of", "judge_retention", "POLICIES", "MaintenancePolicy", "Workload"]

_LAYERS = ("gold", "silver", "bronze")
Resource = Literal["cpu", "memory"]
_MOST_LOAD: Mapping[Resource, float] = {"cpu": 0.7, "memory": 0.8}
_JOBS = ("optimize", "vacuum")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MOMENT = timedelta(microseconds=1)
_MOST_WINDOWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Writes, files and last maintenance of a table.

    Attributes:
        table: the table, ``layer/dataset``.
        writes_per_hour: writes per hour over the last day.
        average_bytes: average size of a data file, in bytes; ``None`` for a table without files.
        written_at: time of the last write; ``None`` without one in the retained log.
        optimized_at: time of the last commit of an optimization; ``None`` without one in the last 90 days.
        vacuumed_at: time of the last vacuum that removed a file; ``None`` as there.
        gain: what an optimization would gain, in a sentence; empty for nothing.
    """

    table: str
    writes_per_hour: float = 0
    average_bytes: int | None = None
    written_at: datetime | None = None
    optimized_at: datetime | None = None
    vacuumed_at: datetime | None = None
    gain: str = ""

    def table_class(self, now: datetime) -> TableClass:
        """Return the class of the table.

        Hot: more than 10 writes per hour, in files below 64 MiB. Archive: less than 1 per hour, and none for more than
        30 days. Everything else is regular, also a table that is written once a day.
        """
        return class_of(self.writes_per_hour, self.average_bytes, self.written_at, now)


@typed
def plan_maintenance(
    tables: Sequence[Workload],
    *,
    now: datetime,
    policies: Mapping[TableClass, MaintenancePolicy] | None = None,
    avoid: Sequence[QuietHours] = (),
    most_optimize: int = 3,
    most_vacuum: int = 2,
    running: Collection[str] = (),
    load: Mapping[Resource, float] | None = None,
) -> Plan:
    """Choose the jobs of maintenance that are due, worthwhile and possible now.

    Args:
        tables: the tables, in any order.
        now: the current time, with time zone.
        policies: policies of classes other than those of ``POLICIES``.
        avoid: hours in which no job starts, such as those of most queries; a due job is put off until their end.
        most_optimize: number of optimizations at once, those that run included.
        most_vacuum: number of vacuums at once, those that run included.
        running: jobs that run, as ``optimize gold/sales``.
        load: load of the machine, 0 to 1; above 0.7 of ``cpu`` or 0.8 of ``memory`` no job starts.

    Returns:
        A plan whose partitions are jobs, ``optimize gold/sales`` or ``vacuum gold/sales``: gold before silver before
        bronze before others, then hot tables first. ``causes`` and ``held`` begin with the class of the table.

    Raises:
        ConfigError: for a load or a number out of range, hours that leave none, and tables of the same name.

    Example:
        >>> from datetime import datetime, timezone
        >>> night = datetime(2026, 1, 6, 2, tzinfo=timezone.utc)
        >>> clicks = Workload(table="silver/clicks", writes_per_hour=120, average_bytes=32_000_000, gain="40 small")
        >>> plan = plan_maintenance([clicks], now=night)
        >>> plan.partitions, plan.causes["optimize silver/clicks"]
        (('optimize silver/clicks', 'vacuum silver/clicks'), 'streaming_hot: 40 small')
    """
    slots = JobSlots.of({"optimize": most_optimize, "vacuum": most_vacuum}, running)
    if repeated := [name for name, count in Counter(each.table for each in tables).items() if count > 1]:
        raise ConfigError(f"tables must have different names, not {repeated[0]} twice")
    stated, wait = {**POLICIES, **(policies or {})}, _put_off(now, avoid) or _loaded(load or {})
    chosen, causes, held = list[str](), dict[str, str](), dict[str, str]()
    for each in sorted(tables, key=lambda table: _place(table, now)):
        kind = each.table_class(now)
        for job in _JOBS:
            key = f"{job} {each.table}"
            due, why = _due(each, job, stated[kind], now)
            barred = (wait or slots.barred(job, key)) if due else why
            if barred:
                held[key] = f"{kind}: {barred}"
                continue
            slots.taken[job] += 1
            chosen.append(key)
            causes[key] = f"{kind}: {why}"
    counted = Counter(key.partition(" ")[0] for key in chosen)
    reason = f"{counted['optimize']} optimizations and {counted['vacuum']} vacuums of {len(tables)} tables"
    return Plan(tuple(chosen), f"{reason}; {wait}" if wait else reason, causes=causes, held=held)


@typed
def workload_of(ledger: Ledger, plans: Sequence[Plan] = (), *, now: datetime) -> Workload:
    """Read writes, files and last maintenance of a table, from the log alone.

    Args:
        ledger: the table's ledger.
        plans: plans of an optimization, as of ``plan_compaction`` and ``plan_sorting``; those with partitions are a
            gain.
        now: the current time, with time zone.

    Raises:
        NotReady: if there is no table yet.
    """
    seen = SeenCommits(now)
    for commit in ledger.newest_first():
        if not seen.takes(commit):
            break
    files = ledger.state().files()
    gains = [plan.reason for plan in plans if plan.partitions]
    gains += [f"{seen.foreign} commits of other writers, whose statistics may mislead"] if seen.foreign else []
    return Workload(
        table=ledger.name,
        writes_per_hour=seen.writes / (DAY / HOUR),
        average_bytes=sum(file["size_bytes"] for file in files) // len(files) if files else None,
        written_at=seen.written_at,
        optimized_at=seen.at.get("optimize"),
        vacuumed_at=seen.at.get("vacuum"),
        gain="; ".join(gains),
    )


@typed
def judge_retention(ledger: Ledger, *, policy: MaintenancePolicy, promised_hours: int = 0) -> Finding:
    """Judge whether replaced files stay for as long as the policy says, and as time travel was promised.

    What can be read of the past ends with the log or with the files, whichever goes first.

    Args:
        ledger: the table's ledger.
        policy: policy of the table's class.
        promised_hours: how far back readers were promised to read, in hours; 0 for no promise.

    Returns:
        Hours of files, log and promise. Passed unless a table property lets files go earlier than after a week, or
        than the policy says, or the promise is longer than files or log are kept.
    """
    state = ledger.state()
    stated = "delta.deletedFileRetentionDuration" in state.properties
    files = safe_hours(state) if stated else policy.retention_hours
    kept, log = max(files, policy.retention_hours), log_hours(state)
    faults = []
    if files < policy.retention_hours:
        faults.append(
            f"its property lets replaced files go after {files:g} h, the policy after {policy.retention_hours}"
        )
    if files < WEEK_HOURS:
        faults.append(f"{files:g} h are below the {WEEK_HOURS} h that readers and writers at work need")
    window = min(files, log)
    if promised_hours > window:
        first = "files go" if files <= log else "the log goes"
        faults.append(f"time travel of {promised_hours} h was promised, and {first} after {window:g} h")
    figures = {"file_hours": kept, "least_hours": files, "log_hours": log, "promised_hours": promised_hours}
    note = f"{ledger.name}: {'; '.join(faults)}" if faults else ""
    return Finding("the_past_is_kept", not faults, "warn", figures, note)


def _due(table: Workload, job: str, policy: MaintenancePolicy, now: datetime) -> tuple[bool, str]:
    """Return whether a job is due and worthwhile, and why, or why not."""
    last = table.optimized_at if job == "optimize" else table.vacuumed_at
    hours = policy.optimize_hours if job == "optimize" else policy.vacuum_hours
    again = _next(last, hours) if last else None
    written = table.written_at
    if job == "optimize" and policy.after_writes and written and last and written > last:
        again = None
    if job == "optimize" and not table.gain:
        return False, "nothing to gain"
    # What a vacuum could not yet remove was replaced within its retention, or after it.
    if job == "vacuum" and last and written and written <= last - timedelta(hours=policy.retention_hours):
        return False, "nothing to gain: no write since the files that the last vacuum removed"
    if again and now < again:
        return False, f"not due until {again.isoformat()}"
    if job == "optimize":
        return True, table.gain
    return True, f"last vacuum at {last.isoformat()}" if last else "no vacuum before"


def _next(last: datetime, hours: int) -> datetime:
    """Return when the interval after the one of a time begins."""
    interval = timedelta(hours=hours)
    return _EPOCH + ((last - _EPOCH) // interval + 1) * interval


def _place(table: Workload, now: datetime) -> tuple[int, int, str]:
    """Return the place of a table: layer, class, name."""
    layer = table.table.partition("/")[0]
    rank = _LAYERS.index(layer) if layer in _LAYERS else len(_LAYERS)
    return rank, get_args(TableClass).index(table.table_class(now)), table.table


def _put_off(now: datetime, avoid: Sequence[QuietHours]) -> str:
    """Return until when all jobs are put off; empty outside of the hours to avoid."""
    until = now.astimezone(timezone.utc)
    for _ in range(_MOST_WINDOWS):
        ends = [closes for each in avoid for _, closes in each.windows(until, until + _MOMENT)]
        if not ends:
            return f"put off until {until.astimezone(now.tzinfo).isoformat()}" if until > now else ""
        until = max(ends)
    raise ConfigError(f"avoid must leave hours for maintenance, not none until {until.isoformat()}")


def _loaded(load: Mapping[Resource, float]) -> str:
    """Return the load for which no job starts; empty below the limits."""
    for resource, share in load.items():
        if not 0 <= share <= 1:
            raise ConfigError(f"load must lie between 0 and 1, not {share} of {resource}")
        if share > _MOST_LOAD[resource]:
            return f"{share:.0%} of {resource} are in use, more than {_MOST_LOAD[resource]:.0%}"
    return ""
