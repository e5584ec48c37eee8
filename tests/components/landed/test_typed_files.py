"""Columns of files that hold their types: of all files, side by side."""

from __future__ import annotations

from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.components.inference.inferring import columns_of
from dedp_assets.components.landed.typed_files import columns_of_typed
from dedp_assets.patterns.connectors.encoding.formats import Avro, Parquet
from dedp_assets.patterns.core.errors import ContractError


def write(file, records=(), **fields):
    """An Avro file with columns of these types."""
    schema = {"type": "record", "name": "r", "fields": [{"name": k, "type": v} for k, v in fields.items()]}
    with file.open("wb") as out:
        fastavro.writer(out, schema, list(records))


def test_types_of_avro_are_those_of_the_schemas_of_all_files(tmp_path):
    """The wider one, or text; a column that one file lacks may be lacking; a time without a zone is one of UTC."""
    local = {"type": "long", "logicalType": "local-timestamp-micros"}
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    one = {"n": "int", "at": local, "x": ["null", "long"], "gap": "null", "d": money, "f": "float"}
    write(tmp_path / "a.avro", [{"n": 1, "at": 0, "x": None, "gap": None, "d": Decimal(1), "f": 1.0}], **one)
    write(tmp_path / "b.avro", n="long", at=local, x="string", f="double", tags={"type": "array", "items": "string"})
    found, sentence = columns_of_typed(sorted(tmp_path.iterdir()), Avro())
    assert {name: (each.type, each.lacks, each.remark) for name, each in found.items()} == {
        "n": ("BIGINT", False, "other files have INT"), "at": ("TIMESTAMP", False, ""),
        "x": ("STRING", False, "other files have BIGINT"), "gap": ("STRING", True, ""),
        "d": ("DECIMAL(9,2)", True, ""), "f": ("DOUBLE", False, "other files have FLOAT"),
        "tags": ("ARRAY<STRING>", True, ""),
    }  # fmt: skip
    assert sentence == "2 of 2 files, 1 records"
    assert columns_of(sorted(tmp_path.iterdir()), Avro()) == (found, sentence)


def test_a_file_that_is_none_is_refused_by_name(tmp_path):
    """Of either format."""
    for name, made_of, said in [
        ("a.avro", Avro(), r"a\.avro is no Avro file by its first bytes"),
        ("a.parquet", Parquet(), r"a\.parquet is damaged: it is no Parquet file to its end"),
    ]:
        (tmp_path / name).write_text("no")
        with pytest.raises(ContractError, match=said):
            columns_of_typed([tmp_path / name], made_of)


def test_a_parquet_column_of_a_type_that_is_not_read_is_named(tmp_path):
    """With its file."""
    pq.write_table(pa.table({"t": pa.array([1], pa.duration("us"))}), tmp_path / "a.parquet")
    with pytest.raises(ContractError, match=r"a\.parquet has a column t of type duration\[us\], which is not read"):
        columns_of_typed([tmp_path / "a.parquet"], Parquet())
