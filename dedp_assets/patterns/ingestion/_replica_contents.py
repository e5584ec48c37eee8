"""Contents of a replica: the files of a table at a pinned version, or of a folder.

Of a Delta table these are its log up to a pinned version and every data file that this log can still reach. A stage,
what a crash left and every later commit are no part of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.delta import REDACTED, Entry, Ledger, LocalStore, Store, lies_outside, read_actions

__all__ = ["HINT", "Contents", "FileState", "folder_contents", "readable", "some", "table_contents", "version_of"]

_LOG = "_delta_log"
HINT = f"{_LOG}/_last_checkpoint"
"""File with the version of the newest checkpoint."""
_LOG_FILE = re.compile(r"(?:\d{20}\.)?(\d{20})\.(?:json|crc|compacted\.json|checkpoint\.[\w.-]+)")
_VECTORS = re.compile(r"deletion_vector_.*\.bin")
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.[\w.-]+")


@dataclass(frozen=True, slots=True)
class FileState:
    """Size and times of a file, to detect a change without reading the content.

    Attributes:
        size_bytes: its size.
        modified_ns: modification time in ns since 1970.
        changed_ns: when the file system last changed anything about it, in ns since 1970: moves even if somebody sets
            the modification time back. 0 for files that are never rewritten.
    """

    size_bytes: int
    modified_ns: int
    changed_ns: int = 0

    @classmethod
    def of(cls, store: Store, path: str, *, rewritable: bool) -> FileState:
        """Read the state of the file at ``path``.

        Raises:
            Conflict: if it is gone.
        """
        try:
            return cls._of(store.entry(path), rewritable=rewritable)
        except FileNotFoundError:
            gone = store.address_of(path)
            raise Conflict(f"{gone} is gone: run it again, and restore the file if it is still missing then") from None

    @classmethod
    def _of(cls, entry: Entry, *, rewritable: bool) -> FileState:
        return cls(entry.size_bytes, entry.modified_ns, entry.changed_ns if rewritable else 0)


@dataclass(frozen=True, slots=True)
class Contents:
    """The files and folders that a replica has to hold.

    Attributes:
        name: what the source is called.
        root: where it lies.
        files: path below ``root`` -> state.
        folders: empty folders.
        version: of a table, the pinned version.
        table_id: of a table, the identity its log states.
        columns: of a table, every column that any version in the log had.
        rows: of a table, its rows at that version.
    """

    name: str
    root: Store
    files: Mapping[str, FileState] = field(repr=False)
    folders: frozenset[str] = frozenset()
    version: int | None = None
    table_id: str = ""
    columns: frozenset[str] = frozenset()
    rows: int = 0


def folder_contents(folder: LocalStore, *, name: str) -> Contents:
    """List every file and empty folder below ``folder``.

    Raises:
        NotReady: if it holds no file.
        ConfigError: if it is a Delta table, holds links or other things that are no files, or may not be read.
    """
    with readable(name, folder):
        return _folder_contents(folder.resolved(), name)


def _folder_contents(root: LocalStore, name: str) -> Contents:
    if _LOG in root.list():
        raise ConfigError(f"{name} is a Delta table: replicate it as one, so that a version is pinned")
    tree = root.tree()
    if tree.others:
        raise ConfigError(
            f"{name} holds links or special files ({some(tree.others)}), which a copy would leave pointing elsewhere"
        )
    if not tree.files:
        raise NotReady(f"{name} holds no file: its replica stays as it is until there is one in {root.address}")
    files = {entry.path: FileState._of(entry, rewritable=True) for entry in tree.files}
    return Contents(name, root, files, tree.empty)


def table_contents(ledger: Ledger, version: int) -> Contents:
    """List the files of a Delta table up to ``version``: log, data, change data, deletion vectors.

    Files that nothing in that log refers to (stages, what a crash left, later commits) are not among them.

    Raises:
        NotReady: if the table has no such version yet.
        ConfigError: if the log refers to files outside of the table's folder, or the table may not be read.
        ContractError: if a file of that version is missing.
    """
    with readable(ledger.name, ledger.store):
        return _table_contents(ledger, version)


def _table_contents(ledger: Ledger, version: int) -> Contents:
    if version > (newest := ledger.version()):
        raise NotReady(f"{ledger.name} has no version {version} yet, the newest is {newest}")
    root = ledger.store.resolved() if isinstance(ledger.store, LocalStore) else ledger.store
    pinned = Ledger(root, name=ledger.name)
    state = pinned.state(version)
    active = {file["path"] for file in state.files()}
    logged = sorted(name for name in root.list(_LOG) if (m := _LOG_FILE.fullmatch(name)) and int(m[1]) <= version)
    named, columns = _history(pinned, logged)
    if outside := [p for p in {*named, *active} if lies_outside(p) or ".." in PurePosixPath(unquote(p)).parts]:
        raise ConfigError(
            f"{ledger.name} refers to files outside of its folder ({some(outside)}), as a clone does: its replica "
            "would go on reading them; replicate the table they belong to"
        )
    if missing := [path for path in active if not root.exists(unquote(path))]:
        raise ContractError(f"{ledger.name}: files of version {version} are missing: {some(missing)}")
    paths = [f"{_LOG}/{name}" for name in [*logged, *_hint(root, version), REDACTED]]
    paths += [f"{_LOG}/_sidecars/{name}" for name in root.list(f"{_LOG}/_sidecars") if name.endswith(".parquet")]
    paths += [unquote(path) for path in {*named, *active}]
    if "deletionVectors" in state.features:
        paths += [entry.path for entry in root.files() if _VECTORS.fullmatch(PurePosixPath(entry.path).name)]
    paths += [str(PurePosixPath(path).with_name(f".{PurePosixPath(path).name}.crc")) for path in paths]
    return Contents(
        name=ledger.name,
        root=root,
        files={path: FileState.of(root, path, rewritable=False) for path in sorted(paths) if root.exists(path)},
        version=version,
        table_id=str(state.snapshot.metadata().id),
        columns=frozenset({*columns, *state.columns}),
        rows=sum(s.rows for s in state.statistics().values()),
    )


@contextmanager
def readable(name: str, store: Store) -> Iterator[None]:
    """Turn a permission error on the source ``name`` in ``store`` into a ConfigError.

    Raises:
        ConfigError: if the account that runs this may not read it.
    """
    try:
        yield
    except PermissionError as error:
        raise ConfigError(
            f"{name}: {error.filename or error} may not be read by the {store.account} that replicates it: whoever "
            "owns the source has to push it, or to grant that user reading; nothing was copied"
        ) from error


def _history(ledger: Ledger, logged: Iterable[str]) -> tuple[set[str], set[str]]:
    """List the data files and the column names of all versions in the log."""
    paths: set[str] = set()
    columns: set[str] = set()
    commits = [name for name in logged if _COMMIT.fullmatch(name)]
    if f"{0:020d}.json" not in commits:
        # The log was cleaned up: versions can be read from the oldest checkpoint on.
        checkpoints = [int(m[1]) for name in logged if (m := _CHECKPOINT.fullmatch(name))]
        first = ledger.state(max(min(checkpoints), int(commits[0][:20])))
        paths |= {file["path"] for file in first.files()}
        columns |= set(first.columns)
    for name in commits:
        for action in read_actions(ledger.store, int(name[:20])):
            paths |= {action[kind]["path"] for kind in ("add", "cdc") if action.get(kind)}
            if meta := action.get("metaData"):
                columns |= {column["name"] for column in json.loads(meta["schemaString"])["fields"]}
    return paths, columns


def _hint(root: Store, version: int) -> list[str]:
    """List ``_last_checkpoint`` if the file names a checkpoint of ``version`` or earlier; else empty."""
    try:
        checkpoint = json.loads(root.read(HINT))
        return ["_last_checkpoint"] if checkpoint["version"] <= version else []
    except (OSError, ValueError, KeyError, TypeError):
        return []


def version_of(path: str) -> int | None:
    """Return the version in the name of a log file (commit, checkpoint, checksum), if any."""
    folder, _, name = path.rpartition("/")
    found = _LOG_FILE.fullmatch(name.removeprefix(".").removesuffix(".crc")) or _LOG_FILE.fullmatch(name)
    return int(found[1]) if folder == _LOG and found else None


def some(names: Iterable[str], most: int = 3) -> str:
    """Format the first few names, with the number of further names."""
    known = sorted(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")
