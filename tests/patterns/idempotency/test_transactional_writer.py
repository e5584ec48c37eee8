"""Transactional Writer: rows of Spark into PostgreSQL, and groups of Delta tables."""

from __future__ import annotations

import gc
import os
import signal
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context

import pytest

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, groups
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.idempotency.transactional_writer import (
    DatabaseTarget,
    RowSet,
    TableRows,
    publish_group,
    read_group,
    write_transaction,
)
from dedp_assets.patterns.ingestion.compactor import vacuum
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.two_runs import two_runs

SPECS = [
    TableSpec(f"gold/{name}", {"day": Column("STRING"), "n": Column("BIGINT")}, partition_by=("day",))
    for name in ("sites", "pages")
]
DEVICES = """
    CREATE TABLE devices (
        id bigint PRIMARY KEY, type varchar(6), at timestamptz, local timestamp, price numeric(9, 2), ratio float8,
        raw bytea, tags jsonb, day date, ok boolean)
"""


@pytest.mark.both
def test_values_arrive_as_they_are(spark, database):
    """Of every type, NULL and odd ones among them; of two files the second is too long for a column: none is there."""
    with database.connect() as connection:
        connection.execute(DEVICES)
        connection.execute("CREATE TABLE releases (id bigint PRIMARY KEY)")
    rows = spark.sql(
        """
        SELECT 1L AS id, 'a\\t\\n' AS type, TIMESTAMP '2026-01-05 23:30:00.000001+02:00' AS at,
            TIMESTAMP_NTZ '2026-01-05 23:30:00' AS local, 12.30BD AS price, DOUBLE('NaN') AS ratio, X'00FF5C' AS raw,
            named_struct('x', array('"', NULL), 'y', NULL) AS tags, DATE '2026-01-05' AS day, true AS ok
        UNION ALL SELECT 2L, '', NULL, NULL, NULL, DOUBLE('-Infinity'), X'', NULL, NULL, NULL
        """
    )
    releases = RowSet("public.releases", spark.range(3), keys=["id"])
    devices = RowSet("public.devices", rows, keys=["id"])
    into = DatabaseTarget("devices", database.connect, a_run(sequence=1))
    long = RowSet("public.devices", rows.selectExpr("id", "repeat('x', 7) AS type"), keys=["id"])
    with pytest.raises(ContractError, match=r"public\.devices: column type: value too long") as raised:
        write_transaction([releases, long], into)
    assert "xxx" not in str(raised.value)
    with database.connect() as connection:
        assert connection.execute("SELECT count(*) FROM releases").fetchone() == (0,)
    written = write_transaction([releases, devices], into)
    assert (written.figures["public.devices inserted"], written.changed) == (2, True)
    query = (
        "SELECT id, type, at AT TIME ZONE 'UTC' = '2026-01-05 21:30:00.000001', local::text, price::text, ratio::text, "
        "encode(raw, 'hex'), tags::text, day::text, ok FROM devices ORDER BY id"
    )
    with database.connect() as connection:
        assert connection.execute(query).fetchall() == [
            (
                1,
                "a\t\n",
                True,
                "2026-01-05 23:30:00",
                "12.30",
                "NaN",
                "00ff5c",
                '{"x": ["\\"", null]}',
                "2026-01-05",
                True,
            ),
            (2, "", None, None, None, "-Infinity", "", None, None, None),
        ]
    again = write_transaction([releases, devices], into)
    assert (again.applied, again.reason) == (False, "version 1 was written before: nothing to do")
    with pytest.raises(ConfigError, match="their upstream version"):
        write_transaction([releases], replace(into, run=a_run()))


def test_a_part_of_a_table_is_emptied_only_if_somebody_says_so(spark, database):
    """No rows for a partition are refused, and the other table's rows with them."""
    with database.connect() as connection:
        connection.execute("CREATE TABLE days (id int PRIMARY KEY, day text)")
        connection.execute("CREATE TABLE others (id int PRIMARY KEY)")
        connection.execute("INSERT INTO days VALUES (1, 'mon'), (2, 'tue')")
    nothing = RowSet("public.days", spark.sql("SELECT 1 AS id, 'mon' AS day LIMIT 0"), ["id"], {"day": "mon"})
    others = RowSet("public.others", spark.sql("SELECT 7 AS id"), ["id"])
    into = DatabaseTarget("days", database.connect, a_run(sequence=1))

    def held():
        with database.connect() as connection:
            return [connection.execute(f"SELECT id FROM {name} ORDER BY id").fetchall() for name in ("days", "others")]

    with pytest.raises(AuditFailed, match=r"public\.days: nothing published\. input_is_not_empty"):
        write_transaction([others, nothing], into)
    assert held() == [[(1,), (2,)], []]
    write_transaction([others, replace(nothing, allow_empty=True)], into)
    assert held() == [[(2,)], [(7,)]]


def test_a_task_that_dies_shows_half_of_plain_files_and_nothing_of_a_table(spark, make_table, tmp_path):
    """Files of JSON are read as they come; a table's wait for its log, and what died lies beside it till a vacuum."""
    # The last of 16 tasks dies: on 4 cores it begins when others have written.
    table, fixed = make_table(SPECS[0]), spark.range(0, 16, 1, 16).selectExpr("'mon' AS day", "id AS n")
    table.overwrite(fixed.filter("n = 0"), partition={"day": "mon"}, provenance=a_run(table.name))
    dying = fixed.selectExpr("day", "if(n = 15, CAST(raise_error('the node is gone') AS BIGINT), n) AS n")
    plain = dying.write.option("mapreduce.fileoutputcommitter.algorithm.version", "2")
    with pytest.raises(SPARK_ERRORS, match="the node is gone"):
        plain.json(str(tmp_path / "plain"))
    assert 0 < spark.read.json(str(tmp_path / "plain")).count() < 16
    again, before = a_run(table.name, run_id="run-2", replay=True), set(table.location.glob("staged-*"))
    with pytest.raises(SPARK_ERRORS, match="the node is gone"):
        table.overwrite(dying, partition={"day": "mon"}, provenance=again)
    gc.collect()
    (left,) = set(table.location.glob("staged-*")) - before
    assert [row["n"] for row in read_back(table)] == [0]
    table.overwrite(fixed, partition={"day": "mon"}, provenance=again)
    assert sorted(row["n"] for row in read_back(table)) == [*range(16)]
    newest = table.ledger.commit(table.ledger.version()).timestamp
    vacuum(table.target(a_run(table.name)), retention_hours=7 * 24, now=newest + timedelta(days=8))
    assert not [*left.rglob("*")]
    assert sorted(row["n"] for row in read_back(table)) == [*range(16)]


@pytest.fixture
def group(spark, make_table):
    """``group(3, day="mon")``: publishes as many to both tables, ``n`` rows of 0 to 2 each."""
    tables = [make_table(spec) for spec in SPECS]

    def publish(n, day="mon", sequence=None, audits=(), second=None):
        return publish_group(sets_of(spark, tables, n, day, audits, second, sequence=sequence))

    publish.tables = tables
    return publish


def sets_of(spark, tables, n, day="mon", audits=(), second=None, *, sequence=None):
    counts = (n, n if second is None else second)
    frames = [spark.range(count).selectExpr(f"'{day}' AS day", "id AS n") for count in counts]
    into = [table.target(run_of(sequence or n), partition={"day": day}, audits=audits) for table in tables]
    return [*map(TableRows, frames, into)]


def run_of(sequence):
    return a_run("gold/sites", run_id=f"run-{sequence}", sequence=sequence, inputs={"silver": sequence})


def held(tables):
    return [len(read_back(table)) for table in tables]


def visible(tables):
    return [len(rows.collect()) for rows in read_group(tables).values()]


@pytest.mark.both
def test_a_group_is_published_whole_or_not_at_all(spark, group):
    """A retry changes nothing; a table that is refused, and a stale run, keep the other table from it."""
    tables = group.tables
    for table in tables:
        table.ensure()
    with pytest.raises(NotReady):
        read_group(tables)
    first = group(2)
    assert (first.table, first.changed, [each.table for each in first.beside]) == ("gold/sites", True, ["gold/pages"])
    assert held(tables) == visible(tables) == [2, 2]
    retried = group(2)
    assert (retried.applied, retried.beside[0].applied) == (False, False)
    group(1, day="tue")
    most = Audit(name="not_many", of="written", fail_above=3)
    with pytest.raises(AuditFailed, match="gold/pages"):
        group(3, audits=[most], second=4)
    with pytest.raises(Conflict, match="is stale"):
        group(5, sequence=1)
    assert held(tables) == visible(tables) == [3, 3]
    stages = [name for table in tables for name in table.store.list() if name.startswith("staged-")]
    referred = {path["path"].split("/")[0] for table in tables for path in table.ledger.state().files()}
    assert len(set(stages) - referred) == 1  # the refused one, to be looked at


def test_a_group_takes_whole_partitions_only(spark, make_table):
    """What a crash leaves is published without Spark, which could not compare finer partitions."""
    columns = {**SPECS[0].columns, "x": Column("INT")}
    table = make_table(replace(SPECS[0], columns=columns, partition_by=("day", "n")))
    into = table.target(run_of(1), partition={"day": "mon"})
    rows = TableRows(spark.sql("SELECT 'mon' AS day, 1L AS n, 1 AS x"), into)
    with pytest.raises(ConfigError, match="own whole partitions"):
        publish_group([rows])
    assert [name for name in table.store.list() if name.startswith("staged-")] == []


def publish_and_die(locations, note, point):
    """Publish what is staged, in a process without Spark that kills itself at a point."""
    tables = [Table(spec, location, None) for spec, location in zip(SPECS, locations, strict=True)]
    write, commit = groups.TableGroup._write, stage_commit.commit_files

    def writing(self, number, kind, content):
        write(self, number, kind, content)
        if f"after {kind}" == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def committing(state, stage, *more, **options):
        name = stage.store.above().name
        if f"before {name}" == point:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(state, stage, *more, **options)
        if f"after {name}" == point:
            os.kill(os.getpid(), signal.SIGKILL)

    groups.TableGroup._write, stage_commit.commit_files = writing, committing
    group = groups.group_of(tables, {})
    group.publish_all("mon", note, is_new=lambda: True)


def test_a_killed_group_rolls_forward_and_its_readers_see_no_mix(spark, group):
    """Killed behind each step: who reads the group sees the old rows or the new ones, the next run ends what began."""
    tables = group.tables
    group(1)
    points = {
        "after .intent": ([1, 1], [1, 1]),
        "before pages": ([2, 2], [2, 2]),
        "after pages": ([3, 4], [3, 3]),
        "before sites": ([4, 5], [4, 4]),
        "after sites": ([6, 6], [5, 5]),
        "after .outcome": ([7, 7], [7, 7]),
    }
    locations = [str(table.location) for table in tables]
    for n, (point, (plain, whole)) in enumerate(points.items(), start=2):
        sets = sets_of(spark, tables, n)
        staged = [s.into.stage(s.rows) for s in reversed(sets)]
        process = get_context("spawn").Process(
            target=publish_and_die, args=(locations, {write.table.name: write.note() for write in staged}, point)
        )
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, point
        assert held(tables) == plain, point
        assert visible(tables) == whole, point
        del staged
        groups.group_of(tables, {}).go_on()
        assert held(tables) == visible(tables) == [n, n], point
        retried = group(n)
        assert (retried.applied, retried.beside[0].applied) == (False, False)


@known_calls
def calls_that_work(known):
    grouped, rows = [known.table(f"gold/group_{name}", "id INT") for name in "ab"], known.frame("id INT", (1,))
    sets = [TableRows(rows, each.target(known.run)) for each in grouped]
    publish_group(sets)
    days = known.frame("id INT, day STRING", (1, "2026-01-05"))
    database = DatabaseTarget("users", known.begin, known.run)
    return {
        "publish_group": {"sets": sets},
        "read_group": {"tables": grouped},
        "write_transaction": {"sets": [RowSet("public.users", days, keys=["id"])], "into": database},
    }


@two_runs(under_one_lock=True)
def grouped_at_once(world):
    columns = "n BIGINT, day STRING"
    tables = [world.table(name, columns, by=["day"]) for name in ("sites", "pages")]

    def write(w, name, rows, day):
        frame = w.spark.range(rows).selectExpr("id AS n", f"'{day}' AS day")
        publish_group([TableRows(frame, w.into(table.name, name, day)) for table in tables])

    write(world, "base", 1, "mon")
    assert all(rows.count() == 1 for rows in read_group(tables).values())
    yield lambda w: write(w, "1", 2, "mon")
    yield lambda w: write(w, "2", 3, "mon")
