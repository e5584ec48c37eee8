"""The home that a platform works in: held by one living process at a time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT, settings
from dedp_assets.graph.resources.home import Running, hold, running

MINE = Running(1, "2026-01-05 10:00:00", "http://127.0.0.1:3000", "sc://127.0.0.1:15002")
OTHER = """
import os, sys, time
from pathlib import Path
from dataclasses import replace
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.home import Running, hold

with hold(replace(settings(), home=Path(sys.argv[1])), Running(os.getpid(), "noon", "http://x", "sc://x")):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def chosen(tmp_path):
    """Settings with a home that is not there yet."""
    return replace(settings(), home=tmp_path / "home")


def test_who_holds_a_home_is_known_to_others_until_it_ends(chosen):
    """Before and afterwards nobody runs, and looking makes no home."""
    assert running(chosen) is None
    assert not chosen.home.exists()
    with hold(chosen, MINE):
        assert running(chosen) == MINE
        with (
            pytest.raises(ValueError, match=r"^this home is used by pid 1 since 2026-01-05 10:00:00 \("),
            hold(chosen, MINE),
        ):
            pass
        assert running(chosen) == MINE
    assert running(chosen) is None


@pytest.mark.slow
def test_a_home_is_free_once_its_process_is_dead(chosen):
    """However it died: what the file still says is no lock."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(chosen.home)], cwd=CHECKOUT, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        assert running(chosen) == Running(other.pid, "noon", "http://x", "sc://x")
        with pytest.raises(ValueError, match=f"used by pid {other.pid} since noon"), hold(chosen, MINE):
            pass
        other.kill()
    assert (chosen.home / "platform.lock").read_text() != ""
    assert running(chosen) is None
    with hold(chosen, MINE):
        assert running(chosen) == MINE
