"""The landing zone: what is new is found without opening a file, what is equal is known by its bytes."""

from __future__ import annotations

import os

import pytest

from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns.connectors.landing import files
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.ingestion.readiness_marker import delivering

DAY = "2026-01-05"


@pytest.fixture
def zone(tmp_path):
    return Landing(root=str(tmp_path))


def deliver(zone, files, partition=DAY):
    """Deliver files and return the partition's content digest."""
    with delivering(zone.folder("visits", partition)) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return zone.content("visits", zone.delivery("visits", partition))


def set_time(path, seconds):
    os.utime(path, ns=(seconds * 10**9, seconds * 10**9))


def test_content_is_a_matter_of_names_and_bytes_not_of_time_or_place(zone):
    """The same files on another day, or written again, are the same content."""
    first = deliver(zone, {"a.jsonl": b"1\n", "b.jsonl": b"2\n"})
    assert deliver(zone, {"b.jsonl": b"2\n", "a.jsonl": b"1\n"}) == first
    assert deliver(zone, {"a.jsonl": b"1\n", "b.jsonl": b"2\n"}, "2026-01-06") == first


@pytest.mark.parametrize(
    "files",
    [
        {"a.jsonl": b"1\n", "b.jsonl": b"3\n"},
        {"a.jsonl": b"1\n", "c.jsonl": b"2\n"},
        {"a.jsonl": b"2\n", "b.jsonl": b"1\n"},
        {"a.jsonl": b"1\n"},
        {"a.jsonl": b"1\n", "b.jsonl": b"2\n", "c.jsonl": b""},
        {"a.jsonl": b"1\nb.jsonl2\n"},
        {},
    ],
    ids=["changed", "renamed", "swapped", "missing", "added", "glued", "empty"],
)
def test_any_difference_in_names_or_bytes_is_another_content(zone, files):
    """A file changed, renamed, exchanged, missing, added or joined with its neighbour is not the same delivery."""
    assert deliver(zone, files, "2026-01-06") != deliver(zone, {"a.jsonl": b"1\n", "b.jsonl": b"2\n"})


def test_the_marker_and_hidden_files_are_not_content(zone):
    """Only data counts: what a tool leaves beside it does not make a day look new."""
    first = deliver(zone, {"a.jsonl": b"1\n"})
    (zone.folder("visits", DAY) / ".a.jsonl.crc").write_bytes(b"x")
    (zone.folder("visits", DAY) / "_started").touch()
    (zone.folder("visits", DAY) / "_SUCCESS").write_text("")
    assert zone.content("visits", zone.delivery("visits", DAY)) == first


def test_a_dataset_without_partitions_lies_in_its_own_folder(zone):
    """The devices reference is found where it is delivered."""
    with delivering(zone.folder("devices")) as folder:
        (folder / "devices.jsonl").write_bytes(b"{}\n")
    assert zone.paths("devices", zone.delivery("devices")) == [folder / "devices.jsonl"]


@pytest.mark.parametrize("ask", ["paths", "content"])
@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"1\n2\n"),
        lambda path: (path.write_bytes(b"2\n"), set_time(path, 100)),
        lambda path: path.unlink(),
    ],
    ids=["grown", "rewritten", "gone"],
)
def test_a_delivery_that_is_no_longer_as_it_was_looked_at_is_not_read(zone, change, ask):
    """What the run says that it read is what it read; a file that came since is none of its business."""
    deliver(zone, {"a.jsonl": b"1\n", "b.jsonl": b"2\n"})
    record_struct = zone.delivery("visits", DAY)
    (zone.folder("visits", DAY) / "c.jsonl").write_bytes(b"3\n")
    assert [path.name for path in zone.paths("visits", record_struct)] == ["a.jsonl", "b.jsonl"]
    change(zone.folder("visits", DAY) / "a.jsonl")
    with pytest.raises(NotReady, match=r"2026-01-05: a\.jsonl changed while it was looked at: run again"):
        getattr(zone, ask)("visits", record_struct)


def test_only_partitions_touched_since_a_time_are_found(zone):
    """A new folder and a changed marker are seen; what lay there before is not looked at again."""
    for name, seconds in (("2026-01-05", 100), ("2026-01-06", 200), ("2026-01-07", 300)):
        deliver(zone, {"a.jsonl": b"1\n"}, name)
        set_time(zone.folder("visits", name) / "_SUCCESS", seconds)
        set_time(zone.folder("visits", name), seconds)
    assert dict(zone.touched("visits", since_ns=200 * 10**9)) == {
        "2026-01-06": 200 * 10**9,
        "2026-01-07": 300 * 10**9,
    }
    set_time(zone.folder("visits", "2026-01-05") / "_SUCCESS", 400)
    assert dict(zone.touched("visits", since_ns=301 * 10**9)) == {"2026-01-05": 400 * 10**9}
    deliver(zone, {"late.jsonl": b"2\n"}, "2026-01-06")
    assert {"2026-01-06"} == {name for name, _ in zone.touched("visits", since_ns=500 * 10**9)}


def test_a_marker_rewritten_where_it_lies_is_seen_in_the_newest_partitions_only(zone, monkeypatch):
    """Of the older ones a changed folder tells: a tick over many years costs one look at each."""
    monkeypatch.setattr("dedp_assets.graph.resources.landing._MARKERS", 1)
    for name in ("2026-01-05", "2026-01-06", "2026-01-07"):
        deliver(zone, {"a.jsonl": b"1\n"}, name)
        set_time(zone.folder("visits", name) / "_SUCCESS", 400)
        set_time(zone.folder("visits", name), 100)
    set_time(zone.folder("visits", "2026-01-05"), 300)
    assert dict(zone.touched("visits", since_ns=200 * 10**9)) == {
        "2026-01-05": 300 * 10**9,
        "2026-01-07": 400 * 10**9,
    }


def test_a_folder_without_a_marker_is_found_and_files_and_hidden_folders_are_not(zone, tmp_path):
    """What is no partition is not reported as one; a zone that does not exist yet is empty."""
    assert list(zone.touched("visits", since_ns=0)) == []
    for name in (DAY, ".draft", "_tmp"):
        (tmp_path / "visits" / name).mkdir(parents=True)
    (tmp_path / "visits" / "README").touch()
    assert [name for name, _ in zone.touched("visits", since_ns=0)] == [DAY]


def test_one_object_is_a_complete_delivery(zone):
    """What an event names is read alone, whatever lies beside it, under its own content digest."""
    folder = zone.folder("device_releases", "2026")
    folder.mkdir(parents=True)
    (folder / "v 7+.jsonl").write_bytes(b"7\n")
    (folder / "v8.jsonl").write_bytes(b"8\n")
    named = zone.object("device_releases", "device_releases/2026/v 7+.jsonl")
    assert named.refusal() == ""
    assert [path.read_bytes() for path in zone.paths("device_releases", named)] == [b"7\n"]
    other = zone.object("device_releases", "device_releases/2026/v8.jsonl")
    assert zone.content("device_releases", named) != zone.content("device_releases", other)
    assert named.identity != other.identity


@pytest.mark.parametrize(
    "key", ["visits/a.jsonl", "device_releases/../visits/a.jsonl", "../a.jsonl", "device_releases"]
)
def test_an_object_elsewhere_is_refused(zone, key):
    """An event cannot make a pipeline read another dataset, or anything outside the landing zone."""
    deliver(zone, {"a.jsonl": b"1\n"})
    with pytest.raises(ContractError, match="does not lie in device_releases/"):
        zone.object("device_releases", key)


def test_an_object_by_a_link_out_of_the_zone_is_refused(zone, tmp_path):
    """What counts is where the bytes lie."""
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_bytes(b"x")
    zone.folder("device_releases").mkdir(parents=True)
    (zone.folder("device_releases") / "link.jsonl").symlink_to(secret)
    with pytest.raises(ContractError, match="does not lie in device_releases/"):
        zone.object("device_releases", "device_releases/link.jsonl")


def test_an_object_that_is_not_there_yet_may_come(zone):
    """The event was faster than its object: worth another attempt."""
    with pytest.raises(NotReady, match=r"device_releases/v7\.jsonl is not in the landing zone"):
        zone.object("device_releases", "device_releases/v7.jsonl")


def test_a_line_that_is_too_long_is_refused_by_its_file(zone, monkeypatch):
    """Before any engine reads it; lines of the longest length pass, wherever the pieces that are read begin."""
    monkeypatch.setattr(files, "_CHUNK", 8)
    monkeypatch.setattr(files, "LONGEST_LINE", 20)
    assert deliver(zone, {"a.jsonl": b"x" * 20 + b"\n" + b"y" * 20})
    for content in (b"x" * 21 + b"\n", b"x\n" + b"y" * 21, b"x" * 40):
        with pytest.raises(
            ContractError, match=f"{DAY}: a.jsonl has a line of more than 0 MiB: deliver it with a line"
        ):
            deliver(zone, {"a.jsonl": content})


def test_a_dataset_may_lie_anywhere(zone, tmp_path):
    """By an absolute path, with partitions or without."""
    there = tmp_path / "elsewhere" / "orders"
    (there / "2026-01-05").mkdir(parents=True)
    (there / "2026-01-05" / "a.json").write_text("1\n")
    (there / "2026-01-05" / "_SUCCESS").touch()
    delivery = zone.delivery(str(there), "2026-01-05").require_ready()
    assert zone.paths(str(there), delivery) == [there / "2026-01-05" / "a.json"]
    assert [name for name, _ in zone.touched(str(there), since_ns=0)] == ["2026-01-05"]
    (there / "b.json").write_text("1\n")
    whole = zone.delivery(str(there / "2026-01-05")).require_ready()
    assert zone.paths(str(there / "2026-01-05"), whole) == [there / "2026-01-05" / "a.json"]
    assert zone.stray(str(there)) == ["b.json"]


def test_the_bytes_of_a_parquet_file_are_its_content(zone, tmp_path):
    """Which has no lines to count."""
    day = zone.folder("orders", "2026-01-05")
    day.mkdir(parents=True)
    (day / "_SUCCESS").touch()
    (day / "a.parquet").write_bytes(b"PAR1 one")
    before = zone.content("orders", zone.delivery("orders", "2026-01-05"))
    (day / "a.parquet").write_bytes(b"PAR1 two")
    delivery = zone.delivery("orders", "2026-01-05")
    assert zone.content("orders", delivery) != before
    assert zone.holds("orders", delivery, zone.content("orders", delivery))


def test_folders_of_partitions_may_be_called_otherwise(zone):
    """By the place of the key in the last name; what is called in another way is told by its whole name."""
    dataset = "orders/date={partition}.d"
    for name in ("date=2026-01-05.d", "other"):
        (zone.folder("orders") / name).mkdir(parents=True)
        (zone.folder("orders") / name / "a.json").write_text("1\n")
        (zone.folder("orders") / name / "_SUCCESS").touch()
    delivery = zone.delivery(dataset, "2026-01-05").require_ready()
    assert delivery.partition == "2026-01-05"
    assert zone.paths(dataset, delivery) == [zone.folder("orders") / "date=2026-01-05.d" / "a.json"]
    assert {name for name, _ in zone.touched(dataset, since_ns=0)} == {"2026-01-05", "other"}
    assert zone.stray(dataset) == []
    assert zone.written(dataset, delivery) > 0
    assert zone.content(dataset, delivery)
