"""Parallel Split."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from dedp_assets.patterns.connectors.delivery.csv_folder import Batch, CsvFolder
from dedp_assets.patterns.connectors.landing.deliveries import delivery_at
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import StagedWrite, Table
from dedp_assets.patterns.flow.parallel_split import compare_by_key, write_parallel
from tests.contracts.known_calls import known_calls
from tests.faults.failpoints import dying
from tests.helpers import a_run, read_back
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

DAY = {"day": "2026-01-05"}
SPEC = TableSpec("gold/views", {"page": Column("STRING"), "views": Column("BIGINT"), "day": Column("DATE")}, ("day",))
VIEWS = [("/a", 3), ("/b", 1)]


class Sinks:
    """A table and a folder of CSV files, and rows that note each time somebody computes them."""

    def __init__(self, spark, home):
        self.spark, self.home = spark, home
        self.table, self.folder = Table(SPEC, home / "views", spark), CsvFolder(str(home / "csv"))
        (home / "reads").mkdir()

    def rows(self, views=VIEWS, day=DAY["day"]):
        """Rows of a source of one partition; each scan of it leaves a file."""
        noted = partial(note, str(self.home / "reads"))
        source = self.spark.createDataFrame(views, "page STRING, views BIGINT").coalesce(1)
        return source.mapInArrow(noted, "page STRING, views BIGINT").selectExpr("*", f"DATE '{day}' AS day")

    @property
    def reads(self):
        """How often the source was scanned."""
        return len(list((self.home / "reads").iterdir()))

    def into(self, sequence=1, **fields):
        """The day's partition, for a run that applies an upstream version."""
        return self.table.target(a_run("gold/views", sequence=sequence, **fields), partition=DAY)

    def write(self, views=VIEWS, sequence=1, sink=None, **fields):
        """Write both sinks."""
        return write_parallel(self.rows(views), self.into(sequence, **fields), sink or self.folder)

    @property
    def in_table(self):
        """Page and views of the table, by an independent reader."""
        return [(row["page"], row["views"]) for row in read_back(self.table)] if self.table.ledger.exists() else []

    @property
    def in_folder(self):
        """Page and views of the folder, by an independent reader that believes the marker."""
        place = self.home / "csv" / f"day={DAY['day']}"
        rows = [
            row for name in self.folder.files(DAY) for row in csv.DictReader((place / name).read_text().splitlines())
        ]
        return sorted((row["page"], int(row["views"])) for row in rows)

    @property
    def editions(self):
        """When each file of the folder was written: a rewritten partition has others."""
        place = self.home / "csv" / f"day={DAY['day']}"
        return {each.name: each.stat().st_mtime_ns for each in place.iterdir()}


def note(folder, batches):
    """Leave a file, and the rows as they are."""
    Path(folder, uuid4().hex).touch()
    yield from batches


@pytest.fixture
def sinks(spark, tmp_path):
    """Two empty sinks."""
    return Sinks(spark, tmp_path)


@pytest.mark.both
def test_the_source_is_read_once_for_both_sinks(sinks):
    """And once for each sink without a stage: the scan is counted where it happens, in the engine's tasks."""
    result = sinks.write()
    assert sinks.reads == 1
    assert (sinks.in_table, sinks.in_folder) == (VIEWS, VIEWS)
    assert (result.rows.written, result.figures["sink written"]) == (2, 1)
    plain = sinks.rows()
    plain.write.csv(str(sinks.home / "plain"))
    plain.write.parquet(str(sinks.home / "plain.parquet"))
    assert sinks.reads == 3


def test_nothing_is_left_behind_in_the_engine_or_beside_the_table(sinks, spark):
    """No rows stay in executors' memory, and no stage but the files that the table has taken over."""

    def kept():
        """Names of kept rows of this source: Delta keeps states of tables, other tests' rows may be there."""
        found = [str(rdd.name()) for rdd in spark._jsc.getPersistentRDDs().values()]  # type: ignore[union-attr]
        return [name for name in found if "MapInArrow" in name]

    rows = sinks.rows().cache()
    rows.collect()
    assert kept(), "rows that are kept are found"
    rows.unpersist(blocking=True)
    sinks.write()
    assert not kept()
    stages = {path.name for path in (sinks.home / "views").glob("staged-*")}
    live = {file["path"].partition("/")[0] for file in sinks.table.ledger.state().files()}
    assert stages == live


def test_a_rerun_of_the_batch_changes_neither_sink_and_reads_nothing(sinks):
    """The table has no further version, and no file of the folder is written again."""
    sinks.write()
    version, editions = sinks.table.ledger.version(), sinks.editions
    result = sinks.write(run_id="run-2")
    assert (sinks.table.ledger.version(), sinks.editions, sinks.reads) == (version, editions, 1)
    assert (result.applied, result.figures["sink written"]) == (False, 0)


class Killed(BaseException):
    """The end of the process."""


@pytest.mark.both
def test_a_crash_between_the_sinks_is_completed_by_the_same_batch(sinks, monkeypatch):
    """The sink that has the batch stays as it is, file by file, and the other one takes the same rows."""

    def die(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(StagedWrite, "publish", die)
        with pytest.raises(Killed):
            sinks.write()
    assert (sinks.in_folder, sinks.in_table) == (VIEWS, [])
    editions = sinks.editions
    sinks.write(run_id="run-2")
    assert sinks.in_table == VIEWS
    assert sinks.editions == editions


def test_a_sink_that_failed_is_completed_alone_and_without_the_source(sinks):
    """The table was written all the same; the retry leaves it at its version and reads the folder's rows from it."""
    with dying("before", below="csv"), pytest.raises(ContractError, match=r"csv day=2026-01-05 failed with .*killed"):
        sinks.write()
    assert (sinks.in_table, sinks.in_folder, sinks.reads) == (VIEWS, [], 1)
    version = sinks.table.ledger.version()
    sinks.write(run_id="run-2")
    assert (sinks.in_folder, sinks.table.ledger.version(), sinks.reads) == (VIEWS, version, 1)


def test_a_table_that_failed_is_completed_alone(sinks):
    """The folder was written all the same, and is not written again."""
    with dying("before", below="views/_delta_log"), pytest.raises(RuntimeError, match="killed"):
        sinks.write()
    assert (sinks.in_folder, sinks.in_table) == (VIEWS, [])
    editions = sinks.editions
    sinks.write(run_id="run-2")
    assert (sinks.in_table, sinks.editions) == (VIEWS, editions)


def test_two_failures_are_both_told(sinks, monkeypatch):
    """The table's error is raised from the other sink's."""

    def fail(*_, **__):
        raise NotReady("the disk is full")

    monkeypatch.setattr(CsvFolder, "replace", fail)
    with dying("before", below="views/_delta_log"), pytest.raises(RuntimeError, match="killed") as raised:
        sinks.write()
    assert "the disk is full" in str(raised.value.__cause__)


def test_a_file_sink_has_no_transaction_and_the_marker_stands_in_for_it(sinks, spark):
    """What the table's transaction refuses, a plain write of files does not: a late run would bring old rows back."""
    sinks.write([("/a", 9)], sequence=2)
    with pytest.raises(Conflict, match="already applied upstream version 2"):
        sinks.write(VIEWS, sequence=1)
    assert (sinks.in_table, sinks.in_folder) == ([("/a", 9)], [("/a", 9)])
    old = sinks.rows()
    with pytest.raises(Conflict, match="holds upstream version 2, this run read version 1 and is stale"):
        sinks.folder.replace(old, DAY, Batch("old", 1))
    assert sinks.in_folder == [("/a", 9)]
    place = str(sinks.home / "plain")
    for _ in range(2):  # of the same batch
        old.write.mode("append").csv(place)
    assert spark.read.csv(place).count() == 4


def test_a_new_batch_replaces_both_partitions_whole(sinks):
    """No file and no row of the former one is left, and other partitions stay."""
    tuesday = sinks.table.target(a_run(sequence=1), partition={"day": "2026-01-06"})
    write_parallel(sinks.rows(day="2026-01-06"), tuesday, sinks.folder)
    sinks.write()
    sinks.write([("/c", 7)], sequence=2)
    assert sinks.in_folder == [("/c", 7)]
    assert sorted(row["page"] for row in read_back(sinks.table)) == ["/a", "/b", "/c"]
    assert len(sinks.folder.files({"day": "2026-01-06"})) == 1


def test_a_forced_run_writes_both_again(sinks):
    """Somebody may have edited a file: a replay puts back what the rows say."""
    sinks.write()
    (file,) = sinks.folder.files(DAY)
    place = sinks.home / "csv" / f"day={DAY['day']}" / file
    place.write_text(place.read_text().replace("/a", "/z"))
    sinks.write(replay=True)
    assert sinks.in_folder == VIEWS


def test_a_partition_whose_files_are_gone_is_written_again(sinks):
    """The marker lists them, so that a marker alone is no partition."""
    sinks.write()
    (file,) = sinks.folder.files(DAY)
    (sinks.home / "csv" / f"day={DAY['day']}" / file).unlink()
    sinks.write()
    assert (sinks.in_folder, sinks.reads) == (VIEWS, 1)


def test_rows_that_an_audit_refuses_reach_neither_sink(sinks):
    """A file that somebody has read cannot be taken back."""
    strict = replace(sinks.into(), audits=(Audit(name="few_views", of="most", sql="max(views)", fail_above=2),))
    with pytest.raises(AuditFailed, match="few_views"):
        write_parallel(sinks.rows(), strict, sinks.folder)
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        sinks.write([])
    assert (sinks.in_table, sinks.in_folder) == ([], [])


def test_a_partition_may_become_empty_where_that_is_allowed(sinks):
    """In both sinks; the marker says that no rows are all there are."""
    sinks.write()
    write_parallel(sinks.rows([]), sinks.into(2), sinks.folder, allow_empty=True)
    assert (sinks.in_table, sinks.in_folder) == ([], [])
    assert delivery_at(sinks.home / "csv" / f"day={DAY['day']}").refusal() == ""


def test_a_target_without_a_partition_is_refused(sinks):
    """By name, before anything is computed."""
    with pytest.raises(ConfigError, match=r"partition must name what gold/views and .* replace, not"):
        write_parallel(sinks.rows(), sinks.table.target(a_run()), sinks.folder)
    assert sinks.reads == 0


def compared(spark, legacy, new, kind="id INT, name STRING, share DOUBLE", other="", **options):
    """The finding of a comparison of rows."""
    frames = [spark.createDataFrame(rows, of) for rows, of in ((legacy, kind), (new, other or kind))]
    return compare_by_key(*frames, keys=["id"], **options)


def test_equal_results_agree_whatever_their_order(spark):
    """NULL is equal to NULL in a value and in a key, and a NaN to a NaN."""
    rows = [(1, "a", 0.5), (2, None, None), (None, "c", float("nan"))]
    found = compared(spark, rows, rows[::-1])
    assert found.passed
    assert found.figures == {
        "legacy rows": 3,
        "new rows": 3,
        "compared": 3,
        "keys missing in new": 0,
        "keys missing in legacy": 0,
        "repeated keys": 0,
        "name differs": 0,
        "share differs": 0,
    }


def test_each_kind_of_difference_is_counted_and_shown(spark):
    """A key that one side lacks, a repeated key, and values by column: a NULL differs from an empty text."""
    legacy = [(1, "a", 0.5), (2, "b", 1.0), (3, None, 1.0), (4, "d", 1.0), (5, "e", 1.0), (5, "e", 1.0)]
    new = [(1, "A", 0.25), (2, "b", 1.0), (3, "", 1.0), (5, "e", 1.0), (6, "f", 1.0)]
    found = compared(spark, legacy, new)
    assert not found.passed
    assert not found.refuses
    counts = {name: count for name, count in found.figures.items() if name != "samples"}
    assert counts == {
        "legacy rows": 6,
        "new rows": 5,
        "compared": 3,
        "keys missing in new": 1,
        "keys missing in legacy": 1,
        "repeated keys": 1,
        "name differs": 2,
        "share differs": 1,
    }
    assert found.figures["samples"].split("; ") == [
        "id 1: name a -> A, share 0.5 -> 0.25",
        "id 3: name None -> ",
        "id 4: 1 rows of legacy, 0 of new",
        "id 5: 2 rows of legacy, 1 of new",
        "id 6: 0 rows of legacy, 1 of new",
    ]
    assert "name differs: 2" in found.note
    assert json.loads(json.dumps(found.as_dict()))["passed"] is False


def test_a_tolerance_is_for_floats_alone(spark):
    """Within it two floats agree; a NULL and an infinite number do not agree with a number, and integers never do."""
    legacy, new = [(1, 5, 1.0), (2, 5, None), (3, 5, float("inf"))], [(1, 6, 1.04), (2, 5, 1.0), (3, 5, 1.0)]
    kind = "id INT, n INT, share DOUBLE"
    near = compared(spark, legacy, new, kind, tolerance=0.05)
    assert (near.figures["share differs"], near.figures["n differs"]) == (2, 1)
    assert compared(spark, legacy, new, kind, tolerance=0.03).figures["share differs"] == 3


def test_columns_of_one_side_are_a_difference_unless_columns_are_named(spark):
    """A job that forgot a column does not agree."""
    found = compared(spark, [(1, "a")], [(1, 2)], "id INT, name STRING", "id INT, extra INT")
    assert (found.figures["columns missing in new"], found.figures["columns missing in legacy"]) == ("name", "extra")
    assert not found.passed
    assert compared(
        spark, [(1, "a")], [(1, "a", 2)], "id INT, name STRING", "id INT, name STRING, x INT", columns=["name"]
    ).passed


def test_no_more_samples_than_asked_for(spark):
    """The smallest keys first; all are counted."""
    found = compared(spark, [(n, "a", 1.0) for n in range(9)], [], samples=2)
    assert found.figures["samples"] == "id 0: 1 rows of legacy, 0 of new; id 1: 1 rows of legacy, 0 of new"
    assert found.figures["keys missing in new"] == 9
    assert "samples" not in compared(spark, [(1, "a", 1.0)], [], samples=0).figures


@pytest.mark.parametrize(
    ("other", "options", "text"),
    [
        ("id INT, name INT", {}, "columns must be of one type on both sides, or numbers, not name of STRING and INT"),
        ("id INT, name STRING", {"tolerance": -1.0}, "tolerance and samples must be 0 or more, not -1.0 and 5"),
        ("id INT, name STRING", {"columns": ["nmae"]}, "nmae"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(spark, other, options, text):
    """Before Spark reads a row."""
    with pytest.raises(ConfigError, match=text):
        compared(spark, [], [], "id INT, name STRING", other, **options)


@known_calls
def calls_that_work(known):
    return {"compare_by_key": {"legacy": known.visits, "new": known.visits, "keys": ["id"]}}


@two_runs()
def parallel_at_once(world):
    """Two further versions of the source, for the table and for a folder beside the table."""
    columns = "id INT, day STRING"
    world.table("twice", columns, by=["day"])

    def write(w, number):
        into = w["twice"].target(w.run(str(number), sequence=number), partition={"day": "mon"})
        write_parallel(w.frame(columns, (number, "mon")), into, CsvFolder(str(w.root / "csv")))

    write(world, 1)
    for number in (2, 3):
        yield lambda w, number=number: write(w, number)
