"""Writers of one table: a lock that holds between processes and dies with them, or commits that nobody writes over."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Operation, Table, commit_actions, in_turn, store_at, table_lock
from dedp_assets.patterns.delta.maintenance.abandoned import remove_stages
from dedp_assets.patterns.delta.maintenance.vacuum import remove_unneeded
from dedp_assets.patterns.delta.staging.stages import new_stage
from dedp_assets.patterns.delta.storage.coordination import turn
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import claim_late_partitions
from tests.helpers import NOW, a_run, write_log

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


# --- a store without locks --------------------------------------------------------------------------------------------


def without_locks(folder):
    """A store that can do no more than put a file if it is absent."""
    return LocalStore(str(folder), can=frozenset({"put_if_absent"}))


def move(ledger, state, cursors, note):
    """Move cursors in a commit that was decided on at a state."""
    commit_actions(ledger.store, state, record=note, operation=Operation("WRITE"), transactions=cursors, appends=True)


@pytest.mark.parametrize("can", [{"put_if_absent"}, {"put_if_absent", "lock"}], ids=["optimistic", "locked"])
def test_of_many_writers_each_commits_once_and_none_over_another(tmp_path, can):
    """Ten writers count up one cursor in their turns: what each has read is still true when it commits."""
    write_log(tmp_path / "events", {"id": "long"}, [], [])
    store = LocalStore(str(tmp_path / "events"), can=frozenset(can))

    def count_up():
        ledger = Ledger(store)
        state = ledger.state()
        move(ledger, state, {"counter": (state.transaction("counter") or 0) + 1}, "count")

    def until_done(_):
        while True:
            try:
                return in_turn(store, count_up)
            except Conflict:
                continue

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(until_done, range(10)))
    ledger = Ledger(store)
    assert ledger.state().transaction("counter") == 10
    assert ledger.version() == 10


def test_a_writer_that_was_overtaken_decides_again(tmp_path):
    """What it decided on is not committed over what the other one did."""
    write_log(tmp_path / "events", {"id": "long"}, [], [])
    store, decided = without_locks(tmp_path / "events"), []

    def decide():
        ledger = Ledger(store)
        state = ledger.state()
        decided.append(state.transaction("mine"))
        if len(decided) == 1:
            move(ledger, state, {"mine": 7}, "the other one")
        move(ledger, state, {"mine": 8}, "this one")

    in_turn(store, decide)
    assert decided == [None, 7]
    assert Ledger(store).state().transaction("mine") == 8


def test_a_writer_that_is_overtaken_each_time_gives_up(tmp_path):
    """Another one that never yields keeps nobody here for ever."""
    write_log(tmp_path / "events", {"id": "long"}, [], [])
    store = without_locks(tmp_path / "events")

    def decide():
        ledger = Ledger(store)
        state = ledger.state()
        move(ledger, state, {"theirs": state.version}, "the other one")
        move(ledger, state, {"mine": 1}, "this one")

    with pytest.raises(Conflict, match="another writer changed the table first"):
        in_turn(store, decide)
    assert Ledger(store).state().transaction("mine") is None


def test_a_partition_is_leased_to_one_of_many_without_locks(tmp_path):
    """The lease is committed to the version in which it was free."""
    folder = tmp_path / "events"
    write_log(folder, {"id": "long", "event_date": "date"}, ["event_date"], [])
    spec = TableSpec("events", {"id": Column("BIGINT"), "event_date": Column("DATE")}, ("event_date",))

    def lease(owner):
        table = Table(spec, without_locks(folder), lambda: pytest.fail("Spark was asked for"))
        try:
            return claim_late_partitions(
                {}, table, current="2026-01-05", owner=owner, now=NOW, lease_seconds=60
            ).plan.partitions
        except Conflict:
            return ()

    with ThreadPoolExecutor(6) as pool:
        leased = list(pool.map(lease, "abcdef"))
    assert sorted(map(bool, leased)) == [False] * 5 + [True]


def test_a_stage_needs_no_claim_where_no_vacuum_runs(tmp_path):
    """Nobody could tell there whether its writer lives, so no file is removed."""
    folder = tmp_path / "events"
    write_log(folder, {"id": "long"}, [], [])
    store = without_locks(folder)
    table = Table(TableSpec("events", {"id": Column("BIGINT")}), store, lambda: pytest.fail("Spark was asked for"))
    stage = new_stage(store)
    stage.store.put("part-0.parquet", b"rows")
    cutoff = NOW + timedelta(days=3650)
    for remove in (
        lambda: remove_unneeded(table, cutoff=cutoff, provenance=a_run()),
        lambda: remove_stages(table, cutoff=cutoff),
    ):
        with pytest.raises(ConfigError, match=r"events cannot lock a table: nothing was written"):
            remove()
    assert [path for path in store.list() if path.endswith(".claim")] == []
    stage.discard()
    assert not stage.store.exists("part-0.parquet")


def test_writers_have_no_turn_where_a_commit_could_be_written_over(tmp_path):
    """A lock alone does not keep out who does not know it."""
    with pytest.raises(ConfigError, match="cannot create a file only if it is not there"):
        turn(LocalStore(str(tmp_path / "t"), can=frozenset({"lock"})))
