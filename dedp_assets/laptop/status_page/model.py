"""Records of the status page: troubles with affected tables, and tables with recent partitions.

Plain values only, so that a page, a terminal and a program show the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from dedp_assets.patterns.core.measuring.troubles import SEVERITIES, Trouble

__all__ = [
    "Affected",
    "CatalogueEntry",
    "Cell",
    "CommitRow",
    "Details",
    "Page",
    "Point",
    "ShownTrouble",
    "Spending",
    "State",
    "TableRow",
    "affected_by",
    "age",
    "as_json",
    "details_as_json",
    "grouped",
    "moment",
    "plain",
    "summary",
    "worst_first",
]

State = Literal["ok", "late", "refused", "missing", "partial", "empty"]
"""State of a partition: ``late`` lacks a change of its upstream, ``partial`` was published with a warning or by
approval, ``empty`` has no rows."""

_FEW = 3
"""Most partitions of a table with the same trouble that are listed one by one."""
_NEVER = datetime.max.replace(tzinfo=timezone.utc)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A declared table in the catalogue.

    Attributes:
        name: ``layer/dataset``.
        owner: team or person that answers for the table.
        used_by: readers outside of the graph.
        upstream: tables that the table is computed from.
    """

    name: str
    owner: str = ""
    used_by: str = ""
    upstream: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Affected:
    """Tables and consumers downstream of a table.

    Attributes:
        direct: tables that read the table.
        indirect: tables that read those, at any distance.
        consumers: readers outside of the graph, each with the table that they read.
    """

    direct: tuple[str, ...] = ()
    indirect: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """All affected tables, the direct readers first."""
        return (*self.direct, *self.indirect)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTrouble(Trouble):
    """Trouble with the affected tables and consumers; ``partition`` may name several partitions.

    Attributes:
        affected: tables and consumers downstream.
    """

    affected: Affected = Affected()


@dataclass(frozen=True, slots=True)
class Cell:
    """A partition in the strip of a table.

    Attributes:
        key: partition key.
        state: state of the partition.
        rows: rows by the log; ``None`` if nothing was written, or the log does not tell.
        note: reason for the state; empty for a sound partition.
    """

    key: str
    state: State
    rows: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A figure over time: label and value."""

    label: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A table in the list of tables.

    Attributes:
        name: ``layer/dataset``.
        owner: who answers for the table; empty for a table without a declaration.
        used_by: readers outside of the graph.
        verdict: severity of the worst open trouble; without one ``affected`` by a trouble upstream, ``unknown`` for a
            table that nothing declares or of which nothing can be said, ``empty`` for one that holds nothing, ``ok``.
        newest: newest partition with rows; empty without one.
        written_at: time of the last commit.
        strip: last partitions, the oldest first; empty for a table without partitions.
        rows: rows by partition, or by commit for a table without partitions, the oldest first.
        seconds: seconds that commits took by day, the oldest first.
        troubles: number of open troubles.
        upstream: tables that the table reads.
        downstream: tables that read the table.
    """

    name: str
    owner: str = ""
    used_by: str = ""
    verdict: str = "ok"
    newest: str = ""
    written_at: datetime | None = None
    strip: tuple[Cell, ...] = ()
    rows: tuple[Point, ...] = ()
    seconds: tuple[Point, ...] = ()
    troubles: int = 0
    upstream: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ()

    @property
    def layer(self) -> str:
        """First part of the name."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Page:
    """The status page.

    Attributes:
        made_at: time of the page.
        troubles: open troubles, the worst first.
        tables: declared and stored tables, by layer and name.
        notices: sentences on sources that could not be read.
        web: address of Dagster's webserver; empty without one.
        unannounced: number of troubles that no alert has announced.
        kinds: kinds of persons that tables declare.
    """

    made_at: datetime
    troubles: tuple[ShownTrouble, ...] = ()
    tables: tuple[TableRow, ...] = ()
    notices: tuple[str, ...] = ()
    web: str = ""
    unannounced: int = 0
    kinds: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Severity of the worst open trouble; without troubles ``unknown`` after a failed read, or ``ok``."""
        known = "unknown" if self.notices else "ok"
        return max((each.severity for each in self.open), key=SEVERITIES.index, default=known)

    @property
    def open(self) -> tuple[ShownTrouble, ...]:
        """Troubles that ask for a person."""
        return tuple(each for each in self.troubles if each.needs_somebody)

    @property
    def under_way(self) -> tuple[ShownTrouble, ...]:
        """Partitions that wait for a run of the reconciler."""
        return tuple(each for each in self.troubles if not each.needs_somebody)

    def table(self, name: str) -> TableRow | None:
        """Return the table with a name.

        ``None`` for an unknown table.
        """
        return next((table for table in self.tables if table.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """A commit of a table.

    Attributes:
        version: version of the table.
        at: time of the commit.
        partition: key of the partition that was written; empty for several or for the whole table.
        operation: operation by Delta's name.
        verdict: verdict of the audits; empty for another writer.
        cause: cause of the run; empty for another writer.
        run_id: run that wrote the commit.
        rows: rows that were written, if known.
        seconds: duration of the write, if known.
        counts: rows read and what became of them, by outcome; empty if unknown.
        rebuilt: causes of the partition's rewrites since the first commit.
    """

    version: int
    at: datetime
    partition: str = ""
    operation: str = ""
    verdict: str = ""
    cause: str = ""
    run_id: str = ""
    rows: int | None = None
    seconds: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    rebuilt: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spending:
    """Cost of a table's commits on a day."""

    day: str
    commits: int
    seconds: float | None = None
    bytes_written: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The page of one table.

    Attributes:
        made_at: time of the page.
        table: the table, as in the list of tables.
        troubles: its open troubles, and those of its upstream tables.
        cells: last partitions, the newest first.
        written: partition key -> newest commit of the partition.
        spending: cost by day, the newest first.
        commits: last commits, the newest first.
        notices: sentences on sources that could not be read.
        web: address of Dagster's webserver; empty without one.
    """

    made_at: datetime
    table: TableRow
    troubles: tuple[ShownTrouble, ...] = ()
    cells: tuple[Cell, ...] = ()
    written: Mapping[str, CommitRow] = field(default_factory=dict)
    spending: tuple[Spending, ...] = ()
    commits: tuple[CommitRow, ...] = ()
    notices: tuple[str, ...] = ()
    web: str = ""


def affected_by(table: str, catalogue: Mapping[str, CatalogueEntry]) -> Affected:
    """Return the tables and consumers downstream of a table.

    Args:
        table: a table, which the catalogue need not know.
        catalogue: table -> catalogue entry.
    """
    readers: dict[str, list[str]] = {}
    for entry in catalogue.values():
        for upstream in entry.upstream:
            readers.setdefault(upstream, []).append(entry.name)
    direct = dict.fromkeys(name for name in readers.get(table, ()) if name != table)
    found, todo = dict(direct), list(direct)
    while todo:
        more = [name for name in readers.get(todo.pop(0), ()) if name not in found and name != table]
        found.update(dict.fromkeys(more))
        todo += more
    used = [(name, catalogue[name].used_by) for name in (table, *found) if name in catalogue]
    consumers = tuple(f"{by} ({name})" for name, by in used if by)
    return Affected(tuple(direct), tuple(name for name in found if name not in direct), consumers)


def worst_first(troubles: Iterable[ShownTrouble]) -> tuple[ShownTrouble, ...]:
    """Sort troubles: by severity, own troubles before explained troubles, then by reach and age."""
    return tuple(
        sorted(
            troubles,
            key=lambda each: (
                -SEVERITIES.index(each.severity),
                bool(each.explained_by),
                -len(each.affected.tables),
                each.since or _NEVER,
                *each.key,
            ),
        )
    )


def grouped(troubles: Iterable[ShownTrouble]) -> list[ShownTrouble]:
    """Join more than a few troubles of one table, kind and severity into one trouble."""
    together: dict[tuple[str, str, str], list[ShownTrouble]] = {}
    for each in troubles:
        together.setdefault((each.kind, each.table, each.severity), []).append(each)
    found: list[ShownTrouble] = []
    for same in together.values():
        found += [_joined(same)] if len(same) > _FEW else same
    return found


def _joined(same: Sequence[ShownTrouble]) -> ShownTrouble:
    ordered = sorted(same, key=lambda each: each.partition)
    first, last = ordered[0], ordered[-1]
    partitions = f"{first.partition or 'the table'} to {last.partition}: {len(same)} partitions"
    reason = f"{first.partition}: {first.reason}" if first.reason and first.partition else first.reason
    since = [each.since for each in same if each.since]
    return replace(first, partition=partitions, reason=reason, since=min(since) if since else None)


def age(since: datetime, now: datetime) -> str:
    """Return the time since a moment in at most two units, such as ``3 h`` or ``2 d 4 h``."""
    seconds = max(0, int((now - since) / timedelta(seconds=1)))
    for number, (size, unit) in enumerate(_UNITS):
        if seconds >= size:
            smaller, its_unit = _UNITS[number + 1] if number + 1 < len(_UNITS) else (1, "s")
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {its_unit}" if number == 0 and rest else "")
    return "less than a minute"


def moment(at: datetime, now: datetime) -> str:
    """Return a moment with the zone, and with the date unless that is the day of ``now``."""
    utc = at.astimezone(timezone.utc)
    same_day = utc.date() == now.astimezone(timezone.utc).date()
    return f"{utc:%H:%M} UTC" if same_day else f"{utc:%Y-%m-%d %H:%M} UTC"


def summary(page: Page) -> str:
    """Return the sentence on top of a page: the number of troubles, and the tables without a verdict."""
    tables = {each.table for each in page.open}
    found = f"{_count(len(page.open), 'trouble')} in {_count(len(tables), 'table')}" if page.open else "No trouble"
    unknown = [each.name for each in page.tables if each.verdict == "unknown"]
    gaps = ["not everything was read"] * bool(page.notices)
    named = ", ".join(unknown) if len(unknown) <= _FEW else _count(len(unknown), "table")
    gaps += [f"nothing is known of {named}"] * bool(unknown)
    known = sum(each.verdict not in ("empty", "unknown") for each in page.tables)
    fine = "" if page.open or page.notices else f": {_count(known, 'table')} with data, none needs anybody"
    return "; ".join([found + fine, *gaps]) + "."


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def as_json(page: Page) -> dict[str, Any]:
    """Return a page as plain JSON values, with times in ISO 8601."""
    content = plain(asdict(page))
    return {"verdict": page.verdict, **content}


def details_as_json(details: Details) -> dict[str, Any]:
    """Return the page of one table as plain JSON values, with times in ISO 8601."""
    content: dict[str, Any] = plain(asdict(details))
    return {"verdict": details.table.verdict, **content}


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    """Return records as JSON values: times in ISO 8601, tuples as lists."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value
