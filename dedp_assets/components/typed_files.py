"""Columns of files that hold their types: Parquet and Avro."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dedp_assets.components.inferred_columns import InferredColumn, name_for
from dedp_assets.patterns.connectors.avro_files import open_avro
from dedp_assets.patterns.connectors.avro_schemas import NOTHING
from dedp_assets.patterns.connectors.formats import Avro, Parquet
from dedp_assets.patterns.connectors.parquet_files import spark_type
from dedp_assets.patterns.core.errors import ContractError

__all__ = ["columns_of_typed"]

_WIDER = (("TINYINT", "SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"))


def columns_of_typed(files: Sequence[Path], made_of: Parquet | Avro) -> tuple[Mapping[str, InferredColumn], str]:
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


def _avro(file: Path) -> tuple[int, Iterator[tuple[str, str]]]:
    made = open_avro(file)
    return made.records, ((name, _of_time(node.sql)) for name, node in made.node.fields.items())


def _parquet(file: Path) -> tuple[int, Iterator[tuple[str, str]]]:
    try:
        opened = pq.ParquetFile(file)
    except Exception as error:
        raise ContractError(f"{file.name} cannot be read as Parquet: {error}") from error
    schema = opened.schema_arrow
    return opened.metadata.num_rows, ((each.name, _of_arrow(file.name, each.name, each.type)) for each in schema)


def _of_arrow(file: str, name: str, kind: Any) -> str:  # noqa: ANN401 - pyarrow has no types
    """Return the SQL type of a column."""
    if str(kind) == NOTHING:
        return NOTHING
    if str(kind).startswith("timestamp"):
        return "TIMESTAMP"  # nanoseconds are none of Spark's
    try:
        return spark_type(kind)
    except KeyError:
        raise ContractError(f"{file} has a column {name} of type {kind}, which is not read") from None


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
