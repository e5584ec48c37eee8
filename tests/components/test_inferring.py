"""Columns inferred from files, written once, and what the command says of everything else."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.cli import main
from dedp_assets.components.checking import checked, files_below
from dedp_assets.components.inferring import columns_of
from dedp_assets.patterns.connectors.formats import Csv, JsonLines, Parquet
from dedp_assets.patterns.core.errors import ContractError

LANDING = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/orders
  folder: orders
  format: {csv: {delimiter: ;}}
  partitions: {daily: {start: 2026-01-05}}
  about: {owner: "team:data"}
"""
AT = "2026-01-05T10:00:00Z"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a landing zone, and a project with one declaration."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    (tmp_path / "defs" / "orders").mkdir(parents=True)
    (tmp_path / "defs" / "orders" / "defs.yaml").write_text(LANDING)
    return tmp_path


def land(home, day, name, text):
    """Put a file into the folder of a day."""
    there = home / "landing" / "orders" / day
    there.mkdir(parents=True, exist_ok=True)
    (there / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def columns(path, text, made):
    """What is inferred from one file: name -> type, pattern, whether it may lack, remark."""
    path.write_text(text)
    found, _ = columns_of([path], made)
    return {name: (each.type, each.format, each.lacks, each.remark) for name, each in found.items()}


def test_the_command_writes_a_file_that_the_declaration_takes(home, capsys):
    """Once: what is written down holds, until somebody asks for it again."""
    land(home, "2026-01-05", "a.csv", "id;Order Time;no\n1;1/25/2026 9:05;x\n")
    land(home, "2026-01-06", "b.csv.gz", "id;Order Time;no;raw\n2;1/26/2026 19:05;y;z\n")
    land(home, "2026-01-06", "_SUCCESS", "")
    folder = str(home / "defs" / "orders")
    assert main(["infer", folder]) == 0
    text = (home / "defs" / "orders" / "columns.yaml").read_text()
    assert "in 2 of 2 files, 2 records" in text
    assert checked(files_below(home / "defs")).faults == []
    lines = [line.strip() for line in text.splitlines()]
    assert "id: {type: BIGINT}" in lines
    assert 'order_time: {type: TIMESTAMP, called: "Order Time", format: "M/d/yyyy H:mm"}' in lines
    assert '"no": {type: STRING}  # text: no number, date or time' in lines
    assert "raw_in_file: {type: STRING, called: raw, may_lack: true}  # text: no number, date or time" in lines
    land(home, "2026-01-07", "c.csv", "id;Order Time;no\nx;1/25/2026 9:05;x\n")
    assert main(["infer", folder]) == 1
    assert "the columns are written down: --again replaces them" in capsys.readouterr().err
    assert (home / "defs" / "orders" / "columns.yaml").read_text() == text
    assert main(["infer", folder, "--again"]) == 0
    assert "id: {type: STRING}" in (home / "defs" / "orders" / "columns.yaml").read_text()


def test_what_cannot_be_inferred_is_said(home, capsys):
    """No declaration, no file, no record, a fault of the declaration, and a header with a column twice."""
    folder = str(home / "defs" / "orders")
    assert main(["infer", str(home)]) == 2
    assert main(["infer", folder]) == 1
    assert f"no file below {home}/landing/orders" in capsys.readouterr().err
    land(home, "2026-01-05", "a.csv", "id;id\n1;2\n")
    assert main(["infer", folder]) == 1
    assert "a.csv names a column twice in its header: id, id" in capsys.readouterr().err
    land(home, "2026-01-05", "a.csv", "id\n")
    assert main(["infer", folder]) == 1
    assert "no record is in 1 files" in capsys.readouterr().err
    (home / "defs" / "orders" / "defs.yaml").write_text(LANDING.replace("folder:", "foldr:"))
    assert main(["infer", folder]) == 1
    assert "unknown option foldr: did you mean folder?" in capsys.readouterr().err
    (home / "defs" / "orders" / "defs.yaml").write_text("a: [")
    assert main(["infer", folder]) == 1
    assert "this is no YAML" in capsys.readouterr().err


def test_types_of_csv_are_conservative(tmp_path):
    """Leading zeros, signs and long digits are texts; a type takes nearly all values."""
    values = {
        "whole": (["1", "-2", "30"], "BIGINT"), "zip": (["10115", "01067", "80331"], "STRING"),
        "phone": (["+49", "1", "2"], "STRING"), "long": (["1" * 20, "2", "3"], "STRING"),
        "number": (["1.5", "2", "-0.25"], "DOUBLE"), "truth": (["true", "false", ""], "BOOLEAN"),
        "yes": (["yes", "no", "yes"], "STRING"), "day": (["2026-01-05", "2024-02-29", ""], "DATE"),
        "no_day": (["2026-02-30", "2024-02-29", ""], "STRING"),
        "at": (["2026-01-05T10:00:00Z", "2026-01-05 10:00:00.123", "2026-01-05T10:00:00+01:00"], "TIMESTAMP"),
        "short": (["2026-01-05 10:00", "2026-01-05 10:01", ""], "TIMESTAMP"),
        "ambiguous": (["1/2/2026", "3/4/2026", "5/6/2026"], "STRING"),
        "american": (["1/2/2026", "3/14/2026", ""], "DATE"),
        "german": (["1.2.2026", "14.3.2026", ""], "DATE"), "nothing": (["", "", ""], "STRING"),
        "mixed": (["1", "x", "y"], "STRING"),
    }  # fmt: skip
    rows = [",".join(each) for each in zip(*(texts for texts, _ in values.values()), strict=True)]
    found = columns(tmp_path / "a.csv", "\n".join([",".join(values), *rows]), Csv())
    assert {name: kind for name, (kind, *_) in found.items()} == {name: kind for name, (_, kind) in values.items()}
    assert found["american"][1] == "M/d/yyyy"
    assert found["german"][1] == "d.M.yyyy"
    assert found["short"][1] == "yyyy-MM-dd HH:mm"
    assert found["zip"][3] == "text: leading zeros, or a sign"
    assert found["nothing"][3] == "no value"


def test_a_few_values_of_another_type_are_named(tmp_path):
    """They will be dead letters; more than a few make a column of text."""
    lines = ["fare", *["1.5"] * 98, "n/a", "12 USD"]
    assert columns(tmp_path / "a.csv", "\n".join(lines), Csv())["fare"] == (
        "DOUBLE", "", False, "2 of 100 values are no DOUBLE: 'n/a', '12 USD'"
    )  # fmt: skip
    lines += ["many"]
    assert columns(tmp_path / "a.csv", "\n".join(lines), Csv())["fare"][0] == "STRING"
    assert columns(tmp_path / "a.csv", "\n".join(lines), Csv(nulls=("many", "n/a")))["fare"][0] == "DOUBLE"


def test_csv_without_a_header_has_numbered_columns(tmp_path):
    """In order, as the format says."""
    assert list(columns(tmp_path / "a.csv", "1,2\n", Csv(header=False))) == ["column_1", "column_2"]
    assert list(columns(tmp_path / "a.csv", ",b\n1,2\n", Csv())) == ["column_1", "b"]


def test_types_of_json_are_nested(tmp_path):
    """Objects, lists, texts with numbers in them, members that are missing, and lines that are no objects."""
    lines = [
        {"id": 1, "zip": "10115", "who": {"name": "a", "tags": [{"n": 1}]}, "odd": {"a b": 1}, "at": AT},
        {"id": 2, "zip": "1", "who": {"name": None, "age": 1.5}, "odd": {}, "more": [], "at": AT},
    ]  # fmt: skip
    text = "\n".join([*map(json.dumps, lines), "torn {", "[1]"])
    found = columns(tmp_path / "a.jsonl", text, JsonLines())
    assert {name: kind for name, (kind, *_) in found.items()} == {
        "id": "BIGINT", "zip": "STRING", "who": "STRUCT<name: STRING, tags: ARRAY<STRUCT<n: BIGINT>>, age: DOUBLE>",
        "odd": "STRING", "at": "TIMESTAMP", "more": "ARRAY<STRING>",
    }  # fmt: skip
    assert [name for name, (_, _, lacks, _) in found.items() if lacks] == ["more"]


def test_types_of_parquet_are_those_of_all_files(tmp_path):
    """The wider one, or text; a column that one file lacks may be lacking."""
    one = pa.table({"n": pa.array([1], pa.int32()), "at": [datetime(2026, 1, 5)], "x": [1], "gap": pa.nulls(1)})  # noqa: DTZ001
    two = pa.table({"n": [2], "at": [datetime(2026, 1, 5)], "x": ["a"], "d": [Decimal("1.50")]})  # noqa: DTZ001
    for name, table in (("a.parquet", one), ("b.parquet", two)):
        pq.write_table(table, tmp_path / name)
    found, sentence = columns_of(sorted(tmp_path.iterdir()), Parquet())
    assert {name: (each.type, each.lacks) for name, each in found.items()} == {
        "n": ("BIGINT", False), "at": ("TIMESTAMP", False), "x": ("STRING", False), "gap": ("STRING", True),
        "d": ("DECIMAL(3,2)", True),
    }  # fmt: skip
    assert sentence == "2 of 2 files, 2 records"
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(ContractError, match=r"a\.parquet cannot be read as Parquet"):
        columns_of([tmp_path / "a.parquet"], Parquet())
