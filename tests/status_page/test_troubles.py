"""Troubles of the status page: where they come from, and that the same trouble is shown once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.observe.alerting import ALERTS, judged, worst
from dedp_assets.graph.reconcile.reconciling import Gap
from dedp_assets.mail.episodes import Episode
from dedp_assets.patterns.core.measurements import Measurement
from dedp_assets.patterns.core.troubles import Trouble
from dedp_assets.status_page.model import Affected, TableRow, Trouble
from dedp_assets.status_page.troubles import merged, of_episodes, of_gaps, of_measurements, with_verdict
from tests.helpers import NOW

SINCE = NOW - timedelta(hours=3)
LAG = Measurement(
    metric="lag_seconds",
    table="silver/x",
    at=NOW,
    verdict="warn",
    value=7_200.0,
    unit="s",
    at_most=3_600.0,
    reason="late",
)


def episode(name, partition="", **alert):
    stated = Trouble(kind=name, table="silver/x", partition=partition, command="dedp status silver/x", **alert)
    return Episode(id="1", number=1, alert=stated, since=SINCE)


def test_a_measurement_beyond_its_limit_is_a_trouble_with_figure_and_limit():
    """Sound and unknown figures are none; a failure is critical."""
    (trouble,) = of_measurements([LAG, replace(LAG, verdict="ok"), replace(LAG, verdict="unknown")])
    assert (trouble.kind, trouble.severity, trouble.figure, trouble.limit) == (
        "lag", "warning", "2 h", "at most 60 min",
    )  # fmt: skip
    assert trouble.command == "dedp status silver/x"
    (failed,) = of_measurements([replace(LAG, verdict="fail", explained_by="bronze/x")])
    assert (failed.severity, failed.explained_by) == ("critical", "bronze/x")


def test_stale_partitions_need_somebody_once_they_are_refused_or_given_up():
    """The others are under way; the command is the one that the reason names."""
    gaps = [
        Gap("silver/x", "1", "missing", "bronze/x changed; the reconciler asks for it"),
        Gap("silver/x", "2", "refused", "torn; `dedp approve silver/x 2` publishes it"),
        Gap("silver/x", "3", "waiting", "bronze/x changed", given_up="gave up after 3 failed runs"),
        Gap("silver/x", "", "waiting", "no source"),
        Gap("silver/x", "4", "refused", 'torn. If it is right: dedp approve silver/x 4 --by NAME --because "WHY"'),
    ]
    assert [(each.kind, each.severity, each.command) for each in of_gaps(gaps)] == [
        ("missing", "info", "dedp status silver/x"),
        ("refused", "warning", "dedp approve silver/x 2"),
        ("given up", "critical", "dedp run silver/x 3"),
        ("waiting", "info", "dedp status silver/x"),
        ("refused", "warning", 'dedp approve silver/x 4 --by NAME --because "WHY"'),
    ]


def test_a_trouble_that_is_found_and_announced_is_shown_once_with_its_beginning():
    """The text that was found now, the severity that is worse, the time of the alert."""
    found = list(of_gaps([Gap("silver/x", "2", "refused", "new reason")]))
    (shown,) = merged(found, of_episodes([episode("refused", "2", severity="critical", reason="old reason")]))
    assert (shown.reason, shown.severity, shown.since) == ("new reason", "critical", SINCE)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(ALERTS)), st.sampled_from(["", "1", "topic-0"]), st.sampled_from(["warn", "fail"])
        ),
        max_size=12,
    )
)
def test_a_cause_is_one_trouble_however_many_figures_it_has(found):
    """Of all metrics that raise alerts: each alert is one trouble of the page, and the page has no others."""
    figures = [replace(LAG, metric=metric, partition=key, verdict=verdict) for metric, key, verdict in found]
    alerts = judged(figures).alerts
    announced = [Episode(id=str(n), number=1, alert=each, since=SINCE) for n, each in enumerate(alerts)]
    shown = merged(of_measurements(worst(figures)), of_episodes(announced))
    assert {each.key for each in shown} == {(each.name, each.table, each.partition) for each in alerts}
    assert len(shown) == len(alerts)
    assert all(each.since == SINCE for each in shown)


def test_an_alert_of_code_stands_alone():
    """With all that it says, and under its own name."""
    told = episode("incomplete", "2", figure="83 %", limit="95 %", reason="sensor 7 lacks")
    (shown,) = merged(of_measurements([LAG]), of_episodes([told]))[1:]
    assert (shown.kind, shown.partition, shown.figure, shown.limit, shown.reason) == (
        "incomplete", "2", "83 %", "95 %", "sensor 7 lacks",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("troubles", "verdict", "number"),
    [
        ([], "ok", 0),
        ([Trouble(kind="missing", table="a", severity="info")], "ok", 0),
        ([Trouble(kind="late", table="a"), Trouble(kind="x", table="a", severity="critical")], "critical", 2),
        ([Trouble(kind="late", table="b", affected=Affected((), ("a",)))], "affected", 0),
        ([Trouble(kind="late", table="b", severity="info", affected=Affected(("a",)))], "ok", 0),
    ],
)
def test_a_table_has_the_verdict_of_its_worst_trouble(troubles, verdict, number):
    """Without one of its own it may be affected by one upstream; what is under way counts for nothing."""
    shown = with_verdict(TableRow(name="a"), troubles)
    assert (shown.verdict, shown.troubles) == (verdict, number)
