"""Fast Metadata Cleaner: a unit of days is emptied by metadata alone and loaded again.

Problem: a daily batch deletes what its former run wrote, and the DELETE gets slower with each day of the table.
Solution: each unit of days (a week, a month) is one partition of one table. A new day is added to it; what is loaded
    again empties the unit in the log, where no data file is opened, and brings its days in by the same commit.
Consequences: the unit is what can be loaded again: one corrected day means all its days, and no single user is deleted.
    Readers see the old unit or the new one. Units count against a catalogue's limit: old ones are frozen into larger
    ones that no run changes any more. Emptied files take space until VACUUM.
Choose instead: Data Overwrite, if a run replaces its day; Merger, if a run sees only changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit, not_empty
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Plan, WriteResult
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta import Ledger, TableState, Target, already_applied, lost_files, require_partition
from dedp_assets.patterns.idempotency._relabelling import relabel
from dedp_assets.patterns.idempotency._units import (
    DAYS,
    Unit,
    UnitState,
    column_of,
    day_of,
    days_of,
    frozen_names,
    known_of,
    plan_of,
    unit_of,
)

__all__ = ["load_unit", "plan_units", "freeze_units", "UNITS_LEAVE_ROOM"]

UNITS_LEAVE_ROOM = Audit(name="units_leave_room", of="units", warn_above=0.8 * 4000)
"""Warns of four fifths of the partitions that BigQuery allows a table; ``replace`` gives it another bound."""


@typed
def load_unit(
    rows: DataFrame | None,
    into: Target,
    *,
    days: Mapping[str, int | str],
    by: str,
    unit: Unit = "week",
) -> WriteResult:
    """Load days of a unit in one commit: append new days, or replace the whole unit.

    Args:
        rows: all rows of these days, with the columns of the table except its partition column; ``None`` only empties
            the unit, by metadata and without Spark.
        into: target of the write: a table that is partitioned by one STRING column, the unit, called by its first day.
            A ``replay`` that begins with the unit's first day may leave out days that the unit holds: they have to be
            loaded after. A partition, if the target names one, has to be the unit.
            :data:`UNITS_LEAVE_ROOM` among its audits, or one like it, judges the number of units.
        days: day (``2026-01-05``) -> what identifies its rows upstream, a version for example. If they are all that
            the unit was loaded with, or more, the unit is replaced; if they are all new to it, they are added.
        by: column that says which day a row is of: a DATE, a text of one, a TIMESTAMP_NTZ, or a TIMESTAMP, in UTC.
        unit: ``week`` (ISO's, from Monday), ``month``, ``year``, or a function: day -> first day of its unit.

    Raises:
        AuditFailed: if a row is of another day, an audit refuses the rows, or there are none.
        ConfigError: if the days are not of one unit, or the table is partitioned in another way.
        Conflict: if another run changed the unit meanwhile.
        ContractError: if a part of the unit's days would be doubled, or others lost, or the unit is frozen.

    Example:
        >>> weekly = table("visits", "id INT, day STRING, week STRING", partition_by=["week"])
        >>> for day in ("2026-01-05", "2026-01-06"):
        ...     visits = frame("id INT, day STRING", (1, day))
        ...     _ = load_unit(visits, weekly.target(run), days={day: 1}, by="day")
        >>> week = frame("id INT, day STRING", (1, "2026-01-05"), (2, "2026-01-06"))
        >>> load_unit(week, weekly.target(run), days={"2026-01-05": 1, "2026-01-06": 2}, by="day").reason
        'unit 2026-01-05 emptied and loaded with 2 days: 2 rows published'
        >>> rows(weekly)
        [(1, '2026-01-05', '2026-01-05'), (2, '2026-01-06', '2026-01-05')]
    """
    into = into.by("idempotency.fast_metadata_cleaner", "partition", "audits", "rows_read")
    target, run = into.table, into.run
    column = column_of(target)
    name, state = unit_of(days, unit), target.ensure()
    if into.partition and require_partition(target.name, state, into.partition) != {column: name}:
        raise ConfigError(
            f"{target.name}: partition must be the unit of the days, {column}={name}, not {into.partition}"
        )
    known = known_of(target.ledger, state, column, name)
    if known.frozen:
        raise ContractError(f"{target.name} {column}={name} is frozen into {known.frozen}: no day of it can be loaded")
    if rows is None:
        emptied = replace(run, inputs={"emptied by": run.run_id}, sequence=None, notes={**run.notes, DAYS: {}})
        return target.clear(partition={column: name}, provenance=emptied)
    before = known.same(run, days)
    if before and before.record and not lost_files(target.store, state, {column: name}):
        return already_applied(target.name, before.record, before)
    adds = _is_addition(target.name, known, days, run, unit)
    of_days = f"{day_of(rows, by)} IN ({', '.join(map(quoted, days))})"
    own = Audit.none_where("rows_are_of_their_days", f"NOT coalesce({of_days}, false)")
    rows_read = replace(into.rows_read, figures={**into.rows_read.figures, "units": known.units})
    gated = replace(into, partition={column: name}, rows_read=rows_read).noting({DAYS: dict(days)})
    staged = gated.with_audits(not_empty(), own).stage(rows.withColumn(column, F.lit(name)), append=adds)
    result = staged.publish(since=state.version)
    what = f"{len(days)} days added to unit {name}" if adds else f"unit {name} emptied and loaded with {len(days)} days"
    return replace(result, reason=f"{what}: {result.reason}") if result.applied else result


@typed
def plan_units(
    present: Mapping[str, int | str], ledger: Ledger, *, unit: Unit = "week", asked: Collection[str] = ()
) -> Plan:
    """Choose the days to load: new days of a unit, or all days of a unit with a changed day.

    Args:
        present: day -> what identifies its rows upstream now, for each day that is there.
        ledger: the ledger of the table that :func:`load_unit` writes.
        unit: as :func:`load_unit` is told.
        asked: days that somebody asks to load again, changed or not.

    Returns:
        A plan whose ``partitions`` are days in order, unit after unit, with what identifies their rows in ``cursor``;
        days of frozen units are ``held``.
    """
    return plan_of(present, ledger, unit, asked)


@typed
def freeze_units(into: Target, *, before: date, larger: Unit = "month", unit: Unit = "week") -> WriteResult:
    """Merge old units into larger, frozen units, in one metadata-only commit that changes no row.

    A unit goes where its first day lies, and what comes of it is called by the days it holds:
    ``2025-12-01..2026-01-04`` for the weeks that begin in December. Frozen units may be frozen into larger ones still.

    Args:
        into: target of the write: the table that :func:`load_unit` writes.
        before: the first day that may still change: larger units that end before it are frozen.
        larger: the larger unit: ``month``, ``year``, or a function: day -> first day of its larger unit.
        unit: as :func:`load_unit` is told.

    Returns:
        Partitions before and after, in ``figures``.

    Raises:
        ConfigError: for a table whose log only Spark writes.
        Conflict: if other writers do not yield.
    """
    into = into.by("idempotency.fast_metadata_cleaner")
    column = column_of(into.table)

    def names(state: TableState) -> Mapping[str, str]:
        return frozen_names(state, column, before, unit, larger)

    return relabel(into.table, column, names, provenance=into.run)


def _is_addition(table: str, known: UnitState, days: Mapping[str, object], run: Provenance, unit: Unit) -> bool:
    """Return whether the days are appended to the unit; otherwise the days replace the unit.

    Raises:
        ContractError: if neither leaves the unit with each of its days once.
    """
    whole = days_of(date.fromisoformat(min(days)), unit)
    begins = run.replay and min(days) == whole[0].isoformat()
    if begins or days.keys() >= {day.isoformat() for day in whole}:
        return False
    if known.days is None:
        raise ContractError(
            f"{table}: nobody can say which days unit {whole[0]} holds, others wrote it: load all of {whole[0]} to "
            f"{whole[-1]} at once"
        )
    if days.keys() >= known.days.keys():
        return False
    if again := sorted(days.keys() & known.days.keys()):
        raise ContractError(
            f"{table}: {', '.join(again)} is loaded already, in one unit with {', '.join(sorted(known.days))}: load "
            "these days together, or replay the unit from its first day on"
        )
    return True
