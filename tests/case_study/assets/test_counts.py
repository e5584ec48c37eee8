"""What a small step costs, in work that can be counted: numbers that may fall and never rise.

Seconds differ by machine and mood; these do not. A step of a thousand rows is paid for by its analyses, its round trips
to the JVM and its Spark jobs, and no longer by its rows. Where a change makes one of the numbers fall, lower it here.
"""

from __future__ import annotations

import pytest

from dedp_assets.case_study.sources.visits import BROKEN
from tests.case_study.assets.conftest import day, visits_of, world_in
from tests.counting import counted

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "each kind of step three times, the last one counted")]


def most(*counts):
    return dict(zip(("analyses", "jobs", "jvm calls", "log reads", "history"), counts, strict=True))


# Calls of the JVM: up to 13 of them for each job ask what its tasks used (decision 47), and one for each setting of
# the engine's profile that a session can change asks for the session. Reads of logs: three for the rows and verdicts
# of an input, in the event of lineage. Of silver, one projection gives letters that kept a schema's header their
# reason, and the function that parses records in Python (decision 54) is an analysis and 30 calls.
MOST = {
    "bronze/visits": most(27, 7, 611, 22, 14),
    "silver/visits": most(40, 5, 1001, 50, 21),
    "gold/daily_page_views": most(8, 1, 187, 33, 16),
    "silver/visits, nothing new": most(0, 0, 0, 29, 21),
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
    return counts


@pytest.mark.parametrize("step", MOST)
def test_a_step_does_no_more_work_than_it_did(found, step):
    """Analyses, jobs, calls of the JVM, files of logs, connections to the run history."""
    assert {name: max(count, MOST[step][name]) for name, count in found[step].items()} == MOST[step]
