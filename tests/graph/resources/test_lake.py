"""The lake: tables by name, and any version of them without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import TableNotFoundError

from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake, lake_of
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.delta import store_at
from tests.helpers import EVENTS, a_record, rows_at, write_log


@pytest.fixture
def lake(tmp_path):
    """A lake with a table of two versions; after the test no Spark session may exist."""
    made = Lake(root=str(tmp_path), engine=SparkEngine())
    write_deltalake(str(tmp_path / "silver/events"), pa.table({"id": [1, 2]}))
    write_deltalake(str(tmp_path / "silver/events"), pa.table({"id": [3]}), mode="overwrite")
    yield made
    assert made.engine._spark_session is None


def ids(table):
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


def test_a_table_is_read_at_any_version_without_spark(lake):
    """The newest version if none is named, otherwise exactly the named one."""
    assert ids(lake.delta("silver/events")) == [3]
    assert ids(lake.delta("silver/events", version=0)) == [1, 2]
    assert ids(lake.delta("silver/events", version=1)) == [3]


def test_a_table_that_is_not_there_is_an_error(lake):
    """A misspelt name is not an empty table."""
    with pytest.raises(TableNotFoundError):
        lake.delta("silver/evnets")


def test_the_ledger_and_the_table_of_a_name_are_the_same_place(lake, tmp_path):
    """Metadata is read below the lake's root, under the name that messages show, without Spark."""
    assert lake.table(EVENTS).location == tmp_path / "silver/events"
    assert lake.table(EVENTS).ledger.version() == lake.ledger("silver/events").version() == 1
    record = a_record("gold/days", {"day": "2026-01-05"})
    commit = {"changed": [{"day": "2026-01-05"}], "record": record}
    write_log(tmp_path / "gold/days", {"id": "long", "day": "date"}, ["day"], [commit])
    assert lake.ledger("gold/days").latest({"day": "2026-01-05"}).record == record
    assert not lake.ledger("gold/nothing").exists()


def test_the_tables_of_a_lake_are_found_where_they_are(lake, tmp_path):
    """Every table below the root, by layer and dataset; a folder without a log is none, a link is somebody else's."""
    write_log(tmp_path / "gold/days", {"id": "long"}, [], [])
    (tmp_path / "gold/replica").symlink_to(tmp_path / "gold/days")
    (tmp_path / "gold/empty").mkdir()
    assert lake.names() == ["gold/days", "silver/events"]
    assert lake.names(replicas=True) == ["gold/days", "gold/replica", "silver/events"]


@pytest.mark.parametrize("root", [lambda folder: folder.as_uri(), str])
def test_a_lake_lies_where_a_path_or_a_uri_says(tmp_path, root):
    """The same tables at the same places, in a folder with a blank in its name, too."""
    folder = tmp_path / "my lake"
    write_deltalake(str(folder / "silver/events"), pa.table({"id": [3]}))
    made = Lake(root=root(folder), engine=SparkEngine())
    assert made.names() == ["silver/events"]
    assert made.table(EVENTS).location == folder / "silver/events"
    assert ids(made.delta("silver/events")) == [3]


def test_a_table_is_opened_for_maintenance_by_the_declaration_in_its_log(lake):
    """Which holds every column, so that nothing of the table is altered; without a table there are no columns."""
    stored = lake.stored("silver/events")
    assert (stored.name, stored.ledger.version()) == ("silver/events", 1)
    assert [*stored.spec.columns] == [*stored.ledger.state().columns]
    assert stored.ensure().version == 1
    assert not lake.stored("silver/nothing").spec.columns


def test_plain_files_of_a_lake_in_a_bucket_are_in_the_home(monkeypatch, tmp_path):
    """A folder of files is exchanged as a whole, which a bucket cannot do; those of a folder lie in the lake."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    for lake, files in (
        (str(tmp_path / "lake"), f"file://{tmp_path}/lake/_files"),
        ("s3://b/lake", tmp_path / "exports"),
    ):
        monkeypatch.setenv("DEDP_LAKE", lake)
        assert lake_of(settings()).files("gold/days") == f"{files}/gold/days"


def test_a_lake_that_is_copied_to_a_bucket_and_back_is_the_same_lake(bucket_store, lake, tmp_path):
    """By its files alone: rows, versions and ledgers of each table are as they were, and every byte in the end."""
    record = a_record("gold/days", {"day": "2026-01-05"})
    write_log(tmp_path / "gold/days", {"id": "long", "day": "date"}, ["day"], [{"changed": [], "record": record}])
    copied = Lake(root=bucket_store.address, engine=SparkEngine())
    back = Lake(root=str(tmp_path / "back"), engine=SparkEngine())
    for source, target in ((lake, copied), (copied, back)):
        here, there = store_at(source.root), store_at(target.root)
        for file in here.files():
            there.put(file.path, here.read(file.path))
        assert target.names() == ["gold/days", "silver/events"]
        newest = [each.ledger("gold/days").last(lambda commit: commit.record) for each in (target, lake)]
        assert newest[0] == newest[1]
        assert newest[0].record == record
        for version in (0, 1):
            rows = rows_at(target.ledger("silver/events").store, version)
            assert rows == rows_at(lake.ledger("silver/events").store, version)
    first, last = (
        {file.path: store_at(at.root).read(file.path) for file in store_at(at.root).files()} for at in (lake, back)
    )
    assert {path: content for path, content in first.items() if not path.startswith("back/")} == last
