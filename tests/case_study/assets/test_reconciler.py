"""Tables restored to older versions and run records deleted, with real runs: the graph holds the same rows again."""

from __future__ import annotations

import dagster as dg
import pytest
from deltalake import DeltaTable

from dedp_assets.case_study.defs.gold.daily_visitors import DAILY_VISITORS
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.storage.time_travel import roll_back
from tests.case_study.assets.conftest import SILVER_AND_GOLD, day, visits_of, world_in
from tests.helpers import a_run

SILVER, GOLD = "silver/visits", ("gold/daily_page_views", "gold/daily_visitors")


def contents(world):
    """Rows of every table, whatever their order."""
    return {table: sorted(map(str, world.rows(table))) for table in ("bronze/visits", SILVER, *GOLD)}


@pytest.fixture(scope="module")
def corrected(spark, tmp_path_factory):
    """Two days, of which the first was corrected by late visits; with what its tables held then, and the versions."""
    with world_in(tmp_path_factory.mktemp("corrected")) as world:
        world.land(day(0), visits_of(0))
        assert world.react() == [("daily_visits", day(0))]
        first = world.versions()
        world.land(day(1), visits_of(1), late=visits_of(0, count=3, seed=9))
        assert world.react() == [("daily_visits", day(1)), (SILVER_AND_GOLD, day(0))]
        yield world, first, contents(world)


@pytest.mark.promise("silver-restored-by-somebody-is")
def test_silver_restored_by_somebody_is_caught_up_though_no_run_is_recorded_any_more(corrected):
    """Both days were taken back, one to nothing: silver computes them anew, and gold follows in the same runs."""
    world, first, held = corrected
    DeltaTable(world.address(SILVER)).restore(first[SILVER])
    assert contents(world) != held
    for run in world.platform.instance.get_runs():
        world.platform.instance.delete_run(run.run_id)
    assert world.react() == [(SILVER_AND_GOLD, day(0)), (SILVER_AND_GOLD, day(1))]
    assert contents(world) == held
    assert world.react() == []


def test_gold_restored_by_the_library_is_caught_up_alone(corrected, spark):
    """The runs that computed its days succeeded: they are asked for under other keys; its neighbour is left alone."""
    world, first, held = corrected
    table = Table(DAILY_VISITORS, world.address(DAILY_VISITORS.name), lambda: spark)
    roll_back(table.target(a_run(DAILY_VISITORS.name)), to=first[DAILY_VISITORS.name], because="a look at the past")
    before = world.versions()["gold/daily_page_views"]
    assert world.react() == [(DAILY_VISITORS.name, day(0)), (DAILY_VISITORS.name, day(1))]
    assert contents(world) == held
    assert world.versions()["gold/daily_page_views"] == before
    assert world.react() == []


def test_bronze_restored_is_loaded_again_before_what_is_computed_from_it(corrected):
    """A restore upstream wakes downstream, after the delivery that it took back: no date is emptied on the way."""
    world, first, held = corrected
    DeltaTable(world.address("bronze/visits")).restore(first["bronze/visits"])
    assert world.react() == [("daily_visits", day(1)), (SILVER_AND_GOLD, day(0))]
    assert contents(world) == held
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
    assert (world.react(), world.platform.instance.get_runs(failed)) == ([], [])


def test_a_restore_of_what_nobody_delivers_any_more_wakes_downstream(corrected):
    """The landing folder is archived: the restored rows are what there is, and silver and gold show them."""
    world, first, held = corrected
    folder = world.landing / "visits" / day(1)
    archived = folder.rename(folder.with_name(f"_{day(1)}"))
    DeltaTable(world.address("bronze/visits")).restore(first["bronze/visits"])
    assert {(ended.job, ended.partition) for ended in world.platform.react()} >= {(SILVER_AND_GOLD, day(0))}
    assert len(world.ids(SILVER, event_date=day(0))) == 40
    archived.rename(folder)
    world.react()
    assert contents(world) == held
