"""Names and places that cannot be, of all patterns of storage: one sentence, before anything is written."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from functools import partial

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.cost.storage_tiering import Tier, move_to_tiers
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.storage.manifest import write_manifest
from dedp_assets.patterns.storage.snapshot_export import declare_exports, export_snapshot
from dedp_assets.patterns.storage.time_travel import compare_versions, roll_back, set_milestone
from tests.helpers import a_run, field_of, refusal, write_protocol

VISITS = TableSpec(
    "silver/visits",
    {"id": Column("BIGINT", classification="public"), "day": Column("DATE", classification="public")},
    partition_by=("day",),
)
NOW = datetime(2026, 1, 20, tzinfo=timezone.utc)


def no_spark():
    raise AssertionError("Spark was started")


@pytest.fixture
def visits(tmp_path):
    """A table of one old day."""
    place = str(tmp_path / "lake/silver/visits")
    write_deltalake(place, pa.table({"id": [1], "day": [date(2020, 1, 1)]}), partition_by=["day"])
    return Table(VISITS, place, no_spark)


@pytest.fixture
def marked(tmp_path):
    """A table whose only file has a deleted row."""
    vector = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 34, "cardinality": 1}
    add = {"path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    place, features = tmp_path / "lake/silver/marked", ["deletionVectors"]
    more = [{"add": {**add, "deletionVector": vector}}]
    write_protocol(place, [field_of("id", "long")], readers=features, writers=features, more=more)
    return Table.at(place, no_spark)


def test_what_cannot_be_done_with_a_table_is_refused_before_anything_is_written(visits, marked, tmp_path):
    """A manifest that would lie, a milestone that is gone, an export in an export, a tier that is not there."""
    exported, catalogue = tmp_path / "exports", Table(declare_exports(name="gold/exports"), tmp_path / "c", no_spark)
    with pytest.raises(AssertionError, match="Spark was started"):  # after the export, for its row in the catalogue
        export_snapshot(visits, catalogue.target(a_run()), to=str(exported))
    into, inside = visits.target(a_run()), exported / "silver/visits/v0"
    tiers = [Tier("hot", 0, 0.023), Tier("cold", 365, 0.004, at=str(tmp_path / "unmounted"))]
    export = partial(export_snapshot, visits, catalogue.target(a_run()))
    before = contents(tmp_path)
    for text, call in {
        "silver/marked has rows that deletion vectors delete, .* purge them first": partial(write_manifest, marked),
        "silver/visits has no milestone q1: it has none": lambda: visits.read(version="q1"),
        "silver/visits has no milestone q2: it has none": partial(roll_back, into, to="q2", because="a mistake"),
        "silver/visits has no milestone q3: it has none": partial(set_milestone, into, name="q3", change="release"),
        "silver/visits has no milestone q4: it has none": partial(compare_versions, visits, keys=["id"], before="q4"),
        "silver/visits has no milestone q5: it has none": partial(export, to=str(exported), version="q5"),
        f"an export must lie in no table and in no other export, .*: {inside} is one": partial(export, to=str(inside)),
        "at of tier cold must be a place that is there, not .*unmounted": partial(
            move_to_tiers, into, tiers=tiers, by="day", now=NOW
        ),
    }.items():
        assert re.search(text, refusal(call))
    assert contents(tmp_path) == before


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.suffix in (".json", ".parquet")
    }
