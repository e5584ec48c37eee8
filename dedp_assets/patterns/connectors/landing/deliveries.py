"""Contents of a landing zone: files, markers and manifests, listed without opening data files."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache

from dedp_assets.patterns.connectors.landing.files import unreadable_name
from dedp_assets.patterns.connectors.web.parts import sentence
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.names import printable
from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.delta import FilePath, ObjectPath, ObjectStat, by_first_name

__all__ = [
    "MARKED", "MARKER", "DeliveredFile", "Delivery", "Ends", "delivered_file", "delivery_at", "delivery_of",
    "is_called_like_data", "is_so", "stated_sizes",
]  # fmt: skip

MARKER = "_SUCCESS"
_LARGEST_BYTES = 64 << 20
_HIDDEN = ("_", ".")
_MOST_MINUTES = 100_000
_OF_DATA = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".log", ".gz", ".bz2", ".zst")
_OF_TOOLS = ("_SUCCESS", "_started", "_committed", "_manifest", "_metadata", "_schema")


@dataclass(frozen=True, slots=True)
class DeliveredFile:
    """A delivered file: name, size in bytes, modification time in ns since 1970, and e-tag in a bucket.

    A bucket tells whole seconds: a file that is put again within one, with as many bytes, differs by the e-tag alone.
    """

    name: str
    size_bytes: int
    modified_ns: int
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Ends:
    """Sign of a complete delivery, a marker or files that rest, and names that are no data.

    Attributes:
        marker: name of the file that the producer puts beside the data files at the end.
        settled_minutes: instead of a marker, how long all files must have been left alone. ``None`` for a marker.
        exclude: names of files and folders that are no data, or patterns of names, such as ``*.md``.
    """

    marker: str = MARKER
    settled_minutes: float | None = None
    exclude: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.marker or "/" in self.marker:
            raise ConfigError(f"marker must be the name of a file, not {self.marker!r}")
        if self.settled_minutes is not None and not 0 <= self.settled_minutes <= _MOST_MINUTES:
            raise ConfigError(f"settled_minutes must be a number from 0 to {_MOST_MINUTES}, not {self.settled_minutes}")
        if wrong := [each for each in self.exclude if not each.strip() or "/" in each]:
            raise ConfigError(f"exclude must be names of files or patterns of names, like '*.md', not {wrong[0]!r}")

    def excludes(self, name: str) -> bool:
        """Return whether a name is that of a file or folder that does not belong to a delivery."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)


MARKED = Ends()
"""The marker of engines, ``_SUCCESS``."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The files of one partition of a landing zone.

    Attributes:
        partition: the partition's key.
        files: data files by name; names that start with ``_`` or ``.`` are not data.
        marker: the marker, if the producer has finished.
        manifest: file name -> bytes, if the marker lists what belongs to it; an empty marker lists nothing.
        flaw: what is wrong with a marker that cannot be read to its end, or begins like a manifest and is none.
        strange: entries that are neither data files nor hidden: folders, pipes, and links that lead nowhere.
        hidden: files with bytes that are called like data, behind a ``_`` or ``.`` that hides them from engines.
        absent: the folder that is not there, if nothing has landed; a prefix of a bucket without an object is none.
        ends: sign of a complete delivery.
    """

    partition: str
    files: tuple[DeliveredFile, ...] = ()
    marker: DeliveredFile | None = None
    manifest: Mapping[str, int] | None = None
    strange: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    absent: str = ""
    flaw: str = ""
    ends: Ends = MARKED

    @property
    def identity(self) -> str:
        """Digest of the delivered files' names, sizes, times and e-tags, equal for equal files."""
        lines = [f"{f.name} {f.size_bytes} {f.modified_ns}{f.tag and f' {f.tag}'}" for f in self.files]
        return hashlib.sha256(os.fsencode("\n".join(lines))).hexdigest()[:16]

    @property
    def late(self) -> tuple[DeliveredFile, ...]:
        """Files newer than the marker; in a bucket, by a second or more."""
        return tuple(f for f in self.files if self.marker and f.modified_ns > self.marker.modified_ns)

    def refusal(self) -> str:
        """Return the reason why the delivery must not be read; empty for a readable delivery."""
        if self.absent:
            last = f", and {self.ends.marker} last" if self.ends.settled_minutes is None else ""
            return f"nothing has landed: put the files into {self.absent}{last}"
        if self.marker is None:
            return self._unfinished()
        if self.flaw or self.strange:
            return self.flaw or f"holds what is no file: {', '.join(self.strange)}"
        for name in (*self.hidden, *(file.name for file in self.files)):
            if reason := unreadable_name(name):
                return f"{printable(name)} {reason}"
        if not self.files and self.manifest is None:
            return f"{self.ends.marker} is there but no file: deliver the files, or declare the day empty by a manifest"
        return self._shortfall()

    def _unfinished(self) -> str:
        minutes = self.ends.settled_minutes
        if minutes is None:
            return f"{len(self.files)} files but no {self.ends.marker}: the producer has not finished"
        return (
            f"{len(self.files)} files that have not rested for {minutes:g} minutes"
            if self.files
            else "no file has landed"
        )

    def _shortfall(self) -> str:
        """Return the first contradiction between manifest and files; empty for a complete delivery."""
        sizes = {f.name: f.size_bytes for f in self.files}
        for name, size in (self.manifest or {}).items():
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                return f"the manifest states {size!r} as the size of {name}, which is no number of bytes"
            if self.ends.excludes(name):
                continue
            if name not in sizes:
                return f"{name} is in the manifest but not in the folder"
            if sizes[name] < size:
                return f"{name} has {sizes[name]} of the {size} bytes its manifest states"
        return ""

    def require_ready(self) -> Delivery:
        """Return the delivery if readable; raise otherwise.

        Raises:
            NotReady: if the producer has not finished.
            ContractError: if marker and files contradict each other.
        """
        if reason := self.refusal():
            raise (NotReady if self.marker is None else ContractError)(f"{self.partition}: {reason}")
        return self


def delivery_at(folder: FilePath | str, ends: Ends = MARKED, *, now: datetime | None = None) -> Delivery:
    """Describe the delivery in a partition's folder without opening data files.

    Empty if the folder is missing.

    Args:
        folder: the folder, or the prefix of a bucket.
        ends: sign of a complete delivery.
        now: current time, for a delivery that ends by rest; without it, no such delivery is complete.
    """
    if isinstance(folder, ObjectPath):
        return delivery_of(folder, folder.files(), ends, now=now)
    partition = os.path.basename(folder)  # noqa: PTH119 - a sensor's first look is at thousands of folders
    try:
        with os.scandir(folder) as listed:
            entries = {entry.name: entry for entry in listed}
    except (FileNotFoundError, NotADirectoryError):
        return Delivery(partition, absent=str(folder), ends=ends)
    except OSError as error:
        flaw = f"cannot be listed ({error.strerror}): allow it, or repair the file system"
        return Delivery(partition, marker=DeliveredFile(ends.marker, 0, 0), flaw=flaw, ends=ends)
    return _described(partition, entries, ends, now)


def delivery_of(
    folder: ObjectPath, files: Iterable[ObjectPath], ends: Ends = MARKED, *, now: datetime | None = None
) -> Delivery:
    """Describe the delivery below a prefix of a bucket by the listed objects.

    Only a marker with bytes is read, once by a process; an empty object of data is asked for, as it may be Hadoop's
    mark of a folder.

    Args:
        folder: the prefix.
        files: all objects below the prefix.
        ends: sign of a complete delivery.
        now: as of :func:`delivery_at`.
    """
    listed = by_first_name(folder, files)
    if not listed:
        return Delivery(folder.name, absent=str(folder), ends=ends)
    entries = {name: _object_entry(folder, name, found, ends) for name, found in listed.items()}
    return _described(folder.name, entries, ends, now)


@dataclass(frozen=True, slots=True)
class _ObjectEntry:
    """An object or a prefix directly below a prefix, by the methods of ``os.DirEntry``."""

    name: str
    path: ObjectPath
    is_object: bool

    def is_file(self) -> bool:
        return self.is_object

    def is_dir(self) -> bool:
        return not self.is_object

    def is_symlink(self) -> bool:
        return False

    def stat(self) -> ObjectStat:
        return self.path.stat()


_Entry = os.DirEntry[str] | _ObjectEntry


def _object_entry(folder: ObjectPath, name: str, files: Sequence[ObjectPath], ends: Ends) -> _ObjectEntry:
    first = files[0]
    is_alone = len(files) == 1 and first == folder.below(name)
    is_data = name != ends.marker and not name.startswith(_HIDDEN)
    return _ObjectEntry(name, first, is_alone and (not is_data or first.is_file()))


def _described(partition: str, entries: Mapping[str, _Entry], ends: Ends, now: datetime | None) -> Delivery:
    """Describe the delivery of the entries of a folder by name."""
    marker = entries.get(ends.marker) if ends.settled_minutes is None else None
    names = [name for name in sorted(entries) if not ends.excludes(name)]
    shown = [entries[name] for name in names if not name.startswith(_HIDDEN)]
    shown = [entry for entry in shown if entry.name != ends.marker]
    files = tuple(file for entry in shown if is_so(entry.is_file) and (file := _file(entry)) is not None)
    manifest, flaw = _manifest(marker) if marker else (None, "")
    return Delivery(
        partition=partition,
        files=files,
        marker=_file(marker) if marker else _rest(files, ends, now),
        manifest=manifest,
        flaw=flaw,
        hidden=tuple(name for name in names if name.startswith(_HIDDEN) and _is_data(entries[name])),
        strange=tuple(f"{printable(entry.name)} ({what})" for entry in shown if (what := _strangeness(entry))),
        ends=ends,
    )


def _rest(files: Sequence[DeliveredFile], ends: Ends, now: datetime | None) -> DeliveredFile | None:
    """Return a marker in the place of the newest file, if all files have rested long enough."""
    if ends.settled_minutes is None or now is None or not files:
        return None
    newest_ns = max(file.modified_ns for file in files)
    rested = now.timestamp() - newest_ns / 1e9 >= 60 * ends.settled_minutes
    return DeliveredFile("", 0, newest_ns) if rested else None


def _strangeness(entry: _Entry) -> str:
    """Return the reason why an entry is no data file; empty for a data file."""
    if is_so(entry.is_dir):
        return "a folder"
    if is_so(entry.is_file):
        return ""
    return "a link to nothing" if entry.is_symlink() else "no regular file"


def is_so(ask: Callable[[], bool]) -> bool:
    """Return the result of a file type check; ``False`` for a link that leads to itself."""
    try:
        return ask()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def is_called_like_data(name: str) -> bool:
    """Return whether a file's name is typical of data files."""
    return name.endswith(_OF_DATA) or name.lstrip("._").startswith("part-")


def _is_data(entry: _Entry) -> bool:
    """Return whether a hidden file is non-empty and named like data; files of tools do not count."""
    if not is_called_like_data(entry.name) or entry.name.startswith(_OF_TOOLS) or not is_so(entry.is_file):
        return False
    file = _file(entry)
    return file is not None and file.size_bytes > 0


def _file(entry: _Entry) -> DeliveredFile | None:
    """Describe a file; ``None`` for a file removed since the listing."""
    try:
        stat = entry.stat()
    except FileNotFoundError:
        return None
    return delivered_file(entry.name, stat)


def delivered_file(name: str, stat: os.stat_result | ObjectStat) -> DeliveredFile:
    """Describe a file by the metadata of a folder or a bucket."""
    if isinstance(stat, os.stat_result):
        return DeliveredFile(name, stat.st_size, stat.st_mtime_ns)
    return DeliveredFile(name, stat.st_size, stat.st_mtime_ns, stat.tag)


def _manifest(marker: _Entry) -> tuple[Mapping[str, int] | None, str]:
    """Read a marker's manifest; return file sizes by name, and the flaw of a damaged manifest."""
    try:
        if isinstance(marker, _ObjectEntry):
            return _manifest_in(marker.path, marker.stat()) if marker.is_object else (None, "")
        with open(marker.path, "rb") as file:  # noqa: PTH123 - as above
            return stated_sizes(file.read(_LARGEST_BYTES + 1))
    except (FileNotFoundError, IsADirectoryError):
        return None, ""
    except ConnectionError:
        raise
    except OSError as error:
        return None, f"{MARKER} cannot be read ({error.strerror})"


@lru_cache(maxsize=10_000)
def _manifest_in(marker: ObjectPath, seen: ObjectStat) -> tuple[Mapping[str, int] | None, str]:
    """Read the manifest in a listed marker, once for each content.

    A partition that waits is looked at by each tick, and costs no request.
    """
    if not seen.st_size:
        return None, ""
    with marker.open() as file:
        return stated_sizes(file.read(_LARGEST_BYTES + 1))


def stated_sizes(content: bytes) -> tuple[Mapping[str, int] | None, str]:
    """Read the manifest in a marker's bytes.

    Returns:
        File sizes in bytes by name, ``None`` where the marker lists nothing; and the flaw of a damaged manifest.
    """
    if not content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return None, ""
    try:
        if len(content) > _LARGEST_BYTES:
            raise ValueError(f"it has more than {_LARGEST_BYTES} bytes")  # noqa: TRY301 - one sentence for both
        files = parse_json(content).get("files")
    except ValueError as error:
        return None, f"{MARKER} begins like a manifest and is none ({sentence(str(error))}): write it anew"
    return files if isinstance(files, dict) else None, ""
