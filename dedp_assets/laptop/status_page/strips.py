"""Strips: the last partitions of a table with the state of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dedp_assets.graph.observe.explaining import LATE
from dedp_assets.laptop.status_page.history import History
from dedp_assets.laptop.status_page.model import Cell, State
from dedp_assets.patterns.core.measuring.troubles import Trouble

__all__ = ["is_state", "strip_of"]

_STATES = frozenset({"behind", "given up", "missing", "refused", "unusable", "waiting"})
_NOTED = {"warned": "published with a warning of an audit", "approved": "published by a person's approval"}


def strip_of(
    history: History,
    calendar: Sequence[str],
    troubles: Mapping[str, Trouble],
    *,
    limit: int,
) -> tuple[Cell, ...]:
    """Return the last partitions, the oldest first.

    Args:
        history: what the log tells.
        calendar: last partition keys whose time is over, of a table by time.
        troubles: partition key -> open trouble of the partition.
        limit: number of partitions.
    """
    known = sorted({*history.keys(), *(key for key, each in troubles.items() if is_state(each.kind))} - {""})
    recent = calendar[-limit:]
    # Of a table whose data ended long ago, the calendar's last keys would show nothing.
    if known and recent and known[-1] < recent[0]:
        recent = []
    # Before the first data there was no table yet.
    wanted = {key for key in recent if known and key >= known[0]}
    keys = sorted({*known, *wanted})[-limit:]
    return tuple(_cell(key, history, troubles.get(key)) for key in keys)


def is_state(kind: str) -> bool:
    """Return whether a kind of trouble is the state of a partition, such as ``missing`` or ``behind``."""
    return kind in _STATES


def _cell(key: str, history: History, trouble: Trouble | None) -> Cell:
    rows, commit = history.rows_of(key), history.written.get(key)
    stored = commit is not None or rows is not None
    if trouble is not None:
        words = trouble.reason if is_state(trouble.kind) else f"{trouble.kind}: {trouble.reason}".strip(": ")
        return Cell(key, _of_trouble(trouble, stored=stored), rows, words)
    if not stored:
        return Cell(key, "empty", None, "nothing was written")
    if rows == 0:
        return Cell(key, "empty", 0, "written without rows")
    if commit and commit.verdict in _NOTED:
        return Cell(key, "partial", rows, _NOTED[commit.verdict])
    return Cell(key, "ok", rows)


def _of_trouble(trouble: Trouble, *, stored: bool) -> State:
    if trouble.kind == "refused":
        return "refused"
    return ("late" if trouble.kind in LATE | _STATES else "partial") if stored else "missing"
