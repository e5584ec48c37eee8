"""Alerts of measurements: one alert for all figures of a trouble."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dedp_assets.patterns.core.measurements import Measurement
from dedp_assets.patterns.core.troubles import Severity, Trouble, TroubleKey
from dedp_assets.resources.alerting import status_command

__all__ = ["ALERTS", "Judged", "judged", "severity_of", "trouble_of", "worst"]

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
class Judged:
    """Alerts of a round of detectors.

    Attributes:
        alerts: one alert for each trouble.
        undecided: keys of alerts that neither begin nor end, because a figure could not be judged.
    """

    alerts: tuple[Trouble, ...]
    undecided: frozenset[TroubleKey]


def judged(measurements: Iterable[Measurement]) -> Judged:
    """Return one alert for each trouble of a table or partition, from the worst figure.

    Args:
        measurements: the measurements of all detectors.
    """
    by_key = _by_alert(measurements)
    alerts = tuple(_alert(each) for each in _worst(by_key) if each.is_trouble)
    undecided = {
        key
        for key, found in by_key.items()
        if not any(each.is_trouble for each in found) and any(each.verdict == "unknown" for each in found)
    }
    return Judged(alerts, frozenset(undecided))


def worst(measurements: Iterable[Measurement]) -> list[Measurement]:
    """List the worst measurement of each trouble of a table or partition.

    Args:
        measurements: the measurements of all detectors.
    """
    return [each for each in _worst(_by_alert(measurements)) if each.is_trouble]


def trouble_of(measured: Measurement) -> tuple[str, str]:
    """Return name and partition of the trouble that a measurement is about: several figures are about one."""
    name = ALERTS.get(measured.metric, measured.metric)
    return name, measured.partition if name in _BY_PARTITION or measured.metric not in ALERTS else ""


def severity_of(measured: Measurement) -> Severity:
    """Return the severity of the trouble that a measurement is about."""
    return "critical" if measured.verdict == "fail" else "warning"


def _by_alert(measurements: Iterable[Measurement]) -> dict[TroubleKey, list[Measurement]]:
    """Return the measurements of each alert."""
    by_key: dict[TroubleKey, list[Measurement]] = {}
    for each in measurements:
        if each.metric in ALERTS:
            by_key.setdefault(_alert(each).key, []).append(each)
    return by_key


def _worst(by_key: Mapping[TroubleKey, Sequence[Measurement]]) -> list[Measurement]:
    return [max(found, key=_badness) for found in by_key.values()]


def _badness(measured: Measurement) -> tuple[int, bool]:
    """Return the rank of a verdict; of equal verdicts, a whole table ranks above a partition."""
    return ("ok", "unknown", "warn", "fail").index(measured.verdict), not measured.partition


def _alert(measured: Measurement) -> Trouble:
    name, partition = trouble_of(measured)
    return Trouble(
        kind=name,
        table=measured.table,
        partition=partition,
        severity=severity_of(measured),
        figure=measured.figure,
        limit=measured.limit,
        reason=measured.reason,
        command=status_command(measured.table),
        source="platform",
        explained_by=measured.explained_by,
        confirmations=_CONFIRMATIONS,
    )
