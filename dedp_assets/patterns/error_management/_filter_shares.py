"""Shares of the rows read that each filter condition dropped, as the commits of a table tell them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from statistics import median

from dedp_assets.patterns.delta.log import Commit, Ledger

__all__ = ["shares_by_partition", "shares_by_window", "usual_shares"]

Shares = dict[str, dict[str, float]]
"""Partition or start of a window -> condition -> share."""


def shares_by_partition(ledger: Ledger, conditions: Iterable[str], *, column: str) -> Shares:
    """List the shares of each partition, as its newest published commit has them."""
    newest: dict[str, list[Commit]] = {}
    for commit in _counting(ledger, conditions):
        if commit.record and (key := commit.record.partition.get(column)) is not None:
            newest.setdefault(key, [commit])
    return _shares(newest, conditions)


def shares_by_window(ledger: Ledger, conditions: Iterable[str], *, window_seconds: float, last: int = 0) -> Shares:
    """List the shares of each window of processing time, over all commits in it.

    Args:
        ledger: of a table that is appended to.
        conditions: the conditions.
        window_seconds: length of a window; each commit is one by itself, if 0.
        last: how many of the newest windows; all, if 0.
    """
    windows: dict[str, list[Commit]] = {}
    for commit in _counting(ledger, conditions):
        start = _start(commit, window_seconds)
        if start not in windows and last and len(windows) == last:
            break
        windows.setdefault(start, []).append(commit)
    return _shares(windows, conditions)


def usual_shares(
    ledger: Ledger, conditions: Iterable[str], *, partition: Mapping[str, str], window_seconds: float, last: int
) -> dict[str, float]:
    """Find the usual share of each condition: the partition's own, or else the median of the last ones before it."""
    if not ledger.exists():
        return {}
    if not partition:
        return _medians(shares_by_window(ledger, conditions, window_seconds=window_seconds, last=last).values())
    ((column, value),) = partition.items()
    found = shares_by_partition(ledger, conditions, column=column)
    earlier = sorted((key for key in found if key < value), reverse=True)[:last]
    return found.get(value) or _medians(found[key] for key in earlier)


def _counting(ledger: Ledger, conditions: Iterable[str]) -> Iterable[Commit]:
    """List the published commits that counted all of the conditions, newest first."""
    wanted = [_figure(name) for name in conditions]
    for commit in ledger.history():
        record = commit.record
        if record and record.promotable and record.rows.get("read") and all(name in record.figures for name in wanted):
            yield commit


def _shares(groups: Mapping[str, list[Commit]], conditions: Iterable[str]) -> Shares:
    found: Shares = {}
    for key, commits in groups.items():
        records = [commit.record for commit in commits if commit.record]
        read = sum(record.rows["read"] for record in records)
        found[key] = {name: sum(record.figures[_figure(name)] for record in records) / read for name in conditions}
    return found


def _start(commit: Commit, window_seconds: float) -> str:
    if not window_seconds:
        return str(commit.version)
    seconds = commit.timestamp.timestamp() // window_seconds * window_seconds
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def _medians(shares: Iterable[Mapping[str, float]]) -> dict[str, float]:
    known = list(shares)
    return {name: median(each[name] for each in known) for name in (known[0] if known else ())}


def _figure(condition: str) -> str:
    return f"rejected by {condition}"
