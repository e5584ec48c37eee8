"""Landed rows of files: encodings, records of several lines, files of several schemas, and refusals."""

from __future__ import annotations

import gzip
import json
import math
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.patterns.connectors.encoding.formats import Avro, Csv, Json, JsonLines, Parquet
from dedp_assets.patterns.connectors.landing.landed_files import LINES_OF_RECORD, read_landed
from dedp_assets.patterns.core.errors import ContractError

pytestmark = pytest.mark.spark


def landed(lines):
    """Place and text of each record, in order."""
    rows = lines.rows.select("source_file", "line_number", "raw").collect()
    return sorted(tuple(row) for row in rows)


def test_encodings_are_read_as_stated(spark, tmp_path):
    """Bytes that windows-1252 alone has, and text that would be UTF-8 as well."""
    text = "name,price\nMüller,5 €\nÃ©,1\n"
    (tmp_path / "a.csv").write_bytes(text.encode("windows-1252"))
    found = landed(read_landed(spark, [tmp_path / "a.csv"], Csv(encoding="windows-1252")))
    assert [raw for _, _, raw in found] == ["Müller,5 €", "Ã©,1"]
    (tmp_path / "b.jsonl").write_bytes('{"a": "é"}\n'.encode("iso-8859-1"))
    assert landed(read_landed(spark, [tmp_path / "b.jsonl"], JsonLines(encoding="iso-8859-1")))[0][2] == '{"a": "é"}'


def test_records_of_several_lines_are_one_row_at_their_first_line(spark, tmp_path):
    """Of a compressed file, too; the line numbers of all lines can be summed up from them."""
    text = 'id,text\n1,"one\ntwo ""2"""\n2,plain\n3,"\n\n"\n'
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.csv").write_bytes(b'id,text\n4,"x\xff\ny"\n')
    lines = read_landed(spark, [tmp_path / "a.csv.gz", tmp_path / "b.csv"], Csv(multiline=True))
    assert landed(lines)[:3] == [
        ("a.csv.gz", 2, '1,"one\ntwo ""2"""'), ("a.csv.gz", 4, "2,plain"), ("a.csv.gz", 5, '3,"\n\n"'),
    ]  # fmt: skip
    whole = f"sum(line_number * ({LINES_OF_RECORD}) + (({LINES_OF_RECORD}) * (({LINES_OF_RECORD}) - 1)) DIV 2) AS n"
    assert lines.rows.selectExpr(whole).first()["n"] == lines.checksum
    (spoilt,) = [row["raw_bytes"] for row in lines.rows.collect() if row["raw_bytes"]]
    assert bytes(spoilt) == b'4,"x\xff\ny"'


@pytest.mark.parametrize("multiline", [False, True])
def test_lines_that_are_left_out_are_no_rows_and_counted_as_none(spark, tmp_path, multiline):
    """Before the header and behind the records, of each file; of a short one nothing is left."""
    (tmp_path / "a.csv").write_text("report\n\nid,v\n1,2\n3,4\ntotal\n")
    (tmp_path / "b.csv").write_text("report\n\nid,v\n5,6\nend")
    (tmp_path / "c.csv").write_text("report\n")
    files = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    lines = read_landed(spark, files, Csv(skip_first=2, skip_last=1, multiline=multiline))
    assert landed(lines) == [("a.csv", 4, "1,2"), ("a.csv", 5, "3,4"), ("b.csv", 4, "5,6")]
    assert lines.checksum == 4 + 5 + 4
    without = Csv(header=False, skip_first=3, skip_last=1, multiline=multiline)
    bare = read_landed(spark, files[:2], without, columns=["a"])
    assert landed(bare) == landed(lines)
    assert bare.checksum == lines.checksum


def test_the_elements_of_a_json_array_are_rows(spark, tmp_path):
    """In one line each, with their number; of several files."""
    (tmp_path / "a.json").write_text('[{"id": 1.50,\n  "v": "x"},\n {"id": 2}]')
    (tmp_path / "b.json").write_text("[]")
    lines = read_landed(spark, [tmp_path / "a.json", tmp_path / "b.json"], Json())
    assert landed(lines) == [("a.json", 1, '{"id": 1.50,   "v": "x"}'), ("a.json", 2, '{"id": 2}')]
    assert lines.count == {"a.json": 2}


def test_a_file_without_header_has_the_columns_of_the_declaration(spark, tmp_path):
    """Its first line is a record."""
    (tmp_path / "a.csv").write_text("1,2\n3,4")
    rows = read_landed(spark, [tmp_path / "a.csv"], Csv(header=False), columns=["a", "b"]).rows.collect()
    assert {(row["line_number"], row["header"]) for row in rows} == {(1, '["a", "b"]'), (2, '["a", "b"]')}


def test_parquet_files_of_other_schemas_are_read_side_by_side(spark, tmp_path):
    """Each record as JSON with every column of its file; times below a microsecond are cut, not lost."""
    before = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
    one = pa.table({"id": [1, 2], "at": pa.array([before, None], pa.timestamp("ns", "UTC"))})
    two = pa.table({"id": ["x"], "more": [[1.5, None]], "gap": pa.array([None], pa.null())})
    (tmp_path / "sub").mkdir()
    files = [tmp_path / "a b.parquet", tmp_path / "b+%.parquet"]
    for file, table in zip(files, (one, two), strict=True):
        pq.write_table(table, file)
    lines = read_landed(spark, files, Parquet())
    found = [(name, number, json.loads(raw)) for name, number, raw in landed(lines)]
    assert found == [
        ("a b.parquet", 1, {"id": 1, "at": "1969-12-31T23:59:59.999999Z"}),
        ("a b.parquet", 2, {"id": 2, "at": None}),
        ("b+%.parquet", 1, {"id": "x", "more": [1.5, None], "gap": None}),
    ]
    assert dict(lines.count) == {"a b.parquet": 2, "b+%.parquet": 1}


def test_what_is_no_parquet_file_is_refused_by_name(spark, tmp_path):
    """Damaged, called otherwise, or with a type that no engine here reads."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1 torn")
    (tmp_path / "b.csv").write_text("a\n1\n")
    spans = pa.table({"took": pa.array([timedelta(seconds=1)], pa.duration("s"))})
    pq.write_table(spans, tmp_path / "c.parquet")
    for name, said in (("a.parquet", "is damaged"), ("b.csv", "call it .parquet"), ("c.parquet", "a column took of")):
        with pytest.raises(ContractError, match=said) as error:
            read_landed(spark, [tmp_path / name], Parquet())
        assert name in str(error.value)
    assert read_landed(spark, [], Parquet()).rows.count() == 0


@pytest.mark.both
def test_avro_files_are_read_by_tasks_of_python(spark, tmp_path):
    """Files of several schemas, more records than a batch has, and one without any; over the wire as well."""
    for name, kind, values in (("a b.avro", "long", range(2500)), ("b+%.avro", "string", "xy"), ("c.avro", "long", ())):
        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": kind}]}
        with (tmp_path / name).open("wb") as file:
            fastavro.writer(file, schema, [{"id": value} for value in values])
    lines = read_landed(spark, sorted(tmp_path.iterdir()), Avro())
    assert landed(lines) == [
        *(("a b.avro", n + 1, f'{{"id":{n}}}') for n in range(2500)),
        ("b+%.avro", 1, '{"id":"x"}'),
        ("b+%.avro", 2, '{"id":"y"}'),
    ]
    assert dict(lines.count) == {"a b.avro": 2500, "b+%.avro": 2}
    assert read_landed(spark, [tmp_path / "c.avro"], Avro()).rows.count() == 0


def test_values_of_avro_are_spelled_as_those_of_parquet(spark, tmp_path):
    """Character by character, so that a column of text holds the same of both."""
    day, before = datetime(2026, 1, 5, 9, 0, 0, 1000), datetime(1, 1, 1)  # noqa: DTZ001 - as databases write it
    values = {
        "d": (pa.float64(), "double", [1.0, 1e7, 0.001, 9.9e-4, -0.0, 1 / 3, math.nan, -math.inf, 1.5e300, None]),
        "f": (pa.float32(), "float", [1.0, 1e7, 0.001, 9.9e-4, -0.0, 1 / 3, math.nan, math.inf, 1.5e30, None]),
        "n": (pa.decimal128(20, 8), logical("bytes", "decimal", precision=20, scale=8),
              [*map(Decimal, DIGITS)] * 2),
        "at": (pa.timestamp("us", "UTC"), logical("long", "timestamp-micros"),
               [day.replace(tzinfo=timezone.utc), None] * 5),
        "here": (pa.timestamp("us"), logical("long", "local-timestamp-micros"), [day, before] * 5),
        "on": (pa.date32(), logical("int", "date"), [day.date(), before.date()] * 5),
        "b": (pa.binary(), "bytes", [b"\xff\xfe\xfd", b""] * 5),
        "s": (pa.string(), "string", ["é\n\t\"\\/\u2028", ""] * 5),
        "m": (pa.map_(pa.string(), pa.int32()), {"type": "map", "values": ["null", "int"]}, [{"a b": None}, {}] * 5),
        "l": (pa.list_(pa.bool_()), {"type": "array", "items": "boolean"}, [[True, False], []] * 5),
    }  # fmt: skip
    fields = [{"name": name, "type": ["null", kind]} for name, (_, kind, _) in values.items()]
    records = [dict(zip(values, row, strict=True)) for row in zip(*(rows for *_, rows in values.values()), strict=True)]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, records)
    columns = {name: pa.array([*map(items, rows)], kind) for name, (kind, _, rows) in values.items()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    avro, parquet = (landed(read_landed(spark, [tmp_path / name], made)) for name, made in FORMATS)
    assert [raw for *_, raw in avro] == [raw for *_, raw in parquet]


DIGITS = ("1.00000000", "0E-8", "-1E-8", "0.00000100", "123456789.12345678")
FORMATS = (("a.avro", Avro()), ("a.parquet", Parquet()))


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def items(value):
    """A map as Arrow takes one."""
    return [*value.items()] if isinstance(value, dict) else value
