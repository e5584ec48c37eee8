"""One writer per table: the lock holds between processes and dies with them."""

from __future__ import annotations

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.delta.locks import claim, is_claimed, table_lock
from resources.environments import CHECKOUT

HOLD = """
import sys
from pathlib import Path
from dedp_assets.patterns.delta.locks import table_lock
with table_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of ``tmp_path/events``."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "events")]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"held"
        yield process
        process.kill()


@pytest.mark.slow
def test_a_second_writer_gives_up_with_the_table_and_the_time_it_waited(holder, tmp_path):
    """A writer does not wait for ever, and a neighbouring table is free all the while."""
    with pytest.raises(Conflict, match=r"events is being written by another process for more than 0\.2 s"):  # noqa: SIM117
        with table_lock(tmp_path / "events", timeout_seconds=0.2):
            pytest.fail("two writers at once")
    with table_lock(tmp_path / "visits", timeout_seconds=0.2):
        assert holder.poll() is None


@pytest.mark.slow
def test_a_killed_writer_leaves_no_lock_behind(holder, tmp_path):
    """The operating system releases what a dead process held; nobody has to clean up."""
    holder.kill()
    holder.wait()
    with table_lock(tmp_path / "events", timeout_seconds=10):
        pass


def test_a_failed_write_releases_the_lock(tmp_path):
    """The next writer gets the table after an error."""
    with pytest.raises(ValueError, match="broken"), table_lock(tmp_path / "events"):
        raise ValueError("broken")
    with table_lock(tmp_path / "events", timeout_seconds=0.2):
        pass


def test_the_lock_lies_beside_the_table_and_not_in_it(tmp_path):
    """A lock creates no table folder, so it cannot be mistaken for one."""
    with table_lock(tmp_path / "silver" / "events"):
        assert not (tmp_path / "silver" / "events").exists()


def test_a_claim_lasts_until_it_is_released_or_forgotten(tmp_path):
    """Nobody has to remember to give it up, and looking at a claim neither takes nor makes one."""
    path = tmp_path / "events" / ".stage.claim"
    assert not is_claimed(path)
    assert not path.exists()
    held = claim(path)
    assert is_claimed(path)
    held.release()
    assert not is_claimed(path)
    forgotten = claim(path)
    assert is_claimed(path)
    del forgotten
    gc.collect()
    assert not is_claimed(path)


def test_a_claim_holds_in_every_thread(tmp_path):
    """The thread that looks need not be the one that claimed."""
    held = claim(tmp_path / ".stage.claim")
    with ThreadPoolExecutor() as pool:
        assert pool.submit(is_claimed, tmp_path / ".stage.claim").result()
        pool.submit(held.release).result()
    assert not is_claimed(tmp_path / ".stage.claim")
