"""Files of any format as landed rows: every record with file name and position, and nothing left out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.avro_files import AvroFile, avro_texts, open_avro
from dedp_assets.patterns.connectors.formats import Avro, Csv, Format, JsonLines, header_of, parquet_refusal, text_sql
from dedp_assets.patterns.connectors.lines import Lines, read_lines
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.json_texts import EXACT, options
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.delta import literal_path

__all__ = ["LINES_OF_RECORD", "open_parquet", "read_landed", "spark_type"]

LINES_OF_RECORD = "char_length(raw) - char_length(replace(raw, '\\n', '')) + 1"
"""SQL for the number of lines that a landed record has."""
_SCALARS = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "uint8": "SMALLINT",
    "uint16": "INT", "uint32": "BIGINT", "uint64": "DECIMAL(20,0)", "float": "FLOAT", "halffloat": "FLOAT",
    "double": "DOUBLE", "string": "STRING", "large_string": "STRING", "string_view": "STRING", "binary": "BINARY",
    "large_binary": "BINARY", "date32[day]": "DATE", "null": "INT",
}  # fmt: skip
_LANDED = "raw STRING, raw_bytes BINARY, source_file STRING, line_number BIGINT"
_MOST_TASKS, _BATCH = 256, 1_000
_OPEN, _START, _PLACE = f"{RESERVED}open", f"{RESERVED}start", f"{RESERVED}place"


def read_landed(session: SparkSession, files: Sequence[Path], made: Format, *, columns: Sequence[str] = ()) -> Lines:
    """Read the records of files, each with file name and position.

    Args:
        session: the session.
        files: the files, of one folder.
        made: format of the files.
        columns: names of the columns of CSV without a header.

    Returns:
        ``raw`` STRING (the line as landed; the record of a Parquet or Avro file as JSON), ``raw_bytes`` BINARY (only
        where a line is not valid UTF-8), ``header`` STRING (of CSV alone: the names in the file's header as a JSON
        array), ``source_file`` and ``line_number`` (from 1; of a Parquet or Avro file the row, of a record of several
        lines the first); and the number of lines by file, the header of CSV not counted.

    Raises:
        ContractError: for a file that is not of the format, or not read to the end.
    """
    if isinstance(made, Csv):
        return _read_csv(session, files, made, columns)
    if isinstance(made, JsonLines):
        lines = read_lines(session, files)
        return Lines(_decoded(lines.rows, made.encoding), lines.count)
    return _read_avro(session, files) if isinstance(made, Avro) else _read_parquet(session, files)


def _decoded(rows: DataFrame, encoding: Any) -> DataFrame:  # noqa: ANN401 - one of three texts
    if encoding == "utf-8":
        return rows
    return rows.withColumns({"raw": F.expr(text_sql(encoding)), "raw_bytes": F.expr("CAST(NULL AS BINARY)")})


def _read_csv(session: SparkSession, files: Sequence[Path], made: Csv, columns: Sequence[str]) -> Lines:
    lines = read_lines(session, files)
    rows = _decoded(lines.rows, made.encoding)
    if made.multiline and made.quote:
        rows = _joined(rows, made)
    headers = [(file.name, json.dumps(header_of(file, made) if made.header else list(columns))) for file in files]
    named = F.broadcast(session.createDataFrame(headers, "source_file STRING, header STRING"))
    rows = rows.filter("line_number > 1") if made.header else rows
    landed = rows.join(named, "source_file").select("raw", "raw_bytes", "header", "source_file", "line_number")
    return Lines(landed, lines.count)


def _joined(rows: DataFrame, made: Csv) -> DataFrame:
    """Join the lines of records with line feeds in quoted values."""
    quote = quoted(made.quote)
    text = "raw" if made.doubles else f"regexp_replace(raw, {quoted(chr(92) * 2 + made.escape + '.')}, '')"
    quotes = f"char_length({text}) - char_length(replace({text}, {quote}, ''))"
    before = "OVER (PARTITION BY source_file ORDER BY line_number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    opened = f"coalesce(sum({quotes}) {before}, 0) % 2 = 0"
    begins = rows.selectExpr("*", f"{opened} AS {_OPEN}")
    start = f"max(if({_OPEN}, line_number, NULL)) OVER (PARTITION BY source_file ORDER BY line_number)"
    parts = "array_sort(collect_list(struct(line_number, raw, raw_bytes)))"
    whole = (
        begins.selectExpr("*", f"{start} AS {_START}").groupBy("source_file", _START).agg(F.expr(parts).alias(_PLACE))
    )
    spoilt = f"exists({_PLACE}, p -> p.raw_bytes IS NOT NULL)"
    stored = f"transform({_PLACE}, p -> coalesce(p.raw_bytes, encode(p.raw, 'UTF-8')))"
    all_bytes = f"unhex(array_join(transform({stored}, b -> hex(b)), '0A'))"
    return whole.selectExpr(
        f"array_join(transform({_PLACE}, p -> p.raw), '\\n') AS raw",
        f"if({spoilt}, {all_bytes}, NULL) AS raw_bytes",
        "source_file",
        f"{_START} AS line_number",
    )


def _read_parquet(session: SparkSession, files: Sequence[Path]) -> Lines:
    kinds: dict[tuple[tuple[str, str], ...], list[Path]] = defaultdict(list)
    count: dict[str, int] = {}
    for file in files:
        opened = open_parquet(file)
        if opened.metadata.num_rows:
            count[file.name] = opened.metadata.num_rows
            kinds[tuple(_columns(file.name, opened.schema_arrow))].append(file)
    frames = [_as_json(session, dict(columns), some) for columns, some in kinds.items()]
    if not frames:
        return Lines(session.createDataFrame([], _LANDED), {})
    return Lines(reduce(DataFrame.unionAll, frames), count)


def open_parquet(file: Path) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Open a Parquet file, of which the footer is read and no row.

    Raises:
        ContractError: for a file that is called otherwise, or not whole.
    """
    if reason := parquet_refusal(file):
        raise ContractError(f"{file.name} {reason}")
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise ContractError(f"{file.name} is damaged: it is no Parquet file to its end ({error})") from error


def _columns(name: str, schema: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - as above
    """Yield the columns of a file with SQL types; nanoseconds are whole numbers for Spark."""
    for field in schema:
        if _is_nanos(field.type):
            yield field.name, "BIGINT NANOS" if field.type.tz is None else "BIGINT NANOS UTC"
        else:
            try:
                yield field.name, spark_type(field.type)
            except KeyError:
                raise ContractError(
                    f"{name} has a column {field.name} of type {field.type}, which is not read"
                ) from None


def _is_nanos(kind: Any) -> bool:  # noqa: ANN401 - as above
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns"


def spark_type(kind: Any) -> str:  # noqa: ANN401 - as above
    """Return the SQL type of a Parquet column.

    Raises:
        KeyError: for a type that Spark does not read.
    """
    for is_of, written in _NESTED:
        if is_of(kind):
            return written(kind)
    return _SCALARS[str(kind)]


def _of_struct(kind: Any) -> str:  # noqa: ANN401 - as above
    return f"STRUCT<{', '.join(f'{identifier(field.name)}: {spark_type(field.type)}' for field in kind)}>"


def _of_time(kind: Any) -> str:  # noqa: ANN401 - as above
    if kind.unit == "ns":
        raise KeyError(str(kind))
    return "TIMESTAMP_NTZ" if kind.tz is None else "TIMESTAMP"


def _of_list(kind: Any) -> str:  # noqa: ANN401 - as above
    return f"ARRAY<{spark_type(kind.value_type)}>"


_NESTED: Sequence[tuple[Callable[[Any], bool], Callable[[Any], str]]] = (
    (pa.types.is_struct, _of_struct),
    (pa.types.is_map, lambda kind: f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"),
    (pa.types.is_list, _of_list),
    (pa.types.is_large_list, _of_list),
    (pa.types.is_dictionary, lambda kind: spark_type(kind.value_type)),
    (pa.types.is_decimal, lambda kind: f"DECIMAL({kind.precision},{kind.scale})"),
    (pa.types.is_fixed_size_binary, lambda _: "BINARY"),
    (pa.types.is_timestamp, _of_time),
)
"""Test of a type with parts -> writer of its SQL type."""


def _as_json(session: SparkSession, columns: Mapping[str, str], files: Sequence[Path]) -> DataFrame:
    stored = {name: kind.partition(" NANOS")[0] for name, kind in columns.items()}
    schema = ", ".join(f"{identifier(name)} {kind}" for name, kind in stored.items())
    values = []
    for name, kind in columns.items():
        value = identifier(name)
        if " NANOS" in kind:
            # What is below a microsecond has no place in a TIMESTAMP; DIV rounds towards zero.
            value = f"timestamp_micros({value} DIV 1000 - if({value} % 1000 < 0, 1, 0))"
            value = value if kind.endswith("UTC") else f"CAST({value} AS TIMESTAMP_NTZ)"
        values.append(f"{quoted(name)}, {value}")
    made = f"to_json(named_struct({', '.join(values)}), {options(EXACT)})"
    return (
        session.read.schema(schema)
        .parquet(*[literal_path(file) for file in files])
        .select(
            F.expr(made).alias("raw"),
            F.expr("CAST(NULL AS BINARY)").alias("raw_bytes"),
            F.expr("url_decode(replace(_metadata.file_name, '+', '%2B'))").alias("source_file"),
            F.expr("_metadata.row_index + 1").alias("line_number"),
        )
    )


def _read_avro(session: SparkSession, files: Sequence[Path]) -> Lines:
    """Read Avro files in tasks of Python, one for each file up to 256."""
    opened = [(file, open_avro(file)) for file in files]
    some = [(file, made) for file, made in opened if made.records]
    if not some:
        return Lines(session.createDataFrame([], _LANDED), {})
    paths = [str(file) for file, _ in some]
    count = {file.name: made.records for file, made in some}

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _avro_batches(Path(paths[number]), count)

    numbers = session.range(0, len(paths), 1, min(len(paths), _MOST_TASKS))
    return Lines(numbers.mapInArrow(read, _LANDED), count)


def _avro_batches(path: Path, count: Mapping[str, int]) -> Iterator[Any]:
    """Yield the records of a file as batches of Arrow.

    Raises:
        ContractError: if the file is damaged, or has another number of records than before.
    """
    made: AvroFile = open_avro(path)
    if made.records != count[path.name]:
        raise ContractError(f"{path.name} changed while it was read: it had {count[path.name]} records")
    texts, first = avro_texts(path, made), 1
    while some := list(islice(texts, _BATCH)):
        raw, places = pa.array(some, pa.string()), pa.array(range(first, first + len(some)), pa.int64())
        columns = [raw, pa.nulls(len(some), pa.binary()), pa.array([path.name] * len(some), pa.string()), places]
        yield pa.RecordBatch.from_arrays(columns, ["raw", "raw_bytes", "source_file", "line_number"])
        first += len(some)
