"""Records of the status page: who is affected, what is shown first, and how times read."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.laptop.status_page.model import (
    Affected,
    CatalogueEntry,
    Page,
    ShownTrouble,
    affected_by,
    age,
    as_json,
    grouped,
    moment,
    worst_first,
)
from tests.helpers import NOW
from tests.laptop.status_page.pages import PAGE

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=3).map(tuple), min_size=1)


def catalogue(reads, used=()):
    """Entries by name: table -> tables that it reads."""
    return {
        name: CatalogueEntry(name, used_by=dict(used).get(name, ""), upstream=tuple(names))
        for name, names in reads.items()
    }


def test_readers_are_direct_and_their_readers_indirect():
    """Each once, also where two ways lead to one table; consumers say which table they read."""
    reads = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"], "x": []}
    graph = catalogue(reads, {"d": "dashboards", "a": "Ada", "x": "nobody here"})
    assert affected_by("a", graph) == Affected(("b", "c"), ("d", "e"), ("Ada (a)", "dashboards (d)"))
    assert affected_by("d", graph) == Affected(("e",), (), ("dashboards (d)",))
    assert affected_by("unknown", graph) == Affected()


@given(GRAPHS, NAMES)
def test_every_table_that_is_reached_is_affected_once(reads, start):
    """Whatever the graph, circles and tables that read themselves included; never the table itself."""
    found = affected_by(start, catalogue(reads)).tables
    reached, todo = set(), [start]
    while todo:
        here = todo.pop()
        more = {name for name, names in reads.items() if here in names} - reached
        reached |= more
        todo += more
    assert len(found) == len({*found})
    assert {*found} == reached - {start}


def test_the_worst_is_first():
    """By severity, then own troubles before explained ones, then by reach, then by age."""
    trouble = ShownTrouble(kind="late", table="a")
    ordered = [
        replace(trouble, severity="critical"),
        replace(trouble, affected=Affected(("b", "c"))),
        replace(trouble, since=NOW - timedelta(days=2)),
        replace(trouble, since=NOW),
        replace(trouble, table="z"),
        replace(trouble, explained_by="b", affected=Affected(("b", "c", "d"))),
        replace(trouble, severity="info"),
    ]
    assert worst_first(reversed(ordered)) == tuple(ordered)


def test_many_partitions_with_one_trouble_are_one_line():
    """Three are listed, more are joined with the earliest beginning; another severity stays apart."""
    days = [f"2026-01-0{day}" for day in range(1, 6)]
    same = [
        ShownTrouble(kind="refused", table="a", partition=day, reason=f"broken {day}", since=NOW - timedelta(hours=n))
        for n, day in enumerate(days)
    ]
    assert grouped(same[:3]) == same[:3]
    other = replace(same[0], severity="critical")
    joined, alone = grouped([*same, other])
    assert alone == other
    assert (joined.partition, joined.reason, joined.since) == (
        "2026-01-01 to 2026-01-05: 5 partitions",
        "2026-01-01: broken 2026-01-01",
        NOW - timedelta(hours=4),
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "less than a minute"),
        (59, "less than a minute"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3 * 3_600 + 1_700, "3 h"),
        (86_400, "1 d"),
        (2 * 86_400 + 4 * 3_600, "2 d 4 h"),
    ],
)
def test_ages_are_short(seconds, words):
    """Minutes, hours, days with hours; a clock that lags gives no negative age."""
    assert age(NOW - timedelta(seconds=seconds), NOW) == words


def test_a_moment_has_its_zone_and_a_date_unless_it_is_of_today():
    """In UTC, whatever zone it came in."""
    local = NOW.astimezone(timezone(timedelta(hours=14)))
    assert moment(local, NOW) == "12:00 UTC"
    assert moment(NOW - timedelta(days=1), NOW) == "2026-01-19 12:00 UTC"


def test_a_page_for_programs_has_a_verdict_and_plain_values():
    """The worst severity that needs somebody; JSON takes all of it."""
    told = json.loads(json.dumps(as_json(PAGE)))
    assert (told["verdict"], told["made_at"], len(told["troubles"])) == (
        "critical",
        NOW.isoformat(),
        len(PAGE.troubles),
    )
    assert told["troubles"][0]["affected"]["direct"] == ["silver/visits"]
    assert as_json(Page(NOW, PAGE.under_way))["verdict"] == "ok"
