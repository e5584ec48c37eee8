"""Sorter: files that filters skip, by the log and by Spark's scan; the same rows; nobody downstream notices."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, Table, Update
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.commit.parquet_statistics import file_statistics
from dedp_assets.patterns.delta.maintenance import compaction, file_order
from dedp_assets.patterns.delta.maintenance.file_order import SORTED, depth
from dedp_assets.patterns.ingestion.compactor import compact
from dedp_assets.patterns.storage.sorter import plan_sorting, sort_files
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, files_of, read_back
from tests.renaming import STORED, any_names
from tests.scans import scanned
from tests.two_runs import two_runs

START = datetime(2026, 1, 5, tzinfo=timezone.utc)
FILES, ROWS = 16, 250
pytestmark = pytest.mark.budget(40, "three orders of sixteen files, and a table that Spark clustered")
VISITS = TableSpec(
    "silver/visits",
    {
        "visit_time": Column("TIMESTAMP", "when"),
        "page_id": Column("INT", "page"),
        "page": Column("STRING", "path"),
        "visitor": Column("STRING", "who", classification="personal"),
    },
)
BY = ["visit_time", "page_id"]
LATE = START + timedelta(seconds=FILES * ROWS)


def visits(count, seed, start=0):
    """Visits at times and of pages that have nothing to do with each other; some of no page."""
    random = Random(seed)  # noqa: S311 - test data
    second = [start + n for n in range(count)]
    random.shuffle(second)
    pages = [random.choice([None, *range(1000)]) for _ in range(count)]
    return pa.table(
        {
            "visit_time": pa.array([START + timedelta(seconds=s) for s in second], pa.timestamp("us", "UTC")),
            "page_id": pa.array(pages, pa.int32()),
            "page": [f"/{page}" for page in pages],
            "visitor": [f"v{n}" for n in range(count)],
        }
    )


def land(table, *tables, partition=None):
    """One commit of a foreign writer that adds a file for each table."""
    version, actions = table.ledger.version(), []
    for rows in tables:
        file = table.location / f"part-{version}-{len(actions)}.parquet"
        pq.write_table(rows, file)
        _, stats = file_statistics(str(file), rows.column_names)
        size, now = file.stat().st_size, 1767600000000
        values = {"partitionValues": partition or {}, "size": size, "modificationTime": now, "dataChange": True}
        actions.append({"add": {"path": file.name, **values, "stats": stats}})
    commits.write(table.store, version + 1, [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, *actions])


def not_skipped(table, column, value):
    """How many files may hold a value, by what the log says of them."""
    files = pa.table(DeltaTable(str(table.location)).get_add_actions(flatten=True)).to_pylist()
    ranges = [(file[f"min.{column}"], file[f"max.{column}"]) for file in files]
    return sum(low is None or low <= value <= high for low, high in ranges)


def opened(spark, table, where):
    """How many files Spark's scan opens for a filter, and the rows that it gives."""
    count, found = scanned(spark.read.format("delta").load(str(table.location)).where(where), "numFiles")
    return count, sorted(map(str, found))


def small_files_of(table, files=FILES):
    """The size of a file, so that there are as many."""
    return sum(file["size_bytes"] for file in table.ledger.state().files()) // files + 1


@pytest.fixture(scope="module")
def landed(spark, tmp_path_factory):
    """Sixteen files of visits in no order, made once."""
    table = Table(VISITS, tmp_path_factory.mktemp("landed") / "visits", spark)
    table.ensure()
    land(table, *[visits(FILES * ROWS, 7).slice(n * ROWS, ROWS) for n in range(FILES)])
    return table


@pytest.fixture
def copied(landed, tmp_path):
    """A copy of them, for a test of its own."""
    shutil.copytree(landed.location, tmp_path / "visits")
    return Table(VISITS, tmp_path / "visits", landed.session)


@pytest.fixture(scope="module")
def sorted_by(landed, tmp_path_factory):
    """``sorted_by(curve)``: a copy of them in that order, made once for each curve."""
    made = {}

    def of(curve):
        if curve not in made:
            place = tmp_path_factory.mktemp(curve) / "visits"
            shutil.copytree(landed.location, place)
            made[curve] = Table(VISITS, place, landed.session)
            done = sort_files(made[curve].target(a_run()), by=BY, curve=curve, target_bytes=small_files_of(landed))
            assert (done.applied, done.changed) == (True, False)
        return made[curve]

    return of


@pytest.mark.spark
def test_a_curve_serves_both_columns_and_a_lexicographic_order_the_first_alone(spark, landed, sorted_by):
    """By the log and by Spark's scan: of 16 files, both filters read few along a curve; the prefix trap reads 16."""
    middle = START + timedelta(seconds=FILES * ROWS // 2)
    filters = {
        "visit_time": (middle, f"visit_time = TIMESTAMP '{middle:%F %T}+00:00'"),
        "page_id": (500, "page_id = 500"),
    }
    read, found = {}, {}
    for curve in ("none", "lexicographic", "z-order", "hilbert"):
        table = landed if curve == "none" else sorted_by(curve)
        assert len(active_files(table)) == FILES
        for column, (value, where) in filters.items():
            read[curve, column], rows = opened(spark, table, where)
            assert read[curve, column] <= not_skipped(table, column, value)
            found.setdefault(column, rows)
            assert rows == found[column] != []
    assert read["none", "visit_time"] == read["none", "page_id"] == FILES
    assert (read["lexicographic", "visit_time"], read["lexicographic", "page_id"]) == (1, FILES)
    for curve in ("z-order", "hilbert"):
        assert 1 < max(read[curve, column] for column in filters) <= FILES // 2
    assert sum(read["hilbert", column] for column in filters) <= sum(read["z-order", column] for column in filters)


@pytest.mark.spark
@pytest.mark.parametrize("curve", ["lexicographic", "hilbert"])
def test_rows_are_the_same_and_no_reader_of_changes_sees_any(landed, sorted_by, curve):
    """Content by an independent reader; every file action has ``dataChange = false``; order and size are noted."""
    table = sorted_by(curve)
    assert read_back(table) == read_back(landed)
    commit = table.ledger.commit(table.ledger.version())
    assert (commit.operation, commit.changed, commit.record) == ("OPTIMIZE", frozenset(), None)
    assert table.ledger.changes(since=commit.version - 1)[1] == {}
    moved = [file for kind in ("add", "remove") for file in table.ledger.actions(kind)[-FILES:]]
    assert (len(moved), {file["dataChange"] for file in moved}) == (2 * FILES, {False})
    size = sum(file["size_bytes"] for file in landed.ledger.state().files())
    notes = commit.maintenance.notes
    assert (notes["order"], notes["order_before"]) == (f"visit_time, page_id ({curve})", "none")
    assert (notes["rewritten_files"], notes["rewritten_bytes"]) == (FILES, size)
    assert json.loads(table.ledger.state().properties[SORTED]) == {"by": BY, "curve": curve}
    assert commit.parameters["sortBy"] == '["visit_time","page_id"]'
    within = [pq.read_table(table.location / path)["visit_time"].to_pylist() for path in active_files(table)]
    assert all(times == sorted(times) for times in within) == (curve == "lexicographic")
    stats = [json.loads(file["stats"]) for file in table.ledger.actions("add")[-FILES:]]
    assert all("visitor" not in each["minValues"] for each in stats)


@pytest.mark.spark
def test_appends_make_filters_read_more_until_the_next_sort(spark, sorted_by, tmp_path):
    """By 4 late files of 20 a filter reads 4 more; the next sort brings it back; another one has nothing to do."""
    shutil.copytree(sorted_by("hilbert").location, tmp_path / "visits")
    table = Table(VISITS, tmp_path / "visits", spark)
    before, _ = opened(spark, table, "page_id = 500")
    late = visits(4 * ROWS, 9, start=FILES * ROWS)
    land(table, *[late.slice(n * ROWS, ROWS) for n in range(4)])
    after, rows = opened(spark, table, "page_id = 500")
    assert after == before + 4
    plan = plan_sorting(table.ledger, by=BY)
    assert plan.causes["all"].startswith("4 of 20 files are out of order (")
    options = {"by": BY, "target_bytes": small_files_of(table, FILES + 4)}
    assert sort_files(table.target(a_run()), **options).applied
    restored, same = opened(spark, table, "page_id = 500")
    assert (restored < after, same) == (True, rows)
    assert depth(table.ledger.state().files(), "page_id") < FILES / 2
    idle = Table(VISITS, table.location, lambda: pytest.fail("Spark was started"))
    again = sort_files(idle.target(a_run()), **options)
    assert (again.applied, again.reason) == (False, "every partition is in order by visit_time, page_id (hilbert)")


DAILY = TableSpec("daily", {**VISITS.columns, "day": Column("STRING")}, partition_by=("day",))


@pytest.fixture
def daily(make_table):
    """Two days of visits and one of no day, in three files each that overlap, and a day whose files do not."""
    table = make_table(DAILY)
    table.ensure()
    for number, day in enumerate(("mon/1", "tue 2", None)):
        land(table, *[visits(60, f"{number}/{n}") for n in range(3)], partition={"day": day})
    apart = [visits(60, n, start=1000 * n) for n in range(3)]
    land(table, *apart, partition={"day": "apart"})
    return table


@pytest.mark.both
def test_only_partitions_out_of_order_are_rewritten(daily):
    """Each once: a day in order keeps its files, whoever wrote them; a late file has its own day sorted again."""
    rows, apart = read_back(daily), files_of(daily, day="apart")
    options = {"by": ["visit_time"], "target_bytes": small_files_of(daily, 12)}
    plan = plan_sorting(daily.ledger, by=["visit_time"])
    assert plan.partitions == ("day=NULL", "day=mon%2F1", "day=tue 2")
    assert plan.causes["day=tue 2"].startswith(
        "3 of 3 files are out of order (100% of the bytes); a value may lie in 3"
    )
    first = sort_files(daily.target(a_run(), partition={"day": "mon/1"}), **options)
    assert first.figures["partitions"] == 1
    second = sort_files(daily.target(a_run()), **options)
    assert (second.figures["partitions"], files_of(daily, day="apart"), read_back(daily)) == (2, apart, rows)
    assert not sort_files(daily.target(a_run()), **options).applied
    tuesday = files_of(daily, day="tue 2")
    land(daily, visits(60, "late"), partition={"day": "mon/1"})
    assert sort_files(daily.target(a_run()), **options).figures["partitions"] == 1
    assert files_of(daily, day="tue 2") == tuesday
    assert (
        plan_sorting(daily.ledger, by=["visit_time"]).reason
        == "every partition is in order by visit_time (lexicographic)"
    )
    assert len(read_back(daily)) == len(rows) + 60


@pytest.mark.spark
def test_a_few_late_rows_wait_until_they_are_worth_it(sorted_by, spark, tmp_path):
    """Below the share of bytes a partition is held, with the reason."""
    shutil.copytree(sorted_by("hilbert").location, tmp_path / "visits")
    table = Table(VISITS, tmp_path / "visits", spark)
    land(table, visits(10, 3))
    plan = plan_sorting(table.ledger, {}, by=BY, min_unsorted_share=0.2)
    assert (plan.partitions, plan.reason) == ((), "every partition is in order by visit_time, page_id (hilbert)")
    assert plan.held["all"].startswith("1 of 17 files are out of order (")
    assert plan.held["all"].endswith(": less than 20%")
    assert plan_sorting(table.ledger, by=BY, min_unsorted_share=0).partitions == ("all",)


@pytest.mark.spark
def test_appends_and_overwrites_during_a_sort_are_kept(daily, spark, monkeypatch):
    """An append comes beside the sorted files, an overwritten day stays its writer's, and the result says so."""
    real = compaction._exchange

    def exchange(*arguments):
        monkeypatch.setattr(compaction, "_exchange", real)
        land(daily, visits(5, "meanwhile", start=7000), partition={"day": "tue 2"})
        monday = spark.createDataFrame([(LATE, 1, "/x", "v", "mon/1")], daily.read().schema)
        daily.overwrite(monday, partition={"day": "mon/1"}, provenance=a_run(sequence=1))
        return real(*arguments)

    monkeypatch.setattr(compaction, "_exchange", exchange)
    result = sort_files(daily.target(a_run()), by=["visit_time"])
    assert (result.figures["partitions"], result.figures["gave_way"]) == (2, 1)
    assert result.reason.endswith("; gave way to other writers in day=mon%2F1")
    by_day = {}
    for row in read_back(daily):
        by_day[row["day"]] = by_day.get(row["day"], 0) + 1
    assert by_day == {"mon/1": 1, "tue 2": 185, None: 180, "apart": 180}
    assert [path.name for path in daily.location.glob(".staged-*.claim")] == []


@pytest.mark.spark
def test_another_order_is_an_explicit_rewrite_of_everything(copied, landed):
    """Refused with the size that it has; then all files are rewritten, and both orders and the size are noted."""
    target = copied.target(a_run())
    sort_files(target, by=["page_id"], target_bytes=small_files_of(landed, 4))
    files = copied.ledger.state().files()
    size = sum(file["size_bytes"] for file in files)
    sizes = rf"which rewrites {len(files)} files \({size} bytes\)"
    with pytest.raises(ConfigError, match=rf"is sorted by page_id \(lexicographic\): by and curve must be .*{sizes}"):
        sort_files(target, by=["PAGE"])
    with pytest.raises(ConfigError, match="is sorted by page_id"):
        plan_sorting(copied.ledger, by=["page"])
    done = sort_files(target, by=["PAGE"], rewrite_all=True, target_bytes=small_files_of(landed, 4))
    notes = copied.ledger.commit(done.version).maintenance.notes
    assert (notes["order_before"], notes["order"]) == ("page_id (lexicographic)", "page (lexicographic)")
    assert (notes["rewritten_files"], notes["rewritten_bytes"]) == (len(files), size)
    assert json.loads(copied.ledger.state().properties[SORTED]) == {"by": ["page"], "curve": "lexicographic"}
    assert active_files(copied).isdisjoint(file["path"] for file in files)
    assert (not_skipped(copied, "page", "/5"), read_back(copied)) == (1, read_back(landed))
    assert not sort_files(target, by=["page"]).applied


@pytest.mark.spark
def test_values_are_ordered_as_their_type_is(spark, make_table):
    """Numbers by size and texts by their characters (10 after 9, '10' before '9'); instants whatever a zone shows."""
    kinds = {"n": "INT", "t": "STRING", "at": "TIMESTAMP", "d": "DECIMAL(38,2)", "x": "DOUBLE"}
    numbers, zone = [9, 10, -1, 100, 2, 33], timezone(timedelta(hours=-11))
    floats = [1.0, float("nan"), float("-inf"), None, float("inf"), -0.0]
    times = [datetime(2026, 1, 5, n % 7, tzinfo=zone if n % 2 else timezone.utc) if n < 50 else None for n in numbers]
    orders = {
        "n": [-1, 2, 9, 10, 33, 100],
        "t": ["-1", "10", "100", "2", "33", "9"],
        "at": [None, *sorted(time for time in times if time)],
        "d": [Decimal(n) / 4 for n in sorted(numbers)],
        "x": ["None", "-inf", "-0.0", "1.0", "inf", "nan"],
    }
    table = make_table(TableSpec("kinds", {name: Column(kind) for name, kind in kinds.items()}))
    table.ensure()
    values = [numbers, map(str, numbers), times, [Decimal(n) / 4 for n in numbers], floats]
    types = [pa.int32(), pa.string(), pa.timestamp("us", "UTC"), pa.decimal128(38, 2), pa.float64()]
    rows = pa.table([pa.array(v, t) for v, t in zip(values, types, strict=True)], names=list(kinds))
    land(table, *[rows.slice(n, 1) for n in range(len(rows))])
    for column, order in orders.items():
        done = sort_files(table.target(a_run()), by=[column], rewrite_all=True)
        assert done.figures["files_after"] == 1
        (path,) = active_files(table)
        held = pq.read_table(table.location / path)[column].to_pylist()
        assert ([*map(str, held)] if column == "x" else held) == order


@pytest.fixture
def clustered(spark, tmp_path):
    """A table that Spark clustered, overwritten twice."""
    place = tmp_path / "clustered"
    spark.sql(
        f"CREATE TABLE delta.`{place}` (a INT, b INT, v STRING) USING delta CLUSTER BY (a, b) "
        "TBLPROPERTIES ('delta.checkpointInterval' = '3')"
    )
    table = Table.at(place, spark, name="clustered")
    table.overwrite(points(spark).limit(10), provenance=a_run(sequence=1))
    table.overwrite(points(spark).repartition(3), provenance=a_run(sequence=2))
    return table


def points(spark):
    columns = ("CAST(id % 50 AS INT) AS a", "CAST(id * 7 % 41 AS INT) AS b", "CAST(id AS STRING) AS v")
    return spark.range(1000).selectExpr(*columns)


def clustering(table):
    """The clustering columns, as Spark shows them."""
    return table.session.sql(f"DESCRIBE DETAIL delta.`{table.location}`").collect()[0]["clusteringColumns"]


@pytest.mark.both
def test_writes_to_a_table_that_spark_clustered_keep_the_clustering(clustered, spark):
    """Appends past a checkpoint, a merge and a compaction are by the log; each counts the clustering columns."""
    for number in range(3, 5):
        rows = points(spark).filter(f"a = {number}").limit(2).coalesce(1)
        clustered.append(rows, provenance=a_run(sequence=number))
    source = spark.sql("SELECT 1 AS a, 1 AS b, '5' AS v")
    assert clustered.merge(source, Merge(["v"], [Update(), Insert()]), provenance=a_run(sequence=20)).changed
    clustered.append(rows, provenance=a_run(sequence=21))
    held = sorted(map(tuple, clustered.read().collect()))
    assert compact(clustered.target(a_run()), min_small_files=2).applied
    logged = [clustered.ledger.commit(n) for n in range(1, clustered.ledger.version() + 1)]
    assert all(commit.record or commit.maintenance for commit in logged)
    stats = [json.loads(add["stats"]) for add in clustered.ledger.added_files(logged[-1].version).values()]
    assert all({"a", "b"} <= each["minValues"].keys() for each in stats)
    assert clustered.store.exists("_delta_log/_last_checkpoint")
    assert clustering(clustered) == ["a", "b"]
    assert held == sorted(map(tuple, spark.read.format("delta").load(str(clustered.location)).collect()))


@pytest.mark.spark
def test_a_sort_of_a_clustered_table_is_its_clustering(clustered, spark):
    """Files have the tags of one cube, which OPTIMIZE leaves alone; another order, and a second sort, are refused."""
    result = sort_files(clustered.target(a_run()), by=["a", "b"], target_bytes=2000, rewrite_all=True)
    assert result.applied
    assert SORTED not in clustered.ledger.state().properties
    adds, files = clustered.ledger.added_files(result.version), active_files(clustered)
    assert {adds[path]["clusteringProvider"] for path in files} == {"liquid"}
    assert len({adds[path]["tags"]["ZCUBE_ID"] for path in files}) == 1
    spark.sql(f"OPTIMIZE delta.`{clustered.location}`").collect()
    assert (active_files(clustered), len(files) > 2, clustering(clustered)) == (files, True, ["a", "b"])
    assert sorted(map(tuple, points(spark).collect())) == sorted(map(tuple, clustered.read().collect()))
    with pytest.raises(ConfigError, match="is clustered by a, b"):
        sort_files(clustered.target(a_run()), by=["b"], rewrite_all=True)
    assert not sort_files(clustered.target(a_run()), by=["a", "b"]).applied


@pytest.mark.spark
def test_a_compaction_of_a_sorted_table_keeps_the_order(spark, daily):
    """Small files are merged in the order that the table states, and rows within them lie in it."""
    sort_files(daily.target(a_run()), by=["page_id", "visit_time"], curve="hilbert")
    rows = [visits(30, n) for n in range(3)]
    land(daily, *rows, partition={"day": "apart"})
    done = compact(daily.target(a_run(), partition={"day": "apart"}), min_small_files=2)
    assert done.applied
    (path,) = files_of(daily, day="apart")
    add = daily.ledger.added_files(done.version)[path]
    assert add["tags"][SORTED].startswith('{"by": ["page_id", "visit_time"], "curve": "hilbert"} ')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": []}, "by must name columns of silver/visits, not none"),
        ({"by": ["nobody"]}, r"by must name columns of silver/visits, not \['nobody'\]: it has visit_time"),
        ({"by": ["flag"]}, "not flag, which is BOOLEAN: the log has no least"),
        ({"by": ["bag"]}, "not bag, which is MAP<STRING,INT>"),
        ({"by": ["visitor"]}, r"with statistics in the log, not \['visitor'\]: their class"),
        ({"by": ["day"]}, r"within a partition of silver/visits, not \['day'\]"),
        ({"by": ["page", "PAGE"]}, "by="),
        ({"by": ["a", "b", "c", "d", "page"]}, "by must name at most 4 columns for the curve hilbert, not 5"),
        ({"by": ["page"], "curve": "spiral"}, "curve must be lexicographic, z-order or hilbert, not 'spiral'"),
        ({"by": ["page"], "target_bytes": 0}, "target_bytes must be at least 1, not 0"),
        ({"by": ["page"], "min_unsorted_share": 1.5}, "min_unsorted_share must lie between 0 and 1, not 1.5"),
        ({"by": "page"}, "by must be a list of texts, not 'page'"),
    ],
)
def test_orders_that_cannot_be_are_refused_before_spark_is_started(tmp_path, options, said):
    """A sentence each, with the column and what is wrong with it."""
    more = {"flag": Column("BOOLEAN"), "bag": Column("MAP<STRING, INT>"), "day": Column("STRING")}
    columns = {**VISITS.columns, **more, **dict.fromkeys("abcd", Column("INT"))}
    spec = TableSpec("silver/visits", columns, partition_by=("day",))
    table = Table(spec, tmp_path / "visits", lambda: pytest.fail("Spark was started"))
    table.ensure()
    with pytest.raises(ConfigError, match=said):
        sort_files(table.target(a_run()), **options)
    assert table.ledger.version() == 0


@pytest.mark.spark
def test_empty_tables_and_tables_of_sparks_writer(spark, make_table, tmp_path):
    """Nothing to sort is in order; files that only Spark exchanges are refused by the table's name."""
    empty = make_table(VISITS)
    empty.ensure()
    done = sort_files(empty.target(a_run()), by=BY, rewrite_all=True)
    assert (done.applied, done.reason) == (False, "every partition is in order by visit_time, page_id (hilbert)")
    place = tmp_path / "mapped"
    spark.sql(f"CREATE TABLE delta.`{place}` (a INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    mapped = Table.at(place, spark)
    for number in range(2):
        mapped.append(spark.range(3).selectExpr("CAST(id AS INT) AS a"), provenance=a_run(sequence=number + 1))
    with pytest.raises(ConfigError, match="must be a table whose files the library exchanges, not one of which only"):
        sort_files(mapped.target(a_run()), by=["a"])


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_hilberts_curve_passes_each_cell_once_and_goes_to_a_neighbour(columns):
    """From each cell one rank of one column changes by 1; Z-order passes each cell once, too."""
    bits = file_order._BITS[columns]
    for curve in ("hilbert", "z-order"):
        places = bytes.fromhex(file_order._curve(curve, columns))
        order = [int.from_bytes(places[n : n + 2], "big") for n in range(0, len(places), 2)]
        assert sorted(order) == list(range(1 << bits * columns))
        cells = sorted(range(len(order)), key=order.__getitem__)
        ranks = [[cell >> bits * n & (1 << bits) - 1 for n in range(columns)] for cell in cells]
        steps = [sum(abs(a - b) for a, b in zip(one, other, strict=True)) for one, other in pairwise(ranks)]
        assert (set(steps) == {1}) == (curve == "hilbert")


BOUND = st.integers(0, 9)


@given(st.lists(st.one_of(st.none(), st.tuples(BOUND, BOUND).map(sorted)), max_size=8))
def test_the_depth_is_that_of_a_plain_count(ranges):
    """The number of files that may hold a bound, on average over all bounds; files without bounds may hold any."""
    files = [{"num_records": 3, "null_count.a": 0, **({"min.a": r[0], "max.a": r[1]} if r else {})} for r in ranges]
    bounds = [value for r in ranges if r for value in r]
    counts = [sum(r is None or r[0] <= value <= r[1] for r in ranges) for value in bounds]
    expected = sum(counts) / len(counts) if counts else len(ranges)
    assert depth([*files, {"num_records": 3, "null_count.a": 3}], "a") == pytest.approx(expected)


@known_calls
def calls_that_work(known):
    return {
        "sort_files": {"into": known.daily.target(known.run, partition={"day": "mon"}), "by": ["page"]},
        "plan_sorting": {"ledger": known.daily.ledger, "partition": {"day": "mon"}, "by": ["page"]},
    }


@any_names(STORED, handed_on=("kept",))
def in_order(n):
    columns = "id INT, page STRING, kept STRING, day STRING"
    table = n.table(columns, by=["day"])
    for number in range(3):
        rows = n.frame(columns, *[(i * number % 7, f"/{i}", "x", "mon") for i in range(20)])
        table.append(rows, provenance=a_run(sequence=number + 1))
    done = sort_files(table.target(a_run(), partition={n("day"): "mon"}), by=n.all("id", "page"), target_bytes=500)
    yield table
    yield [{"applied": done.applied, "left": len(plan_sorting(table.ledger, by=n.all("id", "page")).partitions)}]


@two_runs()
def sorted_at_once(world):
    columns = "id INT, day STRING"
    table = world.table("small", columns, by=["day"])
    for n in range(2):
        table.append(world.frame(columns, (n, "mon"), (9 - n, "mon")), provenance=world.run(str(n), sequence=n + 1))
    yield lambda w: sort_files(w.into("small", "sort"), by=["id"])
    yield lambda w: sort_files(w.into("small", "again"), by=["id"])
