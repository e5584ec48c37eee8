"""Alerts of measurements."""

from __future__ import annotations

from datetime import datetime, timezone

from dedp_assets.graph.observe.alerting import judged
from dedp_assets.patterns.core.measuring.measurements import Measurement

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)


def measured(metric, verdict, table="silver/visits", **more):
    return Measurement(metric=metric, table=table, at=NOW, verdict=verdict, **more)


def test_the_figures_of_one_trouble_are_one_alert():
    """The worst of them tells what it is; a figure of the whole table tells more than that of a partition."""
    found = judged(
        [
            measured("lag_seconds", "warn", partition="0", value=60, unit="s"),
            measured("lag_seconds", "fail", partition="1", value=4000, unit="s", at_most=3600, reason="it stands"),
            measured("lag_rows", "fail", value=9, unit="rows"),
            measured("lag_p95", "fail", value=9),
        ]
    )
    (alert,) = found.troubles
    assert (alert.kind, alert.partition, alert.figure, alert.severity) == ("lag", "", "9 rows", "critical")
    assert found.undecided == frozenset()


def test_partitions_that_are_late_have_alerts_of_their_own():
    """With figure, limit, reason and the table that explains the delay."""
    late = {"value": 7200.0, "unit": "s", "at_most": 3600.0}
    found = judged(
        [
            measured("pipeline_seconds", "fail", partition="2026-01-05", reason="no run", **late),
            measured("pipeline_seconds", "warn", partition="2026-01-06", explained_by="bronze/visits", **late),
            measured("pipeline_seconds", "ok", partition="2026-01-07"),
        ]
    )
    first, second = found.troubles
    assert (first.partition, first.figure, first.limit, first.reason) == (
        "2026-01-05",
        "2 h",
        "at most 60 min",
        "no run",
    )
    assert (second.severity, second.explained_by) == ("warning", "bronze/visits")


def test_what_cannot_be_judged_neither_begins_nor_ends_an_alert():
    """Unless another figure of the trouble is bad already."""
    found = judged([measured("gap", "unknown"), measured("lag_rows", "unknown"), measured("lag_seconds", "warn")])
    assert [alert.kind for alert in found.troubles] == ["lag"]
    assert found.undecided == {("platform", "interrupted", "silver/visits", "")}
