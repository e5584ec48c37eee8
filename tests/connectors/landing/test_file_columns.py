"""Columns of files: what is new, missing, reordered or of another type, by headers and footers alone."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from dedp_assets.patterns.connectors.encoding.formats import Csv
from dedp_assets.patterns.connectors.landing import file_columns
from dedp_assets.patterns.connectors.landing.file_columns import columns_of_file, judge_file_columns
from dedp_assets.patterns.core.errors import ContractError

COLUMNS = {"id": "BIGINT", "price": "DOUBLE", "name": "STRING", "at": "TIMESTAMP"}
TABLE = pa.table({
    "id": pa.array([1], pa.int32()), "price": pa.array([1.5], pa.float32()), "name": ["a"],
    "at": pa.array([0], pa.timestamp("us")),
})  # fmt: skip


def avro(path, table):
    fastavro = pytest.importorskip("fastavro")
    kinds = {"int32": "int", "int64": "long", "float": "float", "string": "string", "double": "double"}
    times = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [{"name": each.name, "type": kinds.get(str(each.type), times)} for each in table.schema]
    made = io.BytesIO()
    fastavro.writer(made, {"type": "record", "name": "r", "fields": fields}, table.to_pylist())
    path.write_bytes(made.getvalue())


WRITERS = {
    "parquet": lambda path, table: pq.write_table(table, path),
    "orc": lambda path, table: po.write_table(table, path),
    "avro": avro,
}


@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_with_the_declared_columns_is_as_declared(tmp_path, ending):
    """A narrower number is a number, a time is a time, and the order of columns with names does not count."""
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](path, TABLE.select(["price", "at", "id", "name"]))
    found = judge_file_columns([path], columns=COLUMNS)
    assert (found.passed, found.note, found.figures) == (True, "", {"files": 1, "files_with_other_columns": 0})


@pytest.mark.parametrize("ending", WRITERS)
def test_new_missing_and_retyped_columns_are_told_by_file(tmp_path, ending):
    """The file and each of its columns are named, and the others of the delivery are not."""
    changed = TABLE.drop(["price", "id"]).append_column("id", pa.array(["1"])).append_column("mail", pa.array(["x"]))
    paths = [tmp_path / f"{name}.{ending}" for name in ("a", "b")]
    for path, table in zip(paths, (TABLE, changed), strict=True):
        WRITERS[ending](path, table)
    found = judge_file_columns(paths, columns=COLUMNS)
    assert (found.passed, found.severity) == (False, "warn")
    assert found.note == f"b.{ending}: new: 'mail'; missing: 'price'; 'id' is STRING, not BIGINT"
    assert found.figures == {"files": 2, "files_with_other_columns": 1}


HELD = {
    "ARRAY<INT>": ("ARRAY<BIGINT>", "ARRAY<DOUBLE>", "ARRAY<STRING>", "STRING"),
    "ARRAY<STRING>": ("STRING",),
    "MAP<STRING, INT>": ("MAP<STRING, BIGINT>", "MAP<STRING, STRING>", "STRING"),
    "STRUCT<a: INT, b: ARRAY<DATE>>": ("STRUCT<a: BIGINT, b: ARRAY<DATE>>", "STRUCT<b: ARRAY<STRING>>", "STRING"),
    "TIMESTAMP_NTZ": ("TIMESTAMP", "STRING"),
    "BIGINT": ("DECIMAL(20, 0)", "DOUBLE", "STRING"),
    "STRUCT<`a b`: INT>": ("STRING",),
    "duration[s]": ("STRING",),
}
"""Type in a file -> declared types whose values it may hold."""


def test_types_are_held_against_each_other_whole():
    """What lists, maps and structs hold counts as columns do: no pair of types fits but those that are named."""
    kinds = {*HELD, *(kind for kinds in HELD.values() for kind in kinds)}
    fitting = {(found, declared) for found in HELD for declared in kinds if file_columns._fits(found, declared)}
    assert fitting == {(found, declared) for found, kinds in HELD.items() for declared in {found, *kinds}}


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ("id,price,name,at", ""),
        ("id,price,name,at,mail", "a.csv: new: 'mail'"),
        ("id,price,at", "a.csv: missing: 'name'"),
        ("price,id,name,at", "a.csv: in another order: 'price', 'id', 'name', 'at'"),
        ("id,Price,name,at", "a.csv: new: 'Price'; missing: 'price'"),
        ("", "a.csv: missing: 'id', 'price', 'name', 'at'"),
        ('id,price,name,at,"a, ""b""",', "a.csv: new: 'a, \"b\"', 'column_6'"),
    ],
)
def test_the_header_of_csv_is_held_against_the_declaration(tmp_path, header, note):
    """Names count as they are written, and so does the order; values are not looked at."""
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n1,2,3\n")
    assert judge_file_columns([path], columns=COLUMNS, csv=Csv()).note == note


def test_a_column_that_files_may_lack_is_not_missed(tmp_path):
    """An optional column is neither missing nor new."""
    path = tmp_path / "a.csv"
    path.write_text("id,name,at\n")
    assert judge_file_columns([path], columns=COLUMNS, may_lack=["price"], csv=Csv()).passed


def test_five_files_are_named_and_the_others_counted(tmp_path):
    """A delivery of many files has a note that can be read."""
    paths = [tmp_path / f"{n}.csv" for n in range(7)]
    for path in paths:
        path.write_text("x\n")
    found = judge_file_columns(paths, columns={}, csv=Csv())
    assert found.note.endswith("4.csv: new: 'x'. and 2 further files")
    assert found.figures["files_with_other_columns"] == 7


@pytest.mark.parametrize("name", ["a.parquet", "a.orc", "a.avro"])
def test_a_file_without_its_footer_is_refused(tmp_path, name):
    """A damaged file has no columns, and none is guessed."""
    if name.endswith("avro"):
        pytest.importorskip("fastavro")
    path = tmp_path / name
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ContractError, match=name):
        columns_of_file(path)
