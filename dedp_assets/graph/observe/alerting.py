"""Troubles of measurements: one for all figures that are about the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dedp_assets.graph.resources.alerting import command_for
from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.measuring.troubles import Trouble, TroubleKey

__all__ = ["ALERTS", "RoundTroubles", "judged"]

ALERTS = {
    "age": "stale",
    "future_commits": "future",
    "future_events": "future",
    "gap": "interrupted",
    "lag": "lag",
    "lag_partitions": "lag",
    "lag_rows": "lag",
    "lag_seconds": "lag",
    "lost_bytes": "lost",
    "lost_rows": "lost",
    "partition_bytes": "volume",
    "partition_rows": "volume",
    "partition_variation": "uneven",
    "pipeline_seconds": "late",
    "restarted": "restarted",
    "run_seconds": "late",
}
"""Metric -> name of the alert; metrics without an alert are left out."""
_BY_PARTITION = frozenset({"late", "volume"})
"""Names of alerts with one episode per partition; other alerts have one episode per table."""
_CONFIRMATIONS = 2
"""Number of rounds that must agree: a clock may be wrong for a single round."""


@dataclass(frozen=True, slots=True)
class RoundTroubles:
    """Troubles of a round of detectors.

    Attributes:
        troubles: one for all figures that are about the same.
        undecided: keys of troubles that neither begin nor end, because a figure could not be judged.
    """

    troubles: tuple[Trouble, ...]
    undecided: frozenset[TroubleKey]


def judged(measurements: Iterable[Measurement]) -> RoundTroubles:
    """Return one trouble, of the worst figure, for all figures of a table or partition with one subject.

    Args:
        measurements: the measurements of all detectors.
    """
    by_key: dict[TroubleKey, list[Measurement]] = {}
    for each in measurements:
        if each.metric in ALERTS:
            by_key.setdefault(_trouble(each).key, []).append(each)
    worst = [max(found, key=_badness) for found in by_key.values()]
    undecided = {
        key
        for key, found in by_key.items()
        if not any(each.is_trouble for each in found) and any(each.verdict == "unknown" for each in found)
    }
    return RoundTroubles(tuple(_trouble(each) for each in worst if each.is_trouble), frozenset(undecided))


def _badness(measured: Measurement) -> tuple[int, bool]:
    """Return the rank of a verdict; of equal verdicts, a whole table ranks above a partition."""
    return ("ok", "unknown", "warn", "fail").index(measured.verdict), not measured.partition


def _trouble(measured: Measurement) -> Trouble:
    kind = ALERTS[measured.metric]
    return Trouble(
        kind=kind,
        table=measured.table,
        partition=measured.partition if kind in _BY_PARTITION else "",
        severity="critical" if measured.verdict == "fail" else "warning",
        figure=measured.figure,
        limit=measured.limit,
        reason=measured.reason,
        since=measured.since,
        command=command_for(measured.table, measured.reason),
        source="platform",
        explained_by=measured.explained_by,
        confirmations=_CONFIRMATIONS,
    )
