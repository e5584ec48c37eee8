"""Baselines: usual values of measures from commit history, and audits of deviations from shares.

What is usual, ``core/usual.py`` says; the history comes from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.field_census import CENSUS, FieldCensus
from dedp_assets.patterns.core.results import Severity
from dedp_assets.patterns.core.usual import medians, newest_before
from dedp_assets.patterns.delta.log.commit_info import Commit
from dedp_assets.patterns.delta.log.ledger import Ledger

__all__ = ["audits_of_usual", "earlier_fields", "medians", "newest_before", "usual_values"]

Measures = Mapping[str, float]
"""Name -> value of one partition or window."""


def usual_values(
    ledger: Ledger, partition: Mapping[str, object], measure: Callable[[Commit], Measures | None], *, last: int
) -> Measures:
    """Return a partition's last measures or, for a new partition, the medians of earlier partitions.

    A rebuild of an old partition is no measure for the present.

    Args:
        ledger: the table's ledger.
        partition: the partition about to be published, one column.
        measure: measures of a commit; ``None`` for a commit that is no measure.
        last: how many earlier partitions to look at.

    Raises:
        ConfigError: for a partition of several columns, or of none.
    """
    if len(partition) != 1:
        raise ConfigError(f"partition must name one column, not {', '.join(map(repr, partition)) or 'none'}")
    seen: dict[str, Measures] = {}
    if not ledger.exists():
        return {}
    ((column, value),) = ledger.state().spelled(partition).items()
    for commit in ledger.newest_first():
        key = commit.record.partition.get(column) if commit.record else None
        if key is None or key in seen or not (measures := measure(commit)):
            continue
        if key == value:
            return measures
        seen[key] = measures
    return medians(newest_before(seen, value, last=last))


def earlier_fields(ledger: Ledger, partition: Mapping[str, object], *, last: int = 7) -> tuple[FieldCensus, ...]:
    """Read the censuses of fields of earlier partitions, or of the last writes of a whole table.

    A partition never is part of its own history, nor is one that came later. A refused write made no commit.

    Args:
        ledger: the table's ledger.
        partition: the partition about to be published, one column; empty for the whole table.
        last: how many earlier partitions or writes to look at.

    Raises:
        ConfigError: for a partition of several columns.
    """
    if len(partition) > 1:
        raise ConfigError(f"partition must name one column, not {', '.join(map(repr, partition))}")
    if not ledger.exists():
        return ()
    column, value = next(iter(ledger.state().spelled(partition).items()), ("", ""))
    seen: dict[str, Mapping[str, Any]] = {}
    for commit in ledger.newest_first():
        record = commit.record
        if record is not None and (census := record.figures.get(CENSUS)):
            seen.setdefault(record.partition.get(column, "") if column else f"{commit.version:020}", census)
    # Of a table without partitions, every write before this one counts, the newest first.
    chosen = newest_before(seen, value or "~", last=last)
    return tuple(map(FieldCensus.from_dict, chosen))


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
    an old one is no measure for the present. With too little history, any share passes.

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
    wanted = list(counts.values())
    if partition:
        usual = usual_values(ledger, partition, lambda commit: _shares([commit], wanted), last=last)
    else:
        usual = medians(_shares_by_window(ledger, wanted, window_seconds=window_seconds, last=last))
    return tuple(_audit(name, of, usual.get(of), tolerance, severity) for name, of in counts.items())


def _audit(name: str, of: str, usual: float | None, tolerance: float, severity: Severity) -> Audit:
    audit = Audit(name=name, of=of, per="read", fail_above=1, approvable=True)
    if usual is None:
        return audit
    low, high = max(usual - tolerance, 0), min(usual + tolerance, 1)
    if severity == "warn":
        return replace(audit, warn_below=low, warn_above=high)
    return replace(audit, fail_below=low, fail_above=high)


def _shares_by_window(
    ledger: Ledger, counts: Iterable[str], *, window_seconds: float, last: int
) -> Iterator[dict[str, float]]:
    """Yield the shares of each of the newest ``last`` windows of processing time (all, if 0)."""
    windows: dict[str, list[Commit]] = {}
    for commit in ledger.newest_first():
        if not _shares([commit], counts):
            continue
        start = _start(commit, window_seconds)
        if start not in windows and last and len(windows) == last:
            break
        windows.setdefault(start, []).append(commit)
    return (_shares(commits, counts) for commits in windows.values())


def _shares(commits: Iterable[Commit], counts: Iterable[str]) -> dict[str, float]:
    """Return each count's share of the rows read by published commits; empty if a commit lacks a count.

    A merge is of some rows of a partition, and no measure for the partition.
    """
    known = [_known(commit) for commit in commits]
    if not all(each and all(name in each for name in counts) for each in known):
        return {}
    read = sum(each["read"] for each in known)
    return {name: sum(each[name] for each in known) / read for name in counts}


def _known(commit: Commit) -> dict[str, float]:
    record = commit.record if commit.operation != "MERGE" else None
    return {**record.figures, **record.rows} if record and record.promotable and record.rows.get("read") else {}


def _start(commit: Commit, window_seconds: float) -> str:
    if not window_seconds:
        return str(commit.version)
    seconds = commit.timestamp.timestamp() // window_seconds * window_seconds
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
