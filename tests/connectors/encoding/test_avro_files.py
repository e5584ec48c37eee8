"""Avro files: codecs, counts of records, and damage anywhere, which is never fewer records."""

from __future__ import annotations

import io
import json
import zlib

import fastavro
import pyarrow as pa
import pytest

from dedp_assets.patterns.connectors.encoding import avro_files
from dedp_assets.patterns.connectors.encoding.avro_files import avro_texts, open_avro
from dedp_assets.patterns.core import extras
from dedp_assets.patterns.core.errors import ConfigError, ContractError

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}
RECORDS = [{"n": n, "s": f"text {n}" * (n % 7)} for n in range(200)]


def packed(codec, records=RECORDS, interval=500, schema=SCHEMA):
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec, sync_interval=interval)
    return out.getvalue()


def read(folder, data, name="a.avro"):
    """The records of bytes as a file."""
    (folder / name).write_bytes(data)
    made = open_avro(folder / name)
    found = [json.loads(text) for text in avro_texts(folder / name, made)]
    assert len(found) == made.records
    return found


def read_or_refused(folder, data):
    """The records, and the sentence of a refusal."""
    try:
        return read(folder, data), ""
    except ContractError as error:
        return [], str(error)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_a_file_of_each_codec_is_read(tmp_path, codec):
    """In order, block by block."""
    assert read(tmp_path, packed(codec)) == RECORDS
    assert read(tmp_path, packed(codec, [])) == []


def recoded(codec, compressed):
    """A file with the blocks of another codec, which fastavro writes with more packages alone."""
    plain = packed("null")
    start = len(packed("null", []))
    head = bytearray(plain[:start]).replace(b"\x08null", bytes([len(codec) * 2]) + codec.encode())
    assert codec.encode() in head
    sync, rest = plain[start - 16 : start], io.BytesIO(plain[start:])
    out = [bytes(head)]
    while rest.tell() < len(plain) - start:
        count, length = (fastavro.schemaless_reader(rest, "long") for _ in "12")
        data = compressed(rest.read(length))
        assert rest.read(16) == sync
        for number in (count, len(data)):
            place = io.BytesIO()
            fastavro.schemaless_writer(place, "long", number)
            out.append(place.getvalue())
        out += [data, sync]
    return b"".join(out)


def snappy(data):
    return pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


def zstandard(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


@pytest.mark.parametrize(("codec", "compressed"), [("snappy", snappy), ("zstandard", zstandard)])
def test_codecs_of_other_writers_are_read_without_a_package(tmp_path, codec, compressed):
    """By Arrow; a byte that is another is damage."""
    data = recoded(codec, compressed)
    assert read(tmp_path, data) == RECORDS
    spoilt = bytearray(data)
    spoilt[len(packed("null", [])) + 30] ^= 0x55
    with pytest.raises(ContractError, match=r"a\.avro is damaged"):
        read(tmp_path, bytes(spoilt))


def test_another_codec_is_named(tmp_path):
    """With those that are read."""
    data = packed("null").replace(b"\x08null", b"\x06lz4", 1)
    with pytest.raises(ContractError, match=r"a\.avro is compressed by lz4, which is not read: take null, deflate"):
        read(tmp_path, data)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_file_that_was_cut_anywhere_is_refused_or_ends_between_blocks(tmp_path, codec):
    """Within a header, a count, a block or a marker it is damage; between two blocks a file may end."""
    records = [{"n": n, "s": "x" * 40} for n in range(60)]
    data, empty = packed(codec, records, 800), len(packed(codec, []))
    ends = []
    for size in range(len(data)):
        found, said = read_or_refused(tmp_path, data[:size])
        if said:
            assert said.startswith("a.avro is ")
        else:
            assert found == records[: len(found)]
            ends.append(size)
    assert ends[0] == empty
    assert len(ends) <= 4


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_compressed_file_with_another_byte_has_never_fewer_records(tmp_path, codec):
    """Every byte behind the header: damage that is named, or the same number of records."""
    records = RECORDS[:40]
    data, empty = packed(codec, records, 300), len(packed(codec, []))
    refused = 0
    for place in range(empty, len(data)):
        spoilt = bytearray(data)
        spoilt[place] ^= 0xFF
        found, said = read_or_refused(tmp_path, bytes(spoilt))
        assert said.startswith("a.avro is damaged: ") if said else len(found) == len(records)
        refused += bool(said)
    assert refused > (len(data) - empty) * 0.8


def test_a_file_that_is_none_is_refused_by_name(tmp_path):
    """Text, another format, a name, nothing, a schema that is none, and a folder."""
    for data, said in [
        (b"id,name\n", r"a\.avro is no Avro file by its first bytes"),
        (b"PAR1\x15", r"a\.avro is no Avro file by its first bytes"),
        (b"", r"a\.avro is empty, which no Avro file is"),
        (b"Obj\x01\x00" + b"s" * 16, r"a\.avro is damaged: its header is cut or not as written"),
        (packed("null").replace(b"{", b"[", 1), r"a\.avro is damaged: its header is cut or not as written"),
    ]:
        with pytest.raises(ContractError, match=said):
            read(tmp_path, data)
    with pytest.raises(ContractError, match=r"b\.txt is no Avro file by its name: call it \.avro"):
        read(tmp_path, packed("null"), "b.txt")
    (tmp_path / "c.avro").mkdir()
    with pytest.raises(ContractError, match=r"c\.avro is no regular file"):
        open_avro(tmp_path / "c.avro")


def block(count, data, claimed=None):
    """A file of one block, as nobody writes it."""
    head = packed("null", [])
    place = io.BytesIO()
    for number in (count, len(data) if claimed is None else claimed):
        fastavro.schemaless_writer(place, "long", number)
    return head + place.getvalue() + data + head[-16:]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (block(-1, b""), "block 1 has -1 records in 0 bytes"),
        (block(1, b"", 1 << 40), "block 1 has 1 records in 1099511627776 bytes"),
        (block(1, b"", -5), "block 1 has 1 records in -5 bytes"),
        (block(3, b"\x02\x02a\x02\x02b"), "the block after record 0 is not as written"),
        (block(1, b"\x02\x02a\x02\x02b"), "the block after record 0 is not as written"),
        (block(0, b"\x02\x02a"), "the block after record 0 is not as written"),
        (block(1 << 40, b"\x02\x02a"), "the block after record 0 is not as written"),
        (block(1, b"\x02\x02\xff"), "the block after record 0 is not as written"),
        (block(1, b"\x02\x02a")[:-16] + b"s" * 16 + b"\0\0", "block 1 is not followed by the marker of the file"),
        (packed("null") + b"\xff" * 12, "a block is cut, or begins with no number"),
    ],
)
def test_a_block_that_contradicts_itself_is_damage(tmp_path, data, said):
    """More records than are there, fewer, bytes of none, text that is no UTF-8, and lengths without a sense."""
    with pytest.raises(ContractError, match=f"a.avro is damaged: {said}"):
        read(tmp_path, data)


def test_a_file_that_grew_is_refused(tmp_path):
    """The records of a load are those that were counted."""
    (tmp_path / "a.avro").write_bytes(packed("null"))
    made = open_avro(tmp_path / "a.avro")
    with (tmp_path / "a.avro").open("a+b") as file:
        fastavro.writer(file, SCHEMA, RECORDS[:3])
    with pytest.raises(ContractError, match=r"a\.avro changed while it was read: it had 200 records and has 203"):
        list(avro_texts(tmp_path / "a.avro", made))


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    """A missing package is no damage of the file."""
    (tmp_path / "a.avro").write_bytes(packed("null"))
    monkeypatch.setitem(extras.EXTRAS, "no_such_avro", "avro")
    monkeypatch.setattr(avro_files, "fastavro", extras.optional("no_such_avro"))
    with pytest.raises(ConfigError, match=r"needs the extra \[avro\]: pip install 'dedp\[avro\]'"):
        open_avro(tmp_path / "a.avro")
