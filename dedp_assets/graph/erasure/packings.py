"""Contents of compressed files, archives and Spark's state files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from dedp_assets.patterns.connectors.landing.files import content_kind
from dedp_assets.patterns.core.errors import ContractError

__all__ = ["Packed", "is_plain", "unpacked"]

Bytes = Callable[[bytes], bytes]

_HEAD = 264
_STATE_BLOCK = b"LZ4Block"
"""Begin of each block of Spark's state files, as lz4-java writes blocks."""
_STATE_HEAD, _STATE_PLAIN = 21, 0x10


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed file.

    Attributes:
        members: name of a member -> content; one member without a name for a compressed text.
        again: packs changed members; ``None`` for a format that is read only.
    """

    members: dict[str, bytes]
    again: Callable[[dict[str, bytes]], bytes] | None


def is_plain(content: bytes) -> bool:
    """Return whether a file is a text, or of a format that is not known."""
    return not (content.startswith(_STATE_BLOCK) or content_kind(content[:_HEAD]))


def unpacked(content: bytes) -> Packed | None:
    """Return the members of a compressed file or an archive; ``None`` for any other file.

    Args:
        content: the file.

    Raises:
        ContractError: for a damaged file, and for one that asks for a password.
    """
    try:
        if content.startswith(_STATE_BLOCK):
            return Packed({"": _blocks(content)}, None)
        kind = content_kind(content[:_HEAD])
        if kind in _ARCHIVES:
            return _ARCHIVES[kind](content)
        if kind not in _TEXTS:
            return None
        open_, close = _TEXTS[kind]
        return Packed({"": open_(content)}, lambda members: close(members[""]))
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError) as error:
        raise ContractError(f"the file cannot be unpacked: {type(error).__name__}") from error


def _codec(name: str) -> tuple[Bytes, Bytes]:
    def open_(content: bytes) -> bytes:
        return bytes(pa.CompressedInputStream(pa.BufferReader(content), name).read())

    def close(content: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, name) as stream:
            stream.write(content)
        return bytes(sink.getvalue().to_pybytes())

    return open_, close


def _wide(name: str) -> tuple[Bytes, Bytes]:
    return lambda content: content.decode(name).encode(), lambda text: text.decode().encode(name)


_TEXTS: dict[str, tuple[Bytes, Bytes]] = {
    "gzip": (gzip.decompress, gzip.compress),
    "bzip2": (bz2.decompress, bz2.compress),
    "xz": (lzma.decompress, lzma.compress),
    "zstd": _codec("zstd"),
    "lz4": _codec("lz4"),
    "UTF-16": _wide("utf-16"),
    "UTF-32": _wide("utf-32"),
}


def _of_zip(content: bytes) -> Packed:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        members = {info.filename: archive.read(info) for info in infos}
    if len(members) < len(infos):
        raise ValueError("two members of one name")

    def again(changed: dict[str, bytes]) -> bytes:
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w") as into:
            for info in infos:
                into.writestr(info, changed[info.filename])
        return sink.getvalue()

    return Packed(members, again)


def _of_tar(content: bytes) -> Packed:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        infos = archive.getmembers()
        read = {info.name: archive.extractfile(info) for info in infos if info.isreg()}
        members = {name: file.read() for name, file in read.items() if file}
    if len({info.name for info in infos}) < len(infos):
        raise ValueError("two members of one name")

    def again(changed: dict[str, bytes]) -> bytes:
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode="w") as into:
            for info in infos:
                content = changed.get(info.name, b"")
                info.size = len(content)
                into.addfile(info, io.BytesIO(content))
        return sink.getvalue()

    return Packed(members, again)


_ARCHIVES: dict[str, Callable[[bytes], Packed]] = {"zip": _of_zip, "tar": _of_tar}


def _blocks(content: bytes) -> bytes:
    """Decompress the blocks of a state file: mark, method, packed and plain size, checksum, bytes."""
    codec, found, at = pa.Codec("lz4_raw"), list[bytes](), 0
    while at < len(content):
        if content[at : at + len(_STATE_BLOCK)] != _STATE_BLOCK or at + _STATE_HEAD > len(content):
            raise ValueError("a block without its head")
        method = content[at + 8] & 0xF0
        packed, plain = (int.from_bytes(content[n : n + 4], "little") for n in (at + 9, at + 13))
        block = content[at + _STATE_HEAD : at + _STATE_HEAD + packed]
        if plain:
            found.append(block if method == _STATE_PLAIN else codec.decompress(block, plain).to_pybytes())
        at += _STATE_HEAD + packed
    return b"".join(found)
