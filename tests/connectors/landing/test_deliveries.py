"""Deliveries: what lies in a landing zone, and whether it may be read."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.landing.deliveries import MARKER, DeliveredFile, Delivery, Ends, delivery_at
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady


@pytest.fixture
def day(tmp_path):
    """A folder for one day's delivery."""
    folder = tmp_path / "2026-01-05"
    folder.mkdir()
    return folder


def deliver(day, marker="", **files):
    for name, text in files.items():
        (day / f"{name}.json").write_text(text)
    if marker is not None:
        (day / MARKER).write_text(marker if isinstance(marker, str) else json.dumps(marker))


def refused(day, error, words):
    delivery = delivery_at(day)
    with pytest.raises(error, match=words):
        delivery.require_ready()
    return delivery


def test_a_finished_delivery_may_be_read(day):
    """Files and a marker; hidden entries are no data."""
    deliver(day, a="1", b="22")
    (day / ".partial").write_text("x")
    (day / "_temporary").mkdir()
    delivery = delivery_at(day).require_ready()
    assert [(f.name, f.size_bytes) for f in delivery.files] == [("a.json", 1), ("b.json", 2)]
    assert (delivery.partition, delivery.strange, delivery.manifest) == ("2026-01-05", (), None)


def test_without_a_marker_the_producer_has_not_finished(day):
    """However complete the files look: come again later."""
    deliver(day, marker=None, a="1")
    refused(day, NotReady, "2026-01-05: 1 files but no _SUCCESS")


def test_a_folder_that_is_not_there_is_an_empty_delivery(tmp_path):
    """Not there yet is no error of the one who looks; the sentence names the folder."""
    folder = tmp_path / "2026-01-06"
    refused(folder, NotReady, f"2026-01-06: nothing has landed: put the files into {folder}, and _SUCCESS last")


def test_a_marker_over_nothing_is_a_contradiction(day):
    """An empty day has to be declared, otherwise it would empty the table by accident."""
    deliver(day)
    refused(day, ContractError, "_SUCCESS is there but no file")


def test_a_manifest_can_declare_an_empty_day(day):
    """A manifest that lists nothing says that nothing was to be delivered."""
    deliver(day, marker={"files": {}})
    assert delivery_at(day).require_ready().files == ()


def test_folders_among_the_files_are_refused(day):
    """What nobody expects there is named and not skipped."""
    deliver(day, a="1")
    (day / "more").mkdir()
    refused(day, ContractError, "holds what is no file: more \\(a folder\\)")


def test_a_link_to_nothing_holds_the_day_until_it_resolves(day):
    """A file that is only announced is not skipped: the day waits for it like for a folder that should be none."""
    deliver(day, a="1")
    (day / "b").symlink_to(day.parent / "later")
    refused(day, ContractError, "holds what is no file: b \\(a link to nothing\\)")
    (day.parent / "later").write_text("2")
    assert [file.name for file in delivery_at(day).require_ready().files] == ["a.json", "b"]


def test_a_link_to_itself_is_refused(day):
    """It is named like a link to nothing, and does not end the look at everything else."""
    deliver(day, a="1")
    (day / "_loop.json").symlink_to("_loop.json")
    assert delivery_at(day).refusal() == ""
    (day / "loop.json").symlink_to("loop.json")
    refused(day, ContractError, "holds what is no file: loop.json \\(a link to nothing\\)")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("b.jsonl.lz4", r"2026-01-05: b\.jsonl\.lz4 is a \.lz4 file by its name"),
        ("10:30.json", "10:30.json has a colon in its name"),
        ("_late.jsonl", "_late.jsonl has the name of a hidden file"),
        (".late.json.gz", "has the name of a hidden file"),
        ("_part-00001", "has the name of a hidden file"),
    ],
)
def test_a_file_that_its_name_keeps_from_engines_is_refused_unopened(day, name, words):
    """Neither skipped nor tried: what tools leave there (an empty marker, checksums, a schema) holds nobody up."""
    deliver(day, a="1")
    for beside in ("_started", ".a.json.crc", "_schema.json", "_manifest.json"):
        (day / beside).write_text("x")
    (day / "_empty.json").touch()
    assert len(delivery_at(day).require_ready().files) == 1
    (day / name).write_text("1")
    refused(day, ContractError, words)


def test_a_pipe_among_the_files_is_refused(day):
    """Whoever opened it would wait."""
    deliver(day, a="1")
    os.mkfifo(day / "pipe.json")
    refused(day, ContractError, "holds what is no file: pipe.json \\(no regular file\\)")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"a.json": 1, "b.json": 1}, "b.json is in the manifest but not in the folder"),
        ({"a.json": 5}, "a.json has 1 of the 5 bytes its manifest states"),
    ],
)
def test_files_that_fall_short_of_the_manifest_are_refused(day, stated, words):
    """A missing or truncated file is noticed without opening it."""
    deliver(day, marker={"files": stated}, a="1")
    refused(day, ContractError, words)


@pytest.mark.parametrize("marker", ["", "done", "[]", '{"count": 3}', '{"files": ["a.json"]}'])
def test_a_marker_that_lists_nothing_binds_nothing(day, marker):
    """Markers of producers without manifests are just markers."""
    deliver(day, marker=marker, a="1")
    assert delivery_at(day).require_ready().manifest is None


@pytest.mark.parametrize("size", ["many", None, [1]])
def test_a_manifest_with_senseless_sizes_breaks_its_contract(day, size):
    """The refusal is the library's own, so that it names the day and nobody retries in vain."""
    deliver(day, marker={"files": {"a.json": size}}, a="1")
    with pytest.raises(ContractError, match="2026-01-05"):
        delivery_at(day).require_ready()


def test_files_after_the_marker_are_late(day):
    """They are seen, and whoever cares can tell them from the announced ones."""
    deliver(day, a="1", b="2")
    for number, name in enumerate(["a.json", MARKER, "b.json"]):
        os.utime(day / name, ns=(number, number))
    assert [f.name for f in delivery_at(day).late] == ["b.json"]


@pytest.mark.parametrize("change", ["content", "touch", "add", "rename", "remove"])
def test_the_identity_changes_with_what_lies_there(day, change):
    """Looking twice gives the same identity; any change of the files gives another."""
    deliver(day, a="1", b="2")
    before = delivery_at(day).identity
    assert delivery_at(day).identity == before
    changes = {
        "content": lambda: (day / "a.json").write_text("333"),
        "touch": lambda: os.utime(day / "a.json", ns=(5, 5)),
        "add": lambda: (day / "c.json").write_text("3"),
        "rename": lambda: (day / "a.json").rename(day / "z.json"),
        "remove": (day / "a.json").unlink,
    }
    changes[change]()
    assert delivery_at(day).identity != before


files = st.builds(DeliveredFile, st.text("ab", min_size=1), st.integers(0, 3), st.integers(0, 3))


@given(st.lists(files, max_size=4, unique_by=lambda f: f.name), st.lists(files, max_size=4, unique_by=lambda f: f.name))
def test_equal_identities_hold_equal_files(these, those):
    """And the marker, which may be touched again, is not part of it."""
    one, other = Delivery("d", tuple(these)), Delivery("d", tuple(those), marker=DeliveredFile(MARKER, 0, 9))
    assert (one.identity == other.identity) is (these == those)


def test_a_marker_of_another_name_ends_a_delivery(day):
    """And is no data; the usual one is then any hidden file."""
    deliver(day, a="1", marker=None)
    ends = Ends("done.txt")
    assert "no done.txt" in delivery_at(day, ends).refusal()
    (day / "done.txt").touch()
    delivery = delivery_at(day, ends).require_ready()
    assert [file.name for file in delivery.files] == ["a.json"]


def test_files_that_have_rested_are_a_delivery_without_a_marker(day):
    """By the newest of them; an empty folder is none."""
    now = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
    ends = Ends(settled_minutes=5)
    assert "no file has landed" in delivery_at(day, ends, now=now).refusal()
    deliver(day, a="1", b="2", marker=None)
    for name, minutes in (("a.json", 60), ("b.json", 4)):
        at = (now - timedelta(minutes=minutes)).timestamp()
        os.utime(day / name, (at, at))
    assert "2 files that have not rested for 5 minutes" in delivery_at(day, ends, now=now).refusal()
    with pytest.raises(NotReady):
        delivery_at(day, ends).require_ready()
    later = delivery_at(day, ends, now=now + timedelta(minutes=1)).require_ready()
    assert len(later.files) == 2
    assert later.late == ()


@pytest.mark.parametrize("options", [{"marker": ""}, {"marker": "a/b"}, {"settled_minutes": -1.0}])
def test_a_sign_of_completeness_that_cannot_be_is_refused(options):
    """The option is named."""
    with pytest.raises(ConfigError, match=next(iter(options))):
        Ends(**options)
