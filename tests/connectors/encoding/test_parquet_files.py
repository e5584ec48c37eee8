"""Parquet files as any writer makes them: every type, codec and name is read, or refused by the footer, by column."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.components.landed.typed_files import columns_of_typed
from dedp_assets.patterns.connectors.encoding import parquet_files
from dedp_assets.patterns.connectors.encoding.formats import Parquet
from dedp_assets.patterns.connectors.encoding.parquet_files import open_parquet, parquet_texts, spark_type
from dedp_assets.patterns.connectors.landing.file_columns import judge_file_columns
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.types.exact import is_scalar

NOON = datetime(2026, 1, 5, 12, 0, 0, 123456)  # noqa: DTZ001 - of no zone
VALUES = {
    pa.bool_(): {True: True, False: False},
    pa.int8(): {-128: -128},
    pa.int16(): {7: 7},
    pa.int32(): {7: 7},
    pa.int64(): {2**63 - 1: 2**63 - 1},
    pa.uint8(): {255: 255},
    pa.uint16(): {7: 7},
    pa.uint32(): {7: 7},
    pa.uint64(): {2**64 - 1: 2**64 - 1},
    pa.float16(): {1.5: 1.5},
    pa.float32(): {0.1: 0.1, math.inf: "Infinity"},
    pa.float64(): {-0.0: -0.0},
    pa.decimal128(10, 2): {Decimal("1.50"): Decimal("1.50")},
    pa.decimal256(50, 2): {Decimal("1e40"): Decimal("10000000000000000000000000000000000000000.00")},
    pa.string(): {"é\n": "é\n"},
    pa.large_string(): {"": ""},
    pa.string_view(): {"x": "x"},
    pa.binary(): {b"\xff": "/w=="},
    pa.large_binary(): {b"": ""},
    pa.binary(2): {b"ab": "YWI="},
    pa.date32(): {date(1, 1, 1): "0001-01-01"},
    pa.date64(): {date(2026, 1, 5): "2026-01-05"},
    **{pa.timestamp(unit): {NOON.replace(microsecond=0): "2026-01-05T12:00:00.000000"} for unit in ("s", "ms", "ns")},
    pa.timestamp("us"): {NOON: "2026-01-05T12:00:00.123456"},
    pa.timestamp("us", "Europe/Berlin"): {NOON.replace(tzinfo=timezone.utc): "2026-01-05T12:00:00.123456Z"},
    pa.time32("ms"): {time(1, 2, 3): "01:02:03.000000"},
    pa.time64("us"): {time(0): "00:00:00.000000"},
    pa.dictionary(pa.int32(), pa.string()): {"a": "a", "b": "b"},
    pa.null(): {},
}
"""Type of Arrow -> value -> its JSON."""
CODECS = ("NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI")


def inside(kind):
    """A type within each kind of nesting: the type, the writer of a value, the JSON of one."""
    yield kind, lambda value: value, lambda text: text
    yield pa.list_(kind), lambda value: [value, None], lambda text: [text, None]
    yield pa.large_list(kind), lambda value: [value], lambda text: [text]
    yield pa.list_(kind, 2), lambda value: [value, value], lambda text: [text, text]
    yield pa.struct([("a b", kind)]), lambda value: {"a b": value}, lambda text: {"a b": text}
    yield pa.map_(pa.int32(), kind), lambda value: [(7, value)], lambda text: {"7": text}
    yield pa.list_(pa.struct([("x", pa.list_(kind))])), lambda v: [{"x": [v]}, None], lambda text: [{"x": [text]}, None]


def texts(path):
    metadata = open_parquet(path).metadata
    return [text for group in range(metadata.num_row_groups) for text in parquet_texts(path, group)]


@pytest.mark.parametrize("codec", CODECS)
def test_every_type_is_read_at_every_depth_under_every_codec(tmp_path, codec):
    """A file for each type, with a column for each nesting, a row for each value, and one of NULLs."""
    path = tmp_path / "a.parquet"
    for kind, values in VALUES.items():
        columns = {
            str(nested): (pa.array([*map(write, values), None], nested), [*map(text, values.values()), None])
            for nested, write, text in inside(kind)
        }
        table = pa.table({name: column for name, (column, _) in columns.items()})
        groups = None if kind == pa.string_view() else 1  # of which pyarrow writes no part
        pq.write_table(table, path, compression=codec, row_group_size=groups)
        found = [json.loads(line, parse_float=Decimal) for line in texts(path)]
        for name, (_, wanted) in columns.items():
            assert [comparable(row[name]) for row in found] == list(map(comparable, wanted)), name


def comparable(value):
    """A value of JSON with numbers as decimals, so that none is rounded."""
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_a_type_that_is_read_is_declared_by_one_that_values_have(tmp_path, kind):
    """What is inferred of a file has a type of this library, and the file has the inferred columns."""
    for number, (nested, *_) in enumerate(inside(kind)):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"x": pa.array([], nested)}), path)
        (column,) = columns_of_typed([path], Parquet())[0].values()
        assert number or is_scalar(column.type), column
        assert judge_file_columns([path], columns={"x": column.type}).passed, column


REFUSED = {
    "a column took of type duration[s], which is not read": {"took": pa.array([timedelta(1)], pa.duration("s"))},
    "a column a.took of type duration[s]": {"a": pa.array([{"took": None}], pa.struct([("took", pa.duration("s"))]))},
    "two columns called a.x: write one of them under another name": {
        "a": pa.array([{}], pa.struct([("x", pa.int32()), ("x", pa.int32())]))
    },
}


@pytest.mark.parametrize(("said", "columns"), REFUSED.items(), ids=list(REFUSED))
def test_what_is_not_read_is_refused_by_file_and_column(tmp_path, said, columns):
    """At whatever depth, and before a row is read."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ContractError) as refused:
        open_parquet(path)
    assert str(refused.value).startswith(f"a.parquet has {said}")
    with pytest.raises(ContractError):
        columns_of_typed([path], Parquet())


def test_names_count_as_they_are_written(tmp_path):
    """Two of one name are refused, two that differ in case are two columns."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["id", "ID"]), path)
    assert texts(path) == ['{"id":1,"ID":2}']
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["id", "id"]), path)
    with pytest.raises(ContractError, match=r"a\.parquet has two columns called id"):
        open_parquet(path)


class Codecs:
    """The codecs of another build."""

    @staticmethod
    def is_available(codec):
        return codec != "gzip"


def test_a_codec_that_is_not_there_is_refused_by_column(tmp_path, monkeypatch):
    """By the footer, and not by the engine in the middle of the data."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1], "b": [2]}), path, compression={"a": "SNAPPY", "b": "GZIP"})
    monkeypatch.setattr(parquet_files.pa, "Codec", Codecs)
    with pytest.raises(ContractError, match=r"a\.parquet has a column b compressed by GZIP, which is not read"):
        open_parquet(path)


def test_text_that_is_no_utf8_is_read_as_its_bytes(tmp_path):
    """In keys and values: whoever reads the text on can tell the record from others."""
    path = tmp_path / "a.parquet"
    spoilt = pa.array([b"ab\xff"]).view(pa.string())
    pq.write_table(pa.table({"s": spoilt, "l": pa.ListArray.from_arrays([0, 1], spoilt)}), path)
    (text,) = texts(path)
    assert text.encode(errors="surrogateescape") == b'{"s":"ab\xff","l":["ab\xff"]}'


def test_times_of_96_bits_are_those_of_their_years(tmp_path):
    """As Spark writes by default; nanoseconds of 64 bits would end in 2262."""
    path = tmp_path / "a.parquet"
    moments = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), NOON, None]  # noqa: DTZ001 - of no zone
    table = pa.table({"t": pa.array(moments, pa.timestamp("us"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    found = [json.loads(text)["t"] for text in texts(path)]
    assert found == [moment and moment.isoformat(timespec="microseconds") for moment in moments]
    assert spark_type(open_parquet(path).schema_arrow.field("t").type) == "TIMESTAMP_NTZ"


def test_damage_is_told_by_file_and_row_group(tmp_path):
    """A page that is not as written, a footer that is cut, and no Parquet at all."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"s": ["some text " * n for n in range(100)]}), path, compression="GZIP", row_group_size=50)
    whole = path.read_bytes()
    begin = open_parquet(path).metadata.row_group(1).column(0).dictionary_page_offset
    path.write_bytes(whole[: begin + 40] + bytes(40) + whole[begin + 80 :])
    with pytest.raises(ContractError, match=r"a\.parquet is damaged: row group 2 is not as written"):
        texts(path)
    for data, said in (
        (whole[:-20], "is damaged: it is no Parquet file"),
        (b"PAR1 torn", "is damaged"),
        (b"", "is empty"),
    ):
        path.write_bytes(data)
        with pytest.raises(ContractError, match=rf"a\.parquet {said}"):
            open_parquet(path)
