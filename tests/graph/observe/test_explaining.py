"""Explanation of alerts: a chain of late tables has one root."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.observe.explaining import explain
from dedp_assets.patterns.core.measuring.troubles import SEVERITIES, Trouble

CHAIN = {"silver/a": ["bronze/a"], "gold/a": ["silver/a"], "gold/b": ["silver/a", "bronze/b"]}
DAY = "2026-01-05"


def late(table, partition="", name="stale"):
    return Trouble(kind=name, table=table, partition=partition, source="platform")


def explanations(alerts, upstream=CHAIN):
    return {(each.table, each.kind): each.explained_by for each in explain(alerts, upstream)}


def test_one_late_source_explains_each_late_table_below_and_names_them():
    """Also over a table in between that is late for the same reason."""
    found = explain([late("gold/a"), late("bronze/a", name="interrupted"), late("silver/a"), late("gold/b")], CHAIN)
    assert {each.table: each.explained_by for each in found} == {
        "bronze/a": "",
        "silver/a": "bronze/a",
        "gold/a": "bronze/a",
        "gold/b": "bronze/a",
    }
    (root,) = [each for each in found if not each.explained_by]
    assert root.reason == "affected: gold/a, gold/b, silver/a"


def test_a_trouble_of_a_tables_own_is_not_explained():
    """A refusal, a wrong volume and a late table whose sources are in time are somebody's own."""
    alerts = [late("bronze/a"), late("silver/a", DAY, "refused"), late("gold/a", name="volume")]
    assert explanations(alerts)["silver/a", "refused"] == ""
    assert explanations(alerts)["gold/a", "volume"] == ""
    assert explanations([late("gold/a"), late("bronze/b")])["gold/a", "stale"] == ""


def test_an_unusual_volume_is_handed_down():
    """Half of the orders at the source are half of them everywhere; of another day, it is somebody's own."""
    alerts = [late("bronze/a", DAY, "volume"), late("gold/a", DAY, "volume"), late("gold/b", "2026-01-06", "volume")]
    found = explanations(alerts)
    assert (found["gold/a", "volume"], found["gold/b", "volume"]) == ("bronze/a", "")


def test_a_refused_partition_explains_the_same_partition_below_alone():
    """An old refusal does not hide that a table gets no rows at all."""
    refused = late("silver/a", DAY, "refused")
    assert explanations([refused, late("gold/a", DAY, "late")])["gold/a", "late"] == "silver/a"
    assert explanations([refused, late("gold/a", "2026-01-06", "late")])["gold/a", "late"] == ""
    assert explanations([refused, late("gold/a")])["gold/a", "stale"] == ""


TABLES = [f"t/{n}" for n in range(6)]
GRAPHS = st.dictionaries(st.sampled_from(TABLES), st.lists(st.sampled_from(TABLES), max_size=3))


@given(upstream=GRAPHS, troubled=st.sets(st.sampled_from(TABLES)))
def test_somebody_hears_of_every_chain(upstream, troubled):
    """In any graph, circles included, an explanation is a table with an alert that is itself sent."""
    found = {each.table: each.explained_by for each in explain(map(late, sorted(troubled)), upstream)}
    assert set(found) == troubled
    for table, root in found.items():
        assert not root or (root != table and found[root] == "")


def test_a_partition_that_is_refused_is_not_late_besides():
    """One cause, one trouble: the refusal is as severe as the deadline that it breaks."""
    refused, own = late("gold/a", DAY, "refused"), replace(late("gold/a", DAY, "late"), severity="critical")
    found = {each.kind: each for each in explain([refused, own, late("gold/a", "2026-01-06", "late")], CHAIN)}
    assert (found["refused"].severity, found["refused"].explained_by, found["refused"].reason) == ("critical", "", "")
    alerts = [each.explained_by for each in explain([refused, own, late("gold/a", "2026-01-06", "late")], CHAIN)]
    assert alerts == ["", "gold/a", ""]


ALERTS = st.lists(
    st.builds(
        Trouble,
        kind=st.sampled_from(["stale", "late", "lag", "interrupted", "refused", "given up", "volume", "uneven"]),
        table=st.sampled_from(TABLES),
        partition=st.sampled_from(["", DAY, "2026-01-06"]),
        severity=st.sampled_from(SEVERITIES),
        source=st.just("platform"),
    ),
    unique_by=lambda alert: alert.key,
    max_size=12,
)


@given(upstream=GRAPHS, alerts=ALERTS)
def test_no_severity_is_lost_behind_a_root(upstream, alerts):
    """In any graph, for troubles of any kind: who hears of a root hears of the worst trouble that waits for it."""
    found = explain(alerts, upstream)
    assert [each.key for each in found] == [each.key for each in alerts]
    for waiting in found:
        roots = [each for each in found if each.table == waiting.explained_by and not each.explained_by]
        assert not waiting.explained_by or max(SEVERITIES.index(each.severity) for each in roots) >= SEVERITIES.index(
            waiting.severity
        )
