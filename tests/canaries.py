"""Canaries: made-up secrets and personal values, and the search for them in everything that a platform leaves.

A canary is found in whatever way it is written: with other letters' case, escaped for JSON or HTML, percent-encoded,
hexadecimal, in Base64 at any place of a longer text, backwards, in halves, and within packed files and databases.
"""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import sqlite3
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LEAST_HALF = 8
"""Bytes of the shortest half of a canary that is searched for by itself."""
LONGEST = 256
"""Bytes of the longest value that is searched for in memory."""
_LEAST = 6
"""Bytes that are looked up at once: each spelling has at least as many."""
_LEAST_DIGITS = 8
"""Digits of the shortest spelling of digits alone: the microseconds of a time have six."""


@dataclass(frozen=True)
class Canary:
    """A made-up value that may be in no text of a platform; a secret may be in no table either."""

    name: str
    value: bytes
    is_secret: bool = False


def spellings(value: bytes) -> set[bytes]:
    """Every way in which a value may be written, in lower case; of a long one also each half."""
    middle = len(value) // 2
    halves = [value[:middle], value[middle:]] if middle >= LEAST_HALF else []
    return {spelt.lower() for part in (value, *halves) for spelt in _spelt(part)}


def _spelt(part: bytes) -> Iterator[bytes]:
    yield from (part, part[::-1], part.hex().encode())
    yield "".join(f"%{byte:02x}" for byte in part).encode()
    for before, start in ((0, 0), (1, 2), (2, 3)):
        digits = b64encode(bytes(before) + part).rstrip(b"=")
        # The last digit is the part's own only if no other byte follows.
        inner = digits[start : len(digits) - (1 if len(digits) % 4 else 0)]
        yield from (inner, inner.translate(bytes.maketrans(b"+/", b"-_")))
    with suppress(UnicodeDecodeError):
        text = part.decode()
        escapes: list[Callable[[str], str]] = [
            lambda t: json.dumps(t)[1:-1], lambda t: repr(t)[1:-1], html.escape, quote, quote_plus,
            lambda t: quote(t, safe=""), lambda t: re.sub(r"\W", "", t), lambda t: json.dumps(json.dumps(t))[3:-3],
        ]  # fmt: skip
        shortest = lambda spelt: _LEAST_DIGITS if spelt.isdigit() else _LEAST  # noqa: E731
        yield from (spelt.encode() for escape in escapes if len(spelt := escape(text)) >= shortest(spelt))


class Search:
    """A search for many canaries at once, in one pass over a text."""

    def __init__(self, canaries: Iterable[Canary]) -> None:
        self._known: dict[bytes, list[tuple[bytes, Canary]]] = {}
        self._first, self._second = (np.zeros(1 << 24, dtype=bool) for _ in range(2))
        for canary in canaries:
            for spelt in spellings(canary.value):
                assert len(spelt) >= _LEAST, canary
                self._known.setdefault(spelt[:_LEAST], []).append((spelt, canary))
                first, second = (int.from_bytes(spelt[at : at + 3], "big") for at in (0, 3))
                self._first[first] = self._second[second] = True

    def found(self, content: bytes) -> set[Canary]:
        """The canaries in a text."""
        low = content.lower()
        if len(low) < _LEAST:
            return set()
        read = np.frombuffer(low, dtype=np.uint8).astype(np.uint32)
        codes = read[:-2] << 16 | read[1:-1] << 8 | read[2:]
        places = np.flatnonzero(self._first[codes[:-3]] & self._second[codes[3:]])
        return {
            canary
            for at in places.tolist()
            for spelt, canary in self._known.get(low[at : at + _LEAST], ())
            if low.startswith(spelt, at)
        }


Texts = Iterator[tuple[str, bytes]]
"""Names of places, and the bytes there."""


def texts_in(folder: Path) -> Texts:
    """Everything below a folder: paths, files, and within packed files, databases and Parquet files all values.

    The place of a value in a column is ``<path>|<column>``, of its statistics ``<path>|<column>|statistics``.
    """
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        yield f"{name}|name", name.encode()
        if path.is_file() and not path.is_symlink():
            yield from unpacked(name, path.read_bytes())


def unpacked(name: str, content: bytes) -> Texts:
    """A file's bytes, and the texts within; what looks packed and is not has no more than its bytes."""
    yield name, content
    for begin, opened in _PACKED.items():
        if content.startswith(begin):
            with suppress(OSError, zlib.error, sqlite3.DatabaseError, zipfile.BadZipFile, pa.ArrowException, EOFError):
                yield from opened(name, content)
            return


def _inner(unpack: Callable[[bytes], bytes]) -> Callable[[str, bytes], Texts]:
    return lambda name, content: unpacked(f"{name}|unpacked", unpack(content))


def _zstd(content: bytes) -> bytes:
    """Unpack frame by frame: Spark's event log ends a frame at each flush, and a running one within a frame."""
    read = bytearray()
    with pa.input_stream(pa.py_buffer(content), compression="zstd") as stream, suppress(OSError):
        while piece := stream.read(1):
            read += piece + stream.read(1 << 16)
    return bytes(read)


def _zip(name: str, content: bytes) -> Texts:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for each in packed.namelist():
            yield from unpacked(f"{name}|{each}", packed.read(each))


def _sqlite(name: str, content: bytes) -> Texts:
    with closing(sqlite3.connect(":memory:")) as database:
        # A file that is written ahead of is opened as any other, without what is only in the journal beside it.
        database.deserialize(content[:18] + b"\x01\x01" + content[20:])
        database.text_factory = bytes
        tables = [row[0].decode() for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):
                for value in (each for each in row if isinstance(each, bytes)):
                    yield from unpacked(f"{name}|{table}", value)


def _parquet(name: str, content: bytes) -> Texts:
    file = pq.ParquetFile(pa.py_buffer(content))
    for group in range(file.metadata.num_row_groups):
        for number in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(number)
            top = column.path_in_schema.split(".", 1)[0]
            if (known := column.statistics) is not None and known.has_min_max:
                for bound in (known.min_raw, known.max_raw):
                    yield f"{name}|{top}|statistics", bound if isinstance(bound, bytes) else str(bound).encode()
    for column_name, values in file.read().to_pydict().items():
        texts, blobs = list[str](), list[bytes]()
        _sort(values, texts, blobs)
        yield f"{name}|{column_name}", "\n".join(texts).encode("utf-8", "surrogatepass")
        for blob in blobs:
            yield from unpacked(f"{name}|{column_name}", blob)


def _sort(value: Any, texts: list[str], blobs: list[bytes]) -> None:
    if isinstance(value, bytes):
        blobs.append(value)
    elif isinstance(value, Mapping):
        _sort([*value.keys(), *value.values()], texts, blobs)
    elif isinstance(value, Collection) and not isinstance(value, str):
        for each in value:
            _sort(each, texts, blobs)
    elif value is not None:
        texts.append(str(value))


_PACKED: Mapping[bytes, Callable[[str, bytes], Texts]] = {
    b"\x1f\x8b": _inner(gzip.decompress),
    b"\x28\xb5\x2f\xfd": _inner(_zstd),
    b"PK\x03\x04": _zip,
    b"SQLite format 3\x00": _sqlite,
    b"PAR1": _parquet,
    **dict.fromkeys((b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"), _inner(zlib.decompress)),
}


@lru_cache
def people(count: int) -> tuple[Canary, ...]:
    """So many made-up personal values: e-mails, names, telephone numbers, network addresses, logins."""
    found = []
    for number in range(count):
        one, other = _word(2 * number), _word(2 * number + 1)
        kinds = {
            "e-mail": f"{one}.{number}@{other}.example",
            "name": f"{one.title()}é {other.title()}ß-{number}",
            "telephone": f"+49 30 {7_310_000 + 7919 * number % 999_983} {431 + number}",
            "address": f"2001:db8:{other.encode().hex()[:4]}:{one.encode().hex()[:4]}::{number + 0x1A00:x}"
            if number % 2
            else f"198.51.{100 + number % 100}.{101 + number % 150}",
            "login": f"{one}_{other}_{number}",
        }
        kind = [*kinds][number % len(kinds)]
        found.append(Canary(f"{kind} {number}", kinds[kind].encode()))
    return tuple(found)


def _word(number: int) -> str:
    """A word of nine letters that no text has by chance."""
    state, letters = 48_271 * (number + 17), ""
    for place in range(9):
        state = state * 1_103_515_245 + 12_345 & 0x7FFFFFFF
        letters += ("qzxvkwj" if place % 2 else "aeiouyd")[(state >> 16) % 7]
    return letters


def memory_of(process: int, *, piece: int = 16 << 20) -> Texts:
    """The writable memory of a process, by range, in pieces that overlap; what is given back meanwhile is left out.

    Args:
        process: id of a process that this one may look into: a child of the same user.
        piece: most bytes at once.
    """
    listed = Path(f"/proc/{process}/maps").read_text().splitlines()
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        for bounds, rights, *_ in map(str.split, listed):
            if not rights.startswith("rw"):
                continue
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            for at in range(begin, end, piece):
                with suppress(OSError, OverflowError):
                    memory.seek(at)
                    yield f"{process}|{bounds}", memory.read(min(piece + LONGEST, end - at))
