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
from dedp_assets.components.inference.inferring import columns_of
from dedp_assets.patterns.connectors.encoding.formats import Csv, Json, JsonLines, Parquet
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


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["orders", "orders/date={partition}"])
def test_files_in_a_bucket_are_seen(home, bucket_store, monkeypatch, folder):
    """As those of a folder are; marker, hidden files and other depths are left out."""
    monkeypatch.setenv("DEDP_LANDING", bucket_store.above().uri)
    (home / "defs" / "orders" / "defs.yaml").write_text(LANDING.replace("folder: orders", f"folder: events/{folder}"))
    days = [folder.replace("{partition}", day) if "{" in folder else f"{folder}/{day}" for day in ("1", "2 ü")]
    for number, day in enumerate(days):
        bucket_store.put(f"{day}/a {number}.csv", b"id;no\n1;x\n")
        for name in ("_SUCCESS", ".draft.csv", "deeper/b.csv"):
            bucket_store.put(f"{day}/{name}", b"other\n")
    bucket_store.put("orders/stray.csv", b"other\n")
    assert main(["infer", str(home / "defs" / "orders")]) == 0
    text = (home / "defs" / "orders" / "columns.yaml").read_text()
    assert "in 2 of 2 files, 2 records" in text
    assert "id: {type: BIGINT}" in text


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


@pytest.mark.parametrize(
    ("content", "made", "said"),
    [
        (b'{"id": 1, "v": "x"}\n{"id": 2, "v": "y"}\n', Csv(), "holds JSON objects: state format: {json_lines: {}}"),
        (b"1,2.5,2026-01-05\n2,3.5,2026-01-06\n", Csv(), "no header, but the values 1, 2.5, 2026-01-05: "),
        (b"<!DOCTYPE html>\n<p>a, b</p>\n", Csv(), "holds HTML or XML"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), Csv(), "holds gzip data"),
        ("a,b\n1,2\n".encode("utf-16"), Csv(), "holds UTF-16 data"),
        (b"PK\x03\x04" + bytes(99), Csv(), "holds zip data"),
        ("a,b\n1,Straße\n".encode("latin-1"), Csv(), "1 of 1 records have bytes that are no text: state encoding"),
        (b"a;b;c\n" + b"1;x, y;2,5\n" * 9, Csv(), "state delimiter: ';'"),
        (b'{"id": 1}\n{"id": 2}\n', Json(), "state json_lines"),
        (b'{"items": [{"id": 1}]}\n', Json(), "state records"),
    ],
)
def test_files_of_another_format_are_refused_with_the_option_that_reads_them(tmp_path, content, made, said):
    """No column is inferred from bytes, quotation marks and names of another format."""
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ContractError) as caught:
        columns_of([tmp_path / "a.csv"], made)
    assert said in str(caught.value)


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


WHY = {
    ("10115", "01067"): "text: leading zeros, or a sign",
    ("+49", "1"): "text: leading zeros, or a sign",
    ("2,6", "3", "-0,5"): "text: numbers with a decimal comma: state decimal: ',' in the format",
    ("1,234", "12", "5,678.90"): "text: numbers with signs between thousands",
    ("1.234,5", "2,6"): "text: numbers with points between thousands",
    ("9" * 20, "1"): "text: whole numbers of more than 64 bits",
    ("3/4/2026", "5/6/2026"): "text: M/d/yyyy or d/M/yyyy? '3/4/2026' may be both",
    ("1", "2", "n/a"): "text: 1 of 3 values are no DOUBLE: 'n/a'; if they stand for no value, state nulls: ['n/a'] in "
    "the format",
    ("1", "2", "NA", "12 USD"): "text: 2 of 4 values are no DOUBLE: 'NA', '12 USD'",
    ("TRUE", "FALSE", "TRUE"): "text: 'FALSE' and 'TRUE' may be a BOOLEAN, of which true and false are read alone",
    (
        "Tue, 05 Jan 2026 10:00:00 GMT",
        "Wed, 07 Jan 2026 09:00:00 GMT",
    ): "text: times behind the name of a weekday, which "
    "no date pattern of Spark reads: deliver times without it, or cut it off in a step of SQL: "
    "to_timestamp(substring(..., 6), \"d MMM yyyy HH:mm:ss 'GMT'\")",
    ("Y", "maybe", "N"): "text: no number, date or time",
    ("2026-01-05", "2026-01-06", "soon"): "text: 1 of 3 values are no DATE: 'soon'",
    ("2001/01/01 06:55", "2001/01/02 06:55", "x"): "text: 1 of 3 values are not as yyyy/MM/dd HH:mm: 'x'",
    ("Main Street", "May"): "text: no number, date or time",
    ("5-Jan-99", "6-Jan-99"): "text: no number, date or time",
    ("", ""): "no value",
}


@pytest.mark.parametrize("values", WHY, ids=WHY.values())
def test_a_column_of_text_says_why(tmp_path, values):
    """In the file that is written, where somebody may state another type, or an option of the format."""
    text = "a;b\n" + "\n".join(f"{value};1" for value in values)
    assert columns(tmp_path / "a.csv", text, Csv(delimiter=";"))["a"] == ("STRING", "", False, WHY[values])


TYPED = {
    (".097", "-.25", "5.", "5"): ("DOUBLE", ""),
    ("1e3", "2.5E-2"): ("DOUBLE", ""),
    ("2001/01/01 06:55", "2001/12/31 16:05"): ("TIMESTAMP", "yyyy/MM/dd HH:mm"),
    ("Jan 1 2000", "Feb 12 2001"): ("DATE", "MMM d yyyy"),
    ("5. January 2026", "6. May 2026"): ("DATE", "d. MMMM yyyy"),
    ("25.01.2026 10:00:03",): ("TIMESTAMP", "d.M.yyyy HH:mm:ss"),
    ("1/25/2026 9:05 PM",): ("TIMESTAMP", "M/d/yyyy h:mm a"),
}


@pytest.mark.parametrize("values", TYPED, ids=[each[0] for each in TYPED])
def test_dates_and_numbers_of_many_spellings_have_a_type(tmp_path, values):
    """As databases, spreadsheets and people write them."""
    text = "a;b\n" + "\n".join(f"{value};1" for value in values)
    kind, pattern, _, remark = columns(tmp_path / "a.csv", text, Csv(delimiter=";"))["a"]
    assert (kind, pattern, remark) == (*TYPED[values], "")


def test_numbers_that_may_be_times_are_told(tmp_path):
    """They stay numbers, until somebody states a format."""
    text = "day;at;id\n20260105;1767600000;1\n20261231;1767600001;20260105\n"
    found = columns(tmp_path / "a.csv", text, Csv(delimiter=";"))
    assert found["day"] == ("BIGINT", "", False, "may be days, with type: DATE, format: yyyyMMdd")
    assert found["at"] == ("BIGINT", "", False, "may be times, with type: TIMESTAMP, format: epoch_seconds")
    assert found["id"] == ("BIGINT", "", False, "")


def test_numbers_with_a_decimal_comma_are_numbers_where_it_is_stated(tmp_path):
    """And a point is none there; dates keep theirs."""
    text = "a;b;c\n2,6;1.234;5.1.2026\n,5;2;25.1.2026\n"
    found = columns(tmp_path / "a.csv", text, Csv(delimiter=";", decimal=","))
    assert [found[name][:2] for name in "abc"] == [("DOUBLE", ""), ("STRING", ""), ("DATE", "d.M.yyyy")]


@pytest.mark.parametrize(
    ("name", "text", "made", "said"),
    [
        (
            "a.jsonl",
            '[\n{"a": 1},\n{"a": 2}\n]\n',
            JsonLines(),
            "a.jsonl may be one JSON array: state format",
        ),
        ("a.jsonl", '[{"a": 1}, {"a": 2}]', JsonLines(), "1 of 1 records are no JSON objects, like '[{"),
        (
            "a.jsonl",
            '{\n"a": 1\n}',
            JsonLines(),
            "objects of several lines each: make one line of each, as jq -c . a.json",
        ),
        ("a.jsonl", '{\n"a": 1\n}\n{\n"a": 2\n}\n', JsonLines(), "make one line of each, as jq -c . a.jsonl does"),
        ("a.jsonl", '{"n": 1,\n"of": [\n{"a": 1},\n{"a": 2}\n]}', JsonLines(), "state format: {json: {records: of}}"),
        ("a.json", '{"n": 1,\n"of": [\n{"a": 1},\n{"a": 2}\n]}', Json(), "where it begins: state records: of"),
        ("a.json", '{\n"a": 1\n}\n{\n"a": 2\n}\n', Json(), "make one line of each object: jq -c"),
        ("a.jsonl", "a,b\n1,2\n", JsonLines(), "2 of 2 records are no JSON objects, like 'a,b' in a.jsonl"),
        ("a.csv", "a;b;c\n1;2;3\n", Csv(), "a.csv has one column, with ';' in it: state delimiter: ';'"),
        ("a.csv", "a\tb\n1\t2\n", Csv(), r"state delimiter: '\t'"),
        ("a.csv", "Report\n\na,b\n1,2\n3,4\n", Csv(), "most have 2 values, and the header 1: state skip_first"),
        ("a.csv", "a,b\n1\n2\n3,4\n", Csv(), "2 of 3 records are no rows of the header's columns, like '1' in a.csv"),
        ("a.json", '{"a": 1}', Json(), "a.json has no array of records where it begins"),
    ],
)
def test_records_that_are_mostly_malformed_are_refused(tmp_path, name, text, made, said):
    """With one of them, and with the option that reads such a file."""
    with pytest.raises(ContractError) as refusal:
        columns(tmp_path / name, text, made)
    assert said in str(refusal.value)


def test_lines_around_the_records_and_excluded_files_are_not_looked_at(home, capsys):
    """As a load leaves them out; bytes that are no text of the encoding are counted."""
    land(home, "2026-01-05", "a.csv", "Report\n\nid;v\n1;x\n2;y\ntotal;3;4\n")
    land(home, "2026-01-05", "README.md", "# read me\n\nall of it\n")
    stated = LANDING.replace("{delimiter: ;}", "{delimiter: ;, skip_first: 2, skip_last: 1}")
    defs = home / "defs" / "orders" / "defs.yaml"
    defs.write_text(stated + '  exclude: ["*.md"]\n')
    assert main(["infer", str(defs.parent)]) == 0
    assert "2 columns, 1 of 1 files, 2 records" in capsys.readouterr().err
    (home / "landing" / "orders" / "2026-01-05" / "a.csv").write_bytes("Report\n\nid;v\n1;é\n2;e\nx".encode("cp1252"))
    assert main(["infer", str(defs.parent), "--again"]) == 0
    assert "2 records, 1 with bytes that are no text: state encoding" in capsys.readouterr().err


def test_elements_of_an_array_are_records(tmp_path):
    """With their types; an element that is no object is malformed."""
    text = '{"data": [{"id": 1, "at": "2026-01-05T10:00:00Z"}, {"id": 2}, 7]}'
    found = columns(tmp_path / "a.json", text, Json(records="data"))
    assert {name: (kind, lacks) for name, (kind, _, lacks, _) in found.items()} == {
        "id": ("BIGINT", False), "at": ("TIMESTAMP", True)
    }  # fmt: skip


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
    with pytest.raises(ContractError, match=r"a\.parquet is damaged: it is no Parquet file to its end"):
        columns_of([tmp_path / "a.parquet"], Parquet())
