"""Units of days: partitions to empty and freeze, named by first day or by range of days."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampType

from dedp_assets.patterns.core.columns import DAY, fields_of, require_columns
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.delta import Commit, Ledger, Table, TableState, is_append

__all__ = [
    "DAYS",
    "Unit",
    "UnitState",
    "column_of",
    "day_of",
    "days_of",
    "frozen_names",
    "known_of",
    "plan_of",
    "unit_of",
]

Unit = Literal["week", "month", "year"] | Callable[[date], date]
"""A unit by its name, or a function: day -> the first day of its unit."""

DAYS = "days"
"""Under this name a commit notes the days that it loaded, each with what identifies its rows upstream."""

_NAMED: Mapping[str, Callable[[date], date]] = {
    "week": lambda day: day - timedelta(days=day.weekday()),  # ISO's, from Monday: its first day tells the year, too
    "month": lambda day: day.replace(day=1),
    "year": lambda day: day.replace(month=1, day=1),
}
_DAY = 86_400_000_000
"""Microseconds of a day."""
_LONGEST = 3660
_TO = ".."


@dataclass(frozen=True, slots=True, order=True)
class DayRange:
    """The range of days in a partition of a table of units.

    Attributes:
        first: the first of them; a unit that can still be loaded is called by it.
        last: the last of them, if the unit is frozen; its name says both.
    """

    first: date
    last: date | None = None

    @property
    def name(self) -> str:
        """The partition's value."""
        return self.first.isoformat() + (f"{_TO}{self.last.isoformat()}" if self.last else "")

    @classmethod
    def parse(cls, value: str) -> DayRange:
        """Read a partition's value.

        Raises:
            ValueError: if it is none of a unit.
        """
        first, _, last = value.partition(_TO)
        return cls(date.fromisoformat(first), date.fromisoformat(last) if last else None)


def first_day(day: date, unit: Unit) -> date:
    """Find the first day of the unit that ``day`` lies in.

    Raises:
        ConfigError: if there is no such unit, or its first day comes later or lies in another unit.
    """
    if not callable(unit) and unit not in _NAMED:
        raise ConfigError(f"unit={unit!r} is none of {', '.join(_NAMED)}, and no function")
    find = unit if callable(unit) else _NAMED[unit]
    first = find(day)
    if first > day or find(first) != first:
        raise ConfigError(
            f"unit must give the first day of the unit that {day} lies in, not {first}: it is later, or in another unit"
        )
    return first


def days_of(day: date, unit: Unit) -> list[date]:
    """List the days of the unit that ``day`` lies in, in order.

    Raises:
        ConfigError: if the unit does not end.
    """
    first = first_day(day, unit)
    found = [first]
    while first_day(following := found[-1] + timedelta(days=1), unit) == first:
        found.append(following)
        if len(found) > _LONGEST:
            raise ConfigError(f"the unit of {day} has more than {_LONGEST} days: choose a smaller one")
    return found


def day_of(rows: DataFrame, by: str) -> str:
    """Return SQL for the day of a row as a text; NULL for a text without a day.

    Raises:
        ConfigError: for a column that is not there, or of a type that says no day.
    """
    require_columns(rows, [by], DAY)
    column, (field,) = identifier(by), fields_of(rows, [by])
    if isinstance(field.dataType, TimestampType):
        since = f"unix_micros({column}) - pmod(unix_micros({column}), {_DAY}L)"
        return f"CAST(date_from_unix_date(CAST(({since}) div {_DAY}L AS INT)) AS STRING)"
    return f"CAST(try_cast({column} AS DATE) AS STRING)"


def _day(text: str, option: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} must be days like 2026-01-05, not {text!r}") from None


def unit_of(days: Mapping[str, object], unit: Unit) -> str:
    """Return the name of the unit that holds all of the days.

    Raises:
        ConfigError: if they are of several or none, or no days.
    """
    found = {first_day(_day(day, "days"), unit).isoformat() for day in days}
    if len(found) != 1:
        raise ConfigError(f"load the days of one unit at a time, not of {sorted(found) or 'none'}")
    return found.pop()


def begin(day: date, unit: Unit) -> date:
    """Find the first day, from ``day`` on, that a unit begins with."""
    first = first_day(day, unit)
    return first if first == day else days_of(day, unit)[-1] + timedelta(days=1)


def column_of(table: Table) -> str:
    """Name the column that holds the unit: the only partition column, a STRING.

    Raises:
        ConfigError: if the table is partitioned in another way.
    """
    columns = table.spec.partition_by
    if len(columns) != 1 or table.spec.columns[columns[0]].type.upper() != "STRING":
        raise ConfigError(f"{table.name} has to be partitioned by its unit alone, a STRING, not by {list(columns)}")
    return columns[0]


def spans(state: TableState, column: str) -> Iterator[DayRange]:
    """List the units that hold rows."""
    for key in state.statistics():
        try:
            yield DayRange.parse(dict(key)[column] or "")
        except ValueError:
            raise ContractError(
                f"{column}={dict(key)[column]} is no unit of days: write this table by fast_metadata_cleaner alone"
            ) from None


@dataclass(frozen=True, slots=True)
class UnitState:
    """The state of a unit in the table.

    Attributes:
        units: how many units there are, this one included.
        days: the days that it was loaded with since it was emptied, each with what identified its rows; ``None`` if
            nobody can say: somebody else changed the unit, a restore did, or the log does not go back that far.
        commits: the commits that loaded them, newest first.
        frozen: name of the frozen unit that holds its days; empty if there is none.
    """

    units: int
    days: Mapping[str, object] | None
    commits: Sequence[Commit] = ()
    frozen: str = ""

    def same(self, run: Provenance, days: Mapping[str, object]) -> Commit | None:
        """Return the commit of an identical earlier load; ``None`` for a new load.

        A retry of an applied load has nothing to do.
        """
        if run.replay or not (run.inputs or run.sequence is not None):
            return None
        mine = (run.inputs, run.code_version, run.sequence, dict(days))
        recorded = [(commit, commit.record) for commit in self.commits if commit.record]
        of = ((c, (r.inputs, r.code_version, r.sequence, r.notes[DAYS])) for c, r in recorded)
        return next((commit for commit, theirs in of if theirs == mine), None)


def known_of(ledger: Ledger, state: TableState, column: str, name: str) -> UnitState:
    """Return the state of the unit ``name`` in the table."""
    found, first = list(spans(state, column)), date.fromisoformat(name)
    cover = next((span.name for span in found if span.last and span.first <= first <= span.last), "")
    units = len({*found, DayRange(first)})
    days: dict[str, object] = {}
    commits: list[Commit] = []
    version = state.version
    while (commit := ledger.latest({column: name}, until=version)) is not None:
        noted = commit.record.notes.get(DAYS) if commit.record else None
        if noted is None:
            return UnitState(units, None, frozen=cover)
        days = {**noted, **days}
        commits.append(commit)
        if not is_append(commit):
            return UnitState(units, days, commits, cover)
        version = commit.version - 1
    unknown = state.holds({column: name}) or commits
    return UnitState(units, None if unknown else days, commits, cover)


def plan_of(present: Mapping[str, int | str], ledger: Ledger, unit: Unit, asked: Collection[str]) -> Plan:
    """Choose the days to load, unit after unit."""
    days = sorted({*present, *asked})
    units: dict[date, list[str]] = {}
    for day in days:
        option = "present" if day in present else "asked"
        units.setdefault(first_day(_day(day, option), unit), []).append(day)
    state = ledger.state() if ledger.exists() else None
    causes: dict[str, str] = {}
    held: dict[str, str] = {}
    for first, mine in units.items():
        known = known_of(ledger, state, state.partition_columns[0], first.isoformat()) if state else UnitState(1, {})
        loaded = known.days or {}
        again = [day for day in mine if day in asked or (day in loaded and loaded[day] != present.get(day))]
        again += [] if known.frozen else sorted(loaded.keys() - {*mine})
        if known.frozen:
            held |= dict.fromkeys(again, f"its unit is frozen into {known.frozen}: no day of it can be loaded")
        elif again or known.days is None:
            of = days_of(first, unit) if known.days is None else ()
            why = f"unit {first} is loaded whole: " + (f"{', '.join(again)} again" if again else "others wrote it")
            causes |= dict.fromkeys(sorted({*mine, *loaded, *(day.isoformat() for day in of)}), why)
        else:
            causes |= dict.fromkeys([day for day in mine if day not in loaded], f"new in unit {first}")
    reason = "; ".join(dict.fromkeys(causes.values())) or "nothing to load: no day is new or changed"
    return Plan(tuple(causes), reason, causes, held, {day: present.get(day, "") for day in causes})


def frozen_names(state: TableState, column: str, before: date, unit: Unit, into: Unit) -> dict[str, str]:
    """Find units whose larger unit ends before a day: present name -> name of the larger unit."""
    names = {}
    for span in spans(state, column):
        larger = first_day(span.first, into)
        first, following = begin(larger, unit), begin(days_of(larger, into)[-1] + timedelta(days=1), unit)
        last = following - timedelta(days=1)
        if following <= before and not (span.last and span.last > last):
            names[span.name] = DayRange(first, last).name
    return names
