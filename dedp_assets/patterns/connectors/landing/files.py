"""Files of text lines: checks, without an engine, for files that an engine would skip or misread.

Spark reads no file whose name begins with ``_`` or ``.``, takes a colon in a name for an address, chooses how to
decompress by the name alone (so that plain text called ``.bz2`` has no line, and a ``.snappy`` of another framing takes
all memory), and ends with the stack of a task at damage, without the file's name.
"""

from __future__ import annotations

import bz2
import io
import stat
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta import FilePath

__all__ = [
    "LONGEST_LINE", "content_kind", "count_lines", "file_refusal", "kind_named", "lines_of", "name_refusal",
    "unpacked", "unreadable_name",
]  # fmt: skip

LONGEST_LINE = 64 << 20
"""The longest line in bytes: no record is longer, and a longer one may exhaust an engine's memory."""
_CHUNK = 1 << 20
_PACKED = 1 << 14
_GZIP = 31
"""What zlib calls a stream with gzip's header and checksum."""
_HEAD = 264
_KINDS = {
    b"\x1f\x8b": "gzip",
    **{b"BZh%d%b" % (n, of): "bzip2" for n in range(1, 10) for of in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")},
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x02\x21\x4c\x18": "lz4",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"\x1f\x9d": "compress",
    b"LZIP\x01": "lzip",
    b"\x89LZO\x00": "lzo",
    b"PAR1\x15": "Parquet",
    b"Obj\x01": "Avro",
    b"SQLite format 3\x00": "SQLite",
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_READ = {"gzip": (".gz", ".gzip"), "bzip2": (".bz2",), "zstd": (".zst",)}
_OF_NAME = {suffix: kind for kind, suffixes in _READ.items() for suffix in suffixes}
_NEVER_READ = (
    *(".lz4", ".snappy", ".sz", ".deflate", ".zz", ".xz", ".lzma", ".z", ".lzo", ".lz", ".br", ".zip", ".7z", ".rar"),
    *(".tar", ".tgz"),
)
_NO_LINES = (".parquet", ".orc", ".avro", ".xlsx")
_OFFERED = "deliver plain text, .gz, .bz2 or .zst"


def name_refusal(name: str) -> str:
    """Return why engines cannot read text lines from a file of this name; empty for a readable name."""
    return unreadable_name(name) or _of_suffix(name, _NO_LINES)


def unreadable_name(name: str) -> str:
    """Return the reason why engines skip or reject a file name in any format; empty for a valid name."""
    if name.startswith(("_", ".")) or name.endswith("._COPYING_"):
        return "has the name of a hidden file, which engines skip: rename it"
    if odd := "a colon" if ":" in name else "bytes that are no UTF-8" if _is_no_text(name) else "":
        return f"has {odd} in its name, which engines take for something else: rename it"
    return _of_suffix(name, _NEVER_READ)


def _of_suffix(name: str, suffixes: Collection[str]) -> str:
    suffix = Path(name).suffix.lower()
    return f"is a {suffix} file by its name, which is not read: {_OFFERED}" if suffix in suffixes else ""


def file_refusal(path: FilePath) -> str:
    """Return the reason why engines cannot read a file, by name, type and first bytes; or empty text.

    Raises:
        OSError: if the file is not there.
    """
    if reason := name_refusal(path.name):
        return reason
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        return f"is {'a folder' if stat.S_ISDIR(mode) else 'no regular file'}"
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except PermissionError:
        return "may not be read: allow it"
    return _contradiction(path.name, content_kind(head)) if head else ""


def content_kind(head: bytes) -> str:
    """Return the format of non-text bytes, by the first 264 bytes; empty for UTF-8 text."""
    if head[257:262] == b"ustar":
        return "tar"
    if b"\x50" <= head[:1] <= b"\x5f" and head[1:4] == b"\x2a\x4d\x18":
        return "zstd"  # a frame to skip comes first
    for start, kind in _KINDS.items():
        if head.startswith(start):
            return kind
    pairs = [head[n : n + 2] for n in (0, 2)]
    wide = len(head) >= 4 and any(all(pair[n] == 0 and pair[1 - n] for pair in pairs) for n in (0, 1))
    return "UTF-16" if wide else ""


def count_lines(path: FilePath, *, seen: Callable[[bytes], object] = bool) -> int:
    """Count a file's lines by the rules of engines, in one pass over the bytes.

    Args:
        path: the file, whose name tells how it is compressed.
        seen: takes the bytes as they are stored, piece by piece, to digest them.

    Raises:
        ContractError: if an engine would not read it (:func:`file_refusal`), its compressed data is damaged or ends
            early, a line is longer than 64 MiB, it holds bytes and no line, or its lines end in carriage returns alone.
    """
    if reason := file_refusal(path):
        raise ContractError(f"{path.name} {reason}")
    lines, open_line, returns, size_bytes = 0, 0, False, path.stat().st_size
    if not size_bytes:
        return 0
    with path.open("rb") as file:
        for text in unpacked(_TappedFile(file, seen), path.name, kind=kind_named(path.name)):
            first = text.find(b"\n")
            _require_short(path.name, open_line + (first if first >= 0 else len(text)), LONGEST_LINE)
            returns = returns or (lines == 0 and b"\r" in text[: first if first >= 0 else -1])
            open_line = open_line + len(text) if first < 0 else len(text) - text.rfind(b"\n") - 1
            lines += text.count(b"\n")
    if lines == 0 and returns:
        raise ContractError(f"{path.name} ends its lines with carriage returns alone: deliver it with line feeds")
    lines += open_line > 0
    if not lines:
        raise ContractError(f"{path.name} has {size_bytes} bytes and no line: deliver its lines, or an empty file")
    return lines


def lines_of(path: FilePath, *, longest_bytes: int = LONGEST_LINE, keep_mark: bool = False) -> Iterator[bytes]:
    """Yield the lines of a text file with their line feeds, decompressed, without a byte order mark.

    Args:
        path: the file, whose name tells how it is compressed.
        longest_bytes: greatest length of a line.
        keep_mark: whether the first line keeps a byte order mark.

    Raises:
        ContractError: for damaged data, or a longer line.
    """
    rest = b""
    with path.open("rb") as file:
        for piece in unpacked(file, path.name, kind=kind_named(path.name), keep_mark=keep_mark):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line + b"\n" for line in lines)
            _require_short(path.name, len(rest), longest_bytes)
    if rest:
        yield rest


def unpacked(file: BinaryIO | io.RawIOBase, name: str, *, kind: str, keep_mark: bool = False) -> Iterator[bytes]:
    """Read a file in pieces of text, decompressed, without a byte order mark.

    Args:
        file: the file, open at its beginning.
        name: what it is called.
        kind: ``gzip``, ``bzip2``, ``zstd``, or empty for plain text.
        keep_mark: whether a byte order mark stays.

    Raises:
        ContractError: if the compressed data is damaged or ends early.
    """
    pieces = _PIECES[kind](file)
    first = not keep_mark
    while True:
        try:
            piece = next(pieces, None)
        except (EOFError, zlib.error, OSError) as error:
            # Of the disk, or of the server of a bucket.
            if isinstance(error, ConnectionError) or (isinstance(error, OSError) and error.errno is not None):
                raise
            raise ContractError(f"{name} is damaged: its {kind} data ends early or is not as written") from error
        if piece is None:
            return
        if piece:
            yield piece.removeprefix(b"\xef\xbb\xbf") if first else piece
            first = False


class _TappedFile(io.RawIOBase):
    """A file that passes every byte read to a callback."""

    def __init__(self, file: BinaryIO, seen: Callable[[bytes], object]) -> None:
        self._file, self._seen = file, seen

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._seen(piece)
        return piece


def _stored(file: BinaryIO | io.RawIOBase) -> Iterator[bytes]:
    while piece := file.read(_CHUNK):
        yield piece


def _gunzipped(file: BinaryIO | io.RawIOBase) -> Iterator[bytes]:
    """Unpack all members of a gzip file; trailing bytes are damage, as for engines."""
    member = zlib.decompressobj(_GZIP)
    while piece := file.read(_PACKED):
        while piece:
            member = zlib.decompressobj(_GZIP) if member.eof else member
            yield member.decompress(piece)
            piece = member.unused_data
    if not member.eof:
        raise EOFError


def _bunzipped(file: BinaryIO | io.RawIOBase) -> Iterator[bytes]:
    stream = bz2.BZ2Decompressor()
    while piece := file.read(_PACKED):
        while piece:
            stream = bz2.BZ2Decompressor() if stream.eof else stream
            yield stream.decompress(piece, _CHUNK)
            while not (stream.eof or stream.needs_input):
                yield stream.decompress(b"", _CHUNK)
            piece = stream.unused_data
    if not stream.eof:
        raise EOFError


def _unzstd(file: BinaryIO | io.RawIOBase) -> Iterator[bytes]:
    import pyarrow as pa  # noqa: PLC0415 - most files are not compressed by it

    with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd") as stream:
        while piece := stream.read(_CHUNK):
            yield piece


_PIECES: Mapping[str, Callable[[BinaryIO | io.RawIOBase], Iterator[bytes]]] = {
    "": _stored,
    "gzip": _gunzipped,
    "bzip2": _bunzipped,
    "zstd": _unzstd,
}


def _contradiction(name: str, kind: str) -> str:
    """Return the mismatch between a file's name and the format of the first bytes; empty for a match."""
    named = kind_named(name)
    if named == kind:
        return ""
    if named:
        return f"is a {named} file by its name and holds {kind or 'something else'}: {_OFFERED}, each under its name"
    if kind in _READ:
        return f"holds {kind} data, which engines decompress by the name alone: call it {name}{_READ[kind][0]}"
    return f"holds {kind} data, which is not read: {_OFFERED}, in UTF-8"


def kind_named(name: str) -> str:
    """Return the compression of a file by name; empty for plain text."""
    return _OF_NAME.get(Path(name).suffix.lower(), "")


def _require_short(name: str, length_bytes: int, longest_bytes: int) -> None:
    if length_bytes > longest_bytes:
        raise ContractError(
            f"{name} has a line of more than {longest_bytes >> 20} MiB: deliver it with a line feed after each record"
        )


def _is_no_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False
