"""One writer per table: the lock holds between processes and dies with them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.delta import store_at, table_lock
from dedp_assets.resources.environments import CHECKOUT

HOLD = """
import sys
from dedp_assets.patterns.delta import store_at
from dedp_assets.patterns.delta import table_lock
with table_lock(store_at(sys.argv[1])):
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
        with table_lock(store_at(tmp_path / "events"), timeout_seconds=0.2):
            pytest.fail("two writers at once")
    with table_lock(store_at(tmp_path / "visits"), timeout_seconds=0.2):
        assert holder.poll() is None


@pytest.mark.slow
def test_a_killed_writer_leaves_no_lock_behind(holder, tmp_path):
    """The operating system releases what a dead process held; nobody has to clean up."""
    holder.kill()
    holder.wait()
    with table_lock(store_at(tmp_path / "events"), timeout_seconds=10):
        pass


def test_a_failed_write_releases_the_lock(tmp_path):
    """The next writer gets the table after an error."""
    with pytest.raises(ValueError, match="broken"), table_lock(store_at(tmp_path / "events")):
        raise ValueError("broken")
    with table_lock(store_at(tmp_path / "events"), timeout_seconds=0.2):
        pass


def test_the_lock_lies_beside_the_table_and_not_in_it(tmp_path):
    """A lock creates no table folder, so it cannot be mistaken for one."""
    with table_lock(store_at(tmp_path / "silver" / "events")):
        assert not (tmp_path / "silver" / "events").exists()
