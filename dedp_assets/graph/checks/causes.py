"""Causes of troubles, found without an engine.

Read are logs, data files, deliveries, notes on refusals and the run history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import dagster as dg

from dedp_assets.graph.checks.stored import judge_recency
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.upstream_runs import ATTEMPTS
from dedp_assets.graph.outcomes.failures import failure_told, step_failures
from dedp_assets.graph.outcomes.refusals import Refusals
from dedp_assets.graph.outcomes.run_tags import refusals
from dedp_assets.graph.reconcile.reconciler import Reconciler, judges_of
from dedp_assets.graph.reconcile.reconciling import Gap
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.alerting import command_for
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns.core.errors import error_line
from dedp_assets.patterns.core.measuring.quantities import compared
from dedp_assets.patterns.core.measuring.troubles import Severity, Trouble
from dedp_assets.patterns.core.names import printable
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta import Commit, Ledger, LostFileWatch, lost_files_message

__all__ = ["HISTORY", "CauseWatch", "Causes", "published", "refused_runs", "unreadable"]

HISTORY = "Dagster's run history"
"""Name of the storage of runs, at the beginning of a sentence that it cannot be read."""
_FAILED_RUNS = 100
"""How many of the newest failed runs are held against the notes on refusals."""


@dataclass(frozen=True, slots=True)
class Causes:
    """The troubles of one look.

    Attributes:
        troubles: every one; of severity ``info`` for partitions that wait for a run.
        unjudged: tables of which nothing can be said now, because something of them cannot be read.
        unread: sentences on sources that could not be read for any table.
    """

    troubles: tuple[Trouble, ...]
    unjudged: frozenset[str]
    unread: tuple[str, ...] = ()


@dataclass(slots=True)
class CauseWatch:
    """Repeated search for the causes of troubles, in which the logs are read on from the last look.

    Attributes:
        tables: the declared tables of the graph.
        thorough: whether each look holds all deliveries that are loaded against what lies there, not some at a time.
    """

    tables: Sequence[LakeTable[...]]
    thorough: bool = False
    _looking: Reconciler = field(init=False)
    _files: dict[str, LostFileWatch] = field(default_factory=dict, init=False)
    _newest: dict[str, tuple[object, datetime | None]] = field(default_factory=dict, init=False)
    _resolved: set[tuple[str, str, str]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._looking = Reconciler(self.tables, thorough=self.thorough)

    def poll(
        self,
        lake: Lake,
        landing: Landing,
        now: datetime,
        *,
        instance: dg.DagsterInstance | None = None,
        repository: dg.RepositoryDefinition | None = None,
    ) -> Causes:
        """Look once; no run is requested.

        Args:
            lake: the tables.
            landing: the landing zone.
            now: current time, with time zone.
            instance: where runs are recorded.
            repository: the code location that is deployed.
        """
        unread: list[str] = []
        gaps, errors = self._reconcile(lake, landing, now, unread, instance=instance, repository=repository)
        lost = list(self._lost(lake, errors, unread))
        stale = list(self._stale(lake, now, errors))
        notes = self._notes(lake, errors)
        gaps = [*gaps, *self._noted(notes, lake, errors)]
        if instance is not None:
            known = {(table, key) for table, of in notes.items() for key in of}
            try:
                gaps += self._of_runs(lake, instance, known)
            except Exception as error:  # whatever a storage or a driver raises
                unread.append(f"{HISTORY} cannot be read: {error_line(error)}")
        waiting = _of_gaps([gap for gap in gaps if gap.table not in errors], lake)
        troubles = (*unreadable(errors), *lost, *waiting, *stale)
        readers = {t.spec.name for t in self.tables if {spec.name for spec in t.reads.upstream} & errors.keys()}
        return Causes(troubles, frozenset({*errors, *readers}), tuple(dict.fromkeys(unread)))

    def _reconcile(
        self,
        lake: Lake,
        landing: Landing,
        now: datetime,
        unread: list[str],
        *,
        instance: dg.DagsterInstance | None,
        repository: dg.RepositoryDefinition | None,
    ) -> tuple[list[Gap], TableErrors]:
        """Return the stale partitions, and the errors of tables that cannot be observed.

        A run history that cannot be read is noted in ``unread``, and the partitions are found without runs.
        """
        for storage in dict.fromkeys([instance, None]):
            try:
                outcome, overview = self._looking.reconcile(
                    lake, landing, now, instance=storage, repository=repository, mine=lambda _: False
                )
            except Exception as error:  # as above: the logs are read all the same
                what = HISTORY if storage else "The work list"
                unread.append(f"{what} cannot be read: {error_line(error)}")
                continue
            strange = [
                Gap(
                    each.table.spec.name,
                    name,
                    *_strange(each.strays, name, f"{landing.folder(each.dataset, name)} {why}"),
                )
                for each in overview.arrivals
                for name, why in each.strange.items()
            ]
            errors = TableErrors()
            errors.update(overview.unreadable)
            return [*outcome.gaps, *strange], errors
        return [], TableErrors()

    def _lost(self, lake: Lake, errors: TableErrors, unread: list[str]) -> Iterator[Trouble]:
        """Yield the stored tables without some of their data files; note the tables whose log cannot be read."""
        try:
            names = lake.names(replicas=True)
        except Exception as error:  # whatever a file system raises
            unread.append(f"The tables of {lake.root} cannot be listed: {error_line(error)}")
            return
        for name in {*self._files} - {*names}:
            del self._files[name]
        for name in names:
            with errors.at(name):
                lost = self._files.setdefault(name, LostFileWatch()).poll(lake.ledger(name))
                if lost:
                    keys = sorted({slice_name(dict(file.partition)) for file in lost})
                    reason = f"{lost_files_message(name, lost)}: `dedp verify {name}` names what repairs it"
                    place = ", ".join(keys) if keys != ["all"] else ""
                    yield _trouble("lost files", name, place, severity="critical", reason=reason)

    def _stale(self, lake: Lake, now: datetime, errors: TableErrors) -> Iterator[Trouble]:
        """Yield the tables with data older than declared; note the tables that cannot be judged."""
        for table in self.tables if not lake.is_demo() else ():
            name = table.spec.name
            if table.fresh is None or name in errors:
                continue
            with errors.at(name):
                newest = self._newest_of(table, lake, now)
                if newest and now - newest > table.fresh:
                    age, most = (now - newest).total_seconds(), table.fresh.total_seconds()
                    figure, limit = compared(age, "s", at_most=most)
                    reason = judge_recency(table, lake.table(table.spec), now).note
                    since = newest + table.fresh
                    yield _trouble("stale", name, figure=figure, limit=limit, reason=reason, since=since)

    def _newest_of(self, table: LakeTable[...], lake: Lake, now: datetime) -> datetime | None:
        """Return the time of the newest complete data; judged again after a commit, and each hour.

        ``None`` for a table that was never loaded, which is missing and not stale.
        """
        name, stored = table.spec.name, lake.table(table.spec)
        if not stored.ledger.exists():
            return None
        known = (stored.ledger.version(), f"{now:%Y-%m-%d %H}")
        if self._newest.get(name, (None, None))[0] != known:
            seconds = judge_recency(table, stored, now).figures.get("age_seconds")
            # To the second, as the age is: each look finds the same time.
            newest = None if seconds is None else now - timedelta(seconds=round(float(seconds)) - 0.5)
            self._newest[name] = known, newest and newest.replace(microsecond=0)
        return self._newest[name][1]

    def _notes(self, lake: Lake, errors: TableErrors) -> dict[str, Mapping[str, Any]]:
        """Read the notes on refusals of each declared table."""
        found: dict[str, Mapping[str, Any]] = {}
        for table in self.tables:
            with errors.at(table.spec.name):
                found[table.spec.name] = Refusals(lake.refused(table.spec.name)).by_key()
        return found

    def _noted(self, notes: Mapping[str, Mapping[str, Any]], lake: Lake, errors: TableErrors) -> Iterator[Gap]:
        """Yield the noted refusals by the present code, of tables that the reconciler does not ask for."""
        for table in self.tables:
            if table.lands or (table.runs.follows and table.reads.tables):
                continue
            with errors.at(table.spec.name):
                of = notes.get(table.spec.name, {})
                judges = judges_of(table, lake) if of else ""
                for key, note in of.items():
                    if note.holds(table.code_version, judges):
                        yield Gap(table.spec.name, key, "refused", note.reason)

    def _of_runs(self, lake: Lake, instance: dg.DagsterInstance, known: set[tuple[str, str]]) -> Iterator[Gap]:
        """Yield the refusals of runs that leave no note, such as replays, without a later publish."""
        for table, key, record in refused_runs(instance):
            run = record.dagster_run
            if (table, key) in known or (run.run_id, table, key) in self._resolved:
                continue
            last = published(lake.ledger(table), key)
            if last and last.timestamp > record.create_timestamp:
                self._resolved.add((run.run_id, table, key))
                continue
            failures = step_failures(instance, run)
            own = [event for event in failures if event.step_key == table.replace("/", "_")]
            yield Gap(table, key, "refused", failure_told(own or failures))


def refused_runs(
    instance: dg.DagsterInstance, *, limit: int | None = _FAILED_RUNS
) -> Iterator[tuple[str, str, dg.RunRecord]]:
    """Yield table, partition key and run of the newest refusal of each partition.

    Args:
        instance: where runs are recorded.
        limit: how many of the newest failed runs count; ``None`` for all.
    """
    seen = set[tuple[str, str]]()
    for record in instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]), limit=limit):
        for place in refusals(record.dagster_run.tags):
            if place not in seen:
                seen.add(place)
                yield *place, record


def published(ledger: Ledger, key: str) -> Commit | None:
    """Return the newest commit of a partition; of the whole table, if the key is empty.

    ``None`` without such a commit.
    """
    return ledger.last(lambda commit: commit.record and "".join(commit.record.partition.values()) == key)


def _strange(strays: Iterable[str], name: str, why: str) -> tuple[str, str]:
    """Return state and reason of a file or folder outside of any partition: nobody reads a stray file."""
    return ("unusable" if name in {*strays} else "waiting"), why


def unreadable(errors: Mapping[str, str]) -> list[Trouble]:
    """Return the troubles of tables that cannot be observed: table -> reason."""
    return [
        _trouble("unreadable", table, severity="critical", reason=why, command=f"dedp verify {table}")
        for table, why in errors.items()
    ]


def _of_gaps(gaps: Iterable[Gap], lake: Lake) -> Iterator[Trouble]:
    """Yield a trouble for each stale partition: refused, given up, unusable, or with an update under way."""
    times: dict[str, Mapping[str, datetime]] = {}
    for gap in gaps:
        if gap.state == "refused":
            if gap.table not in times:
                times[gap.table] = Refusals(lake.refused(gap.table)).times()
            since = times[gap.table].get(gap.key)
            yield _trouble("refused", gap.table, gap.key, reason=gap.reason, since=since)
        elif gap.given_up:
            run, attempts = f"dedp run {gap.table} {gap.key}".strip(), f"{ATTEMPTS} runs"
            stated: dict[str, Any] = {"figure": attempts, "limit": attempts, "command": run}
            yield _trouble("given up", gap.table, gap.key, severity="critical", reason=gap.given_up, **stated)
        else:
            severity: Severity = "warning" if gap.state == "unusable" else "info"
            yield _trouble(gap.state, gap.table, gap.key, severity=severity, reason=gap.reason)


def _trouble(kind: str, table: str, partition: str = "", *, severity: Severity = "warning", **stated: Any) -> Trouble:  # noqa: ANN401 - fields of a trouble
    """Make a trouble that an observation ends, with the command that shows the table."""
    # Names of files and folders, and errors that quote them, need not be text.
    reason, table, partition = (printable(each) for each in (stated.pop("reason", ""), table, partition))
    stated.setdefault("command", command_for(table, reason))
    place: dict[str, Any] = {"table": table, "partition": partition, "severity": severity, "reason": reason}
    return Trouble(kind=kind, source="platform", **place, **{"command": printable(stated.pop("command")), **stated})
