"""Formats of files with records, and their options."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dedp_assets.patterns.connectors.encoding.csv_records import CsvRecord, records_of
from dedp_assets.patterns.connectors.encoding.json_files import json_texts_of
from dedp_assets.patterns.connectors.landing.files import lines_of, unreadable_name
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.delta import FilePath

__all__ = [
    "Avro", "Csv", "Encoding", "Format", "Json", "JsonLines", "Parquet", "avro_refusal", "csv_records",
    "digest_whole", "header_of", "header_record", "is_binary", "parquet_refusal", "records_in", "text_of", "text_sql",
]  # fmt: skip

Encoding = Literal["utf-8", "iso-8859-1", "windows-1252"]
_LONGEST = 1 << 20
_PIECE = 1 << 20
_ONLY_WINDOWS = {
    byte: bytes([byte]).decode("cp1252") for byte in range(0x80, 0xA0) if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
"""Bytes that windows-1252 and ISO-8859-1 read as different characters; five bytes are no character of the former."""


@dataclass(frozen=True, slots=True)
class Csv:
    """Values with delimiters, one record a line.

    Attributes:
        header: whether the first line of a file names the columns; otherwise the columns are those of the declaration,
            in order.
        delimiter: the character between values.
        quote: the character around values that hold a delimiter; empty if no value is quoted.
        escape: the character before a quote, or before itself, inside a quoted value; empty if such a quote is written
            twice.
        encoding: encoding of the text.
        nulls: texts that stand for no value, as the empty one does.
        multiline: whether quoted values may hold line feeds.
        decimal: the character before the decimals of a number.
        skip_first: number of lines before the header, or without one before the first record, that are no records.
        skip_last: number of lines behind the last record that are no records.
    """

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    encoding: Encoding = "utf-8"
    nulls: Sequence[str] = ()
    multiline: bool = False
    decimal: Literal[".", ","] = "."
    skip_first: int = 0
    skip_last: int = 0

    def __post_init__(self) -> None:
        require_types(self)
        for name in ("skip_first", "skip_last"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more lines, not {getattr(self, name)}")
        for name, least in (("delimiter", 1), ("quote", 0), ("escape", 0)):
            value = getattr(self, name)
            if not least <= len(value) <= 1 or value in ("\n", "\r", "\0"):
                raise ConfigError(f"{name} must be one character{'' if least else ', or empty'}, not {value!r}")
        if self.quote == self.delimiter:
            raise ConfigError(f"quote must be another character than delimiter, not {self.quote!r}")
        if self.escape and (not self.quote or self.escape == self.delimiter):
            raise ConfigError(
                f"escape must be another character than delimiter, and go with quote, not {self.escape!r}"
            )

    @property
    def doubles(self) -> bool:
        """``True`` if a quote inside a quoted value is written twice."""
        return self.escape in ("", self.quote)

    def pointed(self, number: str) -> str:
        """Return a number with a decimal point; a text with a point, where that is not the character, is none."""
        if self.decimal == "." or not number:
            return number
        return f"{number} (decimal: {self.decimal})" if "." in number else number.replace(self.decimal, ".")


@dataclass(frozen=True, slots=True)
class JsonLines:
    """One JSON object a line, nested or not.

    Attributes:
        encoding: encoding of the text.
    """

    encoding: Encoding = "utf-8"

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True, slots=True)
class Json:
    """One JSON array of objects a file.

    Attributes:
        encoding: encoding of the text.
        records: member with the array, if the file is an object; ``data.items`` for a member of a member.
    """

    encoding: Encoding = "utf-8"
    records: str = ""

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True, slots=True)
class Parquet:
    """Parquet files of databases and engines."""


@dataclass(frozen=True, slots=True)
class Avro:
    """Avro files with the schema of their records, as Kafka's and Hadoop's tools write."""


Format = Csv | JsonLines | Json | Parquet | Avro
_BINARY = {".parquet": "Parquet", ".avro": "Avro"}
"""End of a name -> format whose files have no lines."""


def is_binary(name: str) -> bool:
    """Return whether a name is that of a Parquet or Avro file."""
    return Path(name).suffix.lower() in _BINARY


def parquet_refusal(path: FilePath) -> str:
    """Return the reason why engines cannot read a Parquet file, by name and type; or empty text.

    Raises:
        OSError: if the file is not there.
    """
    return _refusal(path, ".parquet")


def avro_refusal(path: FilePath) -> str:
    """Return the reason why an Avro file is not read, by name and type; or empty text.

    Raises:
        OSError: if the file is not there.
    """
    return _refusal(path, ".avro")


def _refusal(path: FilePath, suffix: str) -> str:
    kind = _BINARY[suffix]
    if reason := unreadable_name(path.name):
        return reason
    if Path(path.name).suffix.lower() != suffix:
        return f"is no {kind} file by its name: call it {suffix}"
    if not stat.S_ISREG(path.stat().st_mode):
        return "is no regular file"
    return "" if path.stat().st_size else f"is empty, which no {kind} file is"


def digest_whole(path: FilePath, *, seen: Callable[[bytes], object]) -> None:
    """Pass all bytes of a Parquet or Avro file to a digest.

    Args:
        path: the file.
        seen: takes the bytes, piece by piece.

    Raises:
        ContractError: if an engine would not read it.
    """
    if reason := avro_refusal(path) if path.suffix.lower() == ".avro" else parquet_refusal(path):
        raise ContractError(f"{path.name} {reason}")
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            seen(piece)


def text_sql(encoding: Encoding) -> str:
    """Write SQL for the text of a line from ``raw`` and ``raw_bytes``, by encoding."""
    if encoding == "utf-8":
        return "raw"
    text = "decode(coalesce(raw_bytes, encode(raw, 'UTF-8')), 'ISO-8859-1')"
    if encoding == "iso-8859-1":
        return text
    read, wanted = "".join(map(chr, _ONLY_WINDOWS)), "".join(_ONLY_WINDOWS.values())
    return f"translate({text}, {quoted(read)}, {quoted(wanted)})"


def text_of(line: bytes, encoding: Encoding, errors: str = "replace") -> str:
    """Return the text of bytes by an encoding, as :func:`text_sql` does in SQL."""
    if encoding == "utf-8":
        return line.decode(errors=errors)
    text = line.decode("iso-8859-1")
    return text.translate(_ONLY_WINDOWS) if encoding == "windows-1252" else text


def header_of(path: FilePath, made: Csv) -> tuple[str, ...]:
    """Return the names in the first record of a CSV file; a missing name is ``column_<place>``.

    Raises:
        ContractError: if the first line is longer than 1 MiB.
    """
    return header_record(path, made)[0]


def header_record(path: FilePath, made: Csv) -> tuple[tuple[str, ...], int]:
    """Return the names in the first record of a CSV file, and the number of the last line of this record.

    Raises:
        ContractError: if the first line is longer than 1 MiB, or no record.
    """
    first = next(iter(csv_records(path, made)), None)
    if first is not None and first.fault:
        raise ContractError(f"{path.name} has no header, as in its first line {first.fault}")
    names = () if first is None or first.is_blank else first.values
    named = tuple(name or f"column_{number}" for number, name in enumerate(names, 1))
    return named, first.number + len(first.lines) - 1 if first else 0


def records_in(path: FilePath, made: Csv | JsonLines | Json) -> Iterator[Any]:
    """Yield the records of a file: lists of values of CSV without the header, or texts of JSON.

    A record of CSV with a fault has no values.

    Raises:
        ContractError: if a line is longer than 1 MiB, or a file of one JSON array is none.
    """
    if isinstance(made, Json):
        yield from json_texts_of(path, made)
        return
    if isinstance(made, JsonLines):
        lines = (text_of(line, made.encoding) for line in lines_of(path, longest_bytes=_LONGEST))
        yield from (line for line in lines if line.strip())
        return
    found = csv_records(path, made)
    if made.header:
        next(found, None)
    yield from (list(record.values) for record in found if not record.is_blank)


def csv_records(
    path: FilePath, made: Csv, *, longest_bytes: int = _LONGEST, errors: str = "replace"
) -> Iterator[CsvRecord]:
    """Yield the records of a CSV file, including the header.

    Args:
        path: the file.
        made: the format.
        longest_bytes: greatest length of a line.
        errors: Python's name of the way to read bytes that are no UTF-8.

    Raises:
        ContractError: if a line is longer.
    """
    lines = lines_of(path, longest_bytes=longest_bytes)
    return records_of((text_of(line, made.encoding, errors).removesuffix("\n") for line in lines), made, name=path.name)
