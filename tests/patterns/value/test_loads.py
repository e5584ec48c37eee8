"""Loads: which commits changed a partition, and whose rows are there."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.value._loads import loads_of
from tests.helpers import NOW, a_record, write_log

MONDAY, TUESDAY = {"day": "mon"}, {"day": "tue"}
ONE = ["load", "load", "restore", "foreign load", "same rows", "other partition", "compaction", "restore"]
HISTORIES = st.lists(st.tuples(st.sampled_from(ONE), st.integers(0, 20)), max_size=8)


def commit_of(kind, version, restored, *, restores):
    """A commit as a log has it."""
    record = a_record("visits", MONDAY, run_id=f"run-{version}", code_version="7", at=NOW.isoformat())
    changed = {"changed": [MONDAY]}
    return {
        "load": {**changed, "record": record},
        "foreign load": changed,
        "same rows": {"record": record},
        "other partition": {"changed": [TUESDAY], "record": a_record("visits", TUESDAY)},
        "compaction": {**changed, "data_change": False},
        "restore": {
            **(changed if restores else {}),
            "operation": "RESTORE",
            "parameters": {"version": str(restored), "timestamp": None},
        },
    }[kind]


def model(history):
    """What plain Python says: the commits to write, the loads, and after each version whose rows are there."""
    commits, loads, there = [], [], [None]
    for version, (kind, chosen) in enumerate(history, start=1):
        restored = chosen % version
        own = {"load": version, "foreign load": version, "restore": there[restored]}.get(kind, there[-1])
        commits.append(commit_of(kind, version, restored, restores=own != there[-1]))
        loads += [(version, kind == "load")] if kind in ("load", "foreign load") else []
        there.append(own)
    return commits, loads, there


@pytest.mark.promise("loads-of-any-history-are")
@given(HISTORIES)
@example([("load", 0)] * 4 + [("restore", 3), ("restore", 1)])
def test_loads_of_any_history_are_those_of_a_plain_model(history):
    """At each version of the table, restores of restored versions among them."""
    commits, loads, there = model(history)
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder), {"id": "long", "day": "string"}, ["day"], commits)
        ledger = Ledger(folder, name="visits")
        for until, owner in enumerate(there):
            found = loads_of(ledger, MONDAY, until=until)
            known = [(version, ours) for version, ours in loads if version <= until]
            assert [(load.version, load.run_id is not None) for load in found] == known
            assert [load.loading_attempt for load in found] == list(range(1, len(known) + 1))
            assert [load.version for load in found if load.is_current] == ([owner] if owner else [])
        assert loads_of(ledger, MONDAY) == loads_of(ledger, MONDAY, until=len(history))


def test_a_load_says_who_made_it_and_when(tmp_path):
    """By its commit alone; what another writer loaded has the time of its commit, and no run."""
    commits = [commit_of("load", 1, 0, restores=False), commit_of("foreign load", 2, 0, restores=False)]
    write_log(tmp_path, {"id": "long", "day": "string"}, ["day"], commits)
    ours, foreign = loads_of(Ledger(tmp_path, name="visits"), MONDAY)
    assert (ours.run_id, ours.code_version, ours.cause, ours.loading_time) == ("run-1", "7", "landing", NOW)
    assert (foreign.run_id, foreign.code_version, foreign.loading_time.year) == (None, None, 2026)
