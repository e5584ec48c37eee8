"""Folders of CSV files."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timezone

import pytest

from dedp_assets.patterns.connectors.delivery.csv_folder import Batch, CsvFolder
from dedp_assets.patterns.connectors.landing.deliveries import delivery_at
from dedp_assets.patterns.core.errors import ConfigError
from tests.faults.failpoints import dying

DAY = {"day": "2026-01-05"}


@pytest.mark.spark
def test_texts_come_back_as_they_were(spark, tmp_path):
    """Quotes, separators, line breaks and spaces, microseconds; NULL is nothing and an empty text is quoted."""
    at = datetime(2026, 1, 5, 12, 0, 0, 123456, tzinfo=timezone.utc)
    rows = [(1, 'say "hi", you', at), (2, " two\nlines ", None), (3, "", None), (4, None, None)]
    folder = CsvFolder(str(tmp_path / "csv"))
    frame = spark.createDataFrame(rows, "id INT, text STRING, at TIMESTAMP").coalesce(1)
    assert folder.replace(frame, DAY, Batch("1"))
    (name,) = folder.files(DAY)
    file = tmp_path / "csv" / "day=2026-01-05" / name
    found = list(csv.DictReader(io.StringIO(file.read_bytes().decode(), newline="")))
    assert [row["text"] for row in found] == ['say "hi", you', " two\nlines ", "", ""]
    assert found[0]["at"] == "2026-01-05T12:00:00.123456Z"
    assert file.read_text().splitlines()[-2:] == ['3,"",', "4,,"]


@pytest.mark.spark
def test_the_folder_is_a_delivery_that_a_consumer_may_read(spark, tmp_path):
    """The marker lists every file with its size, and nothing else lies there."""
    folder = CsvFolder(str(tmp_path / "csv"), header=False, separator=";")
    folder.replace(spark.range(0, 10, 1, 3).selectExpr("id", "id AS n"), DAY, Batch("1", 7))
    delivery = delivery_at(tmp_path / "csv" / "day=2026-01-05")
    assert delivery.refusal() == ""
    assert len(delivery.files) == 3
    assert {file.name: file.size_bytes for file in delivery.files} == delivery.manifest
    texts = [(tmp_path / "csv/day=2026-01-05" / file.name).read_text() for file in delivery.files]
    assert sorted("".join(texts).splitlines()) == [f"{n};{n}" for n in range(10)]


@pytest.mark.spark
@pytest.mark.parametrize("point", ["before", "after"])
def test_readers_see_the_former_partition_or_the_next_one(spark, tmp_path, point):
    """Whenever the writer dies, files and marker belong together, and the batch is completed or known."""
    folder = CsvFolder(str(tmp_path / "csv"))
    first, second = (spark.createDataFrame([(n,)], "id INT").coalesce(1) for n in (1, 2))
    folder.replace(first, DAY, Batch("1", 1))
    with dying(point, below="csv"), pytest.raises(Exception, match="killed"):
        folder.replace(second, DAY, Batch("2", 2))
    assert delivery_at(tmp_path / "csv" / "day=2026-01-05").refusal() == ""
    assert folder.holds(DAY, Batch("2", 2)) == (point == "after")
    assert folder.replace(second, DAY, Batch("2", 2)) == (point == "before")
    assert folder.holds(DAY, Batch("2", 2))


@pytest.mark.spark
def test_a_column_that_no_text_can_hold_is_refused_by_name(spark, tmp_path):
    """Before a file is written."""
    folder = CsvFolder(str(tmp_path / "csv"))
    with pytest.raises(ConfigError, match="tags must be a number, a text, a time or a truth, not ARRAY<STRING>"):
        folder.replace(spark.createDataFrame([], "id INT, tags ARRAY<STRING>"), DAY, Batch("1"))
    assert not (tmp_path / "csv").exists()


@pytest.mark.spark
def test_partitions_under_any_name_have_folders_of_their_own(spark, tmp_path):
    """Also names that engines read as something else, hidden ones, and those that differ in one odd character."""
    folder, odd = CsvFolder(str(tmp_path / "csv")), ["a:b", "a*b", "a/b", "a%2Fb", "x" * 300, "ü", "."]
    for number, value in enumerate(odd):
        folder.replace(spark.createDataFrame([(number,)], "id INT").coalesce(1), {"_k": value}, Batch(str(number)))
    assert all(folder.holds({"_k": value}, Batch(str(number))) for number, value in enumerate(odd))
    shown = [each.name for each in (tmp_path / "csv").iterdir() if each.is_symlink()]
    assert len(shown) == len(odd)
    assert not [name for name in shown if name.startswith((".", "_"))]


@pytest.mark.parametrize("separator", ["", ",,", '"', "\n"])
def test_a_separator_is_one_character(tmp_path, separator):
    """And none that means something else in a CSV file."""
    with pytest.raises(ConfigError, match="separator must be one character and no quote"):
        CsvFolder(str(tmp_path), separator=separator)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    """A partition with files of another origin is no edition."""
    (tmp_path / "csv" / "day=2026-01-05").mkdir(parents=True)
    with pytest.raises(ConfigError, match="holds data of its own and is no edition"):
        CsvFolder(str(tmp_path / "csv")).files(DAY)


def test_a_partition_that_was_never_written_holds_nothing(tmp_path):
    """No file, and no batch."""
    folder = CsvFolder(str(tmp_path / "csv"))
    assert folder.files(DAY) == {}
    assert not folder.holds(DAY, Batch("1"))
