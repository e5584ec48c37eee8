"""Columns of files that hold their types: Parquet and Avro."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from dedp_assets.components.inference.inferred_columns import InferredColumn, name_for
from dedp_assets.patterns.connectors.encoding.avro_files import open_avro
from dedp_assets.patterns.connectors.encoding.avro_schemas import NOTHING
from dedp_assets.patterns.connectors.encoding.formats import Avro, Parquet
from dedp_assets.patterns.connectors.encoding.parquet_files import open_parquet, spark_type
from dedp_assets.patterns.delta import FilePath

__all__ = ["columns_of_typed"]

_WIDER = (("TINYINT", "SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"))


def columns_of_typed(files: Sequence[FilePath], made_of: Parquet | Avro) -> tuple[Mapping[str, InferredColumn], str]:
    """Return the columns of Parquet or Avro files by name, and a sentence about the sample.

    Args:
        files: all files, whose schemas are read.
        made_of: format of the files.

    Raises:
        ContractError: for a file that cannot be read.
    """
    kinds, records = dict[str, list[str]](), 0
    read = _avro if isinstance(made_of, Avro) else _parquet
    for file in files:
        count, found = read(file)
        records += count
        for name, kind in found:
            kinds.setdefault(name, []).append(kind)
    columns = dict[str, InferredColumn]()
    for called, each in kinds.items():
        some = [kind for kind in each if kind != NOTHING] or ["STRING"]
        kind = _common(some)
        remark = f"other files have {', '.join(sorted({*some} - {kind}))}" if len({*some}) > 1 else ""
        columns[name_for(called, columns)] = InferredColumn(kind, called, "", len(each) < len(files), remark)
    return columns, f"{len(files)} of {len(files)} files, {records} records"


def _avro(file: FilePath) -> tuple[int, Iterator[tuple[str, str]]]:
    made = open_avro(file)
    return made.records, ((name, _of_time(node.sql)) for name, node in made.node.fields.items())


def _parquet(file: FilePath) -> tuple[int, Iterator[tuple[str, str]]]:
    opened = open_parquet(file)
    kinds = (
        (each.name, NOTHING if pa.types.is_null(each.type) else spark_type(each.type)) for each in opened.schema_arrow
    )
    return opened.metadata.num_rows, ((name, _of_time(kind)) for name, kind in kinds)


def _of_time(kind: str) -> str:
    """Return a type; a time without a zone is one of UTC."""
    return "TIMESTAMP" if kind == "TIMESTAMP_NTZ" else kind


def _common(kinds: Sequence[str]) -> str:
    """Return the type that holds the values of all types; text without any other."""
    if len(set(kinds)) == 1:
        return kinds[0]
    for family in _WIDER:
        if set(kinds) <= set(family):
            return max(kinds, key=family.index)
    return "STRING"
