"""Green only if everything was read: whatever fails while the state is collected, nobody says that all is well."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dedp_assets.graph.checks import causes
from dedp_assets.graph.declare import Expects, Follow, Reads, same
from dedp_assets.graph.mail.alert_outbox import AlertOutbox
from dedp_assets.graph.observe import rounds
from dedp_assets.graph.observe.observing import Observer
from dedp_assets.graph.observe.rounds import Rounds
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.reconcile.arrivals import Arrivals
from dedp_assets.graph.reconcile.edges import Edge
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.reconcile.watching import TableWatch
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.resources.lake import Lake, lake_of
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.laptop.status_page.history import History
from dedp_assets.laptop.status_page.making import Maker
from dedp_assets.laptop.status_page.model import as_json, summary
from dedp_assets.laptop.status_page.render import render
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.delta import ActivityLog, Ledger, LostFileWatch
from dedp_assets.project import Project
from tests.hand_written import commit_day, daily, declare
from tests.helpers import NOW

X, S = "bronze/x", "silver/s"
DAY = "2026-01-19"


def tables():
    """Two tables by day, of which one follows the other; both expect rows, and new ones."""
    follower, source = declare(S, Follow()), declare(X, Follow())
    expects = Expects(every_minutes=60 * 24 * 60)
    about = replace(follower.about, fresh_hours=48, expects=expects)
    source = replace(source, reads=Reads({daily("bronze/raw"): same("day")}))
    return [replace(source, about=about), replace(follower, about=about)]


TABLES = tables()


@pytest.fixture
def maker(tmp_path, monkeypatch):
    """The maker of a page of a home in which nothing is wrong."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(Project, "declarations", lambda *_: (TABLES, []))
    monkeypatch.setattr(Project, "definitions", lambda _: dg.Definitions())
    lake = lake_of(settings())
    for day in ("2026-01-18", DAY):
        commit_day(lake, X, day)
        commit_day(lake, S, day, {X: lake.ledger(X).version()}, lake.ledger(X).version())
    return lambda: Maker(settings(), thorough=True)


def test_a_home_in_which_nothing_is_wrong_is_green(maker):
    """Otherwise the next test proves nothing."""
    page = maker().page(NOW)
    assert (page.verdict, page.notices, page.open) == ("ok", (), ())
    assert summary(page) == "No trouble: 2 tables with data, none needs anybody."


SOURCES = [
    (Lake, "names"), (Ledger, "state"), (Ledger, "version"), (TableWatch, "poll"), (TableWatch, "applied"),
    (Edge, "poll"), (Reconciler, "reconcile"), (Refusals, "by_key"), (LostFileWatch, "poll"), (ActivityLog, "poll"),
    (Rounds, "judge"), (History, "read"), (AlertOutbox, "open_episodes"), (Project, "declarations"),
    (Project, "definitions"), (causes, "judge_recency"), (rounds, "detect_interruption"), (Journal, "samples"),
]  # fmt: skip
CANARY = "c4n4ry7"
ERRORS = st.sampled_from([
    OSError(5, "Input/output error"), ContractError("the log is damaged"), NotReady("not there"), KeyError("day"),
    NotReady(f"postgresql://ada:{CANARY}@db refused"), RuntimeError(f"token={CANARY} expired"),
    UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), RecursionError(), AssertionError(""),
    ConnectionError("refused"), MemoryError(), ValueError("\ud800"),
])  # fmt: skip


@given(st.sampled_from(SOURCES), ERRORS)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_cannot_be_read_the_page_is_not_green(maker, monkeypatch, source, error):
    """And it is made all the same: for a browser, for programs and for a terminal, and tells no secret."""
    owner, name = source

    def failing(*_, **__):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, failing)
        page = maker().page(NOW)
        assert page.verdict != "ok", source
        assert page.notices or page.open
        assert "No trouble: " not in summary(page)
        assert as_json(page)["verdict"] == page.verdict
        assert 'class="summary v-ok"' not in render(page)
        assert CANARY not in f"{page} {as_json(page)}"
    assert maker().page(NOW).verdict == "ok"


def refuse(lake):
    commit_day(lake, X, "2026-01-17")
    note = Refusal((str(lake.ledger(X).version()),), TABLES[1].code_version, "run-1", "3 rows of 40 are broken")
    Refusals(lake.refused(S)).note("2026-01-17", note)


def lose(lake):
    file = next(Path(lake.root, S).glob("*/*.parquet"))
    file.unlink()


def shorten(lake):
    file = next(Path(lake.root, S).glob("*/*.parquet"))
    os.truncate(file, 7)


def damage(lake):
    max(Path(lake.root, X, "_delta_log").glob("*.json")).write_text("{")


TROUBLES = {
    "a refused partition": (refuse, "refused", S),
    "a deleted data file": (lose, "lost files", S),
    "a data file that is cut short": (shorten, "lost files", S),
    "a damaged log": (damage, "unreadable", X),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_alerts_page_and_programs_know_of_the_same_trouble(maker, name):
    """By one collector: what is announced is what is shown, and both end with the trouble."""
    lake = lake_of(settings())
    made, observer = maker(), Observer(TABLES)
    cause, kind, table = TROUBLES[name]
    cause(lake)
    journal = Journal(folder=str(settings().home / "measurements"))
    seen = observer.observe(lake, Landing(root=str(settings().landing)), journal, NOW, positions=tuple)
    page = made.page(NOW)
    assert {(each.kind, each.table) for each in seen.announced} == {(kind, table)}
    assert {each.key for each in page.open} == {each.key for each in seen.announced}
    assert page.verdict != "ok"
    assert page.unannounced == len(page.open)


def test_a_table_that_nothing_declares_is_not_called_right(maker):
    """It is there, and nobody knows what it should be like; the others are as they were."""
    lake = lake_of(settings())
    commit_day(lake, "gold/removed", DAY)
    page = maker().page(NOW)
    assert {each.name: each.verdict for each in page.tables} == {X: "ok", S: "ok", "gold/removed": "unknown"}
    assert "nothing is known of gold/removed" in summary(page)
    assert page.verdict == "ok", "nothing of the project is unknown"


def test_a_page_of_yesterday_is_not_the_page_of_today(maker):
    """What was green becomes stale without a commit."""
    made = maker()
    assert made.page(NOW).verdict == "ok"
    later = made.page(NOW + timedelta(days=3))
    assert {each.kind for each in later.open} >= {"stale"}


def test_every_source_that_is_tried_is_asked(maker, monkeypatch):
    """A source that no page reads would make the test above pass for nothing."""
    asked = set()
    for owner, name in SOURCES:
        plain = getattr(owner, name)

        def noted(*arguments, owner=owner, name=name, plain=plain, **options):
            asked.add((owner, name))
            return plain(*arguments, **options)

        monkeypatch.setattr(owner, name, noted)
    maker().page(NOW)
    assert {*SOURCES} - asked == set()
    assert Arrivals not in {owner for owner, _ in SOURCES}, "no table of this test lands"
