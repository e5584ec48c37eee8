"""Redaction of ids of persons in files that are no Delta tables; removal of landed records with an id."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedp_assets.graph.erasure.databases import is_database, redact_database
from dedp_assets.graph.erasure.packings import Packed, is_plain, unpacked
from dedp_assets.graph.erasure.spellings import GONE, Spellings
from dedp_assets.patterns.connectors.landing.deliveries import is_called_like_data, stated_sizes
from dedp_assets.patterns.connectors.secrets.key_files import replace_private
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.delta import Store, is_link

__all__ = [
    "Redacted",
    "copies_with_ids",
    "files_below",
    "holds_ids",
    "past_holds_ids",
    "redact",
    "redact_files",
    "redact_store",
]

fastavro = optional("fastavro")

_PARQUET, _AVRO, _NO_TEXT = b"PAR1", b"Obj\x01", b"\0"
_TABLE = "_delta_log"
_MARKUP = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|!doctype|html)\b", re.IGNORECASE)
"""Begin of a document whose lines are no records."""
_LARGEST_MANIFEST = 4 << 20
_BATCH_ROWS = 10_000
_CSV = re.compile(r"\.(csv|tsv)(\.\w+)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Redacted:
    """Files in which ids of persons stood.

    Attributes:
        done: files that hold none any more.
        places: number of places in them: ids, lines, or values of a database.
        left: files that could not be redacted.
    """

    done: int = 0
    places: int = 0
    left: tuple[Path, ...] = ()


def files_below(folder: Path, *, without: Sequence[Path] = ()) -> Iterator[Path]:
    """Yield the files below a folder, without Delta tables and some folders; links are not followed.

    Args:
        folder: the folder.
        without: folders that are left out.
    """
    if folder in without or not folder.is_dir() or (folder / _TABLE).is_dir():
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink():
            continue
        if entry.is_dir():
            yield from files_below(entry, without=without)
        elif entry.is_file():
            yield entry


def redact_files(files: Iterator[Path], spellings: Spellings, *, by_line: bool = False) -> Redacted:
    """Redact files; one that goes meanwhile holds nothing.

    Args:
        files: the files.
        spellings: the ids.
        by_line: whether a line with an id goes as a whole, as a record of the person, and not only the id.
    """
    done, places, left = 0, 0, list[Path]()
    for file in files:
        with suppress(FileNotFoundError):
            found = redact(file, spellings, by_line=by_line)
            done, places = done + (found > 0), places + max(found, 0)
            left += [file] if found < 0 else []
    return Redacted(done, places, tuple(left))


def redact_store(store: Store, spellings: Spellings, *, by_line: bool = False) -> Redacted:
    """Redact the files of a location, without Delta tables.

    Args:
        store: the location.
        spellings: the ids.
        by_line: as for :func:`redact_files`.
    """
    done, places, left = 0, 0, list[Path]()
    for path in _paths(store, ""):
        with suppress(FileNotFoundError):
            former = store.read(path)
            found, content = redacted(former, spellings, by_line=by_line, name=path)
            if content is not None:
                _restate(store, path, len(former), len(content))
                store.put(path, content)
                done, places = done + 1, places + found
            elif found:
                left.append(Path(path))
    return Redacted(done, places, tuple(left))


def copies_with_ids(store: Store, tables: Collection[str], spellings: Spellings) -> dict[str, int]:
    """Count the rows with an id in copies of tables, such as replicas, by path.

    Args:
        store: the lake.
        tables: names of the lake's tables.
        spellings: the ids.
    """
    found = dict[str, int]()
    for path in _copies(store, "", frozenset(tables)):
        copy = store.within(path)
        files = [each.path for each in copy.files() if each.path.endswith((".parquet", ".json", ".crc"))]
        rows = sum(redacted(copy.read(each), spellings)[0] for each in files)
        if rows:
            found[path] = rows
    return found


def past_holds_ids(store: Store, present: Collection[str], spellings: Spellings) -> bool:
    """Return whether a file of a table's past may hold an id: of data, of the log, of a stage.

    Args:
        store: the table's.
        present: paths of the data files of the newest version.
        spellings: the ids.
    """
    paths = (entry.path for entry in store.files() if entry.path not in present)
    return any(_may_hold(store.read(path), spellings) for path in paths)


def _may_hold(content: bytes, spellings: Spellings) -> bool:
    if content.startswith(_PARQUET):
        return any(spellings.may_name(_text_of(row)) for row in _each_row(content))
    return spellings.may_name(content)


def holds_ids(content: bytes, spellings: Spellings, *, path: str) -> bool:
    """Return whether a file may hold an id: in a row, a record, a line or a text, also of a packed file.

    Args:
        content: the file; of a table, short ids are found as words of rows, as :func:`past_holds_ids` finds them.
        spellings: the ids.
        path: path of the file, which tells CSV, and the log of a table.
    """
    try:
        if content.startswith(_PARQUET):
            return any(spellings.may_name(_text_of(row)) or spellings.names(row) for row in _each_row(content))
        if _TABLE in path.split("/") and spellings.may_name(content):
            return True
        return redacted(content, spellings, by_line=True, name=path)[0] > 0
    except Exception:  # of several packages, for whatever a damaged file is
        return spellings.found(content) > 0


def _copies(store: Store, folder: str, tables: Collection[str]) -> Iterator[str]:
    names = [] if folder in tables or (folder and is_link(store.within(folder))) else store.list(folder)
    if _TABLE in names:
        yield folder
        return
    here = {entry.path.rpartition("/")[2] for entry in store.files(folder, deep=False)} if names else set()
    for name in names:
        if name not in here:
            yield from _copies(store, f"{folder}/{name}" if folder else name, tables)


def _restate(store: Store, path: str, former: int, now: int) -> None:
    """Write the size of a changed file into the manifest of the delivery, if any.

    Before the file: after a crash the delivery is refused, and the next erasure finds the id in the file again.
    """
    folder, _, name = path.rpartition("/")
    for entry in store.files(folder, deep=False):
        if entry.size_bytes > _LARGEST_MANIFEST or is_called_like_data(entry.path.rpartition("/")[2]):
            continue
        stated, flaw = stated_sizes(content := store.read(entry.path))
        if stated and not flaw and stated.get(name) == former:
            document = json.loads(content.decode("utf-8-sig"))
            document["files"][name] = now
            store.put(entry.path, json.dumps(document).encode())


def _paths(store: Store, folder: str) -> Iterator[str]:
    """Yield the paths of files below a folder, without Delta tables and links to tables."""
    names = store.list(folder)
    if _TABLE in names or (folder and is_link(store.within(folder))):
        return
    here = {entry.path.rpartition("/")[2] for entry in store.files(folder, deep=False)}
    for name in names:
        path = f"{folder}/{name}" if folder else name
        if name in here:
            yield path
        else:
            yield from _paths(store, path)


def redact(file: Path, spellings: Spellings, *, by_line: bool = False) -> int:
    """Redact a file; return the number of places; -1 for a file that cannot be redacted.

    In a text each id is overwritten where it stands: a process that appends to the file, such as to a log, goes on. A
    packed file is written again beside the former and exchanged in one step; a database is changed and compacted.
    """
    content = file.read_bytes()
    if is_database(content):
        return redact_database(file, spellings)
    found, changed = redacted(content, spellings, by_line=by_line, name=file.name)
    if changed is None:
        return -1 if found else 0
    if not by_line and is_plain(content):
        _overwrite(file, spellings.places(content))
        return found
    replace_private(file, changed, mode=file.stat().st_mode & 0o777)
    return found


def _overwrite(file: Path, places: Iterable[tuple[int, int]]) -> None:
    with file.open("r+b", buffering=0) as into:
        for begin, end in places:
            into.seek(begin)
            into.write(GONE.ljust(end - begin, b"-")[: end - begin])


def redacted(
    content: bytes, spellings: Spellings, *, by_line: bool = False, name: str = ""
) -> tuple[int, bytes | None]:
    """Return the number of places with an id in a file, and the file without ids, if possible.

    ``None`` stands for a file without an id, and for a file that cannot be written again.

    Args:
        content: the file: text, Parquet, Avro, and archives and compressed files of them.
        spellings: the ids.
        by_line: as for :func:`redact_files`; a row of Parquet or Avro and a record of CSV is a line.
        name: name of the file, which tells CSV.
    """
    if content.startswith((_PARQUET, _AVRO)):
        return _redacted_rows(content, spellings) if by_line else (_found_in_rows(content, spellings), None)
    try:
        packed = unpacked(content)
    except ContractError:  # found as it is written, as in a damaged file
        return spellings.found(content), None
    if packed:
        return _redacted_members(packed, spellings, by_line=by_line, name=name)
    found = spellings.found(content)
    if not by_line and _NO_TEXT in content:  # another length would damage a format that is not known
        return found, None
    if by_line and not _MARKUP.match(content):
        without = spellings.without_records if _CSV.search(name) else spellings.without_lines
        content, found = without(content)
    elif found:
        content = spellings.without(content)
    return (found, content) if found else (0, None)


def _redacted_members(packed: Packed, spellings: Spellings, *, by_line: bool, name: str) -> tuple[int, bytes | None]:
    """Redact the members of a packed file, at any depth."""
    places, changed, left = 0, dict[str, bytes](), False
    for member, former in packed.members.items():
        found, content = redacted(former, spellings, by_line=by_line, name=member or name)
        places += found
        left |= found > 0 and content is None
        changed[member] = former if content is None else content
    return places, packed.again(changed) if places and not left and packed.again else None


def _redacted_rows(content: bytes, spellings: Spellings) -> tuple[int, bytes | None]:
    """Leave out the rows of a Parquet or Avro file with an id in a value; rows that cannot be read stay."""
    try:
        rows, take = _rows_of(content)
    except Exception:  # of two packages, for whatever a damaged file is
        return spellings.found(content), None
    kept = [n for n, row in enumerate(rows) if not (spellings.found(_text_of(row)) or spellings.names(row))]
    return (len(rows) - len(kept), take(kept)) if len(kept) < len(rows) else (0, None)


def _rows_of(content: bytes) -> tuple[list[dict[str, Any]], Callable[[list[int]], bytes]]:
    """Return the rows of a Parquet or Avro file, and the writer of the file with chosen rows."""
    if content.startswith(_PARQUET):
        table = pq.read_table(pa.BufferReader(content))
        return table.to_pylist(), lambda kept: _as_parquet(table.take(pa.array(kept, pa.int64())))
    reader = fastavro.reader(io.BytesIO(content), return_record_name=True, return_named_type=True)
    rows = [*reader]
    own = {name: value for name, value in reader.metadata.items() if not name.startswith("avro.")}

    def take(kept: list[int]) -> bytes:
        sink = io.BytesIO()
        fastavro.writer(sink, reader.writer_schema, [rows[n] for n in kept], codec=reader.codec, metadata=own)
        return sink.getvalue()

    return rows, take


def _each_row(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet or Avro file, of which a part is in memory at a time."""
    if content.startswith(_PARQUET):
        for batch in pq.ParquetFile(pa.BufferReader(content)).iter_batches(_BATCH_ROWS):
            yield from batch.to_pylist()
    else:
        yield from fastavro.reader(io.BytesIO(content), return_record_name=True, return_named_type=True)


def _as_parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return bytes(sink.getvalue().to_pybytes())


def _found_in_rows(content: bytes, spellings: Spellings) -> int:
    try:
        return sum(spellings.found(_text_of(row)) > 0 for row in _each_row(content))
    except Exception:  # as above
        return spellings.found(content)


def _text_of(row: Mapping[str, object]) -> bytes:
    values = (each.decode("latin-1") if isinstance(each, bytes) else str(each) for each in row.values())
    return "\n".join(values).encode()
