"""Files: every file is read to its last line, or refused by its name before an engine opens it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.landing.files import LONGEST_LINE, count_lines, file_refusal
from dedp_assets.patterns.connectors.landing.lines import read_lines
from dedp_assets.patterns.core.errors import ContractError

TEXT = b"".join(b'{"visit_id": "v%d"}\n' % n for n in range(30))
BOM = b"\xef\xbb\xbf"
GZ, BZ = gzip.compress(TEXT), bz2.compress(TEXT)


def packed(codec: str) -> bytes:
    """Pack the text as pyarrow writes files of that codec."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(TEXT)
    return sink.getvalue().to_pybytes()


ZS = packed("zstd")
SOUND = {
    "plain.jsonl": (TEXT, 30),
    "no-suffix": (TEXT, 30),
    "last line open.jsonl": (TEXT[:-1], 30),
    "crlf.jsonl": (TEXT.replace(b"\n", b"\r\n"), 30),
    "bom.jsonl": (BOM + TEXT, 30),
    "bom.jsonl.gz": (gzip.compress(BOM + TEXT), 30),
    "nul.jsonl": (b"\0" * 100, 1),
    "one line feed.jsonl": (b"\n", 1),
    "nothing.jsonl": (b"", 0),
    "nothing.jsonl.gz": (b"", 0),
    "a.jsonl.gz": (GZ, 30),
    "a.jsonl.GZ": (GZ, 30),
    "a.jsonl.gzip": (GZ, 30),
    "two members.jsonl.gz": (GZ + GZ, 60),
    "empty members.jsonl.gz": (gzip.compress(b"") + GZ + gzip.compress(b""), 30),
    "a.jsonl.bz2": (BZ, 30),
    "two streams.jsonl.bz2": (BZ + BZ, 60),
    "a.jsonl.zst": (ZS, 30),
    "two frames.jsonl.zst": (ZS + ZS, 60),
    "a*[b]{c,d}?\\ %20#ü=.jsonl": (TEXT, 30),
    "BZhou.csv": (b"BZhou,1\n", 1),
}
REFUSED = {
    "b.jsonl.lz4": (packed("lz4"), r"is a \.lz4 file by its name, which is not read: deliver plain text, \.gz, "),
    "b.jsonl.snappy": (b"\x00\x00\x00\x05hello", r"is a \.snappy file by its name"),
    "b.jsonl.deflate": (zlib.compress(TEXT), r"is a \.deflate file by its name"),
    "b.zip": (b"PK\x03\x04", r"is a \.zip file by its name"),
    "xz.jsonl": (lzma.compress(TEXT), "holds xz data, which is not read"),
    "lz4.jsonl": (packed("lz4"), "holds lz4 data, which is not read"),
    "7z.jsonl": (b"7z\xbc\xaf\x27\x1c rest", "holds 7z data"),
    "tar.jsonl": (b"a" + b"\0" * 256 + b"ustar" + b"\0" * 300, "holds tar data"),
    "gzip.jsonl": (GZ, r"engines decompress by the name alone: call it gzip\.jsonl\.gz$"),
    "zstd.jsonl": (ZS, r"call it zstd\.jsonl\.zst$"),
    "text.jsonl.gz": (TEXT, "is a gzip file by its name and holds something else"),
    "text.jsonl.bz2": (TEXT, "is a bzip2 file by its name and holds something else"),
    "bz2 inside.gz": (BZ, "is a gzip file by its name and holds bzip2"),
    "10:30:00.jsonl": (TEXT, "has a colon in its name, which engines take for something else: rename it"),
    "_late.jsonl": (TEXT, "has the name of a hidden file, which engines skip"),
    ".late.jsonl": (TEXT, "has the name of a hidden file, which engines skip"),
    "a._COPYING_": (TEXT, "has the name of a hidden file"),
    "utf16.jsonl": (TEXT.decode().encode("utf-16"), "holds UTF-16 data, which is not read"),
    "utf16le.jsonl": (TEXT.decode().encode("utf-16-le"), "holds UTF-16 data"),
    "utf16be.jsonl": (TEXT.decode().encode("utf-16-be"), "holds UTF-16 data"),
    "utf32.jsonl": (TEXT.decode().encode("utf-32"), "holds UTF-32 data"),
}
DAMAGED = {
    "cut.jsonl.gz": (GZ[: len(GZ) // 2], "is damaged: its gzip data ends early or is not as written"),
    "cut in its checksum.jsonl.gz": (GZ[:-3], "is damaged"),
    "cut in its header.jsonl.gz": (GZ[:5], "is damaged"),
    "wrong checksum.jsonl.gz": (GZ[:-6] + bytes([GZ[-6] ^ 1]) + GZ[-5:], "is damaged"),
    "more behind it.jsonl.gz": (GZ + b"\0" * 20, "is damaged"),
    "second member cut.jsonl.gz": (GZ + GZ[:-9], "is damaged"),
    "cut.jsonl.bz2": (BZ[:-20], "is damaged: its bzip2 data"),
    "cut.jsonl.zst": (ZS[:-5], "is damaged: its zstd data"),
    "more behind it.jsonl.zst": (ZS + b"garbage", "is damaged"),
    "only a mark.jsonl": (BOM, "has 3 bytes and no line"),
    "only an empty member.jsonl.gz": (gzip.compress(b""), "has 20 bytes and no line"),
    "carriage returns.jsonl": (TEXT.replace(b"\n", b"\r"), "ends its lines with carriage returns alone"),
}


@pytest.fixture
def written(tmp_path):
    """``written(name, content)``: the path of such a file."""

    def write(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", {**REFUSED, **DAMAGED})
def test_what_an_engine_would_skip_or_die_of_is_refused_by_name(written, name):
    """Its name, its first bytes or its damage, in one sentence; of name and first bytes without reading on."""
    content, words = {**REFUSED, **DAMAGED}[name]
    path = written(name, content)
    with pytest.raises(ContractError, match=words) as refused:
        count_lines(path)
    assert str(refused.value).startswith(f"{name} ")
    assert bool(file_refusal(path)) is (name in REFUSED)


def test_what_is_no_file_is_refused(tmp_path):
    """A folder that is called like a file, and a pipe, which would be waited for."""
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert file_refusal(tmp_path / "folder.jsonl") == "is a folder"
    assert file_refusal(tmp_path / "pipe.jsonl") == "is no regular file"


def test_a_name_that_is_no_text_is_refused(tmp_path):
    """The engine's client cannot send it."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.jsonl")
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(TEXT)
    with pytest.raises(ContractError, match="bytes that are no UTF-8 in its name"):
        count_lines(tmp_path / "bad\udcff.jsonl")


def test_a_line_that_unpacks_to_more_than_memory_is_refused(written):
    """A small file of one long line: what counts is the line."""
    path = written("bomb.jsonl.bz2", bz2.compress(b"x" * (LONGEST_LINE + 1), 1))
    with pytest.raises(ContractError, match=r"bomb\.jsonl\.bz2 has a line of more than 64 MiB"):
        count_lines(path)


def test_sound_files_of_all_kinds_are_counted_as_the_engine_reads_them(spark, written):
    """Compressed or not, with byte order marks, odd names, open ends: the same lines, numbered from 1."""
    paths = [written(name, content) for name, (content, _) in SOUND.items()]
    expected = {name: n for name, (_, n) in SOUND.items() if n}
    lines = read_lines(spark, paths)
    assert lines.count == expected
    assert {path.name: count_lines(path) for path in paths} == {name: n for name, (_, n) in SOUND.items()}
    found = lines.rows.groupBy("source_file").count().collect()
    assert {row["source_file"]: row["count"] for row in found} == expected
    firsts = lines.rows.filter("line_number = 1 AND source_file LIKE '%bom%'").select("raw").distinct().collect()
    assert [row["raw"] for row in firsts] == ['{"visit_id": "v0"}']


@pytest.mark.both
@pytest.mark.parametrize("name", ["b.jsonl.lz4", "10:30:00.jsonl", "_late.jsonl", "cut.jsonl.gz", "cut.jsonl.zst"])
def test_reading_lines_refuses_the_file_and_not_its_neighbours(spark, written, name):
    """One bad file among good ones: the refusal names it, whether before the engine looks or after it died of it."""
    content, words = {**REFUSED, **DAMAGED}[name]
    with pytest.raises(ContractError, match=words) as refused:
        read_lines(spark, [written("a.jsonl", TEXT), written(name, content), written("c.jsonl", TEXT)])
    assert str(refused.value).startswith(f"{name} ")


def test_a_checksum_of_another_file_beside_it_is_named(spark, written):
    """Hadoop's side files are held against what they lie beside: a file that was written anew does not fit its own."""
    path = written("a.jsonl", TEXT)
    written(".a.jsonl.crc", b"crc\0\0\0\x02\0" + b"\x01\x02\x03\x04" * 2)
    with pytest.raises(ContractError, match=r"a\.jsonl may not be what \.a\.jsonl\.crc beside it states"):
        read_lines(spark, [path])


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
    ".lz4": lambda content: pa.Codec("lz4").compress(content).to_pybytes(),
    ".xz": lzma.compress,
}
contents = st.lists(st.binary(max_size=12), max_size=5).map(b"\n".join)
damages = st.sampled_from([None, "cut", "flip", "more", "twice"])
FILES = st.tuples(
    st.sampled_from(["a", "b c", "_d", ".e", "10:30", "f*", "ü", "%41", "g.json"]),
    contents,
    st.sampled_from([*PACK]),
    st.sampled_from(["", "", ".gz", ".bz2", ".zst", ".txt", ".lz4"]),
    damages,
    st.integers(0, 1 << 16),
)


def spoiled(content: bytes, damage: str | None, at: int) -> bytes:
    """Damage content at a place."""
    place = at % max(len(content), 1)
    made = {
        "cut": content[:place],
        "flip": content[:place] + bytes(b ^ 0x20 for b in content[place : place + 1]) + content[place + 1 :],
        "more": content + content[:place],
        "twice": content + content,
    }
    return made.get(damage or "", content)


@settings(
    deadline=None,
    max_examples=max(1, settings.default.max_examples // 5),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(folder=st.lists(FILES, min_size=6, max_size=16))
def test_files_listed_are_files_read_and_files_refused(spark, tmp_path_factory, folder):
    """Any names, formats and damage: what is not refused is read by the engine, to the lines that were counted."""
    place = tmp_path_factory.mktemp("folder")
    counted, refused = {}, set()
    for number, (name, content, pack, suffix, damage, at) in enumerate(folder):
        path = place / f"{name}{number}{pack if at % 3 else ''}{suffix if at % 5 == 0 else ''}"
        path.write_bytes(spoiled(PACK[pack](content), damage, at))
        try:
            counted[path] = count_lines(path)
        except ContractError as error:
            refused |= {each for each in place.iterdir() if str(error).startswith(f"{each.name} ")}
    assert len(counted) + len(refused) == len(folder)
    assert all(counted[path] or not path.stat().st_size for path in counted)
    lines = read_lines(spark, [*counted])
    assert {path.name: n for path, n in counted.items() if n} == lines.count
