"""The archive of visits, from a folder of Parquet files to a table that readers go over to."""

from __future__ import annotations

import pytest

from dedp_assets.case_study.defs.bronze.archived_visits import ARCHIVED_VISITS

pytestmark = pytest.mark.spark


def test_the_archive_is_taken_verified_and_switched_and_followed(world):
    """Without files nothing happens; a later file comes with the next run, and a run without one commits nothing."""
    assert "has no files to migrate" in world.compute(ARCHIVED_VISITS.name).failure
    world.archive("2024.parquet", "a", "b", "b")
    assert world.compute(ARCHIVED_VISITS.name).failure == ""
    assert '"phase": "switched"' in world.ledger(ARCHIVED_VISITS.name).state().properties["dedp.format_migration"]
    world.archive("2023.parquet", "c")
    assert world.compute(ARCHIVED_VISITS.name).failure == ""
    before = world.versions()[ARCHIVED_VISITS.name]
    assert world.compute(ARCHIVED_VISITS.name).failure == ""
    assert world.versions()[ARCHIVED_VISITS.name] == before
    assert sorted(row["visit_id"] for row in world.rows(ARCHIVED_VISITS.name)) == ["a", "b", "b", "c"]
