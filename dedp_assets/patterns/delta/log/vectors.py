"""Deletion vectors: files that hold the positions of deleted rows, and their descriptors in a log.

A vector is a portable 64-bit roaring bitmap behind a magic number. A file holds a version byte and, for each vector, a
length, the bitmap, and a checksum; the descriptor in the log names file and offset (Delta protocol, deletion vectors).
"""

from __future__ import annotations

import base64
import re
import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

from pyroaring import BitMap64

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["VECTOR_FILE", "FileIdentity", "deleted_positions", "file_identity", "vector_file", "write_vectors"]

FileIdentity = tuple[str, str]
"""Path and deletion vector of a data file: one path may be removed and added again with another vector."""

VECTOR_FILE = re.compile(r"deletion_vector_[0-9a-f-]{36}\.bin")
"""Name of a file that holds deletion vectors."""

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_AS_B85, _AS_Z85 = str.maketrans(_Z85, _B85), str.maketrans(_B85, _Z85)
_UUID_LENGTH = 20
_VERSION = b"\x01"
_PORTABLE = 1681511377
_MAGIC, _LENGTH = struct.Struct("<I"), struct.Struct(">I")


def vector_file(action: Mapping[str, Any]) -> str:
    """Return the path of the file with the deletion vector of an added or removed data file.

    Empty for a data file without a vector, or with the vector in the log itself.

    Args:
        action: ``add`` or ``remove`` of a commit.

    Raises:
        ValueError: for a vector whose file is not named as the Delta protocol says.
    """
    vector = action.get("deletionVector")
    if not vector or vector["storageType"] == "i":
        return ""
    place: str = vector["pathOrInlineDv"]
    if vector["storageType"] == "p":
        return place
    # A folder with a random name may stand before the UUID.
    folder, named = place[:-_UUID_LENGTH], place[-_UUID_LENGTH:]
    file = f"deletion_vector_{uuid.UUID(bytes=base64.b85decode(named.translate(_AS_B85)))}.bin"
    return f"{folder}/{file}" if folder else file


def file_identity(action: Mapping[str, Any]) -> FileIdentity:
    """Return path and deletion vector of a data file; the latter is empty for a file without a vector.

    Args:
        action: ``add`` or ``remove`` of a commit, or an active file of :meth:`TableState.files`.
    """
    vector = action.get("deletionVector")
    return action["path"], f"{vector.get('pathOrInlineDv')}@{vector.get('offset')}" if vector else ""


def deleted_positions(store: Store, vector: Mapping[str, Any]) -> BitMap64:
    """Read a deletion vector: the positions of deleted rows in their data file, counted from 0.

    Args:
        store: the store of the table.
        vector: the descriptor in the log.

    Raises:
        ContractError: if the vector's file is gone or damaged.
    """
    file = vector_file({"deletionVector": vector})
    try:
        raw = _stored(store, file, vector) if file else _inline(vector)
        if raw[: _MAGIC.size] != _MAGIC.pack(_PORTABLE):
            raise ValueError("it is no portable bitmap")  # noqa: TRY301 - damage of any kind is one error
        positions = BitMap64.deserialize(raw[_MAGIC.size :])
        if len(positions) != vector["cardinality"]:
            raise ValueError(f"it has {len(positions)} positions, the log says {vector['cardinality']}")  # noqa: TRY301
    except (OSError, ValueError, struct.error) as error:
        raise ContractError(
            f"{store.name}: deletion vector {file or '(in the log)'} cannot be read, so that nobody knows which rows "
            f"are deleted: {error}. Bring the file back, or restore an earlier version"
        ) from error
    return positions


def write_vectors(store: Store, positions: Mapping[str, BitMap64]) -> dict[str, dict[str, Any]]:
    """Write deletion vectors into one file of a stage, and return their descriptors.

    Args:
        store: the store of the stage, a folder of the table's.
        positions: path of a data file -> the positions of deleted rows, counted from 0.
    """
    name = uuid.uuid4()
    written, found = bytearray(_VERSION), dict[str, dict[str, Any]]()
    for path, deleted in positions.items():
        raw = _MAGIC.pack(_PORTABLE) + deleted.serialize()
        found[path] = {
            "storageType": "u",
            "pathOrInlineDv": f"{store.name}{base64.b85encode(name.bytes).decode().translate(_AS_Z85)}",
            "offset": len(written),
            "sizeInBytes": len(raw),
            "cardinality": len(deleted),
        }
        written += _LENGTH.pack(len(raw)) + raw + _LENGTH.pack(zlib.crc32(raw))
    if found:
        store.put(f"deletion_vector_{name}.bin", bytes(written))
    return found


def _stored(store: Store, file: str, vector: Mapping[str, Any]) -> bytes:
    with store.open(file) as opened:
        opened.seek(vector.get("offset") or 0)
        (length,) = _LENGTH.unpack(opened.read(_LENGTH.size))
        raw: bytes = opened.read(length)
        if length != vector["sizeInBytes"] or opened.read(_LENGTH.size) != _LENGTH.pack(zlib.crc32(raw)):
            raise ValueError("its length or its checksum is not the stated one")
    return raw


def _inline(vector: Mapping[str, Any]) -> bytes:
    return base64.b85decode(vector["pathOrInlineDv"].translate(_AS_B85))[: vector["sizeInBytes"]]
