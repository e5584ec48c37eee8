"""Consumers of another team's table: the markers in its log, its contract, and what a run reads."""

from __future__ import annotations

from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.graph.declare import About, OnMarkers, Reads, Request, Runs, Target, finished, lake_table
from dedp_assets.graph.declare.isolated import MarkerLog
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table
from tests.helpers import a_record, write_log

DAY = "2026-01-05"
HOURS = [f"{DAY}-{hour:02}" for hour in range(24)]
COLUMNS = {"page": "string", "views": "long", "hour": "string"}
PRODUCED = TableSpec("gold/produced", {"views": Column("BIGINT"), "hour": Column("STRING")}, partition_by=("hour",))
DAILY, LAST = OnMarkers(PRODUCED, period="day"), OnMarkers(PRODUCED, period="day", start="last_marker")


def produce(folder, *hours, columns=COLUMNS, empty=()):
    """Commits of the producer by hand, one for each hour; of empty ones the record alone."""
    commits = [
        {"record": a_record(PRODUCED.name, {"hour": hour}), "changed": [] if hour in empty else [{"hour": hour}]}
        for hour in hours
    ]
    write_log(folder / PRODUCED.name, columns, ["hour"], commits)


@pytest.fixture
def lake(tmp_path):
    return Lake(root=str(tmp_path), engine=SparkEngine())


def request(key=DAY):
    return Request(key, datetime(2026, 1, 6, tzinfo=timezone.utc), "run-1", {})


def test_the_newest_commit_of_a_partition_is_its_marker_with_or_without_rows(tmp_path):
    """Read on from the last look; another table in the same place is read from its beginning."""
    log, ledger = MarkerLog("hour"), Ledger(tmp_path / PRODUCED.name, name=PRODUCED.name)
    assert log.poll(ledger) == {}
    produce(tmp_path, *HOURS[:3], empty=HOURS[1:2])
    assert log.poll(ledger) == {HOURS[0]: 1, HOURS[1]: 2, HOURS[2]: 3}
    produce(tmp_path, HOURS[1])
    assert log.poll(ledger) == {HOURS[0]: 1, HOURS[1]: 4, HOURS[2]: 3}
    assert MarkerLog("hour").poll(ledger) == log.newest
    for file in (tmp_path / PRODUCED.name / "_delta_log").iterdir():
        file.unlink()
    produce(tmp_path, HOURS[7])
    assert MarkerLog("hour").poll(Ledger(tmp_path / PRODUCED.name, name="x")) == {HOURS[7]: 1}


def test_a_partition_is_planned_until_the_version_that_it_has_read():
    """Of all other days, none is; and a change of one hour plans its day."""
    markers = {hour: number for number, hour in enumerate(HOURS, start=1)}
    assert DAILY.plan(markers, {}).partitions == (DAY,)
    assert DAILY.plan(markers, {DAY: 24}).partitions == ()
    assert DAILY.plan({**markers, "2026-01-06-00": 25}, {DAY: 24}).held == {
        "2026-01-06": "23 of 24 hours have no marker: " + ", ".join(f"{hour:02}" for hour in range(1, 24))
    }
    again = DAILY.plan({**markers, HOURS[5]: 26}, {DAY: 24})
    assert again.partitions == (DAY,)
    assert again.cursor != DAILY.plan(markers, {}).cursor
    assert LAST.plan({HOURS[23]: 1}, {}).partitions == (DAY,)


def test_a_run_reads_a_finished_day_and_says_up_to_where(tmp_path, lake):
    """The pinned hours, the newest marker as identity, and the version for the sensor."""
    produce(tmp_path, *HOURS, empty=HOURS[3:5])
    found = finished(DAILY)(request(), lake)
    assert (found.identities, found.notes, found.sequence) == ({PRODUCED.name: 24}, {"delivery": "24"}, 24)
    assert [each["hour"] for each in found.found.partitions] == HOURS
    assert found.found.version == 24


def test_a_run_of_an_unfinished_day_is_not_ready(tmp_path, lake):
    """Whoever asks for it."""
    produce(tmp_path, *HOURS[:23])
    with pytest.raises(NotReady, match="1 of 24 hours have no marker: 23"):
        finished(DAILY)(request(), lake)
    with pytest.raises(NotReady, match="1 of 1 hours have no marker: 23"):
        finished(LAST)(request(), lake)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"page": "string", "hour": "string"}, "expected views BIGINT, found no such column among page, hour"),
        ({**COLUMNS, "views": "string"}, "expected views BIGINT, found STRING"),
    ],
)
def test_a_break_of_the_schema_is_refused_before_the_day_is_looked_at(tmp_path, lake, columns, said):
    """With what was expected and what was found, and no engine is started for it."""
    produce(tmp_path, *HOURS, columns=columns)
    with pytest.raises(ContractError, match=said):
        finished(DAILY)(request(), lake)


def test_a_break_of_the_location_is_refused_by_its_path(tmp_path, lake):
    """It is no table that will come by itself."""
    with pytest.raises(ContractError, match=f"expected a table at {tmp_path}/gold/produced, found none"):
        finished(DAILY)(request(), lake)


def test_what_cannot_start_by_markers_is_refused_in_a_sentence():
    """By the option, when the module is loaded."""
    with pytest.raises(ConfigError, match=r"producer must have one partition column, not \[\]"):
        OnMarkers(TableSpec("gold/x", {"id": Column("BIGINT")}))
    with pytest.raises(ConfigError, match=r"OnMarkers.period must be same or day"):
        OnMarkers(PRODUCED, period="week")
    mine = TableSpec("reporting/x", {"day": Column("DATE"), "n": Column("BIGINT")}, partition_by=("day",))
    stated = {"about": About("team:x"), "patterns": [Table.overwrite], "code_version": "1"}
    days = dg.DailyPartitionsDefinition("2026-01-05")

    def compute(into: Target) -> WriteResult:
        """Compute nothing."""
        raise AssertionError

    for runs, reads, said in (
        (Runs(when=DAILY), Reads(inputs=finished(DAILY)), "partitions must be days or another time for OnMarkers"),
        (Runs(days, DAILY), Reads({PRODUCED: DAILY.feed}), r"Reads.inputs must be finished\(...\) for OnMarkers"),
    ):
        with pytest.raises(ConfigError, match=said):
            lake_table(mine, reads=reads, runs=runs, **stated)(compute)
