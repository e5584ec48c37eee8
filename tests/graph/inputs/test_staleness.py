"""Staleness: which version a run would apply now, and what makes a computed partition current."""

from __future__ import annotations

import pytest

from dedp_assets.graph.inputs.feeds import same
from dedp_assets.graph.inputs.revisions import TRUE_SINCE, Revisions
from dedp_assets.graph.inputs.staleness import is_computed_from, needed_versions
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from tests.helpers import a_record, write_log

COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "day")}
VISITS, ADS = (TableSpec(f"bronze/{name}", COLUMNS, partition_by=("day",)) for name in ("visits", "ads"))
UPSTREAM = {VISITS: same("day"), ADS: same("day")}
FIFTH, SIXTH = "2026-01-05", "2026-01-06"


@pytest.fixture
def lake(tmp_path):
    """``lake.write(spec, *days, rows=...)``: a commit about each day; ``lake.needed(...)``: what a run would apply."""

    class Lake:
        def table(self, spec):
            return Table(spec, tmp_path / spec.name, lambda: pytest.fail("it asked for a Spark session"))

        def write(self, spec, *days, rows=True, **fields):
            for day in days:
                part = {"day": day}
                commit = {"record": a_record(spec.name, part, **fields), **({"changed": [part]} if rows else {})}
                write_log(tmp_path / spec.name, {"id": "long", "day": "date"}, ["day"], [commit])

        def needed(self, *keys, revisions=()):
            ledgers = {spec: self.table(spec).ledger for spec in UPSTREAM}
            changed = {spec: ledger.changes()[1] if ledger.exists() else {} for spec, ledger in ledgers.items()}
            newest = {spec.name: feed.newest(changed[spec]) for spec, feed in UPSTREAM.items()}
            return needed_versions(UPSTREAM, newest, keys, table_of=self.table, revisions=revisions)

    return Lake()


def test_a_change_of_any_upstream_table_raises_the_needed_version(lake):
    """It is the sum over all of them."""
    lake.write(VISITS, FIFTH, SIXTH)
    lake.write(ADS, FIFTH, SIXTH)
    assert lake.needed(FIFTH, SIXTH) == {FIFTH: 2, SIXTH: 4}
    lake.write(ADS, FIFTH)
    assert lake.needed(FIFTH, SIXTH) == {FIFTH: 4, SIXTH: 4}


def test_a_partition_is_ready_once_each_upstream_table_has_dealt_with_it(lake):
    """With rows or without; a table that is not there has dealt with nothing."""
    lake.write(VISITS, FIFTH, SIXTH)
    assert lake.needed(FIFTH, SIXTH) == {}
    lake.write(ADS, FIFTH, rows=False)
    assert lake.needed(FIFTH, SIXTH) == {FIFTH: 2}


def test_a_revision_of_a_reference_counts_from_its_first_day_on(lake):
    """As one more upstream version."""
    lake.write(VISITS, FIFTH, SIXTH)
    lake.write(ADS, FIFTH, SIXTH)
    users = TableSpec("silver/users", COLUMNS, partition_by=("day",))
    lake.write(users, SIXTH, notes={TRUE_SINCE: SIXTH})
    assert lake.needed(FIFTH, SIXTH, revisions=[Revisions.of(lake.table(users).ledger, until=1)]) == {
        FIFTH: 2,
        SIXTH: 5,
    }


def test_a_partition_is_current_if_the_same_code_computed_it_from_the_same_inputs(lake):
    """A commit without a record says neither, and no commit is not current."""
    lake.write(VISITS, FIFTH, inputs={"source": 3}, code_version="1")
    commit = lake.table(VISITS).ledger.latest({"day": FIFTH})
    assert is_computed_from(commit, {"source": 3}, "1")
    assert not is_computed_from(commit, {"source": 4}, "1")
    assert not is_computed_from(commit, {"source": 3}, "2")
    assert not is_computed_from(None, {}, "1")
