"""Records of persons in files: search of a folder, and copies of files without these records.

Text is filtered by lines, and never written from what was read out of it: every other record keeps its bytes. Rows of
Parquet files keep order, schema and row groups.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedp_assets.patterns.connectors.encoding.csv_records import records_of
from dedp_assets.patterns.connectors.encoding.formats import (
    Csv,
    JsonLines,
    Parquet,
    header_of,
    parquet_refusal,
    text_of,
)
from dedp_assets.patterns.connectors.landing.files import file_refusal, kind_named, lines_of
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta import LocalStore

__all__ = ["FolderSearch", "filter_folder", "search_folder"]

_PACKED = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}
_SUMMARIES = ("_metadata", "_common_metadata")
"""Footers of all files of a folder, with the bounds of their rows."""
_MARK = b"\xef\xbb\xbf"
_BLANK: frozenset[str] = frozenset()

Format = JsonLines | Csv | Parquet


class _Piece(NamedTuple):
    """Lines of a text file: a record with the id, an unreadable record, or a header and blank lines."""

    raw: bytes
    id: str | None = None
    kind: Literal["records", "unread", "beside"] = "records"


@dataclass(frozen=True, slots=True)
class FolderSearch:
    """Records of persons in the files of a folder.

    Attributes:
        key: field or column with the id.
        form: format of the files.
        found: id -> number of records.
        held: path -> ids in the file.
        files: paths of all files.
        empty: paths of empty folders.
        records: number of all records.
        unread: number of records that cannot be read.
        hidden: number of files with the name of a hidden file, which are not searched.
    """

    key: str
    form: Format
    found: Mapping[str, int]
    held: Mapping[str, AbstractSet[str]]
    files: tuple[str, ...]
    empty: AbstractSet[str]
    records: int
    unread: int
    hidden: int


def search_folder(folder: LocalStore, ids: AbstractSet[str], key: str, form: Format) -> FolderSearch:
    """Search the files of a folder for records of persons.

    Raises:
        ContractError: for a file that cannot be read as the format, and for a link.
    """
    tree = folder.tree()
    if tree.others:
        raise ContractError(f"{folder.name} holds {tree.others[0]}, which is no file: replace links by what they show")
    found, held, counts, hidden = Counter[str](), dict[str, set[str]](), Counter[str](), 0
    for path in (entry.path for entry in tree.files):
        if _is_hidden(path):
            hidden += 1
            continue
        for piece in _records(Path(folder.address, path), key, form):
            counts[piece.kind] += 1
            if piece.id in ids:
                found[str(piece.id)] += 1
                held.setdefault(path, set()).add(str(piece.id))
    files = tuple(entry.path for entry in tree.files)
    return FolderSearch(key, form, found, held, files, tree.empty, counts.total(), counts["unread"], hidden)


def filter_folder(folder: LocalStore, into: LocalStore, seen: FolderSearch, ids: AbstractSet[str]) -> tuple[int, int]:
    """Fill a folder with files without records of persons; count rewritten files and removed records.

    Raises:
        ContractError: if a copy does not hold exactly the other records.
    """
    chosen = [path for path in seen.files if seen.held.get(path, _BLANK) & ids]
    # What states the bytes or the bounds of a file is wrong once the file is another one.
    stale = {f"{path.rpartition('/')[0]}/.{path.rpartition('/')[2]}.crc".lstrip("/") for path in chosen}
    removed = 0
    for empty in seen.empty:
        into.make_folder(empty)
    for path in seen.files:
        if path in chosen:
            removed += _filter_file(folder, into, path, seen, ids)
        elif not chosen or (path not in stale and path.rpartition("/")[2] not in _SUMMARIES):
            into.share(path, folder)
    return len(chosen), removed


def _is_hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) and "=" not in part for part in path.split("/"))


def _records(path: Path, key: str, form: Format) -> Iterator[_Piece]:
    if not isinstance(form, Parquet):
        yield from (piece for piece in _pieces(path, key, form) if piece.kind != "beside")
        return
    with closing(_opened(path, key)) as file:
        for group in range(file.num_row_groups):
            texts = _texts(file.read_row_group(group, columns=[key]), key)
            yield from (_Piece(b"", each) for each in texts.to_pylist())


def _filter_file(folder: LocalStore, into: LocalStore, path: str, seen: FolderSearch, ids: AbstractSet[str]) -> int:
    source, made = Path(folder.address, path), Path(into.address, path)
    with into.create(path) as file:
        if isinstance(seen.form, Parquet):
            removed, kept = _filter_rows(source, file, seen.key, ids)
        else:
            removed, kept = _filter_lines(_pieces(source, seen.key, seen.form), file, kind_named(path), ids)
    if _digest(made, seen.form) != kept:
        raise ContractError(f"{path} was not written as it was read: nothing was exchanged. Look at the disk")
    into.copy_times(path, folder)
    return removed


def _filter_lines(pieces: Iterator[_Piece], file: BinaryIO, kind: str, ids: AbstractSet[str]) -> tuple[int, str]:
    """Write the records of other persons; return the number of removed records, and a digest of the text."""
    removed, sha = 0, hashlib.sha256()
    with (
        pa.PythonFile(file, "w") as plain,
        pa.CompressedOutputStream(plain, _PACKED[kind]) if kind else nullcontext(plain) as packed,
    ):
        for piece in pieces:
            if piece.id in ids:
                removed += 1
                continue
            packed.write(piece.raw)
            sha.update(piece.raw)
    return removed, sha.hexdigest()


def _filter_rows(source: Path, file: BinaryIO, key: str, ids: AbstractSet[str]) -> tuple[int, str]:
    """Write the rows of other persons; return the number of removed rows, and a digest of the rows."""
    removed, sha, named = 0, hashlib.sha256(), pa.array(sorted(ids), pa.string())
    with closing(_opened(source, key)) as read:
        codec = read.metadata.row_group(0).column(0).compression
        with pq.ParquetWriter(file, read.schema_arrow, compression=codec) as writer:
            for group in range(read.num_row_groups):
                rows = read.read_row_group(group)
                theirs = pc.fill_null(pc.is_in(_texts(rows, key), value_set=named), fill_value=False)
                kept = rows.filter(pc.invert(theirs))
                removed += len(rows) - len(kept)
                writer.write_table(kept, row_group_size=max(len(kept), 1))
                _add(sha, kept)
    return removed, sha.hexdigest()


def _digest(path: Path, form: Format) -> str:
    sha = hashlib.sha256()
    if not isinstance(form, Parquet):
        for line in lines_of(path, keep_mark=True):
            sha.update(line)
        return sha.hexdigest()
    with closing(pq.ParquetFile(path)) as file:
        for group in range(file.num_row_groups):
            _add(sha, file.read_row_group(group))
    return sha.hexdigest()


def _add(sha: hashlib._Hash, rows: pa.Table) -> None:
    if len(rows):
        batch = rows.combine_chunks().to_batches()[0]
        sha.update(batch.serialize())


def _pieces(path: Path, key: str, form: JsonLines | Csv) -> Iterator[_Piece]:
    """Yield the records of a text file, and the lines beside records.

    Raises:
        ContractError: for a file that is damaged, in a compression that is not read, or without the column.
    """
    if reason := file_refusal(path):
        raise ContractError(f"{path.name} {reason}")
    lines = lines_of(path, keep_mark=True)
    yield from _csv_pieces(path, lines, key, form) if isinstance(form, Csv) else _json_pieces(lines, key, form)


def _json_pieces(lines: Iterator[bytes], key: str, form: JsonLines) -> Iterator[_Piece]:
    for line in lines:
        text = text_of(line.removeprefix(_MARK), form.encoding)
        try:
            yield _Piece(line, _id_of(json.loads(text), key)) if text.strip() else _Piece(line, kind="beside")
        except (ValueError, RecursionError):
            yield _Piece(line, kind="unread")


def _id_of(value: object, key: str) -> str | None:
    """Return the id in a JSON object, by the name of a field or the names on the way to a nested field."""
    if not isinstance(value, dict):
        return None
    name, _, rest = key.partition(".")
    if key not in value and rest:
        return _id_of(value.get(name), rest)
    found = value.get(key)
    if isinstance(found, float) and found.is_integer():
        return str(int(found))
    return str(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def _csv_pieces(path: Path, lines: Iterator[bytes], key: str, form: Csv) -> Iterator[_Piece]:
    names = header_of(path, form) if form.header else ()
    place = names.index(key) if key in names else _place(path, key, form)
    held = deque[bytes]()

    def texts() -> Iterator[str]:
        for line in lines:
            held.append(line)
            yield text_of(line.removeprefix(_MARK), form.encoding).removesuffix("\n")

    for number, record in enumerate(records_of(texts(), form, name=path.name)):
        if not number:
            yield from (_Piece(held.popleft(), kind="beside") for _ in range(form.skip_first))
        raw = b"".join([held.popleft() for _ in record.lines])
        if record.is_blank or (form.header and not number):
            yield _Piece(raw, kind="beside")
        elif record.fault or len(record.values) <= place:
            yield _Piece(raw, kind="unread")
        else:
            yield _Piece(raw, record.values[place])
    yield from (_Piece(line, kind="beside") for line in held)


def _place(path: Path, key: str, form: Csv) -> int:
    number = key.removeprefix("column_")
    if not form.header and number.isdecimal() and int(number):
        return int(number) - 1
    raise ContractError(f"{path.name} has no column {key}: nothing was removed from any file")


def _opened(path: Path, key: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    if reason := parquet_refusal(path):
        raise ContractError(f"{path.name} {reason}")
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowException as error:
        raise ContractError(f"{path.name} cannot be read as Parquet: nothing was removed from any file") from error
    if key not in file.schema_arrow.names:
        raise ContractError(f"{path.name} has no column {key}: nothing was removed from any file")
    return file


def _texts(rows: pa.Table, key: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the ids as texts."""
    column = rows[key]
    return column.cast(pa.string()) if not pa.types.is_dictionary(column.type) else column.cast(column.type.value_type)
