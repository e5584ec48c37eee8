"""Explanation of alerts by alerts of upstream tables: one root alert for a chain of late tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.measuring.troubles import SEVERITIES, Trouble

__all__ = ["LATE", "explain", "upstream_of"]

LATE = frozenset({"interrupted", "lag", "late", "stale"})
"""Names of alerts about late rows of a table, which are explained by late rows of an upstream table."""
_HANDED_DOWN = frozenset({"volume"})
"""Names of alerts that are explained by the alert of the same name about the same upstream partition."""
_BLOCKING = frozenset({"given up", "no_branch_succeeded", "refused"})
"""Alerts about a partition that is not published; the same partition downstream is late for that reason."""
_NAMED = 5


def upstream_of(tables: Sequence[LakeTable[...]]) -> dict[str, tuple[str, ...]]:
    """Return the upstream tables of each declared table, by name."""
    return {spec.name: tuple(read.name for read in table.reads.tables) for table in tables for spec in table.tables}


def explain(alerts: Iterable[Trouble], upstream: Mapping[str, Sequence[str]]) -> list[Trouble]:
    """Return alerts with explaining tables; a root has the tables below and their highest severity.

    A late table is explained by the most upstream table that is late, too. A partition is also explained by the same
    partition of an upstream table, or of the table itself, that was refused or given up, and an unusual volume by that
    of the same partition upstream. A table that reads itself explains nothing.

    Args:
        alerts: all troubles of one observation.
        upstream: table -> the tables it reads.
    """
    found = list(alerts)
    late = {alert.table for alert in found if alert.kind in LATE and not alert.partition}
    blocked: dict[str, set[str]] = {}
    for alert in found:
        if alert.partition and alert.kind in LATE | _BLOCKING:
            blocked.setdefault(alert.partition, set()).add(alert.table)
    alike: dict[tuple[str, str], set[str]] = {}
    for alert in found:
        alike.setdefault((alert.kind, alert.partition), set()).add(alert.table)

    def troubled(alert: Trouble) -> set[str]:
        if alert.kind in _HANDED_DOWN:
            return alike[alert.kind, alert.partition]
        return late | blocked.get(alert.partition, set()) if alert.kind in LATE else set()

    unpublished = {(alert.table, alert.partition) for alert in found if alert.kind in _BLOCKING and alert.partition}

    def root(alert: Trouble) -> str:
        own = alert.kind in LATE and (alert.table, alert.partition) in unpublished
        return _root(alert, troubled(alert), upstream) or (alert.table if own else "")

    roots = [root(alert) for alert in found]
    explained = [replace(alert, explained_by=root) for alert, root in zip(found, roots, strict=True)]
    return [_with_consequences(alert, explained) for alert in explained]


def _root(alert: Trouble, troubled: set[str], upstream: Mapping[str, Sequence[str]]) -> str:
    """Return the most upstream table in trouble above an alert's table; empty without one."""
    above = [table for table in _ancestors(alert.table, upstream) if table in troubled]
    # Two tables that read each other would explain one another, and nobody heard of either.
    roots = [table for table in above if not troubled & set(_ancestors(table, upstream)) - {table}]
    return next((table for table in roots if alert.table not in _ancestors(table, upstream)), "")


def _ancestors(table: str, upstream: Mapping[str, Sequence[str]]) -> list[str]:
    """List the tables above a table, the nearest first, each once and without the table itself."""
    found: dict[str, None] = {}
    waiting = list(upstream.get(table, ()))
    while waiting:
        each = waiting.pop(0)
        if each != table and each not in found:
            found[each] = None
            waiting += upstream.get(each, ())
    return list(found)


def _with_consequences(alert: Trouble, explained: Sequence[Trouble]) -> Trouble:
    """Return a root alert with the explained tables in the reason, and the highest severity among both."""
    below = [each for each in explained if each.explained_by == alert.table and _explains(alert, each)]
    if not below or alert.explained_by:
        return alert
    severity = max((alert.severity, *(each.severity for each in below)), key=SEVERITIES.index)
    tables = sorted({each.table for each in below} - {alert.table})
    more = f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else ""
    affected = f"affected: {', '.join(tables[:_NAMED])}{more}" if tables else ""
    return replace(alert, severity=severity, reason="; ".join(filter(None, [alert.reason, affected])))


def _explains(root: Trouble, alert: Trouble) -> bool:
    """Return whether one alert of an explaining table is a reason of another alert, by name and partition."""
    if alert.kind in _HANDED_DOWN:
        return (root.kind, root.partition) == (alert.kind, alert.partition)
    is_same = bool(root.partition) and root.partition == alert.partition
    return root.kind in LATE if not root.partition else is_same and root.kind in LATE | _BLOCKING
