"""Staged files that somebody removes before they are published: no commit names a file that is gone."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, StagedWrite, Table, Update
from dedp_assets.patterns.idempotency.transactional_writer import TableRows, publish_group
from dedp_assets.patterns.ingestion.compactor import compact
from tests.faults.failpoints import vacuuming
from tests.helpers import a_run

pytestmark = pytest.mark.spark

COLUMNS = {"id": Column("BIGINT", required=True), "day": Column("DATE", required=True)}
DAY = {"day": "2026-01-05"}
RUN = a_run("silver/t")


def staged(table, rows, **options):
    return table.stage(rows, partition=DAY, provenance=RUN, **options)


def noted(table, rows):
    """Publish from a note, as another process does."""
    note = json.loads(json.dumps(staged(table, rows).note()))
    return StagedWrite.of_note(table, note).publish()


def recompute(table, rows):
    return table.recompute(rows, keys=["id"], identity=["id"], compute=lambda _, new: new, provenance=RUN)


WRITES = {
    "overwrite": lambda table, rows: staged(table, rows).publish(),
    "append": lambda table, rows: staged(table, rows, append=True).publish(),
    "note": noted,
    "group": lambda table, rows: publish_group([TableRows(rows, table.target(RUN, partition=DAY))]),
    "compaction": lambda table, _: compact(table.target(RUN), min_small_files=2),
}
CHANGES = {
    "merge": lambda table, rows: table.merge(rows, Merge(["id"], [Update(), Insert()]), provenance=RUN),
    "recompute": recompute,
    "delete": lambda table, _: table.delete("id < 3", provenance=RUN),
}
BY_SPARK = {"written by Spark": "overwrite", "appended by Spark": "append", "merged by Spark": "merge"}


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """Makes tables of two files, and rows of two files to write."""
    root, numbers = tmp_path_factory.mktemp("lake"), itertools.count()

    def rows(first, last):
        return spark.range(first, last, 1, 2).selectExpr("id", f"DATE '{DAY['day']}' AS day")

    def make(**properties):
        spec = TableSpec(f"silver/t{next(numbers)}", COLUMNS, partition_by=("day",), properties=properties)
        table = Table(spec, root / spec.name, spark)
        staged(table, rows(0, 6)).publish()
        return table, rows(4, 9)

    return make


def ids(table):
    """The rows as Spark reads them, every file of them."""
    return sorted(row["id"] for row in table.read().collect())


@pytest.mark.promise("a-file-that-is-gone")
@pytest.mark.parametrize("verb", [*WRITES, *CHANGES, *BY_SPARK])
def test_a_file_that_is_gone_is_never_named(world, verb):
    """Refused by the name of the file, with the table as it was; what reads its rows itself computes them once more."""
    table, rows = world(**({"delta.columnMapping.mode": "name"} if verb in BY_SPARK else {}))
    write = {**WRITES, **CHANGES}[BY_SPARK.get(verb, verb)]
    before, version = ids(table), table.ledger.version()
    with vacuuming(table) as removed:
        if verb in CHANGES:
            assert write(table, rows).applied
        else:
            with pytest.raises(Conflict, match=r"part-.* is missing since it was written.*VACUUM"):
                write(table, rows)
            assert (ids(table), table.ledger.version()) == (before, version)
            assert write(table, rows).applied
    assert removed
    after, other = {*before, *range(4, 9)}, {"compaction": before, "recompute": None}
    if verb in ("overwrite", "note", "group", "written by Spark"):
        after = {*range(4, 9)}
    if "append" in verb:
        assert ids(table) == sorted([*before, *range(4, 9)])
    elif verb == "delete":
        assert ids(table) == [3, 4, 5]
    else:
        assert ids(table) == sorted(other.get(verb) or after)


def test_a_change_gives_up_where_each_stage_is_removed(world):
    """And says what was gone, not that somebody else wrote."""
    table, rows = world()
    before = ids(table)
    with vacuuming(table, times=99), pytest.raises(Conflict, match="is missing since it was written"):
        CHANGES["merge"](table, rows)
    assert ids(table) == before
    assert not [name for name in table.store.list() if name.startswith("staged-") and table.store.is_claimed(name)]


@pytest.mark.parametrize("part", ["valid", "dead"])
def test_staged_rows_are_read_back_whole_or_not_at_all(world, part):
    """Letters that are filed from a stage are all of its letters."""
    table, rows = world()
    split = Split(
        rows.withColumn(OUTCOME, F.expr("if(id % 2 = 0, 'valid', 'dead')")),
        dict.fromkeys(("valid", "dead"), tuple(COLUMNS)),
    )
    held = staged(table, split, also=("dead",))
    assert held.part(part).count() == {"valid": 3, "dead": 2}[part]
    next(Path(table.location).glob(f"{held.stage.store.name}/**/*={part}/*.parquet")).unlink()
    with pytest.raises(Conflict, match="is missing since it was written"):
        held.part(part)
