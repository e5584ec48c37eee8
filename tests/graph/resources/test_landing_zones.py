"""Landing zones of both kinds, a folder and a prefix of a bucket: one suite, and the same findings."""

from __future__ import annotations

import gzip
import json
import pickle
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from time import sleep

import pytest
from pyarrow.fs import S3FileSystem

from dedp_assets.case_study.defs.bronze import visits
from dedp_assets.graph.reconcile.arrivals import Arrivals
from dedp_assets.graph.reconcile.watching import TableWatch
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns.connectors.encoding.avro_files import open_avro
from dedp_assets.patterns.connectors.encoding.formats import Csv, Json
from dedp_assets.patterns.connectors.encoding.json_files import json_texts_of
from dedp_assets.patterns.connectors.encoding.parquet_files import open_parquet
from dedp_assets.patterns.connectors.landing.deliveries import Ends, delivery_at
from dedp_assets.patterns.connectors.landing.file_audits import FileAudit, audit_files
from dedp_assets.patterns.connectors.landing.file_columns import columns_of_file
from dedp_assets.patterns.connectors.landing.files import count_lines
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.delta.storage import object_path
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.delta.storage.s3_bucket import Bucket

DAY, NEXT = "2026-01-05", "2026-01-06"
NAMES = ["a b.jsonl", "50%25 ü.jsonl", "day=1.jsonl", "c [1].jsonl"]

STORES = {
    "folder": lambda request: LocalStore(str(request.getfixturevalue("tmp_path") / "landing")),
    "bucket": lambda request: request.getfixturevalue("bucket_store"),
}


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.slow)])
def store(request):
    """An empty place of each kind."""
    return STORES[request.param](request)


@pytest.fixture
def zone(store):
    """The landing zone there."""
    return Landing(root=store.address)


def put(store, files, folder=f"visits/{DAY}", *, marker=b""):
    """Put files and then a marker, as a source system does."""
    for name, content in files.items():
        store.put(f"{folder}/{name}", content)
    if marker is not None:
        store.put(f"{folder}/_SUCCESS", marker)


def bytes_of(path):
    """The content of a file, read in the way that is common to both kinds."""
    with path.open("rb") as file:
        return file.read()


def put_later(store, name, content):
    """Put a file of the day again until its time is after the marker's: a bucket tells seconds."""
    path, marker = f"visits/{DAY}/{name}", store.entry(f"visits/{DAY}/_SUCCESS").modified_ns
    store.put(path, content)
    while store.entry(path).modified_ns <= marker:
        sleep(0.1)
        store.put(path, content)


@pytest.fixture
def requests(monkeypatch):
    """The number of requests to buckets from now on, by what they ask."""
    sent = Counter()
    for name in ("read", "read_range", "head", "below", "first", "inside", "put", "delete"):
        asked = getattr(Bucket, name)
        monkeypatch.setattr(Bucket, name, lambda *of, _n=name, _a=asked: (sent.update([_n]), _a(*of))[1])
    return sent


def test_a_delivery_is_incomplete_without_a_marker_and_complete_with_one(store, zone):
    """A marker is a marker, in a bucket too; the partition shows as touched both times."""
    assert zone.delivery("visits", DAY).refusal().startswith(f"nothing has landed: put the files into {store.address}/")
    assert list(zone.touched("visits", since_ns=0)) == []
    put(store, {"a.jsonl": b"1\n2\n"}, marker=None)
    with pytest.raises(NotReady, match="2026-01-05: 1 files but no _SUCCESS"):
        zone.delivery("visits", DAY).require_ready()
    assert [name for name, _ in zone.touched("visits", since_ns=0)] == [DAY]
    put(store, {})
    delivery = zone.delivery("visits", DAY).require_ready()
    assert [(file.name, file.size_bytes) for file in delivery.files] == [("a.jsonl", 4)]
    assert [bytes_of(path) for path in zone.paths("visits", delivery)] == [b"1\n2\n"]
    assert zone.written("visits", delivery) > 0
    assert delivery_at(zone.folder("visits", DAY)).identity == delivery.identity


def test_a_delivery_that_ends_by_rest(store, zone):
    """Its files have to be left alone for so long, by their own times."""
    ends = Ends(settled_minutes=5)
    put(store, {"a.jsonl": b"1\n"}, marker=None)
    written = datetime.fromtimestamp(store.entry(f"visits/{DAY}/a.jsonl").modified_ns / 1e9, timezone.utc)
    early, late = (written + timedelta(minutes=minutes) for minutes in (4, 6))
    assert "have not rested for 5 minutes" in zone.delivery("visits", DAY, ends=ends, now=early).refusal()
    assert zone.delivery("visits", DAY, ends=ends, now=late).refusal() == ""


def test_a_file_after_the_marker_is_late(store, zone):
    """It is part of another delivery of the day, which is touched since then."""
    put(store, {"a.jsonl": b"1\n"})
    before = zone.delivery("visits", DAY)
    put_later(store, "late.jsonl", b"2\n")
    delivery = zone.delivery("visits", DAY).require_ready()
    assert [file.name for file in delivery.late] == ["late.jsonl"]
    assert delivery.identity != before.identity
    assert [path.name for path in zone.paths("visits", before)] == ["a.jsonl"]
    late = store.entry(f"visits/{DAY}/late.jsonl").modified_ns
    assert [name for name, _ in zone.touched("visits", since_ns=late)] == [DAY]


def test_the_same_bytes_again_are_the_same_content_and_other_bytes_another_one(store, zone):
    """Other bytes in the same second and of the same size are no longer the delivery that was looked at."""
    put(store, {"a.jsonl": b"1\n", "b.jsonl": b"3\n"})
    first = zone.delivery("visits", DAY)
    content = zone.content("visits", first)
    put(store, {"b.jsonl": b"3\n", "a.jsonl": b"1\n"})
    again = zone.delivery("visits", DAY)
    assert zone.content("visits", again) == content
    assert zone.holds("visits", again, content)
    put(store, {"a.jsonl": b"2\n"})
    with pytest.raises(NotReady, match=r"2026-01-05: a\.jsonl changed while it was looked at: run again"):
        zone.paths("visits", again)
    assert zone.delivery("visits", DAY).identity != again.identity
    assert not zone.holds("visits", zone.delivery("visits", DAY), content)
    store.delete(f"visits/{DAY}/a.jsonl")
    with pytest.raises(NotReady, match="changed while it was looked at"):
        zone.content("visits", zone.delivery("visits", DAY) and again)


def test_equal_files_have_equal_content_in_a_folder_and_elsewhere(store, zone, tmp_path):
    """The digest of a commit holds wherever the landing zone is moved to."""
    files = dict.fromkeys(NAMES, b"1\n") | {"z.jsonl.gz": gzip.compress(b"2\n", mtime=0), "p.parquet": b"PAR1 one"}
    put(store, files)
    other = LocalStore(str(tmp_path / "other"))
    put(other, files)
    moved = Landing(root=other.address)
    assert zone.content("visits", zone.delivery("visits", DAY)) == moved.content(
        "visits", moved.delivery("visits", DAY)
    )


def test_files_in_no_partition_are_stray(store, zone):
    """Data beside the partitions is named; other names, hidden ones and folders are not."""
    for name in ("b.jsonl", "a.csv", "README", "_SUCCESS", f"{DAY}/c.jsonl", "d.json/e.json"):
        store.put(f"visits/{name}", b"1\n")
    assert zone.stray("visits") == ["a.csv", "b.jsonl"]
    assert zone.stray("visits", Ends(exclude=["*.csv"])) == ["b.jsonl"]
    assert zone.stray("orders") == []
    assert {name for name, _ in zone.touched("visits", since_ns=0)} == {DAY, "d.json"}


def test_an_empty_delivery_has_to_be_declared(store, zone):
    """By a manifest; a marker over nothing is a contradiction."""
    put(store, {})
    with pytest.raises(ContractError, match="_SUCCESS is there but no file"):
        zone.delivery("visits", DAY).require_ready()
    put(store, {}, marker=b'{"files": {}}')
    delivery = zone.delivery("visits", DAY).require_ready()
    assert (delivery.files, zone.paths("visits", delivery), zone.written("visits", delivery)) == ((), [], 0)
    assert zone.content("visits", delivery) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_manifest_is_held_against_the_files(store, zone):
    """A file that is too short or not there is a contradiction, until the files or the marker are delivered again."""
    put(store, {"a.jsonl": b"1\n"}, marker=json.dumps({"files": {"a.jsonl": 2, "b.jsonl": 4}}).encode())
    assert zone.delivery("visits", DAY).refusal() == "b.jsonl is in the manifest but not in the folder"
    put(store, {"b.jsonl": b"2\n"}, marker=None)
    assert zone.delivery("visits", DAY).refusal() == "b.jsonl has 2 of the 4 bytes its manifest states"
    put(store, {}, marker=b'{"files": {"b.jsonl": 2}}')
    assert zone.delivery("visits", DAY).refusal() == ""
    put(store, {}, marker=b'{"files')
    assert "_SUCCESS begins like a manifest and is none" in zone.delivery("visits", DAY).refusal()


def test_names_with_blanks_signs_and_umlauts(store, zone):
    """Partitions may be called otherwise, and files have the names that they landed under."""
    dataset = "orders ü/date={partition} %"
    put(store, {name: name.encode() + b"\n" for name in NAMES}, f"orders ü/date={DAY} %")
    put(store, {"x.jsonl": b"1\n"}, "orders ü/other")
    delivery = zone.delivery(dataset, DAY).require_ready()
    assert (delivery.partition, sorted(file.name for file in delivery.files)) == (DAY, sorted(NAMES))
    for path in zone.paths(dataset, delivery):
        assert bytes_of(path) == path.name.encode() + b"\n"
        assert (path.suffix, count_lines(path)) == (".jsonl", 1)
    assert {name for name, _ in zone.touched(dataset, since_ns=0)} == {DAY, "other"}
    assert zone.stray(dataset) == []
    (again,) = zone.deliveries(dataset, [DAY])
    assert again == delivery


def test_what_is_no_data_file_is_named(store, zone):
    """Folders among the files, and data that its name hides from engines; what tools leave is passed over."""
    put(store, {"a.jsonl": b"1\n", "more/b.jsonl": b"1\n", "_temporary/0/c.jsonl": b"1\n"})
    assert zone.delivery("visits", DAY).refusal() == "holds what is no file: more (a folder)"
    assert zone.delivery("visits", DAY, ends=Ends(exclude=["more"])).refusal() == ""
    put(store, {"_d.jsonl": b"1\n"})
    delivery = zone.delivery("visits", DAY, ends=Ends(exclude=["more"]))
    assert delivery.refusal().startswith("_d.jsonl has the name of a hidden file")


def test_a_dataset_without_partitions_is_one_delivery(store, zone):
    """Its files lie directly in its folder."""
    put(store, {"devices.jsonl": b"{}\n"}, "devices")
    delivery = zone.delivery("devices").require_ready()
    assert delivery.partition == "devices"
    assert [bytes_of(path) for path in zone.paths("devices", delivery)] == [b"{}\n"]
    assert list(zone.deliveries("devices", [""])) == [delivery]


def test_an_object_that_an_event_names(store, zone):
    """It is read alone; one elsewhere is refused, and one that is not there may come."""
    store.put("releases/2026/v 7+.jsonl", b"7\n")
    store.put("releases/2026/v8.jsonl", b"8\n")
    named = zone.object("releases", "releases/2026/v 7+.jsonl")
    assert (named.refusal(), [file.name for file in named.files]) == ("", ["2026/v 7+.jsonl"])
    assert [bytes_of(path) for path in zone.paths("releases", named)] == [b"7\n"]
    assert named.identity != zone.object("releases", "releases/2026/v8.jsonl").identity
    for key in ("visits/a.jsonl", "releases/../visits/a.jsonl", "../a.jsonl", "releases", "/releases/2026/v8.jsonl"):
        with pytest.raises(ContractError, match="does not lie in releases/"):
            zone.object("releases", key)
    with pytest.raises(NotReady, match=r"releases/v9\.jsonl is not in the landing zone"):
        zone.object("releases", "releases/v9.jsonl")


def test_several_deliveries_are_what_each_is_alone(store, zone):
    """In the order of the question, with those that are not there."""
    put(store, {"a.jsonl": b"1\n"}, marker=b'{"files": {"a.jsonl": 2}}')
    put(store, {"b.jsonl": b"1\n"}, f"visits/{NEXT}", marker=None)
    keys = [NEXT, "2026-01-07", DAY]
    found = list(zone.deliveries("visits", keys))
    assert found == [zone.delivery("visits", key) for key in keys]
    assert [(each.partition, bool(each.absent)) for each in found] == list(zip(keys, [False, True, False], strict=True))
    assert list(zone.deliveries("visits", [])) == []


def test_a_dataset_may_lie_in_a_folder_of_its_own(store, zone, tmp_path):
    """An absolute path is one of this machine, beside a landing zone of any kind."""
    there = LocalStore(str(tmp_path / "elsewhere"))
    put(there, {"a.jsonl": b"1\n"})
    dataset = f"{there.root}/visits"
    delivery = zone.delivery(dataset, DAY).require_ready()
    assert zone.paths(dataset, delivery) == [Path(there.root, "visits", DAY, "a.jsonl")]
    assert [name for name, _ in zone.touched(dataset, since_ns=0)] == [DAY]


def test_audits_judge_the_files_of_a_delivery(store, zone):
    """By their content, and with the same sentences."""
    put(store, {"a.csv": b"id,name\n1,Ada\n", "b.csv": b"id\n", "c.csv.gz": gzip.compress(b"id\n")[:-3]})
    paths = zone.paths("visits", zone.delivery("visits", DAY))
    found = audit_files(paths, FileAudit(format=Csv(), columns=["id", "name"]), announced={"a.csv": 2})
    assert [finding.note for finding in found] == [
        "", "c.csv.gz is damaged: its gzip data ends early or is not as written", "b.csv has no column name",
        "a.csv has 1 of 2 announced records",
    ]  # fmt: skip


# --- of a bucket alone ------------------------------------------------------------------------------------------------


@pytest.fixture
def bucket_zone(bucket_store):
    """A landing zone in a bucket."""
    return Landing(root=bucket_store.uri)


@pytest.mark.slow
def test_marks_of_folders_are_no_files(bucket_store, bucket_zone, object_store):
    """Hadoop's tools and consoles leave empty objects whose keys end with a slash."""
    place = {"endpoint_override": f"127.0.0.1:{object_store.port}", "scheme": "http", "region": "us-east-1"}
    key, secret = object_store.secrets
    system = S3FileSystem(access_key=key, secret_key=secret, **place)
    put(bucket_store, {"a.jsonl": b"1\n", "empty.jsonl": b""})
    for name in ("visits/part-1.jsonl", f"visits/{DAY}/_temporary", f"visits/{DAY}"):
        system.create_dir(f"{bucket_store.bucket}/{bucket_store.root}/{name}")
    assert bucket_zone.stray("visits") == []
    delivery = bucket_zone.delivery("visits", DAY).require_ready()
    assert [file.name for file in delivery.files] == ["a.jsonl", "empty.jsonl"]
    system.create_dir(f"{bucket_store.bucket}/{bucket_store.root}/visits/{DAY}/more")
    assert bucket_zone.delivery("visits", DAY).refusal() == "holds what is no file: more (a folder)"


@pytest.mark.slow
def test_the_path_of_an_object_travels_to_a_task(object_store, bucket_store, bucket_zone):
    """Pickled with what was seen of the object; it holds no secret, and large objects are read in parts."""
    content = b"x" * 79 + b"\n"
    put(bucket_store, {"a.jsonl": content * 100_000, "b.jsonl": content})
    paths = bucket_zone.paths("visits", bucket_zone.delivery("visits", DAY))
    sent = pickle.dumps(paths)
    assert object_store.secrets[1].encode() not in sent
    arrived = pickle.loads(sent)  # noqa: S301 - the bytes of a moment ago
    assert (arrived, [count_lines(path) for path in arrived]) == (paths, [100_000, 1])
    with arrived[0].open() as file:
        file.seek(-80, 2)
        assert (file.read(), file.tell()) == (content, 8_000_000)
    assert str(arrived[1]) == f"{bucket_store.address}/visits/{DAY}/b.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("whole", [1 << 20, 1], ids=["whole", "in parts"])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.csv.gz", count_lines),
        ("a.parquet", open_parquet),
        ("a.parquet", columns_of_file),
        ("a.avro", open_avro),
        ("a.json", lambda path: list(json_texts_of(path, Json()))),
    ],
)
def test_a_server_that_does_not_answer_is_not_taken_for_a_damaged_file(
    bucket_store, bucket_zone, monkeypatch, name, read, whole
):
    """The read is tried again later, and the delivery is not refused for good."""
    put(bucket_store, {name: b"any content"})
    (path,) = bucket_zone.paths("visits", bucket_zone.delivery("visits", DAY))

    def unanswered(*_):
        raise ConnectionError("gone")

    monkeypatch.setattr(object_path, "_PIECE", whole)
    for way in ("read", "read_range", "read_end"):
        monkeypatch.setattr(Bucket, way, unanswered)
    with pytest.raises(ConnectionError, match="gone"):
        read(path)


@pytest.mark.slow
def test_a_look_sends_as_many_requests_for_300_partitions_as_for_three(
    bucket_store, bucket_zone, requests, monkeypatch
):
    """Of the dataset alone; each manifest is read once more, by the first look at it."""
    monkeypatch.setattr(Arrivals, "_days", lambda _self, names, _now: sorted(names))
    now = datetime(2026, 1, 20, tzinfo=timezone.utc)
    cost = {}
    for count, dataset in ((3, "few"), (300, "many")):
        first = datetime(2025, 3, 1, tzinfo=timezone.utc)
        days = [f"{first + timedelta(days=n):%Y-%m-%d}" for n in range(count)]
        for day in days:
            marker = b'{"files": {"a.jsonl": 2}}' if dataset == "many" else b""
            put(bucket_store, {"a.jsonl": b"1\n"}, f"{dataset}/{day}", marker=marker)
        watch, looks = TableWatch(visits.visits.spec, column="landed_on", loads=True), []
        arrivals = Arrivals(dataset, "job", visits.visits)
        for _ in range(2):
            requests.clear()
            plan = arrivals.poll(bucket_zone, watch, (), now, thorough=True)
            looks.append(dict(requests))
        cost[dataset] = looks
        assert not plan.held
    assert cost["few"] == [{"below": 2, "inside": 1}] * 2
    assert cost["many"] == [{"below": 2, "inside": 1, "read": 300}, {"below": 2, "inside": 1}]
