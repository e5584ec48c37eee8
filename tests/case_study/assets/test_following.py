"""``dedp run``: a partition, and what follows from it; nothing else is computed, and the exit code says how it went."""

from __future__ import annotations

import pytest

from dedp_assets.case_study.sources import devices
from dedp_assets.cli import main
from tests.case_study.assets.conftest import day, visits_of

pytestmark = pytest.mark.spark
GOLD = ("gold/daily_page_views", "gold/daily_visitors")


def days(world, table, column="event_date"):
    """The days of which a table has rows."""
    return {str(row[column]) for row in world.rows(table)} if world.ledger(table).exists() else set()


def test_a_run_brings_its_day_to_gold_and_leaves_everything_else_as_it_is(world, capsys):
    """Other days that have landed, and deliveries of other tables, wait for the platform."""
    for number in range(3):
        world.land(day(number), visits_of(number))
    devices.deliver(world.landing / "devices", devices.devices())
    assert main(["run", "bronze/visits", day(1)]) == 0
    assert "refused" not in capsys.readouterr().out
    assert days(world, "bronze/visits", "landed_on") == {day(1)}
    for table in ("silver/visits", *GOLD):
        assert days(world, table) == {day(1)}
    assert not world.ledger("bronze/devices").exists()
    assert main(["run", "bronze/visits", day(0)]) == 0
    assert days(world, "gold/daily_visitors") == {day(0), day(1)}
    world.land(day(2), visits_of(2, count=10))
    assert main(["run", "bronze/visits", day(2)]) == 1, "what follows from it is refused"
    said = capsys.readouterr().out
    assert "volume_is_usual" in said
    assert days(world, "silver/visits") == {day(0), day(1), day(2)}
    assert days(world, "gold/daily_visitors") == {day(0), day(1)}
    assert main(["run", "gold/daily_visitors", day(2)]) == 1, "the partition itself is refused"


@pytest.mark.parametrize("arguments", [("status",), ("alerts",), ("status", "--json")])
def test_what_a_run_refused_is_no_success_for_anybody_who_looks(world, arguments):
    """Without a platform, and so without an announced alert."""
    for number in range(2):
        world.land(day(number), visits_of(number, count=40 if number == 0 else 4))
        main(["run", "bronze/visits", day(number)])
    assert main([*arguments]) == 1
