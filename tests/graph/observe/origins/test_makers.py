"""Commits that made the rows of a partition, of logs written by hand."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from dedp_assets.graph.observe.origins.makers import makers_of, partitions_within
from dedp_assets.patterns.delta import Ledger
from tests.helpers import a_record, write_log

DAY, OTHER = {"day": "2026-01-05"}, {"day": "2026-01-06"}
OVERWRITE = {"parameters": {"mode": "Overwrite"}}


@pytest.fixture
def log(tmp_path):
    """A function that writes commits to a table by day, and returns its ledger."""

    def written(*commits, partition_by=("day",)):
        write_log(tmp_path / "t", {"id": "long", "day": "date"}, [*partition_by], [*commits])
        return Ledger(tmp_path / "t", name="gold/t")

    return written


def write(*days, **more):
    """An overwrite of days by the library."""
    return {"record": a_record("gold/t", dict(days[0])), "changed": [*days], **OVERWRITE, **more}


def versions(commits):
    return [commit.version for commit in commits]


def made(ledger, *partitions, version=None):
    return makers_of(ledger, partitions or (DAY,), version=ledger.version() if version is None else version)


def test_an_overwrite_hides_the_commits_before_it(log):
    """The rows of a day are of its newest overwrite, at any version, and other days do not count."""
    ledger = log(write(DAY), write(DAY), write(OTHER))
    assert versions(made(ledger).commits) == [2]
    assert versions(made(ledger, version=1).commits) == [1]
    assert versions(made(ledger, DAY, OTHER).commits) == [3, 2]


def test_merges_and_appends_add_to_the_overwrite_before_them(log):
    """A replay of letters is a merge: the rows are of both, newest first."""
    merge = {"record": a_record("gold/t", DAY), "changed": [DAY], "operation": "MERGE"}
    append = {"changed": [DAY], "parameters": {"mode": "Append"}}
    assert versions(made(log(write(DAY), write(DAY), merge, append)).commits) == [4, 3, 2]


def test_a_rerun_without_a_change_counts_as_the_maker(log):
    """Its record says that the same rows follow from the newer inputs."""
    assert versions(made(log(write(DAY), write(DAY, changed=[]))).commits) == [2]


def test_a_compaction_makes_no_row(log):
    """Its commit changes files and no rows."""
    compaction = {"changed": [DAY], "data_change": False, "operation": "OPTIMIZE"}
    assert versions(made(log(write(DAY), compaction)).commits) == [1]


def test_a_foreign_overwrite_of_some_rows_leaves_the_others(log):
    """One with a predicate may have left rows of earlier commits; one without replaced all."""
    some = {"changed": [DAY], "parameters": {"mode": "Overwrite", "predicate": '["id > 3"]'}}
    ledger = log(write(DAY), some)
    assert versions(made(ledger).commits) == [2, 1]
    assert versions(made(log({"changed": [DAY], **OVERWRITE})).commits) == [3]


def test_a_purged_commit_of_the_library_replaces_by_its_record(log):
    """A purge leaves the record and takes the parameters; an append is told by its transaction id."""
    purged = {"record": a_record("gold/t", DAY), "changed": [DAY]}
    ledger = log(write(DAY), purged, {**purged, "txn": {"gold/t:appends": 1}})
    assert versions(made(ledger).commits) == [3, 2]


def test_a_restore_brings_back_earlier_makers(log):
    """What it took back made no row; a restore that another one took back is not in force."""
    restore = {"operation": "RESTORE", "changed": [DAY]}
    ledger = log(write(DAY), write(DAY), {**restore, "parameters": {"version": 1}})
    found = made(ledger)
    assert (versions(found.commits), versions(found.restores)) == ([1], [3])
    ledger = log({**restore, "parameters": {"version": 2}})
    found = made(ledger)
    assert (versions(found.commits), versions(found.restores)) == ([2], [4])


def test_a_restore_before_the_overwrite_is_over(log):
    """A write after it made all rows."""
    ledger = log(write(DAY), {"operation": "RESTORE", "changed": [DAY], "parameters": {"version": 0}}, write(DAY))
    found = made(ledger)
    assert (versions(found.commits), found.restores) == ([3], ())


def test_a_log_that_was_cleaned_up_says_where_it_begins(log, tmp_path):
    """Commits before that are not known, and nobody takes the known ones for all."""
    append = {"changed": [DAY], "parameters": {"mode": "Append"}}
    ledger = log(write(DAY), append, append)
    DeltaTable(ledger.store.address, version=2).create_checkpoint()
    for version in (0, 1):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    found = made(Ledger(ledger.store.address, name="gold/t"))
    assert versions(found.commits) == [3, 2]
    assert found.ends == "the log of gold/t begins at version 2: earlier commits are not known"


def test_a_table_without_partitions_is_of_all_its_commits(log):
    """Back to the overwrite of the whole table."""
    whole = {"record": a_record("gold/t", {}), "changed": [{}]}
    ledger = log({**whole, **OVERWRITE}, {**whole, **OVERWRITE}, {**whole, "operation": "MERGE"}, partition_by=())
    assert versions(made(ledger, {}).commits) == [3, 2]


def test_partitions_are_those_with_rows_within_the_named_ones(tmp_path):
    """A landing has many event days; a day without rows stands for itself."""
    both = {"landed_on": "2026-01-06", "day": "2026-01-05"}
    write_log(tmp_path / "t", {"day": "date", "landed_on": "date"}, ["landed_on", "day"], [write(both)])
    ledger = Ledger(tmp_path / "t")
    assert partitions_within(ledger, [DAY], version=1) == (both,)
    assert partitions_within(ledger, [OTHER], version=1) == (OTHER,)
