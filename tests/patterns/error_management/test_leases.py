"""Leases: of several planners exactly one works on a partition, and a dead one blocks nobody for long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.delta.log import Ledger
from dedp_assets.patterns.error_management import _leases as leases
from tests.helpers import NOW, write_log

DAY = {"event_date": "2026-01-05"}


@pytest.fixture
def ledger(tmp_path):
    """The ledger of a table with one day of rows."""
    write_log(tmp_path / "events", {"id": "long", "event_date": "date"}, ["event_date"], [{"changed": [DAY]}])
    return Ledger(tmp_path / "events", name="silver/events")


def take(ledger, partition=DAY, *, owner="a", after=0.0):
    return leases.take(ledger, partition, owner=owner, now=NOW + timedelta(seconds=after), seconds=60)


def test_a_lease_keeps_others_out_until_it_ends(ledger):
    """Nobody gets it a second time, not even its owner, until the stated time is over."""
    assert take(ledger)
    assert not take(ledger, owner="b")
    assert not take(ledger, after=59)
    assert take(ledger, owner="b", after=60)


def test_a_lease_is_of_one_partition(ledger):
    """Another day of the same table is free."""
    assert take(ledger)
    assert take(ledger, {"event_date": "2026-01-06"})


def test_what_is_given_back_is_free_at_once(ledger):
    """A planner that is done does not make others wait for the end of its lease."""
    assert take(ledger)
    leases.give_back(ledger, DAY, owner="a", now=NOW + timedelta(seconds=5))
    assert take(ledger, owner="b", after=5)


def test_who_lost_a_lease_cannot_end_the_next_ones(ledger):
    """A planner that comes back late leaves the lease to the one who has it now."""
    assert take(ledger, owner="a")
    assert take(ledger, owner="b", after=60)
    leases.give_back(ledger, DAY, owner="a", now=NOW + timedelta(seconds=61))
    assert not take(ledger, owner="c", after=62)


def test_of_several_planners_at_once_exactly_one_gets_it(ledger):
    """Looking and taking is one step under the table's lock."""
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda n: take(ledger, owner=f"planner-{n}"), range(8))) == 1


def test_a_lease_changes_no_row_and_no_cursor(ledger):
    """Downstream sees nothing of who works on what."""
    before = ledger.version()
    take(ledger)
    leases.give_back(ledger, DAY, owner="a", now=NOW)
    assert ledger.changes(since=before) == (before + 2, {})
    assert ledger.state().applied("silver/events", DAY) is None
    assert ledger.latest(DAY).version == before


def test_there_is_nothing_to_lease_where_there_is_no_table(tmp_path):
    """A planner that is too early is told to come again."""
    with pytest.raises(NotReady, match="silver/events does not exist yet"):
        take(Ledger(tmp_path / "events", name="silver/events"))
