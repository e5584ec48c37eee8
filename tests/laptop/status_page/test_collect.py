"""Collector of the status page over logs that are written by hand: no Spark, no Dagster storage."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from dedp_assets.graph.declare import Follow, Reads, same
from dedp_assets.graph.mail.episodes import Episode
from dedp_assets.graph.observe.rounds import RoundResult, Rounds
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.laptop.status_page.collect import Collector, Observed, catalogue_of
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.patterns.delta import Ledger
from tests.hand_written import commit_day, daily, declare
from tests.helpers import NOW, a_record, write_log

X, S = "bronze/x", "silver/s"
GOOD, OTHER, LAST = "2026-01-17", "2026-01-18", "2026-01-19"


@pytest.fixture
def lake(tmp_path):
    return Lake(root=str(tmp_path / "lake"), engine=SparkEngine())


@pytest.fixture
def collector(lake, tmp_path):
    """A table by day that follows another one, which nothing declares."""
    return made(lake, tmp_path, [declare(S, Follow())])


def made(lake, tmp_path, tables):
    """A collector of tables, with a landing zone and a journal of its own."""
    landing, journal = Landing(root=str(tmp_path / "landing")), Journal(folder=str(tmp_path / "measurements"))
    return Collector(lake, landing, journal, tables)


def kinds(page):
    """Severity, kind, table and partition of each trouble."""
    return [(each.severity, each.kind, each.table, each.partition) for each in page.troubles]


def states(page, name=S):
    return {cell.key: cell.state for cell in page.table(name).strip}


def follow(lake, *days):
    """The upstream days, and the same days downstream."""
    for day in days:
        commit_day(lake, X, day)
        commit_day(lake, S, day, {X: lake.ledger(X).version()}, lake.ledger(X).version())


def test_an_empty_lake_is_a_page_of_tables_without_data(collector, tmp_path):
    """Nothing is made by looking."""
    page = collector.page(NOW)
    assert (page.troubles, [(table.name, table.verdict) for table in page.tables]) == ((), [(S, "empty")])
    assert [*tmp_path.iterdir()] == []


def test_current_partitions_are_no_trouble_and_stand_in_the_strip(lake, collector):
    """With their rows, the days since the first one that nothing was written for included, and today not."""
    follow(lake, GOOD, LAST)
    page = collector.page(NOW)
    table = page.table(S)
    assert page.troubles == ()
    assert states(page) == {GOOD: "ok", OTHER: "empty", LAST: "ok"}
    assert [cell.rows for cell in table.strip] == [1, None, 1]
    assert (table.newest, table.owner, table.upstream) == (LAST, "team:x", (X,))
    assert page.table(X).downstream == (S,)


def test_what_is_missing_behind_and_refused_is_told_with_its_reason(lake, collector):
    """Only the refused day needs somebody; the strip shows all three."""
    follow(lake, GOOD, OTHER)
    commit_day(lake, X, OTHER)
    commit_day(lake, X, LAST)
    commit_day(lake, X, GOOD)
    goal = str(lake.ledger(X).version())
    Refusals(lake.refused(S)).note(GOOD, Refusal((goal,), "1", "run-1", "3 rows of 40 are broken"))
    page = collector.page(NOW)
    assert kinds(page) == [
        ("warning", "refused", S, GOOD),
        ("info", "behind", S, OTHER),
        ("info", "missing", S, LAST),
    ]
    assert states(page) == {GOOD: "refused", OTHER: "late", LAST: "missing"}
    assert page.troubles[0].reason == "3 rows of 40 are broken"
    assert page.troubles[0].since == Refusals(lake.refused(S)).times()[GOOD]
    assert page.table(S).verdict == "warning"


def test_a_damaged_log_is_a_trouble_of_its_table_alone(lake, collector):
    """With the command that names the remedy and what is affected; the other tables are as they were."""
    follow(lake, GOOD)
    commit_day(lake, "gold/other", GOOD)
    broken = Path(lake.root) / X / "_delta_log" / f"{1:020d}.json"
    broken.write_text("HELLO")
    page = collector.page(NOW)
    (trouble,) = page.open
    assert (trouble.severity, trouble.kind, trouble.table, trouble.command) == (
        "critical", "unreadable", X, f"dedp verify {X}",
    )  # fmt: skip
    assert trouble.affected.direct == (S,)
    assert {table.name: table.verdict for table in page.tables} == {
        X: "critical",
        S: "affected",
        "gold/other": "unknown",
    }
    assert (states(page)[GOOD], states(page, X)) == ("ok", {})


def test_alerts_and_measurements_are_on_the_page(lake, collector, monkeypatch):
    """An alert that the measurement confirms is one trouble; a partition's trouble shows in the strip."""
    follow(lake, GOOD)
    alert = Trouble(kind="volume", table=S, partition=GOOD, figure="1 row", source="platform")
    episodes = [Episode(id="1", number=1, alert=alert, since=NOW - timedelta(hours=2))]
    skew = Measurement(
        metric="partition_rows", table=S, partition=GOOD, at=NOW, verdict="fail", value=1.0, unit="rows", at_least=50.0,
    )  # fmt: skip
    monkeypatch.setattr(Rounds, "judge", lambda *_, **__: RoundResult(Measured((skew,)), {}, {}))
    page = collector.page(NOW, Observed(episodes=episodes))
    (trouble,) = page.open
    assert (trouble.kind, trouble.severity, trouble.figure, trouble.limit) == (
        "volume", "critical", "1 row", "at least 50 rows",
    )  # fmt: skip
    assert trouble.since == NOW - timedelta(hours=2)
    assert states(page)[GOOD] == "partial"


def test_a_published_warning_and_an_approval_are_seen_in_the_strip(lake, collector):
    """And a day that was written without rows."""
    for day, verdict in ((GOOD, "warned"), (OTHER, "approved")):
        commit = {"record": a_record(S, {"day": day}, verdict=verdict), "changed": [{"day": day}]}
        write_log(Path(lake.root) / S, {"id": "long", "day": "date"}, ["day"], [commit])
    nothing = {"record": a_record(S, {"day": LAST}), "changed": []}
    write_log(Path(lake.root) / S, {"id": "long", "day": "date"}, ["day"], [nothing])
    page = collector.page(NOW)
    assert states(page) == {GOOD: "partial", OTHER: "partial", LAST: "empty"}
    assert "approval" in page.table(S).strip[1].note


def test_data_older_than_declared_are_stale(lake, tmp_path):
    """Since the time at which the limit was passed, with age and limit as figures."""
    table = declare(S, Follow())
    fresh = replace(table, about=replace(table.about, fresh_hours=26))
    follow(lake, GOOD)
    collector = made(lake, tmp_path, [fresh])
    (trouble,) = collector.page(NOW).open
    # The day ended at midnight of the next one, 60 hours before noon of the 20th.
    assert (trouble.kind, trouble.figure, trouble.limit) == ("stale", "60 h", "at most 26 h")
    assert trouble.since == NOW - timedelta(hours=34)
    commit_day(lake, S, LAST)
    assert collector.page(NOW).open == ()


def test_a_stale_table_names_the_trouble_upstream_of_it(lake, tmp_path):
    """However far upstream; the one that is at the beginning is explained by nothing."""
    plain = declare("gold/g", Follow())
    about = replace(plain.about, fresh_hours=26)
    gold = replace(plain, about=about, reads=Reads({daily("silver/plain"): same("day")}))
    middle = replace(declare("silver/plain", Follow()), reads=Reads({daily(S): same("day")}))
    first = replace(declare(S, Follow()), about=about)
    for name in (S, "silver/plain", "gold/g"):
        commit_day(lake, name, GOOD)
    page = made(lake, tmp_path, [first, middle, gold]).page(NOW)
    assert [(each.table, each.explained_by) for each in page.open] == [(S, ""), ("gold/g", S)]


def test_a_round_without_news_reads_no_commit(lake, collector, monkeypatch):
    """And one with news reads the new ones; a table that was removed and made again is read from its beginning."""
    follow(lake, GOOD)
    first = collector.page(NOW)
    read, plain = [], Ledger.commits

    def counted(self, *, since=-1):
        for commit in plain(self, since=since):
            read.append((self.name, commit.version))
            yield commit

    monkeypatch.setattr(Ledger, "commits", counted)
    assert collector.page(NOW) == first
    assert read == []
    commit_day(lake, X, LAST)
    collector.page(NOW)
    assert read == [(X, 2)]
    shutil.rmtree(Path(lake.root) / X)
    for day in (OTHER, LAST, GOOD):
        commit_day(lake, X, day)
    assert [*states(collector.page(NOW), X)] == [GOOD, OTHER, LAST]
    shutil.rmtree(Path(lake.root) / X)
    assert collector.page(NOW).table(X) is None


def test_cost_and_rows_over_time(lake, collector):
    """Seconds by day; of a table without partitions the rows of its commits."""
    for seconds in (1.5, 2.0):
        record = a_record("gold/plain", {}, cost=Cost(seconds=seconds, bytes_written=100))
        write_log(Path(lake.root) / "gold/plain", {"id": "long"}, [], [{"record": record, "changed": [{}]}])
    page = collector.page(NOW)
    table = page.table("gold/plain")
    assert ([each.value for each in table.seconds], table.strip) == ([3.5], ())
    assert [each.value for each in table.rows] == [1, 1]
    details = collector.details(page, "gold/plain")
    assert [(each.commits, each.seconds, each.bytes_written) for each in details.spending] == [(2, 3.5, 200)]
    assert [each.version for each in details.commits] == [2, 1]
    assert collector.details(page, "gold/unknown") is None


def test_a_foreign_table_and_any_value_of_a_partition_are_shown(lake, collector):
    """Commits without a record, NULL, and values that look like markup."""
    log = [{"changed": [{"day": value}]} for value in ("<script>", None, "a/b%2F")]
    write_log(Path(lake.root) / "gold/strange", {"id": "long", "day": "string"}, ["day"], log)
    page = collector.page(NOW)
    assert states(page, "gold/strange") == {"<script>": "ok", "a/b%2F": "ok"}


def test_a_run_history_that_cannot_be_read_is_a_notice(lake, collector):
    """The logs are held against each other all the same, and the notice is gone once it answers."""
    follow(lake, GOOD)
    commit_day(lake, X, LAST)

    class Away:
        def __getattr__(self, name):
            raise OSError("connection refused\nmore lines")

    page = collector.page(NOW, Observed(instance=Away()))
    assert page.notices == ("Dagster's run history cannot be read: OSError: connection refused",)
    assert page.verdict == "unknown", "what nobody could read is not right"
    assert kinds(page) == [("info", "missing", S, LAST)]
    with dg.DagsterInstance.ephemeral() as instance:
        assert collector.page(NOW, Observed(instance=instance)).notices == ()


def test_a_lake_that_cannot_be_listed_is_a_notice(lake, collector, monkeypatch):
    """As for a disk that is away: the declared tables are shown."""

    def away(*_, **__):
        raise OSError("stale file handle")

    monkeypatch.setattr(Lake, "names", away)
    page = collector.page(NOW)
    assert any("cannot be listed: OSError: stale file handle" in each for each in page.notices)
    assert [table.name for table in page.tables] == [S]


def test_a_damaged_note_of_a_refusal_breaks_nothing(lake, collector):
    """It is as if it was not there."""
    follow(lake, GOOD)
    folder = Path(lake.root) / "_refused" / S
    folder.mkdir(parents=True)
    (folder / "2026-01-17.json").write_text(json.dumps({"x": 1}))
    assert collector.page(NOW).troubles == ()


def test_a_calendar_that_is_far_ahead_of_the_data_shows_the_data(lake, collector):
    """Old data are shown as they are, and not as thirty empty days."""
    follow(lake, "2026-01-05", "2026-01-06")
    page = collector.page(NOW + timedelta(days=200))
    assert [*states(page)] == ["2026-01-05", "2026-01-06"]


def test_the_catalogue_names_owner_readers_and_upstream():
    """Of each declared table."""
    (entry,) = catalogue_of([declare(S, Follow())]).values()
    assert (entry.name, entry.owner, entry.upstream) == (S, "team:x", (X,))
