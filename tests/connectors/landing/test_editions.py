"""Replacing a folder whole: the former one or the next, never a mix and never nothing."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import sleep

import pytest

from dedp_assets.patterns.connectors.landing.editions import current, next_edition
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import folder_at


@pytest.fixture
def target(tmp_path):
    """A folder to replace, below a folder that is not there yet."""
    return tmp_path / "staging" / "devices"


def put(target, *words, **options):
    """An edition with one file per word."""
    with next_edition(folder_at(target), **options) as made:
        for word in words:
            (folder(made.files) / word).write_text(word)
    return made


def folder(store):
    return Path(store.root)


def names(place):
    return sorted(path.name for path in place.iterdir())


def test_the_former_edition_shows_until_the_next_one_is_complete(target):
    """Nobody sees an edition that is being filled."""
    put(target, "old")
    with next_edition(folder_at(target)) as made:
        (folder(made.files) / "new").write_text("new")
        assert names(target) == ["old"]
    assert names(target) == ["new"]
    assert current(folder_at(target)) == made


def test_an_edition_that_fails_leaves_the_former_one_and_no_trace(target):
    """Also if it is the first, and also if the process is asked to stop."""

    def fail(failure):
        with next_edition(folder_at(target)) as made:
            (folder(made.files) / "half").write_text("ha")
            raise failure

    for failure in (OSError("disk full"), SystemExit("stopped"), KeyboardInterrupt()):
        with pytest.raises(type(failure)):
            fail(failure)
        assert (current(folder_at(target)), names(target.parent)) == (None, [])
    kept = put(target, "old")
    with pytest.raises(OSError, match="disk full"):
        fail(OSError("disk full"))
    assert (names(target), names(target.parent)) == (["old"], [kept.home.name, "devices"])


def test_what_a_killed_process_left_is_removed_by_the_next(target):
    """Half an edition is nobody's; other folders beside it are left alone, even with a similar name."""
    put(target, "old")
    left = target.parent / ".devices.edition-dead"
    (left / "files").mkdir(parents=True)
    (left / "files" / "half").write_text("ha")
    other = target.parent / ".devices.editions.lock"
    other.write_text("")
    (target.parent / ".devices2.edition-1").mkdir()
    put(target, "new")
    assert not left.exists()
    assert {".devices2.edition-1", other.name} <= set(names(target.parent))


def test_readers_of_the_former_edition_have_until_the_next_replacement(target):
    """Unless it must not stay: then it is gone at once."""
    first = put(target, "1")
    second = put(target, "2")
    assert names(folder(first.files)) == ["1"]
    third = put(target, "3")
    assert not folder(first.home).exists()
    assert names(folder(second.files)) == ["2"]
    put(target, "4", keep_former=False)
    assert not folder(second.home).exists()
    assert not folder(third.home).exists()
    assert names(target) == ["4"]


def test_a_reader_never_finds_nothing(target):
    """Whoever looks while an edition is replaced finds the former one or the next, complete."""
    put(target, "a0", "b0")
    done, seen = Event(), []

    def look():
        while not done.is_set():
            with os.scandir(target) as found:
                seen.append(tuple(sorted(entry.name for entry in found)))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for number in range(1, 40):
            put(target, f"a{number}", f"b{number}")
            looked = len(seen)
            while len(seen) == looked and not looking.done():
                sleep(0)
        done.set()
        looking.result()
    assert set(seen) <= {(f"a{n}", f"b{n}") for n in range(40)}
    assert len(set(seen)) > 30


def test_what_is_no_replica_is_never_replaced(target):
    """Neither a folder with data of its own nor somebody else's link."""
    target.mkdir(parents=True)
    (target / "own").write_text("own")
    with pytest.raises(ConfigError, match="holds data of its own"):
        put(target, "new")
    assert names(target) == ["own"]
    linked = target.with_name("linked")
    linked.symlink_to("devices")
    with pytest.raises(ConfigError, match="is a link to devices"):
        put(linked, "new")
    assert names(linked) == ["own"]


def test_a_link_into_nothing_is_replaced(target):
    """If somebody removed the edition, there is none."""
    made = put(target, "old")
    (folder(made.files) / "old").unlink()
    folder(made.files).rmdir()
    assert current(folder_at(target)) is None
    put(target, "new")
    assert names(target) == ["new"]


def test_replicas_can_be_moved_with_their_folder(target, tmp_path):
    """The link says where the edition is from where it stands."""
    put(target, "old")
    moved = target.parent.rename(tmp_path / "elsewhere") / "devices"
    assert names(moved) == ["old"]
