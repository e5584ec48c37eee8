"""Troubles of the status page: from alerts, stale partitions, damaged logs and measurements."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from dedp_assets.graph.observe.alerting import severity_of, trouble_of
from dedp_assets.mail.episodes import Episode
from dedp_assets.patterns.core.measurements import Measurement
from dedp_assets.patterns.core.troubles import SEVERITIES, Severity
from dedp_assets.resources.alerting import status_command
from dedp_assets.status_page.model import TableRow, Trouble

if TYPE_CHECKING:
    from dedp_assets.graph.reconcile.reconciling import Gap

__all__ = ["explained", "merged", "of_episodes", "of_gaps", "of_measurements", "unreadable", "with_verdict"]

_NEVER: Mapping[tuple[str, str], datetime] = MappingProxyType({})
_COMMAND = re.compile(r"""`(dedp [^`]+)`|(dedp approve [^`;]+? --because "[^"]*")""")
"""Shell command within a sentence: ``dedp ...`` between backticks, or ``dedp approve ...`` with a reason."""


def of_episodes(episodes: Iterable[Episode]) -> list[Trouble]:
    """Return the troubles of open episodes, with the times of the beginnings."""
    found = []
    for episode in episodes:
        alert = episode.alert
        found.append(
            Trouble(
                kind=alert.name.replace("_", " "),
                table=alert.table,
                partition=alert.partition,
                severity=alert.severity,
                figure=alert.figure,
                limit=alert.limit,
                reason=alert.reason,
                since=episode.since,
                command=_command(alert.reason) or alert.command,
            )
        )
    return found


def of_measurements(measurements: Iterable[Measurement]) -> list[Trouble]:
    """Return the troubles of measurements: figures with the verdict ``warn`` or ``fail``."""
    found = []
    for each in measurements:
        kind, partition = trouble_of(each)
        if each.is_trouble:
            found.append(
                Trouble(
                    kind=kind.replace("_", " "),
                    table=each.table,
                    partition=partition,
                    severity=severity_of(each),
                    figure=each.figure,
                    limit=each.limit,
                    reason=each.reason,
                    since=each.since,
                    command=_command(each.reason) or status_command(each.table),
                    explained_by=each.explained_by,
                )
            )
    return found


def of_gaps(gaps: Iterable[Gap], refused_at: Mapping[tuple[str, str], datetime] = _NEVER) -> Iterator[Trouble]:
    """Yield the troubles of stale partitions: of refused and given up partitions, and updates under way.

    Args:
        gaps: stale partitions.
        refused_at: table and partition key -> time of the refusal.
    """
    for gap in gaps:
        severity: Severity = "info"
        kind, reason = gap.state, gap.reason
        command = _command(reason) or status_command(gap.table)
        if gap.state == "refused":
            severity = "warning"
        elif gap.given_up:
            severity, kind, reason = "critical", "given up", gap.given_up
            command = f"dedp run {gap.table} {gap.key}".strip()
        since = refused_at.get((gap.table, gap.key)) if gap.state == "refused" else None
        yield Trouble(
            kind=kind,
            table=gap.table,
            partition=gap.key,
            severity=severity,
            reason=reason,
            since=since,
            command=command,
        )


def unreadable(damaged: Mapping[str, str]) -> list[Trouble]:
    """Return the troubles of tables with a damaged log: table -> reason."""
    return [
        Trouble(kind="unreadable", table=table, severity="critical", reason=why, command=f"dedp verify {table}")
        for table, why in damaged.items()
    ]


def merged(found: Sequence[Trouble], announced: Sequence[Trouble]) -> list[Trouble]:
    """Return troubles without repetition.

    Args:
        found: troubles that were found now.
        announced: troubles of open episodes; the same trouble takes the beginning from there.
    """
    by_key = {each.key: each for each in announced}
    live: dict[tuple[str, str, str], Trouble] = {}
    for each in found:
        known = by_key.pop(each.key, None)
        live.setdefault(each.key, _continued(each, known) if known else each)
    return [*live.values(), *by_key.values()]


def explained(troubles: Sequence[Trouble], upstream: Mapping[str, Sequence[str]]) -> list[Trouble]:
    """Return the troubles, where stale tables name the nearest upstream table with a trouble.

    Args:
        troubles: the troubles.
        upstream: table -> tables that it reads.
    """
    sick = {each.table for each in troubles if each.needs_somebody}
    return [
        replace(each, explained_by=_nearest(each.table, sick, upstream))
        if each.kind == "stale" and not each.explained_by
        else each
        for each in troubles
    ]


def _nearest(table: str, wanted: Collection[str], upstream: Mapping[str, Sequence[str]]) -> str:
    """Return the nearest upstream table among the wanted tables; empty without one."""
    seen, todo = {table}, [*upstream.get(table, ())]
    while todo:
        name = todo.pop(0)
        if name in wanted and name != table:
            return name
        if name not in seen:
            seen.add(name)
            todo += upstream.get(name, ())
    return ""


def with_verdict(row: TableRow, troubles: Sequence[Trouble]) -> TableRow:
    """Return a table with the number of open troubles and with the verdict."""
    own = [each for each in troubles if each.table == row.name and each.needs_somebody]
    reached = any(row.name in each.affected.tables for each in troubles if each.needs_somebody)
    otherwise = "affected" if reached and row.verdict == "ok" else row.verdict
    worst = max((each.severity for each in own), key=SEVERITIES.index, default=otherwise)
    return replace(row, verdict=worst, troubles=len(own))


def _continued(trouble: Trouble, known: Trouble) -> Trouble:
    severity = max(trouble.severity, known.severity, key=SEVERITIES.index)
    return replace(
        trouble,
        severity=severity,
        since=min(filter(None, [trouble.since, known.since]), default=None),
        figure=trouble.figure or known.figure,
        limit=trouble.limit or known.limit,
        reason=trouble.reason or known.reason,
        command=trouble.command or known.command,
    )


def _command(reason: str) -> str:
    """Return the first command of the library that a reason names; empty without one."""
    found = _COMMAND.search(reason)
    return (found[1] or found[2]) if found else ""
