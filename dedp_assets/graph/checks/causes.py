"""Causes of alerts: refused and given up partitions, unreadable logs, stale tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.graph.checks.stored import judge_recency
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.reconciler import Reconciler, judges_of
from dedp_assets.graph.reconcile.reconciling import Gap
from dedp_assets.graph.run.refusals import Refusals
from dedp_assets.graph.run.upstream_runs import ATTEMPTS
from dedp_assets.patterns.connectors.alerts import Alert, Severity
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.resources.alerting import status_command
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.landing import Landing

__all__ = ["Causes", "find_causes", "noted_refusals"]

_SHOWN = 20
"""Most partitions of a table with the same trouble that have an alert each; one more alert counts the others."""
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Causes:
    """The troubles of one observation.

    Attributes:
        alerts: every trouble that was found.
        unjudged: tables of which nothing can be said now, because a log cannot be read.
    """

    alerts: Sequence[Alert]
    unjudged: frozenset[str]


def find_causes(
    looking: Reconciler,
    lake: Lake,
    landing: Landing,
    now: datetime,
    *,
    instance: dg.DagsterInstance | None = None,
    repository: dg.RepositoryDefinition | None = None,
) -> Causes:
    """Find the troubles of the platform in the reconciler's outcome, the notes on refusals and the logs.

    Args:
        looking: the reconciler that polls the logs; no run is requested.
        lake: the tables.
        landing: the landing zone.
        now: current time, with time zone.
        instance: where runs are recorded.
        repository: the code location that is deployed.
    """
    outcome, overview = looking.reconcile(
        lake, landing, now, instance=instance, repository=repository, mine=lambda _: False
    )
    unreadable = dict(overview.unreadable)
    gaps = [gap for gap in outcome.gaps if gap.table not in unreadable]
    alerts = [_alert("unreadable", table, severity="critical", reason=why) for table, why in unreadable.items()]
    alerts += _by_partition("refused", [*_refused(gaps), *noted_refusals(looking.tables, lake)], severity="warning")
    attempts = f"{ATTEMPTS} runs"
    alerts += _by_partition("given up", _given_up(gaps), severity="critical", figure=attempts, limit=attempts)
    stale, unknown = _stale(looking.tables, lake, now)
    readers = {t.spec.name for t in looking.tables if {spec.name for spec in t.reads.upstream} & unreadable.keys()}
    return Causes([*alerts, *stale], frozenset({*unreadable, *readers, *unknown}))


def _refused(gaps: Iterable[Gap]) -> Iterator[Gap]:
    return (gap for gap in gaps if gap.state == "refused")


def noted_refusals(tables: Sequence[LakeTable[...]], lake: Lake) -> Iterator[Gap]:
    """Yield the noted refusals by the present code, of tables that the reconciler does not ask for."""
    for table in tables:
        if not (table.lands or (table.runs.follows and table.reads.tables)):
            notes = Refusals(lake.refused(table.spec.name)).by_key()
            judges = judges_of(table, lake) if notes else ""
            for key, note in notes.items():
                if note.holds(table.code_version, judges):
                    yield Gap(table.spec.name, key, "refused", note.reason)


def _given_up(gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Yield the partitions whose runs failed, or changed nothing, too often."""
    return (Gap(gap.table, gap.key, gap.state, gap.given_up) for gap in gaps if gap.given_up and gap.state != "refused")


def _by_partition(
    name: str, gaps: Iterable[Gap], *, severity: Severity, figure: str = "", limit: str = ""
) -> Iterator[Alert]:
    """Yield an alert for each of a table's first partitions, and one alert for all further partitions."""
    by_table: dict[str, list[Gap]] = {}
    for gap in sorted(gaps, key=lambda gap: (gap.table, gap.key)):
        by_table.setdefault(gap.table, []).append(gap)
    for table, found in by_table.items():
        for gap in found[:_SHOWN]:
            stated = {"partition": gap.key, "figure": figure, "limit": limit, "reason": gap.reason}
            yield _alert(name, table, severity=severity, **stated)
        if len(found) > _SHOWN:
            more, reason = f"{len(found) - _SHOWN} more partitions", f"the first {_SHOWN} have alerts of their own"
            yield _alert(f"{name}, many", table, severity=severity, figure=more, reason=reason)


def _stale(tables: Sequence[LakeTable[...]], lake: Lake, now: datetime) -> tuple[list[Alert], set[str]]:
    """Return alerts for tables with data older than declared, and the tables that cannot be judged."""
    found, unknown = [], set()
    for declared in tables:
        table = lake.table(declared.spec)
        try:
            # A table that was never loaded is missing and not stale.
            if declared.fresh is None or not table.ledger.exists():
                continue
            finding = judge_recency(declared, table, now)
        except PatternError:
            unknown.add(declared.spec.name)
            continue
        if not finding.passed and "age_seconds" in finding.figures:
            figure = f"{finding.figures['age_seconds'] / _HOUR:.0f} h"
            limit = f"{declared.fresh.total_seconds() / _HOUR:g} h"
            found.append(_alert("stale", table.name, figure=figure, limit=limit, reason=finding.note))
    return found, unknown


def _alert(name: str, table: str, *, severity: Severity = "warning", **stated: Any) -> Alert:  # noqa: ANN401 - fields of an alert
    """Make an alert that an observation clears, with the command that shows the table."""
    command = status_command(table)
    return Alert(name=name, table=table, severity=severity, command=command, source="platform", **stated)
