"""Settings of one statement: nobody else sees them, and the caller's session stays as it was."""

from __future__ import annotations

import atexit
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, Table
from dedp_assets.patterns.delta.commit.sessions import private
from dedp_assets.patterns.delta.maintenance.compaction import rewrite, small_files
from tests.helpers import EVENTS, a_run, read_back

pytestmark = pytest.mark.spark
DAY = {"event_date": "2026-01-05"}
WRITE = "spark.databricks.delta.write"
NOTE = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.mark.both
def test_settings_are_the_statements_own(spark, created_events):
    """A private session sees the caller's settings and views, the caller sees none of its, and ends with the block."""
    location = created_events.location
    for way in ("read", "write"):  # Delta sets both in a session that meets its first table
        spark.conf.set(f"spark.sql.parquet.fieldId.{way}.enabled", "true")
    before = spark.conf.getAll
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    spark.range(3).createOrReplaceTempView("three_of_the_caller")
    try:
        with private(spark, {NOTE: "ours"}) as own:
            assert own.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
            assert own.sql("SELECT count(*) AS n FROM three_of_the_caller").collect()[0]["n"] == 3
            assert spark.conf.get(NOTE, None) is None
            own.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('theirs' = 'x')").collect()
            own.range(1).createOrReplaceTempView("one_of_ours")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before["spark.sql.session.timeZone"])
    assert DeltaTable(location).history(1)[0]["userMetadata"] == "ours"
    assert spark.conf.getAll == before
    assert not spark.catalog.tableExists("one_of_ours")
    assert spark.sql("SELECT 1 AS x").collect()[0]["x"] == 1, "the caller's session lives on"


@pytest.mark.both
def test_a_failed_statement_ends_its_session(spark, monkeypatch):
    """The error of a statement comes through, and nothing of its session is kept for the end of the process."""
    kept = []
    monkeypatch.setattr(atexit, "unregister", kept.append)
    with pytest.raises(Exception, match="no_such_table"), private(spark, {}) as own:
        own.sql("SELECT * FROM no_such_table").collect()
    if hasattr(spark, "cloneSession"):
        assert own.is_stopped
        assert not spark.is_stopped
        assert len(kept) == 1
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.both
def test_threads_do_not_share_a_private_session(spark):
    """Six statements at once, each with the setting that it was given."""

    def told(number: int) -> str:
        with private(spark, {NOTE: str(number)}) as own:
            own.range(10).count()
            return own.conf.get(NOTE)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(told, range(6))) == [str(n) for n in range(6)]
    assert spark.conf.get(NOTE, None) is None


@pytest.mark.both
def test_what_the_caller_set_for_its_own_commits_stays_with_the_caller(spark):
    """A transaction or note that the caller set for commits of its own is not that of ours, and is there afterwards."""
    mine = {NOTE: "theirs", f"{WRITE}.txnAppId": "theirs", f"{WRITE}.txnVersion": "7"}
    for key, value in mine.items():
        spark.conf.set(key, value)
    try:
        with private(spark, {NOTE: "ours"}) as own:
            assert [own.conf.get(key, None) for key in mine] == ["ours", None, None]
        assert {key: spark.conf.get(key) for key in mine} == mine
    finally:
        for key in mine:
            spark.conf.unset(key)


@pytest.fixture
def tables(make_table):
    """``tables("a")``: an empty table of :data:`EVENTS` under another name."""

    def made(name: str) -> Table:
        table = make_table(replace(EVENTS, name=f"silver/{name}"))
        table.ensure()
        return table

    return made


def overwrite(table, rows):
    """Twice, one row more each time."""
    for n in (1, 2):
        table.overwrite(rows(n), partition=DAY, provenance=a_run(table.name, sequence=n))
    return [0, 1]


def append(table, rows):
    """Twice two rows."""
    for n in (0, 1):
        table.append(rows(2, start=10 * n), provenance=a_run(table.name, sequence=n + 1))
    return [0, 1, 10, 11]


def merge(table, rows):
    """Twice, one new row each."""
    for n in (1, 2):
        table.merge(rows(n), Merge(["id"], [Insert()]), provenance=a_run(table.name, sequence=n))
    return [0, 1]


def merge_by_delta(table, rows):
    """The same by Delta's own statement, which takes its transaction from settings."""
    spec = replace(table.spec, properties={"delta.enableChangeDataFeed": "true"})
    return merge(Table(spec, table.location, table.session), rows)


@pytest.mark.promise("threads-of-one-session-do")
@pytest.mark.both
def test_threads_of_one_session_do_not_meet(spark, tables, event_rows):
    """Six threads, each with a table of its own: nothing is lost, every ledger holds its own records only."""
    own = {act: tables(act.__name__) for act in (overwrite, append, merge, merge_by_delta)}
    foreign, before, done = [tables("foreign"), tables("stranger")], settings_of(spark), Event()

    def write_as_others_do(table: Table) -> list[int]:
        written: list[int] = []
        while len(written) < 2 or not (done.is_set() or len(written) == 8):
            event_rows(1, start=len(written)).write.format("delta").mode("append").save(str(table.location))
            written.append(len(written))
        return written

    with ThreadPoolExecutor(6) as threads:
        strangers = {table: threads.submit(write_as_others_do, table) for table in foreign}
        acts = {act: threads.submit(act, table, event_rows) for act, table in own.items()}
        wait(acts.values())
        done.set()
    for act, table in own.items():
        assert ids(table) == acts[act].result(), table.name
        records = [commit.record for commit in table.ledger.newest_first() if commit.record]
        assert [record.asset for record in records] == [table.name] * 2
    for table, written in strangers.items():
        assert ids(table) == written.result(), table.name
        assert {commit.get("userMetadata") for commit in DeltaTable(table.location).history()} == {None}
    assert settings_of(spark) == before


def test_maintenance_leaves_the_session_as_it_was(spark, tables, event_rows):
    """A restore and a compaction, each with a record of its own and none for the caller's next commit."""
    table, before = tables("kept"), settings_of(spark)
    first, _ = (
        table.append(event_rows(1, start=n).coalesce(1), provenance=a_run(table.name, sequence=n)) for n in (1, 2)
    )
    state = table.ledger.state()
    run = a_run(table.name, sequence=3)
    assert rewrite(
        table, state, small_files(state, 10**6), provenance=run, small_bytes=10**6, target_bytes=10**6
    ).applied
    table.restore(first.version, provenance=run)
    event_rows(1, start=5).write.format("delta").mode("append").save(str(table.location))
    assert ids(table) == [1, 5]
    assert [commit.record is not None for commit in table.ledger.newest_first()][:2] == [False, True]
    assert settings_of(spark) == before


def ids(table: Table) -> list[int]:
    """What an independent reader finds."""
    return [row["id"] for row in sorted(read_back(table), key=lambda row: row["id"])]


def settings_of(session: Any) -> dict[str, str]:
    """All settings but the one that Delta itself keeps about a session's commits."""
    return {k: v for k, v in session.conf.getAll.items() if k != "spark.databricks.delta.lastCommitVersionInSession"}


FOREIGN = (
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.maxConcurrentOutputFileWriters",
    "spark.sql.adaptive.optimizer.excludedRules",
)
"""What the engine's profile sets and a session from elsewhere lacks."""


@pytest.fixture
def foreign(spark):
    """A session that was not configured by this project."""
    with private(spark, {}) as session:
        for key in FOREIGN:
            session.conf.unset(key)
        yield session


@pytest.mark.both
def test_timestamps_written_on_a_session_of_others_are_right(foreign, tmp_path):
    """They lack statistics at worst: every reader reads them, they compact, and the session stays as it was."""
    spec = TableSpec("silver/clock", {"id": Column("INT"), "at": Column("TIMESTAMP")})
    table, before = Table(spec, tmp_path / "clock", foreign), settings_of(foreign)
    rows = foreign.sql(
        "SELECT * FROM VALUES (1, TIMESTAMP'1000-01-01 00:00:00'), (2, TIMESTAMP'2026-01-05 12:00:00.123456'), "
        "(3, TIMESTAMP'9999-12-31 23:59:59.999999'), (4, NULL) AS t(id, at)"
    )
    for n in (1, 2):
        table.append(rows.coalesce(1), provenance=a_run(table.name, sequence=n))
    assert settings_of(foreign) == before
    expected = sorted((str(row["id"]), str(row["at"])) for row in rows.selectExpr("id", "CAST(at AS STRING)").collect())
    shown = table.read().selectExpr("id", "CAST(at AS STRING)").collect()
    assert sorted((str(row["id"]), str(row["at"])) for row in shown) == sorted(expected * 2)
    assert table.read().filter("at > TIMESTAMP'2026-01-05 12:00:00.123455'").count() == 4
    state = table.ledger.state()
    files = small_files(state, 10**6)
    rewrite(table, state, files, provenance=a_run(table.name), small_bytes=10**6, target_bytes=10**6)
    shown = table.read().selectExpr("id", "CAST(at AS STRING)").collect()
    assert sorted((str(row["id"]), str(row["at"])) for row in shown) == sorted(expected * 2)
    assert settings_of(foreign) == before


@pytest.mark.promise("what-spark-leaves-out-is")
@pytest.mark.both
def test_what_spark_leaves_out_is_counted_all_the_same(foreign, spark, tmp_path):
    """Where nothing can come of the rows read, Spark drops the place where they were counted, not their number."""
    for session in (foreign, spark):
        spec = TableSpec("silver/numbers", {"id": Column("BIGINT"), "n": Column("BIGINT")})
        table = Table(spec, tmp_path / str(session is spark), session)
        nobody = session.range(10).filter("id * 0 + hash(id) = 1").groupBy("id").agg(F.count("*").alias("m"))
        ways = {
            "by its text": lambda rows: rows.filter("false").selectExpr("id", "id AS n"),
            "by a limit": lambda rows: rows.limit(0).selectExpr("id", "id AS n"),
            "while it runs": lambda rows, nobody=nobody: (
                rows.groupBy("id")
                .agg(F.count("*").alias("n"))
                .hint("merge")
                .join(nobody.hint("merge"), "id")
                .select("id", "n")
            ),
            "not at all": lambda rows: rows.selectExpr("id", "id AS n"),
        }
        found = {}
        for way, step in ways.items():
            rows, seen = tally(session.range(7), identity=["id"], measures={"largest": "max(id)"})
            staged = table.stage(
                step(rows), provenance=a_run(table.name), rows_read=RowsRead(tally=seen, represented="read")
            )
            found[way] = (staged.record.rows["read"], staged.record.figures["largest"])
            assert not [finding.name for finding in staged.findings if not finding.passed], way
            staged.stage.discard()
        assert found == dict.fromkeys(ways, (7, 6))
