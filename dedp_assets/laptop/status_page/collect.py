"""Collector of the status page: the observation of all troubles, open alerts, and the tables' ledgers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime

import dagster as dg

from dedp_assets.graph.catalogue.table_names import by_layer
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.mail.episodes import Episode
from dedp_assets.graph.observe.observing import Observer
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.masking import shown
from dedp_assets.laptop.status_page.history import History
from dedp_assets.laptop.status_page.model import (
    Affected,
    CatalogueEntry,
    Cell,
    CommitRow,
    Details,
    Page,
    Point,
    ShownTrouble,
    TableRow,
    affected_by,
    grouped,
    worst_first,
)
from dedp_assets.laptop.status_page.strips import is_state, strip_of
from dedp_assets.laptop.status_page.troubles import with_episodes, with_verdict
from dedp_assets.patterns.core.errors import error_line
from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.patterns.delta import subjects_of

__all__ = ["Collector", "Observed", "catalogue_of"]

_STRIP, _LONG_STRIP = 30, 100
_AHEAD = 48
"""Greatest number of future partitions of a calendar, such as the remaining hours of a day."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Inputs of a page besides lake, landing zone and journal.

    Attributes:
        episodes: open episodes of alerts.
        instance: where runs are recorded; ``None`` if that cannot be reached.
        repository: the code location.
        notices: sentences on sources that could not be read.
        web: address of Dagster's webserver; empty without one.
    """

    episodes: Sequence[Episode] = ()
    instance: dg.DagsterInstance | None = None
    repository: dg.RepositoryDefinition | None = None
    notices: Sequence[str] = ()
    web: str = ""


@dataclass(slots=True)
class Collector:
    """Maker of pages over one lake, with the logs' content kept between two pages.

    Attributes:
        lake: the tables.
        landing: the landing zone.
        journal: samples of positions.
        tables: the declared tables of the graph.
        thorough: whether each page holds all deliveries that are loaded against what lies there, not some at a time.
    """

    lake: Lake
    landing: Landing
    journal: Journal
    tables: Sequence[LakeTable[...]]
    thorough: bool = False
    _histories: dict[str, History] = field(default_factory=dict)
    _calendars: dict[tuple[object, str], list[str]] = field(default_factory=dict)
    _troubles_of: dict[str, dict[str, Trouble]] = field(default_factory=dict)
    _observer: Observer = field(init=False)
    _catalogue: Mapping[str, CatalogueEntry] = field(init=False)
    _declared: Mapping[str, LakeTable[...]] = field(init=False)
    _kinds: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._observer = Observer(self.tables, thorough=self.thorough)
        self._catalogue = catalogue_of(self.tables)
        self._declared = {spec.name: table for table in self.tables for spec in table.tables}
        specs = (spec for table in self.tables for spec in table.tables)
        self._kinds = tuple(sorted({kind for spec in specs for kind in subjects_of(spec)}))

    def page(self, now: datetime, observed: Observed = Observed()) -> Page:
        """Make the page.

        Args:
            now: current time, with time zone.
            observed: what is known from outside of the lake.
        """
        notices = [*observed.notices]
        seen = self._observer.observe(
            self.lake, self.landing, self.journal, now, instance=observed.instance, repository=observed.repository
        )
        stored = self._read(notices, known=seen.unjudged)
        found = with_episodes(seen, observed.episodes)
        self._sort_by_table(found)
        affected = {table: affected_by(table, self._catalogue) for table in {each.table for each in found}}
        troubles = worst_first(grouped(_shown(each, affected[each.table]) for each in found))
        names = sorted({*stored, *self._catalogue}, key=by_layer)
        unknown = seen.unjudged | {name for name in names if name not in self._declared}
        rows = tuple(with_verdict(self._row(name, now), troubles, unknown) for name in names)
        announced = {each.alert.key for each in observed.episodes}
        unannounced = sum(each.needs_somebody and each.key not in announced for each in found)
        notices += seen.unread
        shown_once = tuple(dict.fromkeys(map(shown, notices)))
        return Page(now, troubles, rows, shown_once, observed.web, unannounced, self._kinds)

    def written(self, name: str) -> Mapping[str, CommitRow]:
        """Return the newest commit of each partition of a table, by partition key."""
        return self._histories.get(name, History()).written

    def version(self, name: str) -> int:
        """Return the newest version of a table that was read; -1 for none."""
        return self._histories.get(name, History()).version

    def details(self, page: Page, name: str) -> Details | None:
        """Return the details of a table of a page.

        ``None`` for an unknown table.

        Args:
            page: the page that was made last.
            name: table.
        """
        table = page.table(name)
        if table is None:
            return None
        history = self._histories.get(name, History())
        troubles = tuple(each for each in page.troubles if each.table == name or name in each.affected.tables)
        cells = tuple(reversed(self._strip(name, page.made_at, _LONG_STRIP)))
        return Details(
            made_at=page.made_at,
            table=table,
            troubles=troubles,
            cells=cells,
            written=dict(history.written),
            spending=history.spending(),
            commits=tuple(reversed(history.commits)),
            notices=page.notices,
            web=page.web,
        )

    def _sort_by_table(self, found: Iterable[Trouble]) -> None:
        """Index troubles of partitions by table and key, for the strips; the state of a partition comes first."""
        self._troubles_of = {}
        for trouble in sorted(found, key=lambda each: is_state(each.kind)):
            if trouble.partition:
                self._troubles_of.setdefault(trouble.table, {})[trouble.partition] = trouble

    def _read(self, notices: list[str], *, known: Collection[str]) -> list[str]:
        """Read the new commits of every log; return the names of the stored tables.

        A failed read is added to ``notices``, except for a ``known`` table: the observation has the reason.
        """
        names: list[str] = []
        with suppress(Exception):  # the observation says why the lake cannot be listed
            names = self.lake.names(replicas=True)
        for name in names:
            try:
                self._history(name).read(self.lake.ledger(name))
            except Exception as error:
                self._histories.pop(name, None)
                if name not in known:
                    notices.append(f"The commits of {name} cannot be shown: {error_line(error)}")
        for name in {*self._histories} - {*names}:
            del self._histories[name]
        return names

    def _history(self, name: str) -> History:
        if name not in self._histories:
            table = self._declared.get(name)
            spec = next((each for each in table.tables if each.name == name), None) if table else None
            column = (spec.executed_by or next(iter(spec.partition_by), "")) if spec else ""
            self._histories[name] = History(column, executed=bool(spec and spec.executed_by))
        return self._histories[name]

    def _row(self, name: str, now: datetime) -> TableRow:
        entry, history = self._catalogue.get(name, CatalogueEntry(name)), self._histories.get(name, History())
        strip = self._strip(name, now, _STRIP)
        by_partition = tuple(Point(cell.key, cell.rows) for cell in strip if cell.rows is not None)
        last = list(history.commits)[-_STRIP:]
        by_commit = tuple(Point(f"{each.at:%Y-%m-%d %H:%M} UTC", each.rows) for each in last if each.rows is not None)
        return TableRow(
            name=name,
            owner=entry.owner,
            used_by=entry.used_by,
            verdict="ok" if history.version >= 0 else "empty",
            newest=next((key for key in reversed(history.keys()) if history.rows_of(key)), ""),
            written_at=history.commits[-1].at if history.commits else None,
            strip=strip,
            rows=by_partition if strip else by_commit,
            seconds=history.seconds(),
            upstream=entry.upstream,
            downstream=affected_by(name, self._catalogue).direct,
        )

    def _strip(self, name: str, now: datetime, limit: int) -> tuple[Cell, ...]:
        table = self._declared.get(name)
        calendar = self._calendar(table.runs.partitions, now) if table else []
        history = self._histories.get(name, History())
        return strip_of(history, calendar, self._troubles_of.get(name, {}), limit=limit)

    def _calendar(self, partitions: dg.PartitionsDefinition[str] | None, now: datetime) -> list[str]:
        """Return the last keys of partitions whose time is over; kept for the hour."""
        if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
            return []
        known = (partitions, f"{now:%Y-%m-%d %H}")
        if known not in self._calendars:
            for old in [each for each in self._calendars if each[1] != known[1]]:
                del self._calendars[old]
            keys = list(partitions.get_partition_keys(current_time=now))[-_LONG_STRIP - _AHEAD :]
            over = [key for key in keys if partitions.time_window_for_partition_key(key).end <= now]
            self._calendars[known] = over[-_LONG_STRIP:]
        return self._calendars[known]


def catalogue_of(tables: Iterable[LakeTable[...]]) -> dict[str, CatalogueEntry]:
    """Return the catalogue entry of each declared table, by name."""
    return {
        spec.name: CatalogueEntry(
            spec.name,
            table.about.owner,
            table.about.used_by if spec == table.spec else "",
            tuple(dict.fromkeys(read.name for read in table.reads.upstream)),
        )
        for table in tables
        for spec in table.tables
    }


def _shown(trouble: Trouble, affected: Affected) -> ShownTrouble:
    return ShownTrouble(**{each.name: getattr(trouble, each.name) for each in fields(trouble)}, affected=affected)
