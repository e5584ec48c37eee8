"""LogFold: a reader of a log that goes on where it stopped."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone

import pytest

from dedp_assets.patterns.delta import Ledger, LogFold
from tests.counting import counted
from tests.logs import LogOverTime

AT = datetime(2026, 1, 5, tzinfo=timezone.utc)


class Reader:
    """What changed in a table's log since the last poll, by column."""

    def __init__(self):
        self.found = []
        self.fold = LogFold(lambda ledger, since: ledger.glimpses(since=since), self.take, lambda: None)

    def take(self, glimpse):
        self.found += [column for partition in glimpse.changed for column, _ in partition]

    def poll(self, location):
        self.found = []
        self.fold.poll(Ledger(location))
        return self.found


@pytest.fixture
def log(tmp_path):
    """A log of a table by day with five commits."""
    made = LogOverTime(tmp_path / "visits", "silver/visits")
    made.create(AT)
    for number in range(4):
        made.write(AT, f"2026-01-0{number + 1}", 1)
    return made


def test_a_poll_opens_the_commits_since_the_last_one_and_each_once(log):
    """However many came after the last checkpoint, and nothing beside them."""
    reader = Reader()
    assert reader.poll(log.location) == ["day"] * 4
    log.write(AT, "2026-01-09", 1)
    with counted() as counts:
        assert reader.poll(log.location) == ["day"]
    assert (counts["log files"], counts["read again"], counts["deltalake"]) == (1, 0, 0)
    with counted() as counts:
        assert reader.poll(log.location) == []
    assert (counts["log files"], counts["log listings"]) == (0, 0)


def test_a_partition_column_that_is_renamed_has_the_new_name_from_then_on(log):
    """In the poll that reads the rename, and in the ones after it."""
    reader = Reader()
    reader.poll(log.location)
    rename(log, "date")
    log.write(AT, "2026-01-09", 1)
    assert reader.poll(log.location) == ["date"]
    log.write(AT, "2026-01-10", 1)
    assert reader.poll(log.location) == ["date"]
    rename(log, "on_day")
    assert reader.poll(log.location) == []
    log.write(AT, "2026-01-11", 1)
    assert reader.poll(log.location) == ["on_day"]


def test_another_table_in_the_folder_has_names_of_its_own(log):
    """The one that was known is forgotten with its commits."""
    reader = Reader()
    rename(log, "date")
    assert reader.poll(log.location) == ["date"] * 4
    shutil.rmtree(log.location)
    other = LogOverTime(log.location, "silver/visits", "week")
    other.create(AT)
    for number in range(9):
        other.write(AT, f"2026-0{number + 1}", 1)
    assert reader.poll(log.location) == ["week"] * 9


def rename(log, name):
    """Rename the partition column in the schema; files go on naming it as before."""
    (first,) = (log.location / "_delta_log" / f"{0:020d}.json").read_text().splitlines()[-1:]
    meta = json.loads(first)["metaData"]
    schema = json.loads(meta["schemaString"])
    (field,) = (field for field in schema["fields"] if field["name"] == log.column)
    field |= {"name": name, "metadata": {"delta.columnMapping.physicalName": log.column}}
    log.actions(
        AT, "RENAME COLUMN", [{"metaData": {**meta, "schemaString": json.dumps(schema), "partitionColumns": [name]}}]
    )
