"""Parquet files: footers, SQL types of the columns, and records as JSON texts.

The library that judges a file by the footer reads it, too. Spark reads less than another library opens (codecs, names
that are equal but for case, times of 96 bits under other settings), and puts a replacement into text that is no UTF-8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedp_assets.patterns.connectors.encoding.formats import parquet_refusal
from dedp_assets.patterns.connectors.encoding.json_spelling import (
    Text,
    of_bytes,
    of_clock,
    of_date,
    of_double,
    of_float,
    of_null,
    of_string,
    of_times,
    of_truth,
)
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.delta import FilePath, arrow_source

__all__ = ["open_parquet", "parquet_texts", "spark_type"]

_Arrow = Any
"""A type or an array of Arrow, whose library has no types of its own."""
_INTEGERS = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "uint8": "SMALLINT", "uint16": "INT",
    "uint32": "BIGINT", "uint64": "DECIMAL(20,0)",
}  # fmt: skip
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MOST_DIGITS = 38
_BATCH = 1_000


def open_parquet(file: FilePath) -> Any:  # noqa: ANN401 - as above
    """Open a Parquet file, of which the footer is read and no row.

    Raises:
        ContractError: for a file that is called otherwise, or not whole; with two columns of one name, a type or a
            codec that is not read, by the name of the column.
    """
    if reason := parquet_refusal(file):
        raise ContractError(f"{file.name} {reason}")
    try:
        opened = pq.ParquetFile(arrow_source(file), coerce_int96_timestamp_unit="us")
        kind = pa.struct(opened.schema_arrow)
    except ConnectionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ContractError(f"{file.name} is damaged: it is no Parquet file to its end ({error})") from error
    for refusal in (*_refusals(kind, ""), *_codecs(opened.metadata)):
        raise ContractError(f"{file.name} has {refusal}")
    return opened


def parquet_texts(file: FilePath, group: int) -> Iterator[str]:
    """Yield the records of a row group as JSON texts; bytes that are no UTF-8 are lone surrogates.

    Raises:
        ContractError: if the row group is damaged, or not as the footer says.
    """
    opened, number = open_parquet(file), 0
    try:
        for batch in opened.iter_batches(_BATCH, row_groups=[group], use_threads=False):
            number += batch.num_rows
            yield from _texts(pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)))
    except ConnectionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ContractError(f"{file.name} is damaged: row group {group + 1} is not as written ({error})") from error
    if number != opened.metadata.row_group(group).num_rows:
        raise ContractError(f"{file.name} is damaged: row group {group + 1} has {number} rows, and not as stated")


def spark_type(kind: _Arrow) -> str:
    """Return the SQL type of a Parquet column.

    Raises:
        KeyError: for a type that is not read.
    """
    return _sql_and_text(kind)[0]


def _refusals(kind: _Arrow, path: str) -> Iterator[str]:
    """Yield a sentence for each column, at every depth, that is not read."""
    fields = [kind.field(n) for n in range(kind.num_fields)]
    twice = [name for name, times in Counter(field.name for field in fields).items() if times > 1]
    if pa.types.is_struct(kind) and twice:
        yield f"two columns called {path}{twice[0]}: write one of them under another name"
    for field in fields:
        if field.type.num_fields:
            yield from _refusals(field.type, f"{path}{field.name}.")
        else:
            try:
                spark_type(field.type)
            except KeyError:
                yield f"a column {path}{field.name} of type {field.type}, which is not read"


def _codecs(metadata: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    """Yield a sentence for each column that is compressed by a codec that is not read."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if not _is_read(column.compression):
                yield f"a column {column.path_in_schema} compressed by {column.compression}, which is not read"


def _is_read(codec: str) -> bool:
    try:
        return codec == "UNCOMPRESSED" or bool(pa.Codec.is_available(codec.lower()))
    except ValueError:
        return False


def _texts(values: _Arrow) -> list[str]:
    """Return the values of an array as JSON."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _texts(values.storage)
    if pa.types.is_dictionary(kind):
        return _texts(values.dictionary_decode())
    if pa.types.is_struct(kind):
        parts = [_members(field.name, child) for field, child in zip(kind, values.flatten(), strict=True)]
        rows = zip(*parts, strict=True) if parts else [()] * len(values)
        found = ["{" + ",".join(row) + "}" for row in rows]
        return [text if valid else "null" for text, valid in zip(found, values.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(kind):
        return _maps(values)
    if _is_list(kind):
        return _lists(values, "[]", _texts(values.flatten()))
    _, storage, text = _sql_and_text(kind)
    stored = values.cast(storage) if storage is not None else values
    return ["null" if value is None else text(value) for value in stored.to_pylist()]


def _members(name: str, values: _Arrow) -> list[str]:
    start = f"{of_string(name)}:"
    return [start + text for text in _texts(values)]


def _maps(values: _Arrow) -> list[str]:
    """Return maps as JSON objects, whose keys are texts."""
    kind = values.type
    pairs = values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    keys, items = map(_texts, pairs.flatten().flatten())
    named = (key if key.startswith('"') else of_string(key) for key in keys)
    return _lists(pairs, "{}", map(":".join, zip(named, items, strict=True)))


def _lists(values: _Arrow, around: str, parts: Iterable[str]) -> list[str]:
    rest, lengths = iter(parts), pc.list_value_length(values).to_pylist()
    return ["null" if n is None else around[0] + ",".join(islice(rest, n)) + around[1] for n in lengths]


def _is_list(kind: _Arrow) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _text(value: bytes) -> str:
    return of_string(value.decode(errors="surrogateescape"))


def _sql_and_text(kind: _Arrow) -> tuple[str, _Arrow, Text]:
    """Return the SQL type, the type to cast to before reading or ``None``, and the writer of a value.

    Raises:
        KeyError: for a type that is not read.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return _sql_and_text(kind.storage_type)
    for fits, made in _KINDS:
        if fits(kind):
            return made(kind)
    return _INTEGERS[str(kind)], None, str


def _of_list(kind: _Arrow) -> tuple[str, _Arrow, Text]:
    return f"ARRAY<{spark_type(kind.value_type)}>", None, of_null


def _of_struct(kind: _Arrow) -> tuple[str, _Arrow, Text]:
    fields = (f"{identifier(field.name)}: {spark_type(field.type)}" for field in kind)
    return f"STRUCT<{', '.join(fields)}>", None, of_null


def _of_time(kind: _Arrow) -> tuple[str, _Arrow, Text]:
    sql, zone = ("TIMESTAMP_NTZ", "") if kind.tz is None else ("TIMESTAMP", "Z")
    return sql, pa.int64(), of_times(_UNITS[kind.unit], zone)


def _of_decimal(kind: _Arrow) -> tuple[str, _Arrow, Text]:
    sql = f"DECIMAL({kind.precision},{kind.scale})" if kind.precision <= _MOST_DIGITS and kind.scale >= 0 else "STRING"
    return sql, None, str


_KINDS: Sequence[tuple[Callable[[_Arrow], bool], Callable[[_Arrow], tuple[str, _Arrow, Text]]]] = (
    (pa.types.is_null, lambda _: ("INT", None, of_null)),
    (pa.types.is_boolean, lambda _: ("BOOLEAN", None, of_truth)),
    (pa.types.is_float16, lambda _: ("FLOAT", pa.float32(), of_float)),
    (pa.types.is_float32, lambda _: ("FLOAT", None, of_float)),
    (pa.types.is_float64, lambda _: ("DOUBLE", None, of_double)),
    (pa.types.is_decimal, _of_decimal),
    (pa.types.is_string, lambda _: ("STRING", pa.binary(), _text)),
    (pa.types.is_large_string, lambda _: ("STRING", pa.large_binary(), _text)),
    (pa.types.is_string_view, lambda _: ("STRING", pa.binary_view(), _text)),
    (pa.types.is_binary, lambda _: ("BINARY", None, of_bytes)),
    (pa.types.is_large_binary, lambda _: ("BINARY", None, of_bytes)),
    (pa.types.is_binary_view, lambda _: ("BINARY", None, of_bytes)),
    (pa.types.is_fixed_size_binary, lambda _: ("BINARY", None, of_bytes)),
    (pa.types.is_date32, lambda _: ("DATE", pa.int32(), of_date)),
    (pa.types.is_date64, lambda _: ("DATE", pa.int64(), lambda millis: of_date(millis // 86_400_000))),
    (pa.types.is_timestamp, _of_time),
    (pa.types.is_time32, lambda kind: ("STRING", pa.int32(), of_clock(_UNITS[kind.unit]))),
    (pa.types.is_time64, lambda kind: ("STRING", pa.int64(), of_clock(_UNITS[kind.unit]))),
    (pa.types.is_dictionary, lambda kind: _sql_and_text(kind.value_type)),
    (pa.types.is_struct, _of_struct),
    (pa.types.is_map, lambda kind: (f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>", None, of_null)),
    (_is_list, _of_list),
)
"""Test of a type -> its SQL type, the type of the stored values, and the writer of a value."""
