"""Baselines: usual rates of counts among the rows read, from commit history, and audits of deviation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from statistics import median

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Severity
from dedp_assets.patterns.delta.log.commit_info import Commit
from dedp_assets.patterns.delta.log.ledger import Ledger

__all__ = ["audits_of_usual", "shares_by_window"]

Shares = dict[str, dict[str, float]]
"""Partition or start of a window -> count -> share."""


def audits_of_usual(
    ledger: Ledger,
    counts: Mapping[str, str],
    *,
    partition: Mapping[str, str] | None = None,
    tolerance: float,
    severity: Severity = "fail",
    window_seconds: float = 0,
    last: int = 7,
) -> tuple[Audit, ...]:
    """Build audits that bound each count's share of the rows read by the usual share.

    Usual is what the partition's own last commit says, or else the median of the partitions before it: a rebuild of
    an old one is no measure for the present. Without history, any share passes.

    Args:
        ledger: the target's.
        counts: name of an audit -> the count that it bounds: a figure of the write, or one of its row accounting.
        partition: partition that is about to be written, one column; ``None`` for a table that is appended to.
        tolerance: how far the share may lie from the usual one, in shares (0.25: 25 percentage points).
        severity: whether another share refuses the rows, or warns.
        window_seconds: length of the windows of processing time whose shares are compared, for appends; each commit by
            itself, if 0.
        last: how many partitions or windows to look back.

    Raises:
        ConfigError: for a tolerance that is not between 0 and 1, a partition of several columns, or a negative number.
    """
    if not 0 < tolerance <= 1:
        raise ConfigError(f"tolerance={tolerance} must be a share between 0 and 1")
    if last < 0 or window_seconds < 0:
        raise ConfigError(f"last={last} and window_seconds={window_seconds:g} must not be negative")
    if len(partition or {}) > 1:
        raise ConfigError(f"partition must name one column, not {', '.join(map(repr, partition or {}))}")
    wanted = list(counts.values())
    shares = _usual(ledger, wanted, partition=partition or {}, window_seconds=window_seconds, last=last)
    return tuple(_audit(name, of, shares.get(of), tolerance, severity) for name, of in counts.items())


def shares_by_window(ledger: Ledger, counts: Iterable[str], *, window_seconds: float, last: int = 0) -> Shares:
    """List the shares by window of processing time, over all commits of a window.

    Args:
        ledger: of a table that is appended to.
        counts: the counts.
        window_seconds: length of a window; each commit is one by itself, if 0.
        last: how many of the newest windows; all, if 0.
    """
    windows: dict[str, list[Commit]] = {}
    for commit in _counting(ledger, counts):
        start = _start(commit, window_seconds)
        if start not in windows and last and len(windows) == last:
            break
        windows.setdefault(start, []).append(commit)
    return _shares(windows, counts)


def _audit(name: str, of: str, usual: float | None, tolerance: float, severity: Severity) -> Audit:
    audit = Audit(name=name, of=of, per="read", fail_above=1, approvable=True)
    if usual is None:
        return audit
    low, high = max(usual - tolerance, 0), min(usual + tolerance, 1)
    if severity == "warn":
        return replace(audit, warn_below=low, warn_above=high)
    return replace(audit, fail_below=low, fail_above=high)


def _usual(
    ledger: Ledger, counts: Iterable[str], *, partition: Mapping[str, str], window_seconds: float, last: int
) -> dict[str, float]:
    """Return the usual share of each count: the partition's own, or the median of recent history."""
    if not ledger.exists():
        return {}
    if not partition:
        return _medians(shares_by_window(ledger, counts, window_seconds=window_seconds, last=last).values())
    ((column, value),) = ledger.state().spelled(partition).items()
    found = _shares_by_partition(ledger, counts, column=column)
    earlier = sorted((key for key in found if key < value), reverse=True)[:last]
    return found.get(value) or _medians(found[key] for key in earlier)


def _shares_by_partition(ledger: Ledger, counts: Iterable[str], *, column: str) -> Shares:
    """List the shares by partition, from each partition's newest published commit."""
    newest: dict[str, list[Commit]] = {}
    for commit in _counting(ledger, counts):
        if commit.record and (key := commit.record.partition.get(column)) is not None:
            newest.setdefault(key, [commit])
    return _shares(newest, counts)


def _counting(ledger: Ledger, counts: Iterable[str]) -> Iterable[Commit]:
    """List the published commits with all of the counts, newest first, without merges.

    A merge is of some rows of a partition.
    """
    wanted = list(counts)
    for commit in ledger.history():
        record = commit.record if commit.operation != "MERGE" else None
        if record and record.promotable and record.rows.get("read") and all(name in _known(commit) for name in wanted):
            yield commit


def _shares(groups: Mapping[str, list[Commit]], counts: Iterable[str]) -> Shares:
    found: Shares = {}
    for key, commits in groups.items():
        known = [_known(commit) for commit in commits]
        read = sum(each["read"] for each in known)
        found[key] = {name: sum(each[name] for each in known) / read for name in counts}
    return found


def _known(commit: Commit) -> dict[str, float]:
    return {**commit.record.figures, **commit.record.rows} if commit.record else {}


def _start(commit: Commit, window_seconds: float) -> str:
    if not window_seconds:
        return str(commit.version)
    seconds = commit.timestamp.timestamp() // window_seconds * window_seconds
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def _medians(shares: Iterable[Mapping[str, float]]) -> dict[str, float]:
    known = list(shares)
    return {name: median(each[name] for each in known) for name in (known[0] if known else ())}
