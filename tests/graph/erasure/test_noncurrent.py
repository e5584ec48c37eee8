"""Persons in the versions that a bucket keeps of its objects: no version holds one after the erasure."""

from __future__ import annotations

import gzip
import io
import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.graph.erasure.cases import CasePlace
from dedp_assets.graph.erasure.erasing import _total
from dedp_assets.graph.erasure.files import holds_ids
from dedp_assets.graph.erasure.noncurrent import erase_versions
from dedp_assets.graph.erasure.spellings import Spellings
from dedp_assets.patterns.delta import NoncurrentVersions
from tests.canaries import Canary, Search, unpacked
from tests.delta.storage.versioned import Owner

ADA, BOB = "ada.lovelace@example.com", "bob@elsewhere.org"
GONE = Spellings([ADA, "4711", "ada"], {"user_id": ["4711"], "login": ["ada"]})
SEARCH = Search([Canary("ada", ADA.encode())])


@pytest.fixture
def prefix(object_store, monkeypatch):
    """A prefix of this test's own, in whichever bucket."""
    with object_store.named(monkeypatch):
        yield f"{uuid.uuid4().hex[:8]}/lake"


@pytest.fixture
def owner(prefix):
    """The owner of a bucket with versioning."""
    return Owner.of("versioned")


def parquet(compression="zstd", **columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression=compression)
    return sink.getvalue()


def commit(user):
    """A commit whose statistics name a user."""
    stats = json.dumps({"numRecords": 1, "minValues": {"user": user}, "maxValues": {"user": user}})
    return (json.dumps({"add": {"path": "part-0.parquet", "stats": stats}}) + "\n").encode()


CONTENTS = {
    "silver/visits/part-0.parquet": lambda user: parquet("zstd", user=[user] * 500, n=[*range(500)]),
    "silver/visits/part-1.parquet": lambda user: parquet("snappy", n=[*range(20_000)], user=["x"] * 19_999 + [user]),
    "silver/visits/_delta_log/00000000000000000000.json": commit,
    "silver/visits/_delta_log/00000000000000000010.checkpoint.parquet": lambda user: parquet(stats=[commit(user)]),
    "visits/2026-01-05/a.jsonl": lambda user: f'{{"m": "{user}"}}\n{{"m": "eve"}}\n'.encode(),
    "visits/2026-01-05/b.csv.gz": lambda user: gzip.compress(f"id;m\n1;{user}\n2;eve\n".encode(), mtime=0),
    "_checkpoints/gold/x/offsets/0": lambda user: f"v1\n{user}".encode(),
}
"""Path of an object -> its content, of one user."""


def hits(owner, prefix):
    """The versions of the bucket that hold the person, also within."""
    return sorted(
        each.key.removeprefix(f"{prefix}/")
        for each, content in owner.kept(prefix).items()
        if any(SEARCH.found(text) for _, text in unpacked(each.key, content))
    )


@pytest.mark.slow
def test_no_version_of_a_bucket_holds_the_person(owner, prefix):
    """Of overwritten and of deleted objects; those of others stay byte for byte, and again is nothing."""
    for path, content in CONTENTS.items():
        for name in (f"deleted/{path}", f"replaced/{path}"):
            for user in (BOB, ADA, BOB):
                owner.put(f"{prefix}/{name}", content(user))
        owner.put(f"{prefix}/replaced/{path}", content("present@elsewhere.org"))
        owner.delete(f"{prefix}/deleted/{path}")
    before = owner.kept(prefix)
    person_s = {each for each, content in before.items() if content == CONTENTS[each.key.split("/", 3)[3]](ADA)}
    assert hits(owner, prefix) == sorted(each.key.removeprefix(f"{prefix}/") for each in person_s)
    assert len(person_s) == 2 * len(CONTENTS)
    place = erase_versions("lake", f"s3://{owner.bucket}/{prefix}", GONE)
    assert (place.kind, place.found, place.state) == ("bucket", len(person_s), "erased")
    assert place.figures == {
        "versions_searched": 6 * len(CONTENTS),
        "versions_removed": len(person_s),
        "bytes_removed": sum(len(before[each]) for each in person_s),
    }
    assert owner.kept(prefix) == {each: content for each, content in before.items() if each not in person_s}
    assert owner.marked(prefix) == {f"{prefix}/deleted/{path}" for path in CONTENTS}
    assert hits(owner, prefix) == []
    again = erase_versions("lake", f"s3://{owner.bucket}/{prefix}", GONE)
    assert (again.found, again.state, again.note) == (0, "nothing", "")


@pytest.mark.slow
def test_the_present_object_is_never_touched(owner, prefix):
    """Though it holds the person: it has an erasure of its own, after which its version goes."""
    for user in (ADA, ADA):
        owner.put(f"{prefix}/a", user.encode())
    assert erase_versions("lake", f"s3://{owner.bucket}/{prefix}", GONE).found == 1
    (left,) = owner.kept(prefix)
    assert left.is_latest
    owner.put(f"{prefix}/a", b"erased")
    assert erase_versions("lake", f"s3://{owner.bucket}/{prefix}", GONE).found == 1
    assert [*owner.kept(prefix).values()] == [b"erased"]


@pytest.mark.slow
def test_a_bucket_without_versions_is_nothing(object_store, owner, prefix):
    """And owes nothing."""
    owner.client.put_object(Bucket=object_store.bucket, Key=f"{prefix}/a", Body=ADA.encode())
    place = erase_versions("lake", f"s3://{object_store.bucket}/{prefix}", GONE)
    assert (place.state, place.found, place.note) == ("nothing", 0, "")


@pytest.mark.slow
def test_a_locked_version_is_open_until_the_lock_ends(prefix):
    """Its number and the server's reason are told, and no name; others go at once."""
    owner = Owner.of("locked", lock=True)
    ids = [owner.put(f"{prefix}/of-{ADA}", f"{ADA} {number}".encode()) for number in range(3)]
    owner.delete(f"{prefix}/of-{ADA}")
    owner.hold(f"{prefix}/of-{ADA}", ids[1], "ON")
    place = erase_versions("lake", f"s3://{owner.bucket}/{prefix}", GONE)
    assert (place.state, place.found) == ("open", 2)
    assert "1 version with an id cannot be removed, as under an object lock (AccessDenied)" in place.note
    assert ADA not in place.note
    assert [each.version_id for each in owner.kept(prefix)] == [ids[1]]
    owner.hold(f"{prefix}/of-{ADA}", ids[1], "OFF")
    again = erase_versions("lake", f"s3://{owner.bucket}/{prefix}", GONE)
    assert (again.state, again.found, owner.kept(prefix)) == ("erased", 1, {})


@pytest.mark.slow
def test_versions_of_a_held_table_stay(owner, prefix):
    """As its past does; those of others go."""
    for table in ("silver/held", "silver/held-not"):
        owner.put(f"{prefix}/{table}/part-0.parquet", parquet(user=[ADA]))
        owner.delete(f"{prefix}/{table}/part-0.parquet")
    place = erase_versions("lake", f"s3://{owner.bucket}/{prefix}", GONE, held=["silver/held"])
    assert (place.state, place.found) == ("held", 1)
    assert "kept of tables on legal hold or with a damaged log: 1 version with an id" in place.note
    assert hits(owner, prefix) == ["silver/held/part-0.parquet"]


@pytest.mark.slow
def test_what_the_server_refuses_is_open_with_the_reason(owner, prefix, monkeypatch):
    """A version that may not be read, a removal, and the list of all; no name that may hold an id is told."""
    for number in range(3):
        owner.put(f"{prefix}/of-{ADA}", f"{ADA} {number}".encode())
    location, before = f"s3://{owner.bucket}/{prefix}", owner.kept(prefix)

    def denied(*_):
        raise PermissionError(13, "the server refuses it (AccessDenied)", f"s3://lake/of-{ADA}")

    def lost(*_):
        raise ConnectionError(f"s3://lake/of-{ADA} was not served")

    said = {
        ("read", denied): "2 versions cannot be read: the server refuses it (AccessDenied)",
        ("remove", denied): "2 versions with an id cannot be removed: the server refuses it (AccessDenied)",
        ("pages", denied): "the server refuses it (AccessDenied)",
        ("read", lost): "was not served",
    }
    for (ask, answer), why in said.items():
        with monkeypatch.context() as patch:
            patch.setattr(NoncurrentVersions, ask, answer)
            place = erase_versions("lake", location, GONE)
        assert (place.state, place.found, why in place.note, ADA in place.note) == ("open", 0, True, False), place
    assert owner.kept(prefix) == before
    assert erase_versions("lake", location, GONE).found == 2


def test_numbers_add_up_over_runs():
    """The report at the end tells of all runs, whatever the last one found."""

    def place(state, *numbers):
        names = ("versions_searched", "versions_removed", "bytes_removed")
        figures = dict(zip(names, numbers, strict=True))
        return CasePlace("lake: versions of objects", "bucket", numbers[1], state, figures=figures)

    total = _total(place("open", 10, 3, 300), place("nothing", 8, 0, 0))
    assert (total.state, total.found) == ("erased", 3)
    assert total.figures == {"versions_searched": 18, "versions_removed": 3, "bytes_removed": 300}


@pytest.mark.parametrize(
    ("path", "content", "holds"),
    [
        ("t/part-0.parquet", parquet(user_id=[4710, 4711]), True),  # a short number, in its declared column
        ("t/part-0.parquet", parquet(n=[4711]), False),  # and in another one
        ("t/part-0.parquet", parquet(text=["to ada, again"]), True),  # a short id, as a word of a row
        ("t/part-0.parquet", parquet(text=["adamant"]), False),
        ("t/_delta_log/0.json", commit("ada"), True),
        ("visits/a.txt", b"to ada, again", False),  # as text it stands there by chance
        ("visits/a.jsonl", b'{"login": "ada"}\n', True),
        ("visits/a.csv", b"login;n\nada;1\n", True),
        ("t/part-0.parquet", b"PAR1 " + ADA.encode(), True),  # damaged
        ("t/part-0.parquet", b"PAR1 " + BOB.encode(), False),
        (
            "visits/a.csv",
            b"login;n\n" + b"x" * 200_000 + b" " + ADA.encode(),
            True,
        ),  # a field that no reader of CSV takes
    ],
)
def test_whether_a_file_holds_an_id_is_told_as_for_the_present_ones(path, content, holds):
    """By column, by word, by record, and as written in what cannot be read."""
    assert holds_ids(content, GONE, path=path) == holds
