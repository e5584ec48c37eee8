"""Files of any format as landed rows: every record with file name and position, and nothing left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count as count_from
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.encoding.avro_files import avro_texts, open_avro
from dedp_assets.patterns.connectors.encoding.formats import (
    Avro,
    Csv,
    Format,
    Json,
    JsonLines,
    csv_records,
    header_record,
    text_sql,
)
from dedp_assets.patterns.connectors.encoding.json_files import json_texts_of
from dedp_assets.patterns.connectors.encoding.parquet_files import open_parquet, parquet_texts
from dedp_assets.patterns.connectors.landing.files import LONGEST_LINE, count_lines
from dedp_assets.patterns.connectors.landing.lines import Lines, read_lines
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.delta import FilePath

__all__ = ["LINES_OF_RECORD", "read_landed"]

LINES_OF_RECORD = "char_length(raw) - char_length(replace(raw, '\\n', '')) + 1"
"""SQL for the number of lines that a landed record has."""
_LANDED = "raw STRING, raw_bytes BINARY, source_file STRING, line_number BIGINT"
_MOST_TASKS, _BATCH = 256, 1_000
_HEADER, _LAST = f"{RESERVED}header", f"{RESERVED}last"


def read_landed(
    session: SparkSession, files: Sequence[FilePath], made: Format, *, columns: Sequence[str] = ()
) -> Lines:
    """Read the records of files, each with file name and position.

    Args:
        session: the session.
        files: the files, of one folder or prefix of a bucket.
        made: format of the files.
        columns: names of the columns of CSV without a header.

    Returns:
        ``raw`` STRING (the line as landed; the record of a Parquet or Avro file as JSON), ``raw_bytes`` BINARY (only
        where a record is not valid UTF-8), ``header`` STRING (of CSV alone: the names in the file's header as a JSON
        array), ``source_file`` and ``line_number`` (from 1; of a file without lines the record, of a record of several
        lines the first); and the number of lines by file, with those of the header of CSV.

    Raises:
        ContractError: for a file that is not of the format, or not read to the end.
    """
    if isinstance(made, Csv):
        return _read_csv(session, files, made, columns)
    if isinstance(made, JsonLines):
        lines = read_lines(session, files)
        return Lines(_decoded(lines.rows, made.encoding), lines.count)
    if isinstance(made, Json):
        return _read_json(session, files, made)
    return _read_avro(session, files) if isinstance(made, Avro) else _read_parquet(session, files)


def _decoded(rows: DataFrame, encoding: Any) -> DataFrame:  # noqa: ANN401 - one of three texts
    if encoding == "utf-8":
        return rows
    return rows.withColumns({"raw": F.expr(text_sql(encoding)), "raw_bytes": F.expr("CAST(NULL AS BINARY)")})


def _read_csv(session: SparkSession, files: Sequence[FilePath], made: Csv, columns: Sequence[str]) -> Lines:
    found = {file.name: header_record(file, made) if made.header else (tuple(columns), 0) for file in files}
    if made.multiline and made.quote:
        count: Mapping[str, int] = {file.name: number for file in files if (number := count_lines(file))}
        items = [(file, made) for file in files if file.name in count]
        rows = _in_tasks(session, _csv_records, items)
    else:
        lines = read_lines(session, files)
        rows, count = _decoded(lines.rows, made.encoding), lines.count
    heights = {name: height if made.header else made.skip_first for name, (_, height) in found.items()}
    count = {name: max(number - made.skip_last, heights[name]) for name, number in count.items()}
    headers = [(name, json.dumps(names), heights[name], count.get(name, 0)) for name, (names, _) in found.items()]
    kinds = f"source_file STRING, header STRING, {_HEADER} BIGINT, {_LAST} BIGINT"
    named = F.broadcast(session.createDataFrame(headers, kinds))
    landed = rows.join(named, "source_file").filter(f"line_number > {_HEADER} AND line_number <= {_LAST}")
    landed = landed.select("raw", "raw_bytes", "header", "source_file", "line_number")
    return Lines(landed, count, {name: height for name, height in heights.items() if name in count})


def _csv_records(file: FilePath, made: Csv) -> Iterator[tuple[str, int]]:
    """Yield the text of each record with the number of the first line."""
    for record in csv_records(file, made, longest_bytes=LONGEST_LINE, errors="surrogateescape"):
        yield "\n".join(record.lines), record.number


def _read_parquet(session: SparkSession, files: Sequence[FilePath]) -> Lines:
    items, count = list[tuple[FilePath, int, int]](), dict[str, int]()
    for file in files:
        metadata, first = open_parquet(file).metadata, 1
        for group in range(metadata.num_row_groups):
            items.append((file, group, first))
            first += metadata.row_group(group).num_rows
        count |= {file.name: first - 1} if first > 1 else {}
    return Lines(_in_tasks(session, _parquet_records, items), count)


def _parquet_records(file: FilePath, group: int, first: int) -> Iterator[tuple[str, int]]:
    return zip(parquet_texts(file, group), count_from(first))


def _read_json(session: SparkSession, files: Sequence[FilePath], made: Json) -> Lines:
    count = {file.name: number for file in files if (number := sum(1 for _ in json_texts_of(file, made)))}
    items = [(file, made) for file in files if file.name in count]
    return Lines(_in_tasks(session, _json_records, items), count)


def _json_records(file: FilePath, made: Json) -> Iterator[tuple[str, int]]:
    return zip(json_texts_of(file, made), count_from(1))


def _read_avro(session: SparkSession, files: Sequence[FilePath]) -> Lines:
    opened = {file: open_avro(file).records for file in files}
    items = [(file, records) for file, records in opened.items() if records]
    return Lines(_in_tasks(session, _avro_records, items), {file.name: records for file, records in items})


def _avro_records(file: FilePath, records: int) -> Iterator[tuple[str, int]]:
    """Yield the text and the number of each record.

    Raises:
        ContractError: if the file is damaged, or has another number of records than before.
    """
    made = open_avro(file)
    if made.records != records:
        raise ContractError(f"{file.name} changed while it was read: it had {records} records")
    return zip(avro_texts(file, made), count_from(1))


def _in_tasks(
    session: SparkSession, read: Callable[..., Iterator[tuple[str, int]]], items: Sequence[tuple[Any, ...]]
) -> DataFrame:
    """Read files, or parts of files, in tasks of Python, one for each item up to 256.

    Args:
        session: the session.
        read: yields text and place of each record of an item, whose first value is the file.
        items: arguments of ``read``.
    """
    if not items:
        return session.createDataFrame([], _LANDED)

    def landed(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = read(*items[number])
                while some := list(islice(found, _BATCH)):
                    yield _batch(items[number][0].name, some)

    numbers = session.range(0, len(items), 1, min(len(items), _MOST_TASKS))
    return numbers.mapInArrow(landed, _LANDED)


def _batch(name: str, records: Sequence[tuple[str, int]]) -> pa.RecordBatch:
    """Return records as a batch of Arrow; bytes that are no UTF-8 are lone surrogates in the texts."""
    stored = [text.encode(errors="surrogateescape") for text, _ in records]
    whole = [data.decode(errors="replace") for data in stored]
    spoilt = [data if text != given else None for data, text, (given, _) in zip(stored, whole, records, strict=True)]
    columns = {
        "raw": pa.array(whole, pa.string()),
        "raw_bytes": pa.array(spoilt, pa.binary()),
        "source_file": pa.array([name] * len(records), pa.string()),
        "line_number": pa.array([place for _, place in records], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)
