"""Collector of the status page: alerts, stale partitions, measurements and the tables' ledgers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import dagster as dg

from dedp_assets.graph.catalogue.table_names import by_layer
from dedp_assets.graph.checks.causes import noted_refusals
from dedp_assets.graph.checks.stored import judge_recency
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.reconcile.reconciling import Gap
from dedp_assets.graph.run.refusals import Refusals
from dedp_assets.mail.episodes import Episode
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.measurements import Measurement
from dedp_assets.patterns.core.quantities import compared
from dedp_assets.resources.alerting import status_command
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.landing import Landing
from dedp_assets.status_page.history import History
from dedp_assets.status_page.model import (
    Cell,
    Details,
    Entry,
    Page,
    Point,
    TableRow,
    Trouble,
    affected_by,
    grouped,
    worst_first,
)
from dedp_assets.status_page.strips import strip_of
from dedp_assets.status_page.troubles import (
    explained,
    merged,
    of_episodes,
    of_gaps,
    of_measurements,
    unreadable,
    with_verdict,
)

__all__ = ["Collector", "Observed", "catalogue_of"]

_STRIP, _LONG_STRIP = 30, 100
_AHEAD = 48
"""Greatest number of future partitions of a calendar, such as the remaining hours of a day."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Inputs of a page besides the logs of the tables.

    Attributes:
        episodes: open episodes of alerts.
        measurements: measurements of the detectors' last round.
        instance: where runs are recorded; ``None`` if that cannot be reached.
        repository: the code location.
        notices: sentences on sources that could not be read.
        web: address of Dagster's webserver; empty without one.
    """

    episodes: Sequence[Episode] = ()
    measurements: Sequence[Measurement] = ()
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
        tables: the declared tables of the graph.
        thorough: whether each page holds all deliveries that are loaded against what lies there, not some at a time.
        lost_history: reason why the last page could not read the run history; empty if it could.
    """

    lake: Lake
    landing: Landing
    tables: Sequence[LakeTable[...]]
    thorough: bool = False
    lost_history: str = ""
    _histories: dict[str, History] = field(default_factory=dict)
    _recency: dict[str, tuple[object, datetime | None]] = field(default_factory=dict)
    _calendars: dict[tuple[object, str], list[str]] = field(default_factory=dict)
    _gaps: tuple[Gap, ...] = ()
    _gaps_of: dict[str, dict[str, Gap]] = field(default_factory=dict)
    _troubles_of: dict[str, dict[str, Trouble]] = field(default_factory=dict)
    _reconciler: Reconciler = field(init=False)
    _catalogue: Mapping[str, Entry] = field(init=False)
    _declared: Mapping[str, LakeTable[...]] = field(init=False)

    def __post_init__(self) -> None:
        self._reconciler = Reconciler(self.tables, thorough=self.thorough)
        self._catalogue = catalogue_of(self.tables)
        self._declared = {spec.name: table for table in self.tables for spec in table.tables}

    def page(self, now: datetime, observed: Observed = Observed()) -> Page:
        """Make the page.

        Args:
            now: current time, with time zone.
            observed: what is known from outside of the lake.
        """
        notices = [*observed.notices]
        stored, damaged = self._read(notices)
        self._gaps, reconciled = self._reconcile(now, observed, notices)
        found = merged(
            [
                *unreadable({**reconciled, **damaged}),
                *of_gaps(self._gaps, self._refused_at()),
                *self._stale(now, damaged),
                *of_measurements(observed.measurements),
            ],
            of_episodes(observed.episodes),
        )
        found = explained(found, {entry.name: entry.upstream for entry in self._catalogue.values()})
        self._sort_by_table(found)
        affected = {table: affected_by(table, self._catalogue) for table in {each.table for each in found}}
        troubles = worst_first(replace(each, affected=affected[each.table]) for each in grouped(found))
        names = sorted({*stored, *self._catalogue}, key=by_layer)
        rows = tuple(with_verdict(self._row(name, now), troubles) for name in names)
        return Page(now, troubles, rows, tuple(dict.fromkeys(notices)), observed.web)

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
        """Index stale partitions and troubles of partitions by table and key, for the strips."""
        self._gaps_of, self._troubles_of = {}, {}
        for gap in self._gaps:
            self._gaps_of.setdefault(gap.table, {})[gap.key] = gap
        for trouble in found:
            if trouble.partition:
                self._troubles_of.setdefault(trouble.table, {})[trouble.partition] = trouble

    def _read(self, notices: list[str]) -> tuple[list[str], dict[str, str]]:
        """Read on in every log; return the stored tables, and the reasons of the logs that cannot be read."""
        try:
            names = self.lake.names(replicas=True)
        except (PatternError, OSError) as error:
            notices.append(f"The tables of {self.lake.root} cannot be listed: {error}")
            return [], {}
        damaged = {}
        for name in names:
            try:
                self._history(name).read(self.lake.ledger(name))
            except (PatternError, OSError) as error:
                damaged[name] = str(error)
                self._histories.pop(name, None)
        for name in {*self._histories} - {*names}:
            del self._histories[name]
        return names, damaged

    def _history(self, name: str) -> History:
        if name not in self._histories:
            table = self._declared.get(name)
            spec = next((each for each in table.tables if each.name == name), None) if table else None
            column = (spec.executed_by or next(iter(spec.partition_by), "")) if spec else ""
            self._histories[name] = History(column, executed=bool(spec and spec.executed_by))
        return self._histories[name]

    def _reconcile(
        self, now: datetime, observed: Observed, notices: list[str]
    ) -> tuple[tuple[Gap, ...], Mapping[str, str]]:
        """Return the stale partitions and the unreadable tables; an error of Dagster's storage is a notice."""
        self.lost_history = ""
        for instance in dict.fromkeys([observed.instance, None]):
            try:
                outcome, overview = self._reconciler.reconcile(
                    self.lake,
                    self.landing,
                    now,
                    instance=instance,
                    repository=observed.repository,
                    mine=lambda _: False,
                )
            except Exception as error:
                # Whatever a storage, a driver or a file system raises: the logs are shown all the same.
                what = "Dagster's run history" if instance else "The work list"
                notices.append(f"{what} cannot be read: {_first_line(error)}")
                self.lost_history = self.lost_history or (notices[-1] if instance else "")
                continue
            strange = [
                Gap(each.table.spec.name, name, "waiting", f"{self.landing.folder(each.dataset, name)} {why}")
                for each in overview.arrivals
                for name, why in each.strange.items()
            ]
            gaps = (*outcome.gaps, *strange, *noted_refusals(self.tables, self.lake))
            return gaps, dict(overview.unreadable)
        return (), {}

    def _refused_at(self) -> dict[tuple[str, str], datetime]:
        """Return the times at which partitions were refused, by table and partition key."""
        tables = {gap.table for gap in self._gaps if gap.state == "refused"}
        return {(table, key): at for table in tables for key, at in Refusals(self.lake.refused(table)).times().items()}

    def _stale(self, now: datetime, damaged: Mapping[str, str]) -> Iterator[Trouble]:
        """Yield the tables with data older than declared."""
        for table in self.tables if not self.lake.is_demo() else ():
            name = table.spec.name
            if table.fresh is None or name in damaged or name not in self._histories:
                continue
            newest = self._newest(table, now)
            if newest and now - newest > table.fresh:
                age, most = ((now - newest).total_seconds(), table.fresh.total_seconds())
                figure, limit = compared(age, "s", at_most=most)
                yield Trouble(
                    kind="stale",
                    table=name,
                    figure=figure,
                    limit=limit,
                    reason=f"the newest data is of {newest:%Y-%m-%d %H:%M} UTC",
                    since=newest + table.fresh,
                    command=status_command(name),
                )

    def _newest(self, table: LakeTable[...], now: datetime) -> datetime | None:
        """Return the time of the newest complete data; judged again after a commit, and each hour."""
        name = table.spec.name
        known = (self._histories[name].version, f"{now:%Y-%m-%d %H}")
        if self._recency.get(name, (None, None))[0] != known:
            try:
                seconds = judge_recency(table, self.lake.table(table.spec), now).figures.get("age_seconds")
            except (PatternError, OSError):
                seconds = None
            newest = None if seconds is None else now - timedelta(seconds=float(seconds))
            self._recency[name] = (known, newest)
        return self._recency[name][1]

    def _row(self, name: str, now: datetime) -> TableRow:
        entry, history = self._catalogue.get(name, Entry(name)), self._histories.get(name, History())
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
        history, gaps = self._histories.get(name, History()), self._gaps_of.get(name, {})
        return strip_of(history, calendar, gaps, self._troubles_of.get(name, {}), limit=limit)

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


def catalogue_of(tables: Iterable[LakeTable[...]]) -> dict[str, Entry]:
    """Return the catalogue entry of each declared table, by name."""
    return {
        spec.name: Entry(
            spec.name,
            table.about.owner,
            table.about.used_by if spec == table.spec else "",
            tuple(dict.fromkeys(read.name for read in table.reads.upstream)),
        )
        for table in tables
        for spec in table.tables
    }


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
