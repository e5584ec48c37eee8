"""Formats and their options, and files of text read without an engine."""

from __future__ import annotations

import bz2
import gzip
from dataclasses import replace

import pytest

from dedp_assets.patterns.connectors.encoding.formats import (
    Csv,
    Json,
    JsonLines,
    avro_refusal,
    csv_records,
    digest_whole,
    header_of,
    header_record,
    is_binary,
    parquet_refusal,
    records_in,
)
from dedp_assets.patterns.core.errors import ConfigError, ContractError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delimiter": ""}, "delimiter must be"),
        ({"delimiter": "\n"}, "delimiter must be one character"),
        ({"quote": "''"}, "quote must be one character, or empty"),
        ({"quote": ","}, "quote must be another character than delimiter"),
        ({"escape": "\\", "quote": ""}, "escape must be another character than delimiter, and go with quote"),
        ({"encoding": "utf-7"}, "encoding"),
        ({"skip_first": -1}, "skip_first must be 0 or more lines, not -1"),
        ({"skip_last": -2}, "skip_last must be 0 or more lines"),
        ({"decimal": ";"}, "decimal"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, said):
    """Named first in the sentence, so that the place in a file is found."""
    with pytest.raises(ConfigError, match=said):
        Csv(**options)


def test_files_of_text_are_read_by_suffix_and_encoding(tmp_path):
    """Compressed or not, with a byte order mark or without."""
    text = "näme,b\r\n1,2\r\n"
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "c.csv.bz2").write_bytes(bz2.compress(text.encode("cp1252")))
    for name, made in (("a.csv", Csv()), ("b.csv.gz", Csv()), ("c.csv.bz2", Csv(encoding="windows-1252"))):
        assert header_of(tmp_path / name, made) == ("näme", "b")
        assert list(records_in(tmp_path / name, made)) == [["1", "2"]]
    (tmp_path / "d.csv").write_text('a,b\n1,"x\ny"\n')
    assert list(records_in(tmp_path / "d.csv", Csv(multiline=True))) == [["1", "x\ny"]]
    (tmp_path / "e.jsonl").write_text('{"a": 1}\n\n{"a": 2}')
    assert [line.strip() for line in records_in(tmp_path / "e.jsonl", JsonLines())] == ['{"a": 1}', '{"a": 2}']
    (tmp_path / "f.csv").write_bytes(b"x" * (2 << 20))
    with pytest.raises(ContractError, match="a line of more than 1 MiB"):
        header_of(tmp_path / "f.csv", Csv())


@pytest.mark.parametrize("multiline", [False, True])
def test_lines_before_the_header_and_behind_the_records_are_left_out(tmp_path, multiline):
    """Of a file with fewer lines, all; without a header, those before the first record."""
    (tmp_path / "a.csv").write_text('report of\n"May"\na,b\n1,2\n3,4\ntotal,6\nend')
    made = Csv(skip_first=2, skip_last=2, multiline=multiline)
    assert header_of(tmp_path / "a.csv", made) == ("a", "b")
    assert header_record(tmp_path / "a.csv", made) == (("a", "b"), 3)
    assert list(records_in(tmp_path / "a.csv", made)) == [["1", "2"], ["3", "4"]]
    assert [record.number for record in csv_records(tmp_path / "a.csv", made)] == [3, 4, 5]
    assert next(records_in(tmp_path / "a.csv", replace(made, header=False))) == ["a", "b"]
    assert list(records_in(tmp_path / "a.csv", Csv(skip_first=9, skip_last=9, multiline=multiline))) == []


def test_a_number_has_a_point_where_the_decimals_begin():
    """A text with another character there is no number; nothing else changes."""
    made = Csv(decimal=",")
    assert [made.pointed(each) for each in ("2,6", "-1", ",5", "x", "")] == ["2.6", "-1", ".5", "x", ""]
    assert made.pointed("1.234,5") == "1.234,5 (decimal: ,)"
    assert Csv().pointed("2,6") == "2,6"


ARRAYS = {
    '[{"a": 1.50,\n "b": "x\\n"}, {"a": 2}]\n': (Json(), ['{"a": 1.50,  "b": "x\\n"}', '{"a": 2}']),
    " [ ] ": (Json(), []),
    '{"x": {}, "data": {"items": [{"a": 1}, 5]}, "y": [2]}': (Json(records="data.items"), ['{"a": 1}', "5"]),
    '{"a": [1]}': (Json(), "has no array of records where it begins: state records"),
    '{"a": {}}': (Json(records="a"), "has no array of records in its member a"),
    '{"x": 1}': (Json(records="data"), "has no member data where records names one"),
    '{"data": [1], "x": }': (Json(records="data"), "is no JSON to its end: Expecting value in line 1, column 20"),
    '[{"a": 1},]': (Json(), "is no JSON to its end: Expecting value in line 1, column 11"),
    '[{"a": 1}': (Json(), r"is no JSON to its end: Expecting ',' or '\]' in line 1, column 10"),
    "[1] 2": (Json(), "is no JSON to its end: Extra data in line 1, column 5"),
    "[" * 100_000: (Json(), "is no JSON that is read: it is nested too deep"),
    "": (Json(), "has no array"),
}


@pytest.mark.parametrize("text", ARRAYS, ids=[text[:20] for text in ARRAYS])
def test_the_records_of_a_json_file_are_the_elements_of_its_array(tmp_path, text):
    """As they are written, each in one line; a file that is none to its end is refused by name and place."""
    made, expected = ARRAYS[text]
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text.encode()))
    if isinstance(expected, str):
        with pytest.raises(ContractError, match=rf"a\.json\.gz {expected}"):
            list(records_in(tmp_path / "a.json.gz", made))
    else:
        assert list(records_in(tmp_path / "a.json.gz", made)) == expected


def test_a_json_file_is_read_in_its_encoding(tmp_path):
    """Whole, or not at all."""
    (tmp_path / "a.json").write_bytes('["é"]'.encode("cp1252"))
    assert list(records_in(tmp_path / "a.json", Json(encoding="windows-1252"))) == ['"é"']
    with pytest.raises(ContractError, match="is no utf-8 to its end"):
        list(records_in(tmp_path / "a.json", Json()))


def test_a_parquet_file_is_told_by_name_and_digested_whole(tmp_path):
    """Without a look at its lines, of which it has none."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1\n\n")
    found = []
    digest_whole(tmp_path / "a.parquet", seen=found.append)
    assert b"".join(found) == b"PAR1\n\n"
    (tmp_path / "b.parquet").touch()
    (tmp_path / "c").touch()
    assert "is empty" in parquet_refusal(tmp_path / "b.parquet")
    assert "call it .parquet" in parquet_refusal(tmp_path / "c")
    with pytest.raises(ContractError, match="is empty"):
        digest_whole(tmp_path / "b.parquet", seen=found.append)


def test_an_avro_file_is_told_by_name_and_digested_whole(tmp_path):
    """As a Parquet file is, and neither is taken for the other."""
    (tmp_path / "a.AVRO").write_bytes(b"Obj\n\n")
    found = []
    digest_whole(tmp_path / "a.AVRO", seen=found.append)
    assert b"".join(found) == b"Obj\n\n"
    (tmp_path / "b.avro").touch()
    (tmp_path / "_c.avro").touch()
    assert avro_refusal(tmp_path / "a.AVRO") == ""
    assert "call it .parquet" in parquet_refusal(tmp_path / "a.AVRO")
    assert avro_refusal(tmp_path / "b.avro") == "is empty, which no Avro file is"
    assert "hidden file" in avro_refusal(tmp_path / "_c.avro")
    assert [is_binary(name) for name in ("a.avro", "a.parquet", "a.csv")] == [True, True, False]
    with pytest.raises(ContractError, match=r"b\.avro is empty"):
        digest_whole(tmp_path / "b.avro", seen=found.append)
