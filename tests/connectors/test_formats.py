"""Formats and their options, and files of text read without an engine."""

from __future__ import annotations

import bz2
import gzip

import pytest

from dedp_assets.patterns.connectors.formats import (
    Csv,
    JsonLines,
    avro_refusal,
    digest_whole,
    header_of,
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
