"""Declared layouts: followed by writers, kept by maintenance, held by a check, changed by a rewrite."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from threading import Event, Thread

import pytest

from dedp_assets.patterns.core.buckets import Layout
from dedp_assets.patterns.core.layout import LAID_OUT, SORTED, TableLayout
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.maintenance import (
    advise_layout,
    apply_layout,
    expire_partitions,
    hold_partition,
    judge_layout,
    layout_differences,
)
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.storage.bucket import Bucketed, read_keys
from dedp_assets.patterns.storage.sorter import plan_sorting, sort_files
from tests.helpers import a_run, active_files, read_back, refusal
from tests.scans import files_read

pytestmark = pytest.mark.budget(30, "five changes of layout, and a death at each commit of one")

COLUMNS = {
    "id": Column("BIGINT", required=True),
    "page": Column("STRING"),
    "user": Column("STRING", classification="personal"),
    "flag": Column("BOOLEAN"),
    "tags": Column("MAP<STRING, STRING>"),
    "day": Column("DATE", required=True),
}
PLAIN = TableSpec("silver/visits", COLUMNS, partition_by=("day",))
LAYOUT = TableLayout(sort_by=("id", "page"), statistics=("id", "page"), bloom={"page": 100}, page_rows=50)
BUCKETS = TableLayout(buckets=Layout(by=("page",), buckets=3))


def visits(spark, days=2, rows=40):
    """Visits in no order, some without a page."""
    return spark.range(days * rows).selectExpr(
        "id * 7 % 80 AS id",
        "IF(id % 9 = 0, NULL, concat('/', id % 5)) AS page",
        "concat('u', id) AS user",
        "id % 2 = 0 AS flag",
        "map('k', CAST(id AS STRING)) AS tags",
        f"date_add(DATE '2026-01-05', CAST(id % {days} AS INT)) AS day",
    )


def written(table, rows):
    table.overwrite(rows, provenance=a_run())
    return read_back(table)


def of(spec, table):
    """The same stored table under another declaration."""
    return Table(spec, table.location, table.session)


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        ({"sort_by": ("nobody",)}, "sort_by must name columns of the table .*not \\['nobody'\\]"),
        ({"sort_by": ("tags",)}, "sort_by must name numbers, texts, dates or times, not tags \\(MAP"),
        ({"sort_by": ("day",)}, "sort_by must name columns within partitions, not \\['day'\\]"),
        ({"sort_by": ("user",)}, "sort_by must name columns whose class lets bounds into the log, not \\['user'\\]"),
        ({"sort_by": ("id", "id")}, "sort_by"),
        ({"sort_by": ("id",), "statistics": ("page",)}, "statistics must name each column that files are ordered by"),
        ({"cluster_by": ("id",)}, "cluster_by must be for a table without partitions"),
        ({"cluster_by": ("day",)}, "cluster_by must be for a table without partitions"),
        ({"buckets": Layout(("nobody",), 2)}, "buckets must name columns of the table"),
        ({"buckets": Layout(("tags",), 2)}, "buckets must be of numbers, texts, dates or times, not tags \\(MAP"),
        ({"statistics": ("flag",)}, "statistics must name numbers, texts, dates or times, not flag \\(BOOLEAN\\)"),
        ({"bloom": {"flag": 2}}, "bloom must name columns with many values to look up, not flag \\(BOOLEAN\\)"),
        ({"bloom": {"page": 0}}, "bloom must state at least 1 value for page, not 0"),
        ({"bloom": {"user": 9}}, "bloom must name columns whose class lets bounds into the log"),
        ({"page_rows": -1}, "page_rows must be at least 0, not -1"),
        ({"keep_days": -1}, "keep_days must be at least 0, not -1"),
        ({"retention_hours": -1}, "retention_hours must be at least 0, not -1"),
        ({"retention_hours": 167}, "retention_hours must be at least 168, a week, .* or 0, not 167"),
        ({"curve": "peano"}, "curve must be"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_by_a_sentence(layout, sentence):
    """Before there is a table."""
    assert re.search(sentence, refusal(lambda: replace(PLAIN, layout=TableLayout(**layout))))


def test_further_layouts_that_cannot_be():
    """No buckets, an age of what is no time, a key without a spelling, and Iceberg by a property that writes none."""
    iceberg = {"delta.universalFormat.enabledFormats": "iceberg"}
    for sentence, make in {
        "buckets must be at least 1, such as 16, not 0": lambda: Layout(by=("page",), buckets=0),
        "by must name columns of a key, such as user_id, .*not none": lambda: Layout(by=(), buckets=2),
        "keep_days must be for a table partitioned by a DATE or TIMESTAMP, not by page": lambda: replace(
            PLAIN, partition_by=("page",), layout=TableLayout(keep_days=3)
        ),
        "cannot be partitioned by tags: not every MAP": lambda: replace(PLAIN, partition_by=("tags",)),
        r"must not have delta\.universalFormat\S+, for which Delta writes no": lambda: replace(
            PLAIN, properties=iceberg
        ),
    }.items():
        assert re.search(sentence, refusal(make))


@pytest.mark.parametrize("kind", ["SMALLINT", "TINYINT", "REAL", "NUMERIC(6, 2)", "VARCHAR(9)", "CHAR(9)", "timestamp"])
def test_a_type_has_an_order_whatever_its_name(kind):
    """Names of SQL beside those of the log; an interval is no integer."""
    columns = {"of": Column(kind), "took": Column("INTERVAL DAY TO SECOND")}
    assert TableSpec("silver/visits", columns, layout=TableLayout(sort_by=("of",))).bounded == ("of",)


@pytest.mark.spark
def test_the_writer_follows_a_declared_layout_and_the_log_states_it(spark, make_table):
    """Filters, pages and statistics from the first file on; the declaration is read back from the log."""
    table = make_table(replace(PLAIN, layout=LAYOUT))
    written(table, visits(spark))
    assert judge_layout(table).passed
    assert Table.at(table.location, spark).spec.layout == LAYOUT
    stated = table.ledger.state().properties
    assert LAYOUT.parquet_properties.items() <= stated.items()
    assert stated["delta.dataSkippingStatsColumns"] == "id,page"
    assert stated[SORTED] == LAYOUT.order
    unsorted = plan_sorting(table.ledger, by=LAYOUT.sort_by).partitions
    assert sort_files(table.target(a_run()), by=LAYOUT.sort_by).applied == bool(unsorted)
    assert not plan_sorting(table.ledger, by=LAYOUT.sort_by).partitions


@pytest.mark.spark
def test_rows_of_declared_buckets_are_placed_by_any_write(spark, make_table):
    """A pattern that knows no buckets writes one file per bucket, and a key is found in its own."""
    table = make_table(replace(PLAIN, layout=BUCKETS))
    assert table.spec.partition_by == ("day", "bucket")
    rows = visits(spark).filter("day = DATE '2026-01-05'").repartition(4)
    overwrite_partition(rows, table.target(a_run(), partition={"day": "2026-01-05"}))
    assert len(active_files(table)) == 3
    found = read_keys(Bucketed(table, BUCKETS.buckets), keys=[{"page": "/3"}])
    assert files_read(found) == 1
    assert sorted(row["id"] for row in found.collect()) == sorted(
        row["id"] for row in rows.filter("page = '/3'").collect()
    )
    assert judge_layout(table).passed
    assert Table.at(table.location, spark).spec.layout == BUCKETS


CHANGES = {
    "order": (PLAIN, LAYOUT),
    "curve": (replace(PLAIN, layout=replace(LAYOUT, curve="lexicographic")), LAYOUT),
    "filters": (replace(PLAIN, layout=replace(LAYOUT, bloom={"id": 9}, page_rows=0)), LAYOUT),
    "buckets": (PLAIN, BUCKETS),
    "more buckets": (replace(PLAIN, layout=BUCKETS), TableLayout(buckets=Layout(by=("page",), buckets=5))),
}


@pytest.mark.spark
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_layout_is_named_and_rewritten_with_equal_rows(spark, make_table, change):
    """The check names the command; the rewrite changes no row and no version's rows, and a second one does nothing."""
    former, layout = CHANGES[change]
    before = written(make_table(former), visits(spark))
    table = of(replace(PLAIN, layout=layout), make_table(former))
    found = judge_layout(table)
    assert (found.passed, found.severity) == (False, "warn")
    assert "`dedp layout silver/visits --apply` rewrites it" in found.note
    assert read_back(table) == before, "nothing changes by itself"
    version = table.ledger.version()
    done = apply_layout(table, a_run())
    assert (done.applied, done.changed) == (True, False)
    assert layout_differences(table) == []
    plain = [{name: row[name] for name in COLUMNS} for row in read_back(table)]
    assert sorted(map(str, plain)) == sorted(str({name: row[name] for name in COLUMNS}) for row in before)
    assert not table.ledger.changes(since=version)[1], "late-data detection sees no change"
    again = apply_layout(table, a_run())
    assert (again.applied, again.reason) == (False, "it lies as declared")


@pytest.mark.spark
@pytest.mark.parametrize("former", [TableLayout(), TableLayout(cluster_by=("id",))], ids=["none", "another"])
def test_clustering_is_declared_and_changed(spark, make_table, former):
    """Of a table without partitions, with equal rows; Spark's own reader knows the columns."""
    flat = replace(PLAIN, partition_by=(), layout=former)
    before = written(make_table(flat), visits(spark))
    table = of(replace(flat, layout=TableLayout(cluster_by=("page", "id"))), make_table(flat))
    assert [each.part for each in layout_differences(table)] == ["cluster_by"]
    apply_layout(table, a_run())
    assert layout_differences(table) == []
    assert read_back(table) == before
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{table.location}`").head()
    assert detail["clusteringColumns"] == ["page", "id"]
    assert not apply_layout(table, a_run()).applied


@pytest.mark.spark
def test_a_killed_rewrite_goes_on_and_readers_see_the_same_rows(spark, make_table, monkeypatch):
    """Killed before each commit in turn: each time the rows are the same, and the next run does the rest."""
    layout, real, left = LAYOUT, commits.write, 0
    before = written(make_table(PLAIN), visits(spark))
    table = of(replace(PLAIN, layout=layout), make_table(PLAIN))

    def dying(store, version, actions, **more):
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return real(store, version, actions, **more)

    reached = 0
    for allowed in range(12):
        left = allowed
        with monkeypatch.context() as patch:
            patch.setattr(commits, "write", dying)
            with suppress(KeyboardInterrupt):
                apply_layout(table, a_run())
                break
        reached += 1
        assert read_back(table) == before
    assert reached >= 3
    assert layout_differences(table) == []
    assert read_back(table) == before
    assert table.ledger.state().properties[LAID_OUT] == layout.of_new_table[LAID_OUT]


@pytest.mark.spark
@pytest.mark.parametrize("former", [PLAIN, replace(PLAIN, partition_by=())], ids=["order", "partitions"])
def test_readers_see_the_same_rows_while_a_layout_changes(spark, make_table, former):
    """In a loop, by a reader that knows the log alone: files, order and partitions are one layout or the other."""
    before = written(make_table(former), visits(spark, days=4))
    table, seen, done = of(replace(PLAIN, layout=LAYOUT), make_table(former)), list[bool](), Event()

    def look():
        while not done.is_set():
            seen.append(read_back(table) == before)

    reader = Thread(target=look)
    reader.start()
    try:
        apply_layout(table, a_run())
    finally:
        done.set()
        reader.join()
    assert len(seen) > 2
    assert all(seen)
    assert layout_differences(table) == []


@pytest.mark.spark
def test_old_partitions_expire_by_metadata(spark, make_table):
    """At 29 and 30 days, without Spark; an earlier version still has the rows. A hold wins over age."""
    table = make_table(replace(PLAIN, layout=TableLayout(keep_days=30)))
    before = written(table, visits(spark, days=3))
    now, oldest = datetime(2026, 2, 5, 1, tzinfo=timezone.utc), {"day": "2026-01-05"}
    held = partial(hold_partition, table, oldest, a_run(), by="legal", because="case 17")
    held(release=False)
    kept = expire_partitions(Table(table.spec, table.location, None), a_run(), now=now)
    assert (kept.reason, kept.figures["partitions_held"]) == ("on legal hold: day=2026-01-05 (legal: case 17)", 1)
    assert read_back(table) == before
    held(release=True)
    version = table.ledger.version()
    done = expire_partitions(Table(table.spec, table.location, None), a_run(), now=now)
    assert done.figures["partitions_expired"] == 1
    assert {str(row["day"]) for row in read_back(table)} == {"2026-01-06", "2026-01-07"}
    assert len(table.read(version=version).collect()) == len(before)
    again = expire_partitions(table, a_run(), now=now)
    assert (again.applied, again.figures["partitions_expired"]) == (False, 0)
    assert expire_partitions(of(PLAIN, table), a_run(), now=now) is None


def of_files(folder, files, *, by_id, days=1):
    """A log of some files of 10 rows on some days, in order of id or not."""
    columns = {"id": Column("BIGINT"), "page": Column("STRING"), "day": Column("STRING")}
    table = Table(TableSpec("silver/visits", columns, ("day",)), folder, None)
    table.ensure()
    adds = []
    for number in range(files):
        low, high = (number * 10, number * 10 + 9) if by_id else (0, files * 10)
        bounds = {"minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
        stats = json.dumps({"numRecords": 10, **bounds})
        on = {"day": f"{number % days}"}
        sized = {"size": 20_000_000, "partitionValues": on, "modificationTime": 1, "dataChange": True}
        adds.append({"add": {"path": f"f{number}.parquet", "stats": stats, **sized}})
    commits.write(table.store, 1, [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, *adds])
    return table


def test_advice_names_what_an_order_would_save_and_changes_nothing(tmp_path):
    """Of 64 files in no order, a filter by id opens all; in order, or without such a filter, nothing is to gain.

    An order is one of each partition: a filter without the partition opens a file in each.
    """
    loose, sorted_by_id = of_files(tmp_path / "a", 64, by_id=False), of_files(tmp_path / "b", 64, by_id=True)
    (advice,) = advise_layout(loose.ledger, {"id": 3})
    assert (advice.option, advice.value, advice.now, advice.then) == ("sort_by", "[id]", 64, 1)
    assert str(advice).splitlines() == [
        "sort_by: [id]",
        "  saves: a filter by id opens 64 files of 1.28 GB, and about 1 then",
        "  because: by the column lineage, queries filter by id (in 3 tables); by the ranges in the log, one value of "
        "id may lie in 64 of 64 files",
        "  how: state sort_by in the layout of silver/visits, then `dedp layout silver/visits --apply`",
    ]
    daily = [of_files(tmp_path / f"{days}", 64, by_id=False, days=days) for days in (8, 64)]
    assert [[(a.now, a.then) for a in advise_layout(each.ledger, {"id": 1})] for each in daily] == [[(64, 8)], []]
    assert advise_layout(loose.ledger, {}) == advise_layout(loose.ledger, {"page": 9}) == []
    assert advise_layout(sorted_by_id.ledger, {"id": 3}) == []
    assert loose.ledger.version() == 1


def test_advice_names_small_partitions_and_small_files(tmp_path):
    """301 partitions of a small file each: a coarser column; 40 small files of one: compaction."""
    spec = TableSpec("silver/visits", {"id": Column("BIGINT"), "user": Column("STRING")}, partition_by=("user",))
    many, few = (Table(spec, tmp_path / name, None) for name in ("many", "few"))
    for table, users in ((many, 301), (few, 1)):
        table.ensure()
        sized = {"size": 1_000, "modificationTime": 1, "dataChange": True, "stats": '{"numRecords": 1}'}
        adds = [
            {"add": {"path": f"f{n}.parquet", "partitionValues": {"user": f"u{n % users}"}, **sized}}
            for n in range(max(users, 40))
        ]
        commits.write(table.store, 1, [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, *adds])
    (coarser,) = advise_layout(many.ledger, {})
    assert coarser.option == "partition_by"
    assert "301 partitions have 1 kB each on average" in str(coarser)
    assert [(each.option, each.now, each.then) for each in advise_layout(few.ledger, {})] == [("compaction", 40, 1)]


def test_a_layout_is_read_back_after_a_column_is_gone(tmp_path):
    """Whose order another tool broke: the table opens, and no layout is declared."""
    table = Table(replace(PLAIN, layout=TableLayout(sort_by=("id",))), tmp_path / "t", None)
    table.ensure()
    stated = commits.with_properties(table.ledger, table.ledger.state(), {})
    text = stated["metaData"]["schemaString"].replace('"name":"id"', '"name":"number"')
    commits.write(
        table.store,
        1,
        [
            {"commitInfo": {"timestamp": 1, "operation": "RENAME"}},
            {"metaData": {**stated["metaData"], "schemaString": text}},
        ],
    )
    assert Table.at(table.location, lambda: None).spec.layout == TableLayout()
