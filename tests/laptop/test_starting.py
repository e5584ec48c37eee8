"""Start of a platform: counts of answering servers, and an estimate by the last start."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.laptop.starting import Startup

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_the_second_start_is_estimated_by_the_first(tmp_path):
    """Counts alone at first; then the seconds to go, until the start takes longer than the last one."""
    first = Startup(tmp_path, 3, NOON)
    assert [first.progress(2, after(5)), first.progress(0, after(40))] == ["1 of 3", "3 of 3"]
    second = Startup(tmp_path, 3, NOON)
    assert second.progress(2, after(5)) == "1 of 3, about 35 s left"
    assert second.progress(1, after(50)) == "2 of 3"
    assert second.progress(0, after(60)) == "3 of 3"
    assert Startup(tmp_path, 3, NOON).progress(2, after(0)) == "1 of 3, about 60 s left"


def test_a_server_that_answers_again_is_no_start(tmp_path):
    """What dies later is started again without a count, and changes no estimate."""
    start = Startup(tmp_path, 2, NOON)
    start.progress(0, after(10))
    assert (start.progress(1, after(900)), start.progress(0, after(950))) == ("", "")
    assert Startup(tmp_path, 2, NOON).progress(1, after(0)) == "1 of 2, about 10 s left"


@pytest.mark.parametrize("note", ["", "soon", None])
def test_a_note_that_cannot_be_read_is_no_estimate(tmp_path, note):
    """A start is not worth less for that, nor for a folder that takes no note."""
    folder = tmp_path / "logs"
    if note is not None:
        folder.mkdir()
        (folder / "start_seconds").write_text(note)
    start = Startup(folder, 2, NOON)
    assert [start.progress(1, after(5)), start.progress(0, after(9))] == ["1 of 2", "2 of 2"]
