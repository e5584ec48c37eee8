"""Sorter: files that filters skip, by the log and by Spark's scan; the same rows; nobody downstream notices."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta, timezone
from decimal import Decimal
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
from tests.two_runs import two_runs

START = datetime(2026, 1, 5, tzinfo=timezone.utc)
FILES, ROWS = 16, 250
VISITS = TableSpec(
    "silver/visits",
    {
        "visit_time": Column("TIMESTAMP", "when"),
        "page_id": Column("INT", "page"),
        "page": Column("STRING", "path"),
        "visitor": Column("STRING", "who", personal=True),
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


def scanned(spark, table, where):
    """How many files Spark's scan opens for a filter, and the rows that it gives."""
    rows = spark.read.format("delta").load(str(table.location)).where(where)
    found = rows.collect()
    leaves = rows._jdf.queryExecution().executedPlan().collectLeaves()
    scans = [leaves.apply(n).metrics() for n in range(leaves.size())]
    counted = [each.apply("numFiles").value() for each in scans if each.contains("numFiles")]
    return sum(counted), sorted(map(str, found))


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
    filters = {"visit_time": (middle, f"visit_time = TIMESTAMP '{middle:%F %T}+00:00'"), "page_id": (500, "page_id = 500")}
    read, found = {}, {}
    for curve in ("none", "lexicographic", "z-order", "hilbert"):
        table = landed if curve == "none" else sorted_by(curve)
        assert len(active_files(table)) == FILES
        for column, (value, where) in filters.items():
            read[curve, column], rows = scanned(spark, table, where)
            assert read[curve, column] <= not_skipped(table, column, value)
            found.setdefault(column, rows)
            assert rows == found[column] != []
    assert read["none", "visit_time"] == read["none", "page_id"] == FILES
    assert (read["lexicographic", "visit_time"], read["lexicographic", "page_id"]) == (1, FILES)
    for curve in ("z-order", "hilbert"):
        assert 1 < max(read[curve, column] for column in filters) <= FILES // 2
    assert sum(read["hilbert", column] for column in filters) <= sum(read["z-order", column] for column in filters)
