"""Explanation of alerts by alerts of upstream tables: one root alert for a chain of late tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.troubles import Trouble

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
    """Return alerts with explaining upstream tables, and with late downstream tables at each root.

    A late table is explained by the most upstream table that is late, too. A partition is also explained by the same
    partition of an upstream table that was refused or given up, and an unusual volume by that of the same partition
    upstream. A table that reads itself explains nothing.

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

    roots = [_root(alert, troubled(alert), upstream) for alert in found]
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
    """Return a root alert with the explained tables in the reason."""
    tables = sorted({each.table for each in explained if each.explained_by == alert.table})
    if not tables or alert.explained_by or alert.kind not in LATE | _BLOCKING | _HANDED_DOWN:
        return alert
    more = f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else ""
    return replace(alert, reason=f"{alert.reason}; affected: {', '.join(tables[:_NAMED])}{more}".removeprefix("; "))
