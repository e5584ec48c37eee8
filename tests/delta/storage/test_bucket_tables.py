"""A table in a bucket, by Spark: the same story as in a folder, step by step, with equal rows."""

from __future__ import annotations

import duckdb
import pytest
from deltalake import DeltaTable
from obstore.fsspec import FsspecStore

from tests.helpers import EVENTS
from tests.object_store import told

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.budget(60, "an engine of its own that tells the story of a table twice, and an S3 server"),
]

MOST = 75
"""Requests of a write of this size up to the commit record; twice as many as seen."""
TABLE = "story/silver/events"
STEPS = [
    "created",
    "again",
    "overwritten",
    "refused",
    "merged",
    "appended",
    "compacted",
    "raced",
    "restored",
    "vacuumed",
    "repartitioned",
    "laid out",
    "migrated",
]


@pytest.fixture(scope="module")
def stories(object_store, test_settings, tmp_path_factory):
    """The story in a bucket and in a folder."""
    return told("tests.delta.storage.bucket_story", object_store, TABLE, tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="module")
def story(stories):
    """The story in the bucket."""
    return stories[0]


@pytest.mark.parametrize("step", STEPS)
def test_each_step_leaves_the_rows_and_the_version_that_it_leaves_in_a_folder(stories, step):
    """Read by deltalake, and where Spark read them, by the library and by Delta."""
    bucket, folder = (dict(story[step]) for story in stories)
    assert (bucket.pop("committers", None) is None) == (folder.pop("committers", None) is None)
    for story in (bucket, folder):
        del story["requests"]
    assert bucket == folder
    for read in bucket.get("by_spark", []):
        assert read == bucket["rows"]


def test_the_story_has_no_other_steps(stories):
    """None is left out of the comparison."""
    assert [[*story] for story in stories] == [STEPS, STEPS]


def test_tasks_upload_under_the_final_name(story):
    """A bucket renames no file: the magic committer wrote what is staged."""
    assert {each["committer"] for each in story["created"]["committers"]} == {"magic"}


def test_the_record_of_a_write_has_its_requests(stories):
    """By kind, of a table in a bucket alone; a write of a day sends as many whatever else the table holds."""
    bucket, folder = ({step: facts["requests"] for step, facts in story.items()} for story in stories)
    written = {step: bucket[step] for step in ("created", "overwritten", "merged", "appended", "compacted")}
    assert [step for step, sent in written.items() if not {"requests_get", "requests_put"} <= sent.keys()] == []
    assert {step: sum(sent.values()) for step, sent in written.items() if sum(sent.values()) > MOST} == {}
    assert [sent for sent in folder.values() if sent] == []


def test_the_same_run_twice_publishes_nothing(story):
    """Nor does a commit without changes come of it."""
    assert (story["again"]["changed"], story["again"]["version"]) == (False, story["created"]["version"])


def test_a_refused_audit_leaves_nothing_published(story):
    """The refused rows are read in their stage, which then goes as a whole."""
    facts = story["refused"]
    assert (facts["version"], facts["rows"]) == (story["overwritten"]["version"], story["overwritten"]["rows"])
    assert (facts["staged"], facts["said"], facts["left"]) == (1, True, False)


def test_of_two_writers_at_once_each_commits_each_time(story):
    """Without a lock: a commit that came second is decided again."""
    assert story["raced"]["commits"] == 4
    days = [row[3] for row in story["raced"]["rows"]]
    assert (days.count("2026-01-06"), days.count("2026-01-07")) == (3, 3)


def test_files_are_merged_and_removed_and_no_row_is_lost(story):
    """A vacuum leaves the files that the newest version names, and those alone."""
    assert story["compacted"]["reason"] == "5 files became 1, in 1 partitions"
    assert story["compacted"]["rows"] == story["appended"]["rows"]
    assert story["restored"]["rows"] == story["overwritten"]["rows"]
    assert (story["vacuumed"]["removed"], story["vacuumed"]["exact"], story["vacuumed"]["in_use"]) == (True, True, 0)


def test_partition_columns_change_in_one_commit_of_equal_rows(story):
    """The copy beside the table leaves no log of its own."""
    changed, before = story["repartitioned"], story["vacuumed"]
    assert (changed["version"], changed["rows"]) == (before["version"] + 1, before["rows"])
    assert (changed["reason"], changed["left"]) == ("partitioned by nothing instead of event_date", [])


def test_a_declared_layout_is_kept_in_a_bucket(story):
    """Sorted, with filters, and in two buckets, of the same rows."""
    laid_out = story["laid out"]
    assert (laid_out["left"], laid_out["files"]) == ([], 2)
    assert laid_out["rows"] == story["repartitioned"]["rows"]


def test_a_folder_becomes_a_table(story):
    """By what the store does: no file of it is left, and each row of the folder and of the batch is there once."""
    moved = story["migrated"]["moved"]
    assert moved[0] == moved[1]
    assert sorted(int(row[0]) for row in moved[0]) == [0, 1, 2, 3, 50, 51, 52]
    assert (story["migrated"]["left"], story["migrated"]["figures"]["files_left"]) == ([], 0)


def test_duckdb_reads_the_rows_of_the_newest_version(story, object_store, monkeypatch):
    """A reader that knows neither Spark nor the library, of the files that the log names; days stand in the log."""
    columns = [column for column in EVENTS.columns if column not in EVENTS.partition_by]
    with object_store.named(monkeypatch), duckdb.connect() as reader:
        reader.register_filesystem(FsspecStore("s3"))
        files = DeltaTable(f"s3://{object_store.bucket}/{TABLE}").file_uris()
        found = reader.sql(f"SELECT {', '.join(columns)} FROM read_parquet({files})").fetchall()
    wanted = [
        [text for text, column in zip(row, EVENTS.columns, strict=True) if column in columns]
        for row in story["vacuumed"]["rows"]
    ]
    assert sorted([str(value) for value in row] for row in found) == sorted(wanted)
