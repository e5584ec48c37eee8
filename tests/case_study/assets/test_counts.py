"""What a small step costs, in work that can be counted: numbers that may fall and never rise.

Seconds differ by machine and mood; these do not. A step of a thousand rows is paid for by its analyses, its round trips
to the JVM and its Spark jobs, and no longer by its rows. Where a change makes one of the numbers fall, lower it here.
"""

from __future__ import annotations

import time

import pytest

from dedp_assets.case_study.sources.visits import BROKEN
from tests.case_study.assets.conftest import SILVER_AND_GOLD, day, visits_of, world_in
from tests.counting import OF_LOGS, OF_SPARK, counted

pytestmark = [pytest.mark.spark, pytest.mark.budget(60, "each kind of step three times, and a late file twice")]

ASKING = ("deliveries", "reconciler")
"""The sensors that ask for loads and for tables: both look at the whole graph."""
SETTLED_SECONDS = 2.5


def most(*counts):
    return dict(zip((*OF_SPARK, *OF_LOGS), counts, strict=True))


# Calls of the JVM: up to 13 of them for each job ask what its tasks used (decision 47), and one for each setting of
# the engine's profile that a session can change asks for the session. Of silver, one projection gives letters
# that kept a schema's header their reason, and the function that parses records in Python (decision 54) is an
# analysis and 30 calls. Listings of logs in a look: two sensors ask 36 tables each that nobody has computed yet. A
# late record: three looks and two runs.
MOST = {
    "bronze/visits": most(27, 7, 611, 20, 14, 1, 79, 2, 13, 141, 14),
    "silver/visits": most(40, 5, 1001, 46, 29, 3, 192, 5, 19, 185, 21),
    "gold/daily_page_views": most(8, 1, 187, 30, 19, 2, 93, 3, 6, 150, 16),
    "silver/visits, nothing new": most(0, 0, 0, 26, 11, 3, 50, 2, 4, 189, 21),
    "a look at everything, nothing new": most(0, 0, 0, 0, 0, 72, 112, 0, 16, 7, 0),
    "a late record, from landing to gold": most(63, 13, 1491, 274, 233, 241, 931, 17, 104, 984, 115),
}


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory):
    """The counts of each kind of step: of a day that is delivered again with more visits and a few broken records."""
    counts = {}
    with world_in(tmp_path_factory.mktemp("counts")) as world:
        for number in range(3):
            world.land(day(0), [*visits_of(0, count=1_000 + number), *BROKEN])
            for table in ("bronze/visits", "silver/visits", "gold/daily_page_views"):
                with counted(spark) as counts[table]:
                    assert world.compute(table, day(0)).failure == ""
        with counted(spark) as counts["silver/visits, nothing new"]:
            assert world.compute("silver/visits", day(0)).failure == ""
    return counts | counts_of_a_late_file(spark, tmp_path_factory.mktemp("late"))


def counts_of_a_late_file(spark, home):
    """The counts of a look, and of all looks and runs from a late file on until nothing is stale."""
    counts = {}
    with world_in(home) as world, pytest.MonkeyPatch.context() as patch:
        for number in range(3):
            world.land(day(number), visits_of(number))
        world.react()
        asking = [each for each in world.platform._sensors() if each.name in ASKING]
        patch.setattr(world.platform, "_sensors", lambda: asking)
        for number in range(2):
            with counted(spark) as counts["a look at everything, nothing new"]:
                assert world.react() == []
            late_file(world, number)
            with counted(spark) as counts["a late record, from landing to gold"]:
                assert world.react() == [("daily_visits", day(2)), (SILVER_AND_GOLD, day(0))]
    return counts


def late_file(world, number):
    """Deliver visits of the first day in a file of the third; until its folder has settled, each look lists it."""
    path = world.landing / "visits" / day(2) / f"late-{number}.jsonl"
    path.write_text("".join(f"{line}\n" for line in visits_of(0, count=2, seed=100 + number)))
    time.sleep(SETTLED_SECONDS)


@pytest.mark.parametrize("step", MOST)
def test_a_step_does_no_more_work_than_it_did(found, step):
    """Analyses, jobs, calls of the JVM, files and listings of logs, statements of the run history."""
    assert {name: max(count, MOST[step][name]) for name, count in found[step].items()} == MOST[step]
