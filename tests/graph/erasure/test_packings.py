"""Ids of persons in packed files: records go, others stay, whatever the format and the packing."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.erasure.files import redact_store, redacted
from dedp_assets.graph.erasure.packings import unpacked
from dedp_assets.graph.erasure.spellings import Spellings
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta import store_at

ADA = "ada.lovelace@example.com"
GONE = Spellings([ADA], {"id": ["7"]})
SCHEMA = {
    "type": "record",
    "name": "V",
    "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "m", "type": ["null", "string"]}],
}


def lines(records):
    return "".join(json.dumps(each) + "\n" for each in records).encode()


def of_lines(content):
    return [json.loads(line) for line in content.splitlines()]


def parquet(records):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(records, pa.schema([("id", pa.int64()), ("m", pa.string())])), sink)
    return sink.getvalue().to_pybytes()


def of_parquet(content):
    return pq.read_table(pa.BufferReader(content)).to_pylist()


def avro(records):
    sink = io.BytesIO()
    fastavro.writer(sink, SCHEMA, records, codec="deflate", metadata={"by": "them"})
    return sink.getvalue()


def of_avro(content):
    return [*fastavro.reader(io.BytesIO(content))]


def zipped(content):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/v", content)
        archive.writestr("b", "untouched")
    return sink.getvalue()


def unzipped(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.read("b") == b"untouched"
        return archive.read("a/v")


def tarred(content):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, each in (("a", content), ("b", b"untouched")):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(each), 5
            archive.addfile(info, io.BytesIO(each))
    return sink.getvalue()


def untarred(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.extractfile("b").read() == b"untouched"
        assert archive.getmember("a").mtime == 5
        return archive.extractfile("a").read()


def arrow(name):
    def pack(content):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, name) as stream:
            stream.write(content)
        return sink.getvalue().to_pybytes()

    return pack, lambda content: bytes(pa.CompressedInputStream(pa.BufferReader(content), name).read())


FORMATS = {"lines": (lines, of_lines), "Parquet": (parquet, of_parquet), "Avro": (avro, of_avro)}
PACKINGS = {
    "none": (bytes, bytes),
    "gzip": (gzip.compress, gzip.decompress),
    "bzip2": (bz2.compress, bz2.decompress),
    "xz": (lzma.compress, lzma.decompress),
    "zstd": arrow("zstd"),
    "lz4": arrow("lz4"),
    "zip": (zipped, unzipped),
    "tar": (tarred, untarred),
    "tar.gz": (lambda each: gzip.compress(tarred(each)), lambda each: untarred(gzip.decompress(each))),
}
WIDE = {
    name: (lambda each, n=name: each.decode().encode(n), lambda each, n=name: each.decode(n).encode())
    for name in ("utf-16", "utf-32")
}
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(5, 9),
            "m": st.none()
            | st.sampled_from([ADA, f"to {ADA}, again", ADA.encode().hex()])
            | st.text("aé\n", max_size=9),
        }
    ),
    max_size=6,
)


def is_of_ada(record):
    return record["id"] == 7 or ADA in (text := record["m"] or "") or ADA.encode().hex() in text


@given(RECORDS, st.sampled_from([*FORMATS]), st.sampled_from([*PACKINGS, *WIDE]))
def test_records_of_a_person_go_and_others_stay(records, kind, packing):
    """As an independent reader finds them; a file without the person is not written."""
    (write, read), (pack, unpack) = FORMATS[kind], {**PACKINGS, **WIDE}[packing]
    if packing in WIDE:
        write, read = FORMATS["lines"]
    content = pack(write(records))
    found, changed = redacted(content, GONE, by_line=True, name="v")
    left = [each for each in records if not is_of_ada(each)]
    assert found == len(records) - len(left)
    assert read(unpack(content if changed is None else changed)) == left
    assert (changed is None) == (len(left) == len(records))


@pytest.mark.parametrize("packing", [*PACKINGS, *WIDE])
def test_texts_beside_tables_lose_the_id_alone(packing):
    """In whatever they are packed."""
    pack, unpack = {**PACKINGS, **WIDE}[packing]
    found, changed = redacted(pack(f"of {ADA}\nand é".encode()), GONE)
    assert (found, unpack(changed).decode()) == (1, "of erased\nand é")


def test_a_document_that_landed_keeps_its_other_content(tmp_path):
    """Its lines are no records: a sheet of a workbook is one line."""
    sheet = f'<?xml version="1.0"?>\n<sheet><row>{ADA}</row><row>bob</row></sheet>'
    (tmp_path / "of.xlsx").write_bytes(zipped(sheet.encode()))
    assert redact_store(store_at(tmp_path), GONE, by_line=True).places == 1
    assert unzipped((tmp_path / "of.xlsx").read_bytes()).decode() == sheet.replace(ADA, "erased")


def test_what_cannot_be_written_again_is_left_and_named(tmp_path):
    """A format that is not known, a damaged file with the id, a member of an archive that is not known."""
    unknown = b"\x00\x01" + ADA.encode() + b"\x00"
    files = {"unknown.bin": unknown, "cut.gz": gzip.compress(b"x" * 99)[:20] + ADA.encode(), "of.zip": zipped(unknown)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "cut-without.gz").write_bytes(gzip.compress(b"x" * 99)[:20])
    found = redact_store(store_at(tmp_path), GONE)
    assert {path.name for path in found.left} == {*files}
    assert all((tmp_path / name).read_bytes() == content for name, content in files.items())


@pytest.mark.parametrize("damaged", [b"LZ4Block%_\0", b"PK\x03\x04", gzip.compress(b"x")[:5], b"\xff\xfe\0"])
def test_damage_is_a_sentence(damaged):
    """Not an error of six packages."""
    with pytest.raises(ContractError, match="the file cannot be unpacked"):
        unpacked(damaged)
