"""Baselines: usual values of measures from commit history, and audits of deviations from shares.

What is usual, ``core/measuring/usual.py`` says; the history comes from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from statistics import median
from typing import Any

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.usual import Counted, reach
from dedp_assets.patterns.core.parsing.field_census import CENSUS, FieldCensus
from dedp_assets.patterns.core.results import Failure
from dedp_assets.patterns.delta.log.commit_info import Commit
from dedp_assets.patterns.delta.log.ledger import Ledger

__all__ = ["audits_of_usual", "earlier_fields", "usual_values"]

Measures = Mapping[str, float]
"""Name -> value of one partition or window."""
_FIELDS = reach(7)
"""Number of earlier censuses that tell which are the newest seven that count."""
_Measured = tuple[Measures, Collection[str]]
"""Measures, and the names of those that were judged unusual."""


def unusual_figures(commit: Commit) -> set[str]:
    """Return the figures of a commit that did not pass an audit, with a warning or an approval."""
    failed = [each["figures"] for each in commit.record.findings if not each["passed"]] if commit.record else []
    # Of a share, the rows read are what it is a share of.
    return {name for figures in failed for name in figures if name != "read" or "ratio" not in figures}


def usual_values(
    ledger: Ledger,
    partition: Mapping[str, object],
    measure: Callable[[Commit], Measures | None],
    *,
    last: int,
    unusual: Callable[[Commit], Collection[str]] = unusual_figures,
) -> Measures:
    """Return a partition's last measures or, for a new partition, the medians of earlier partitions.

    A rebuild of an old partition is no measure for the present, and neither is a measure that was judged unusual, the
    partition's own included (:class:`~dedp_assets.patterns.core.measuring.usual.Counted`).

    Args:
        ledger: the table's ledger.
        partition: the partition about to be published, one column.
        measure: measures of a commit; ``None`` for a commit that is no measure.
        last: how many earlier partitions count.
        unusual: names of the measures of a commit that were judged unusual; by default those that an audit of the
            commit did not pass.

    Raises:
        ConfigError: for a partition of several columns, or of none.
    """
    if len(partition) != 1:
        raise ConfigError(f"partition must name one column, not {', '.join(map(repr, partition)) or 'none'}")
    seen: dict[str, _Measured] = {}
    if not ledger.exists():
        return {}
    ((column, value),) = ledger.state().spelled(partition).items()
    for commit in ledger.newest_first():
        key = commit.record.partition.get(column) if commit.record else None
        if key is None or key in seen or not (measures := measure(commit)):
            continue
        seen[key] = measures, unusual(commit)
        if key == value and not measures.keys() & seen[key][1]:
            return measures
    own, own_unusual = seen.get(value, ({}, ()))
    before = _usual([seen[key] for key in sorted(seen) if key < value], last)
    return {**before, **{name: each for name, each in own.items() if name not in own_unusual}}


def _usual(measured: Iterable[_Measured], last: int) -> Measures:
    """Return the median of the newest ``last`` values of each measure that count, oldest first."""
    counted: dict[str, Counted[float]] = {}
    for measures, unusual in measured:
        for name, value in measures.items():
            counted.setdefault(name, Counted()).take(value, is_unusual=name in unusual)
    return {name: median(each.values[-last:]) for name, each in counted.items() if last and each.values}


def earlier_fields(ledger: Ledger, partition: Mapping[str, object], *, last: int = _FIELDS) -> tuple[FieldCensus, ...]:
    """Read the censuses of fields of earlier partitions, or of a whole table's last writes, newest first.

    A partition never is part of its own history, nor is one that came later. A refused write made no commit.

    Args:
        ledger: the table's ledger.
        partition: the partition about to be published, one column; empty for the whole table.
        last: how many earlier partitions or writes to read; of these, unusual ones do not count.

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
    chosen = sorted((key for key in seen if key < (value or "~")), reverse=True)[:last]
    return tuple(FieldCensus.from_dict(seen[key]) for key in chosen)


def audits_of_usual(
    ledger: Ledger,
    counts: Mapping[str, str],
    *,
    partition: Mapping[str, str] | None = None,
    tolerance: float,
    severity: Failure = "fail",
    window_seconds: float = 0,
    last: int = 7,
) -> tuple[Audit, ...]:
    """Build audits that bound each count's share of the rows read by the usual share.

    Usual is what the partition's own last commit says, or else the median of the partitions before it: a rebuild of
    an old one is no measure for the present, and neither is a share that the audit of the same name did not pass. With
    too little history, any share passes.

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

    def unusual(commit: Commit) -> set[str]:
        failed = {each["name"] for each in commit.record.findings if not each["passed"]} if commit.record else set()
        return {of for name, of in counts.items() if name in failed}

    if partition:
        usual = usual_values(ledger, partition, lambda each: _shares([each], wanted), last=last, unusual=unusual)
    else:
        windows = list(_windows(ledger, wanted, window_seconds=window_seconds, last=last))
        measured = [(_shares(each, wanted), {of for commit in each for of in unusual(commit)}) for each in windows]
        usual = _usual(reversed(measured), last or len(windows))
    return tuple(_audit(name, of, usual.get(of), tolerance, severity) for name, of in counts.items())


def _audit(name: str, of: str, usual: float | None, tolerance: float, severity: Failure) -> Audit:
    audit = Audit(name=name, of=of, per="read", fail_above=1, approvable=True)
    if usual is None:
        return audit
    low, high = max(usual - tolerance, 0), min(usual + tolerance, 1)
    if severity == "warn":
        return replace(audit, warn_below=low, warn_above=high)
    return replace(audit, fail_below=low, fail_above=high)


def _windows(ledger: Ledger, counts: Iterable[str], *, window_seconds: float, last: int) -> Iterator[list[Commit]]:
    """Yield the commits of each window of processing time, newest first."""
    windows: dict[str, list[Commit]] = {}
    for commit in ledger.newest_first():
        if not _shares([commit], counts):
            continue
        start = _start(commit, window_seconds)
        if start not in windows and last and len(windows) == reach(last):
            break
        windows.setdefault(start, []).append(commit)
    yield from windows.values()


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
