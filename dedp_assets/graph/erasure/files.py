"""Redaction of ids of persons in files that are no Delta tables; removal of landed records with an id."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dedp_assets.graph.erasure.spellings import Spellings
from dedp_assets.patterns.connectors.landing.deliveries import is_called_like_data, stated_sizes
from dedp_assets.patterns.connectors.secrets.key_files import replace_private
from dedp_assets.patterns.delta import Store, is_link

__all__ = ["Redacted", "copies_with_ids", "files_below", "past_holds_ids", "redact", "redact_files", "redact_store"]

_SQLITE, _GZIP = b"SQLite format 3\0", b"\x1f\x8b"
_PARQUET, _BINARY = b"PAR1", (b"Obj\x01", b"PK\x03\x04")
_TABLE = "_delta_log"
_LARGEST_MANIFEST = 4 << 20
_CSV = re.compile(r"\.(csv|tsv)(\.gz)?$", re.IGNORECASE)
_WAIT_SECONDS = 30.0


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
        return any(map(spellings.may_name, _texts(pq.read_table(pa.BufferReader(content)))))
    return spellings.may_name(content)


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

    Text and gzip are written again beside the file and exchanged in one step; a database is changed and compacted.
    """
    content = file.read_bytes()
    if content.startswith(_SQLITE):
        return _redact_database(file, spellings)
    found, changed = redacted(content, spellings, by_line=by_line, name=file.name)
    if changed is None:
        return -1 if found else 0
    replace_private(file, changed, mode=file.stat().st_mode & 0o777)
    return found


def redacted(
    content: bytes, spellings: Spellings, *, by_line: bool = False, name: str = ""
) -> tuple[int, bytes | None]:
    """Return the number of places with an id in a file, and the file without ids, if possible.

    ``None`` stands for a file without an id, and for a file that cannot be written again.

    Args:
        content: the file: text, gzip of a text, or Parquet.
        spellings: the ids.
        by_line: as for :func:`redact_files`; a row of Parquet and a record of CSV is a line.
        name: name of the file, which tells CSV.
    """
    if content.startswith(_PARQUET):
        return _redacted_rows(content, spellings) if by_line else (_found_in_rows(content, spellings), None)
    packed = content.startswith(_GZIP)
    with suppress(OSError, EOFError):
        content = gzip.decompress(content) if packed else content
    found = spellings.found(content)
    if content.startswith(_BINARY):
        return found, None
    if by_line:
        without = spellings.without_records if _CSV.search(name) else spellings.without_lines
        content, found = without(content)
    elif found:
        content = spellings.without(content)
    if not found:
        return 0, None
    return found, gzip.compress(content) if packed else content


def _redacted_rows(content: bytes, spellings: Spellings) -> tuple[int, bytes | None]:
    """Leave out the rows of a Parquet file with an id in a value."""
    rows = pq.read_table(pa.BufferReader(content))
    records = enumerate(rows.to_pylist())
    kept = [n for n, row in records if not (spellings.found(_text_of(row)) or spellings.names(row))]
    if len(kept) == rows.num_rows:
        return 0, None
    sink = pa.BufferOutputStream()
    pq.write_table(rows.take(kept), sink)
    return rows.num_rows - len(kept), sink.getvalue().to_pybytes()


def _found_in_rows(content: bytes, spellings: Spellings) -> int:
    return sum(spellings.found(row) > 0 for row in _texts(pq.read_table(pa.BufferReader(content))))


def _texts(rows: pa.Table) -> Iterator[bytes]:
    """Yield the values of each row as a text."""
    yield from map(_text_of, rows.to_pylist())


def _text_of(row: Mapping[str, object]) -> bytes:
    values = (each.decode("latin-1") if isinstance(each, bytes) else str(each) for each in row.values())
    return "\n".join(values).encode()


def _redact_database(file: Path, spellings: Spellings) -> int:
    """Redact the texts of a SQLite database, and overwrite the pages of the former texts.

    Returns:
        Number of places; -1 for a database that refuses the change, as by a key that two texts would share, or is busy.
    """
    try:
        with closing(sqlite3.connect(file, timeout=_WAIT_SECONDS, isolation_level=None)) as database:
            database.text_factory = bytes
            database.create_function("without", 1, lambda value: _without(value, spellings), deterministic=True)
            database.execute("BEGIN IMMEDIATE")
            places = _redact_tables(database)
            database.execute("COMMIT")
            if places:
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return places
    except sqlite3.DatabaseError:
        return -1


def _redact_tables(database: sqlite3.Connection) -> int:
    """Redact the texts of all tables, and drop the triggers for the time of the change.

    A trigger may keep the rows of an audit as they are.
    """
    stored = database.execute("SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'trigger')").fetchall()
    triggers = [(name.decode(), sql.decode()) for kind, name, sql in stored if kind == b"trigger"]
    places = 0
    for name, _ in triggers:
        database.execute(f"DROP TRIGGER {_quoted(name)}")
    for table in (_quoted(name.decode()) for kind, name, _ in stored if kind == b"table"):
        columns = [_quoted(row[1].decode()) for row in database.execute(f"PRAGMA table_info({table})")]
        for column in columns:
            # What the function returns is NULL, unless the value holds an id.
            redact = f"UPDATE {table} SET {column} = without({column}) WHERE without({column}) IS NOT NULL"  # noqa: S608 - names of the database
            places += database.execute(redact).rowcount
    for _, sql in triggers:
        database.execute(sql)
    return places


def _without(value: object, spellings: Spellings) -> str | bytes | None:
    """Return a text or bytes with ids redacted; ``None`` for a value without an id."""
    content = value.encode() if isinstance(value, str) else value
    if not isinstance(content, bytes) or not spellings.found(content):
        return None
    redacted = spellings.without(content)
    return redacted.decode(errors="replace") if isinstance(value, str) else redacted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
