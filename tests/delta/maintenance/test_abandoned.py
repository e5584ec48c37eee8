"""Abandoned stages: those that nobody can publish any more go, by their age; no other file does."""

from __future__ import annotations

import json
import os
from dataclasses import astuple
from datetime import timedelta
from pathlib import Path

import pytest

from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.maintenance.abandoned import remove_stages
from dedp_assets.patterns.delta.staging.stages import claim_of, new_stage
from tests.helpers import NOW, write_log

WEEK = timedelta(days=7)


@pytest.fixture
def table(tmp_path):
    """A table of one commit, which needs no engine."""
    write_log(tmp_path / "lake/events", {"id": "long"}, [], [{"changed": [{}]}])
    return Table(TableSpec("lake/events", {}), tmp_path / "lake/events", lambda: pytest.fail("no Spark is needed"))


def stage(table, name, *, age=10 * WEEK, size=100):
    """A folder as a write leaves it behind, of a certain age."""
    file = Path(table.location) / f"staged-{name}" / "part-0.parquet"
    file.parent.mkdir()
    file.write_bytes(b"x" * size)
    written = (NOW - age).timestamp()
    os.utime(file, (written, written))
    return file.parent


def test_a_stage_that_nobody_publishes_goes_with_its_claim_when_it_is_old(table):
    """A younger one stays: somebody may still want to look at the rows that were refused."""
    old, young = stage(table, "old"), stage(table, "young", age=WEEK / 2)
    claim = old.with_name(claim_of(old.name))
    claim.touch()
    assert astuple(remove_stages(table, cutoff=NOW - WEEK)) == (1, 100, 1, 0)
    assert (old.exists(), claim.exists(), young.exists()) == (False, False, True)


def test_a_stage_that_a_running_write_has_claimed_stays_whatever_its_age(table):
    """Until it gives up the claim."""
    mine = new_stage(table.store)
    folder = stage(table, mine.store.name.removeprefix("staged-"))
    assert astuple(remove_stages(table, cutoff=NOW - WEEK)) == (0, 0, 0, 1)
    assert folder.exists()
    mine.claim.release()
    assert remove_stages(table, cutoff=NOW - WEEK).removed == 1


@pytest.mark.parametrize("now", ["added", "removed since"])
def test_a_stage_that_the_log_refers_to_is_the_tables(table, now):
    """Be it part of the newest version or of one before it."""
    folder = stage(table, "published")
    path = f"{folder.name}/part-0.parquet"
    log = Path(table.location) / "_delta_log"
    first = (log / f"{1:020d}.json").read_text()
    (log / f"{1:020d}.json").write_text(first.replace("v1/part-0.parquet", path))
    if now != "added":
        gone = {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1767600000000, "partitionValues": {}}}
        (log / f"{2:020d}.json").write_text(f'{{"commitInfo": {{"timestamp": 1}}}}\n{json.dumps(gone)}\n')
    assert astuple(remove_stages(table, cutoff=NOW)) == (0, 0, 0, 0)
    assert folder.exists()
