"""The check that no partition is left behind, over a graph whose logs are written by hand."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.graph.checks.completeness import completeness_checks
from dedp_assets.graph.resources.clock import Clock
from tests.graph.reconcile.test_convergence import KEYS, NOW, TABLES, World, converge

FIRST, SECOND, _ = KEYS


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def judged(world):
    """Table -> whether it is complete, its counts, and what the check says; one look judges all of them."""
    resources = {"lake": world.lake, "landing": world.landing, "clock": Clock(fixed=NOW.isoformat())}
    checks = completeness_checks(TABLES)
    selected = dg.AssetSelection.checks(*checks.check_keys)
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([checks], selection=selected, resources=resources, instance=instance)
        found = done.get_asset_check_evaluations()
    return {
        "/".join(each.asset_key.path): (
            each.passed,
            {name.split()[0]: figure.value for name, figure in each.metadata.items() if figure.value},
            each.description or "",
        )
        for each in found
    }


def test_tables_that_hold_all_that_landed_are_complete(world):
    world.land(FIRST, FIRST)
    converge(world)
    assert {passed for passed, *_ in judged(world).values()} == {True}


def test_a_delivery_that_nobody_loaded_leaves_its_table_incomplete(world):
    """Only the first table says so: what is computed from it lacks nothing of what it holds."""
    world.land(FIRST, FIRST)
    found = judged(world)
    passed, counts, said = found["bronze/in"]
    assert (passed, counts) == (False, {"missing": 1})
    assert said.startswith(f"{FIRST} missing: ")
    assert "is complete and not loaded as it is now" in said
    assert found["silver/daily"][0]


@pytest.mark.promise("a-late-row-and-a")
def test_a_late_row_and_a_restore_leave_exactly_the_tables_incomplete_that_have_to_follow(world):
    """A restored table lacks what it held; its readers follow it once it is computed again."""
    for day in (FIRST, SECOND):
        world.land(day, day)
        converge(world)
    world.restore("gold/daily", 1, ours=False)
    found = judged(world)
    assert [name for name, (passed, *_) in found.items() if not passed] == ["gold/daily"]
    assert "restored at version" in found["gold/daily"][2]
    converge(world)
    assert all(passed for passed, *_ in judged(world).values())
