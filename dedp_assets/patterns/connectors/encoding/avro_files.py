"""Avro files: header, frames of the blocks, and records as JSON texts.

The frame of a file is read here and the records of a block by ``fastavro``: its own reader takes a file that was cut
within the count of a block for one that ends there.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from dedp_assets.patterns.connectors.encoding.avro_schemas import AvroSqlType, node_of
from dedp_assets.patterns.connectors.encoding.formats import avro_refusal
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.delta import FilePath

__all__ = ["AvroFile", "avro_texts", "open_avro"]

fastavro = optional("fastavro")

_MAGIC, _SYNC = b"Obj\x01", 16
_META = {"type": "map", "values": "bytes"}
_LONGEST_VARINT = 10
_LONGEST_BLOCK = 256 << 20


@dataclass(frozen=True, slots=True)
class AvroFile:
    """The header of an Avro file, and the number of records.

    Attributes:
        node: schema of the records.
        codec: name of the compression.
        sync: bytes between the blocks.
        begin: place of the first block.
        records: number of the records, by the counts of the blocks.
    """

    node: AvroSqlType
    codec: str
    sync: bytes
    begin: int
    records: int


def open_avro(path: FilePath) -> AvroFile:
    """Return the header of an Avro file, after a pass over all blocks' frames.

    Raises:
        ConfigError: without the extra ``avro``.
        ContractError: for a file that is no Avro, ends early, or has a schema or codec that is not read.
    """
    if reason := avro_refusal(path):
        raise ContractError(f"{path.name} {reason}")
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ContractError(f"{path.name} is no Avro file by its first bytes")
        try:
            meta = fastavro.schemaless_reader(file, _META)
            schema = parse_json(meta["avro.schema"])
            codec = meta.get("avro.codec", b"null").decode()
        except (ConfigError, ConnectionError):
            raise
        except Exception as error:
            raise _damaged(path, "its header is cut or not as written") from error
        if codec not in _CODECS:
            raise ContractError(f"{path.name} is compressed by {codec}, which is not read: take {', '.join(_CODECS)}")
        node = node_of(schema, path.name)
        sync, begin = file.read(_SYNC), file.tell()
        if len(sync) < _SYNC:
            raise _damaged(path, "its header is cut")
        records = sum(count for count, _ in _frames(file, path, sync, size))
    return AvroFile(node, codec, sync, begin, records)


def avro_texts(path: FilePath, made: AvroFile) -> Iterator[str]:
    """Yield the records of an Avro file as JSON texts, block by block.

    Args:
        path: the file.
        made: its header.

    Raises:
        ContractError: if a block is damaged, or the file is not as it was when it was opened.
    """
    schema = {"type": "array", "items": made.node.stored}
    parsed, text, seen = fastavro.parse_schema(schema), made.node.text, 0
    with path.open("rb") as file:
        file.seek(made.begin)
        for count, length in _frames(file, path, made.sync, path.stat().st_size):
            here = file.tell()
            file.seek(here - _SYNC - length)
            stored = file.read(length)
            file.seek(here)
            try:
                block = _records_of(_CODECS[made.codec](stored), count, parsed)
                texts = [text(record) for record in block]
            except Exception as error:
                raise _damaged(path, f"the block after record {seen} is not as written") from error
            yield from texts
            seen += count
    if seen != made.records:
        raise ContractError(f"{path.name} changed while it was read: it had {made.records} records and has {seen}")


def _frames(file: BinaryIO, path: FilePath, sync: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Yield the number of records and the length of each block; the file is behind the block then."""
    number = 0
    while file.tell() < size:
        number += 1
        count, length = _varint(file, path), _varint(file, path)
        if count < 0 or not 0 <= length <= _LONGEST_BLOCK:
            raise _damaged(path, f"block {number} has {count} records in {length} bytes")
        file.seek(length, io.SEEK_CUR)
        if file.read(_SYNC) != sync:
            where = "cut" if file.tell() >= size else "not followed by the marker of the file"
            raise _damaged(path, f"block {number} is {where}")
        yield count, length


def _varint(file: BinaryIO, path: FilePath) -> int:
    value = 0
    for place in range(_LONGEST_VARINT):
        byte = file.read(1)
        if not byte:
            break
        value |= (byte[0] & 0x7F) << 7 * place
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
    raise _damaged(path, "a block is cut, or begins with no number")


def _records_of(data: bytes, count: int, parsed: Any) -> list[Any]:  # noqa: ANN401 - a schema of fastavro
    """Read the records of a block, as an array of Avro: count, records, and the count of no more."""
    if count > len(data):
        raise ValueError(f"{count} records in {len(data)} bytes")
    if not count:
        if data:
            raise ValueError(f"{len(data)} bytes of no record")
        return []
    stream = io.BytesIO(_long(count) + data + b"\0")
    found: list[Any] = fastavro.schemaless_reader(stream, parsed)
    if len(found) != count or stream.read(1):
        raise ValueError(f"{len(found)} records instead of {count}, or bytes of none")
    return found


def _long(value: int) -> bytes:
    """Write a whole number from 0 as Avro does."""
    rest, written = value << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _damaged(path: FilePath, how: str) -> ContractError:
    return ContractError(f"{path.name} is damaged: {how}")


def _inflated(data: bytes) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    found = stream.decompress(data, _LONGEST_BLOCK)
    # Writers in Python leave the begin of zlib's checksum behind the data.
    if not stream.eof or not zlib.adler32(found).to_bytes(4, "big").startswith(stream.unused_data):
        raise ValueError("the compressed data does not end with the block")
    return found


def _bunzipped(data: bytes) -> bytes:
    stream = bz2.BZ2Decompressor()
    return _ended(stream, stream.decompress(data, _LONGEST_BLOCK))


def _unxz(data: bytes) -> bytes:
    stream = lzma.LZMADecompressor()
    return _ended(stream, stream.decompress(data, _LONGEST_BLOCK))


def _ended(stream: Any, found: bytes) -> bytes:  # noqa: ANN401 - of three modules
    if not stream.eof or stream.unused_data:
        raise ValueError("the compressed data does not end with the block")
    return found


def _unzstd(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(_LONGEST_BLOCK + 1)
    return _short(found)


def _unsnappy(data: bytes) -> bytes:
    """Uncompress Snappy of Avro: a length, the data, and a checksum."""
    packed, checksum = data[:-4], data[-4:]
    length = 0
    for place, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if length > _LONGEST_BLOCK:
        raise ValueError(f"a block of {length} bytes")
    found: bytes = pa.Codec("snappy").decompress(packed, decompressed_size=length, asbytes=True)
    if zlib.crc32(found).to_bytes(4, "big") != checksum:
        raise ValueError("the checksum is another")
    return found


def _short(data: bytes) -> bytes:
    if len(data) > _LONGEST_BLOCK:
        raise ValueError(f"a block of more than {_LONGEST_BLOCK >> 20} MiB")
    return data


_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _inflated,
    "bzip2": _bunzipped,
    "xz": _unxz,
    "snappy": _unsnappy,
    "zstandard": _unzstd,
}
