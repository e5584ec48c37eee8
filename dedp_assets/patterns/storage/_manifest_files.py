"""Files of manifests: one list for each version, and the pointer to the newest list."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta import Entry, Store, lies_outside

__all__ = ["ListedFile", "StoredManifest", "checked", "newest", "put", "require_whole", "to_json"]

_FOLDER = "_manifest"
"""Vacuums of all engines leave a folder alone whose name begins with ``_``."""
_POINTER = f"{_FOLDER}/newest.json"
_HEADS_AT_ONCE = 8
"""Greatest number of files looked up by one request each; a bucket is listed for more."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A data file of a manifest.

    Attributes:
        path: below the listed folder, as the file is called there.
        size_bytes: size in bytes.
        rows: number of rows, if the log tells.
        partition: partition column -> value in the log's spelling, ``None`` for NULL.
        sha256: SHA-256 of the bytes, in hexadecimal digits; empty if nobody asked for checksums.
    """

    path: str
    size_bytes: int
    rows: int | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """The content of a table's manifest: version, identity of the table, columns as in the log, files."""

    version: int
    table_id: str
    schema: Mapping[str, Any]
    files: Sequence[ListedFile]


def newest(store: Store) -> StoredManifest | None:
    """Read the manifest that the pointer names; ``None`` without a pointer.

    Raises:
        ContractError: if pointer or manifest cannot be read.
    """
    for attempt in range(2):
        if (version := _pointed(store)) is None:
            return None
        name = f"{_FOLDER}/{_name(version)}"
        try:
            stored = json.loads(store.read(name))
            files = [
                ListedFile(path, of["size"], of["rows"], of["partition"], of["sha256"])
                for path, of in stored["files"].items()
            ]
            return StoredManifest(stored["version"], stored["table_id"], stored["schema"], checked(store, files))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError) as error:
            # A manifest may be forgotten between the two looks, once many newer ones were written.
            if attempt or not isinstance(error, FileNotFoundError):
                raise ContractError(
                    f"{store.address}: {name} is missing or damaged: write the manifest again"
                ) from error
    raise AssertionError


def put(store: Store, version: int, content: bytes, *, kept: int) -> None:
    """Put a version's list and then the pointer; remove all but the newest lists.

    Drafts of killed writers go, too. The caller holds the table's lock.
    """
    store.put(f"{_FOLDER}/{_name(version)}", content)
    store.put(_POINTER, json.dumps({"version": version}).encode())
    names = [name for name in store.list(_FOLDER) if f"{_FOLDER}/{name}" != _POINTER]
    numbered = sorted(name for name in names if re.fullmatch(r"\d{20}\.json", name))
    recent = {_name(version), *numbered[-kept:]}
    store.delete(*[f"{_FOLDER}/{name}" for name in names if name not in recent])


def to_json(
    table: str, version: int | None, table_id: str, schema: Mapping[str, Any] | None, files: Sequence[ListedFile]
) -> bytes:
    """Serialise a table's manifest."""
    listed = {
        f.path: {"size": f.size_bytes, "rows": f.rows, "partition": f.partition, "sha256": f.sha256} for f in files
    }
    head = {"table": table, "table_id": table_id, "version": version, "schema": schema}
    return json.dumps({**head, "files": listed}).encode()


def checked(store: Store, files: Sequence[ListedFile]) -> Sequence[ListedFile]:
    """Return files below the listed folder with sizes in bytes; refuse others.

    Raises:
        ContractError: names the file.
    """
    for each in files:
        if lies_outside(each.path) or ".." in PurePosixPath(each.path).parts or not each.path:
            raise ContractError(f"{store.address}: the manifest lists {each.path!r}, which is not below its folder")
        if not isinstance(each.size_bytes, int) or isinstance(each.size_bytes, bool) or each.size_bytes < 0:
            raise ContractError(
                f"{store.address}: the manifest states {each.size_bytes!r} as the size of {each.path}, which is no "
                "number of bytes"
            )
    return files


def require_whole(store: Store, files: Sequence[ListedFile]) -> None:
    """Check existence and size of listed files, without a listing.

    Raises:
        ContractError: names the first missing or changed files.
    """
    found: dict[str, Entry] = {}
    for first in range(0, len(files), _HEADS_AT_ONCE):
        found |= store.entries([each.path for each in files[first : first + _HEADS_AT_ONCE]])
    sizes = {path: entry.size_bytes for path, entry in found.items()}
    wrong = [
        f"{each.path} has {sizes[each.path]} of {each.size_bytes} bytes"
        if each.path in sizes
        else f"{each.path} is missing"
        for each in files
        if sizes.get(each.path) != each.size_bytes
    ]
    if wrong:
        more = f", and {len(wrong) - 3} more are wrong" if len(wrong) > 3 else ""
        raise ContractError(f"{store.address}: {', '.join(wrong[:3])}{more}; the manifest lists them: read none")


def _pointed(store: Store) -> int | None:
    try:
        return int(json.loads(store.read(_POINTER))["version"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ContractError(f"{store.address}: {_POINTER} is damaged: write the manifest again") from error


def _name(version: int) -> str:
    return f"{version:020d}.json"
