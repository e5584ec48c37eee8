"""`dedp restore`: versions and milestones listed, kept, released and made current again."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dedp_assets.cli import main
from dedp_assets.graph.resources.lake import Lake
from tests.helpers import read_back
from tests.row_worlds import commit, mapped_metadata, write_mapped


@pytest.fixture
def dedp(monkeypatch, tmp_path, capsys):
    """``dedp("--to", "0")`` of a table with three versions: exit code, output and errors."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    for price in (1, 2, 3):
        write_deltalake(str(tmp_path / "lakehouse/gold/prices"), pa.table({"price": [price]}), mode="overwrite")

    def run(*options, table="gold/prices"):
        code = main(["restore", table, *options])
        return code, *capsys.readouterr()

    return run


def listed(out):
    """Version -> operation and milestones, as the table on the terminal has them."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    return {int(row[0]): (row[2], row[4]) for row in rows}


def test_versions_are_listed_and_kept(dedp):
    """A milestone of an instant or a number; it is named in the list until it is released."""
    code, out, _ = dedp()
    assert (code, listed(out)) == (0, dict.fromkeys(range(3), ("WRITE", "")))
    code, out, _ = dedp("--keep", "before-the-sale", "--at", "1")
    assert (code, listed(out)[1], out.splitlines()[0]) == (
        0,
        ("WRITE", "before-the-sale"),
        "before-the-sale is version 1",
    )
    code, out, _ = dedp("--release", "before-the-sale")
    assert (code, listed(out)[1]) == (0, ("WRITE", ""))


@pytest.mark.spark
def test_a_version_is_made_current_again_for_a_reason(dedp, spark, monkeypatch, tmp_path):
    """By the name of a milestone; the reason stands in the list."""
    monkeypatch.setattr("dedp_assets.graph.resources.spark.SparkEngine.session", property(lambda _: spark))
    dedp("--keep", "right", "--at", "0")
    code, out, _ = dedp("--to", "right", "--because", "prices came without a sign")
    assert code == 0
    assert "the rows are those of version 0 again" in out
    assert "without a sign" in out
    assert read_back(Lake(root=str(tmp_path / "lakehouse"), engine=None).stored("gold/prices")) == [{"price": 1}]


def test_vectors_that_may_not_be_written_again_are_refused_in_one_line(monkeypatch, tmp_path, capsys):
    """A version with deletion vectors of a table that no longer allows new ones, which Delta answers with a stack."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    place = tmp_path / "lakehouse/silver/mapped"
    rows, physical = pa.table({"id": [1, 2]}), {"id": "col-1"}
    write_mapped(place, rows, physical, deleted=[1])
    commit(place, 1, mapped_metadata({"id": "long", "more": "long"}, {**physical, "more": "col-2"}, {}))
    removed = {"path": "f.parquet", "deletionTimestamp": 1, "dataChange": True}
    first = (place / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    (added,) = [json.loads(line)["add"] for line in first if '"add"' in line]
    commit(place, 2, {"remove": {**removed, "deletionVector": added["deletionVector"]}})
    code = main(["restore", "silver/mapped", "--to", "0", "--because", "a test"])
    errors = capsys.readouterr().err
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "version 0 has deletion vectors" in errors


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--to", "0"), 2, "because must be a text that is not empty"),
        (("--to", "9", "--because", "x"), 3, "gold/prices has no version 9: its newest is 2"),
        (("--to", "2000-01-01", "--because", "x"), 2, "gold/prices has no version at 2000-01-01T00:00:00+00:00"),
        (("--to", "q1", "--because", "x"), 3, "gold/prices has no milestone q1: it has none"),
        (("--keep", "1st"), 2, "name must be a letter and up to 99 letters"),
        (("--at", "1"), 2, "--at must stand with --keep"),
    ],
)
def test_wishes_that_cannot_be_are_refused_in_one_line(dedp, options, code, sentence):
    """With an exit code."""
    found, _, errors = dedp(*options)
    assert (found, len(errors.splitlines())) == (code, 1)
    assert sentence in errors
