"""Troubles of the status page: found now, announced, or both, each shown once; and the verdicts of the tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.mail.episodes import Episode
from dedp_assets.graph.observe.alerting import ALERTS, judged
from dedp_assets.graph.observe.observing import Observation
from dedp_assets.laptop.status_page.model import Affected, ShownTrouble, TableRow
from dedp_assets.laptop.status_page.troubles import with_episodes, with_verdict
from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.measuring.troubles import Trouble
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
REFUSED = Trouble(kind="refused", table="silver/x", partition="2", reason="new reason", source="platform")


def announced(*alerts):
    """Open episodes of alerts."""
    return [Episode(id=str(n), number=1, alert=alert, since=SINCE) for n, alert in enumerate(alerts)]


def test_a_trouble_that_is_found_and_announced_is_shown_once_with_its_beginning():
    """The text that was found now, the severity that is worse, the time of the alert."""
    old = replace(REFUSED, severity="critical", reason="old reason")
    (shown,) = with_episodes(Observation((REFUSED,)), announced(old))
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
    troubles = judged(figures).troubles
    shown = with_episodes(Observation(troubles), announced(*troubles))
    assert {each.key for each in shown} == {each.key for each in troubles}
    assert len(shown) == len(troubles)
    assert all(each.since == SINCE for each in shown)


def test_an_alert_of_code_stands_until_code_clears_it():
    """With all that it says, and under its own name."""
    told = Trouble(kind="incomplete", table="silver/x", partition="2", figure="83 %", limit="95 %", reason="s7 lacks")
    (shown,) = with_episodes(Observation(judged([LAG]).troubles), announced(told))[1:]
    assert shown == replace(told, since=SINCE)


@pytest.mark.parametrize(
    ("seen", "lasts"),
    [
        (Observation(()), False),
        (Observation((), unjudged=frozenset({"silver/x"})), True),
        (Observation((), undecided=frozenset({REFUSED.key})), True),
        (Observation((), unread=("Dagster's run history cannot be read: gone",)), True),
    ],
    ids=["looked at", "its table is unjudged", "its figure is unknown", "something is unread"],
)
def test_an_announced_trouble_is_over_only_if_somebody_looked(seen, lasts):
    """A mended partition is green before the next round of the alerts; what nobody could look at is not."""
    assert bool(with_episodes(seen, announced(REFUSED))) == lasts


def test_an_announced_lag_lasts_where_nobody_asks_the_broker():
    """A command has the last samples of positions only."""
    lag = Trouble(kind="lag", table="bronze/x", source="platform")
    assert [each.kind for each in with_episodes(Observation(()), announced(lag))] == ["lag"]


@pytest.mark.parametrize(
    ("troubles", "verdict", "number"),
    [
        ([], "ok", 0),
        ([ShownTrouble(kind="missing", table="a", severity="info")], "ok", 0),
        ([ShownTrouble(kind="late", table="a"), ShownTrouble(kind="x", table="a", severity="critical")], "critical", 2),
        ([ShownTrouble(kind="late", table="b", affected=Affected((), ("a",)))], "affected", 0),
        ([ShownTrouble(kind="late", table="b", severity="info", affected=Affected(("a",)))], "ok", 0),
    ],
)
def test_a_table_has_the_verdict_of_its_worst_trouble(troubles, verdict, number):
    """Without one of its own it may be affected by one upstream; what is under way counts for nothing."""
    shown = with_verdict(TableRow(name="a"), troubles)
    assert (shown.verdict, shown.troubles) == (verdict, number)
    unknown = with_verdict(TableRow(name="a"), troubles, ["a"])
    assert unknown.verdict == ("unknown" if verdict == "ok" else verdict)
