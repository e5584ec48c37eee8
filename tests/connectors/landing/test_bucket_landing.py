"""A landing zone in a bucket, by Spark: the same files as in a folder, of every format, with equal rows."""

from __future__ import annotations

import pytest

from tests.connectors.landing.landing_story import FORMATS
from tests.object_store import told

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def stories(object_store, tmp_path_factory):
    """What was read in a bucket and in a folder."""
    folder, chosen = tmp_path_factory.mktemp("story"), {"DEDP_JIT": "quick", "DEDP_SPARK_MASTER": "local[1]"}
    return told("tests.connectors.landing.landing_story", object_store, "story/landing", folder, **chosen)


@pytest.mark.parametrize("made", FORMATS)
def test_the_files_of_a_format_have_the_same_rows(stories, made):
    """With the same names of files, numbers of lines, counts, digest and findings; tasks open what they read."""
    bucket, folder = (story[made] for story in stories)
    assert bucket == folder
    assert {row[0] for row in bucket["rows"]} == {name for name, content in FORMATS[made][1].items() if content}


def test_bad_records_are_dead_letters_with_the_same_places(stories):
    """One that is no number and one that is no text, of a plain and of a compressed file."""
    found = stories[0]["json lines"]
    assert [row[1] for row in found["dead"]] == ["2", "3", "5", "6", "2", "3"]
    assert {row[3] for row in found["dead"]} == {"id is not a BIGINT"}
    assert [row[1] for row in found["valid"]] == ["1", "4", "1"]
    assert any("\\xff" in row[3] for row in found["rows"])
