"""Lag of tables in order, judged by the durations in their logs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from dedp_assets.graph.checks.catching_up import catch_up_checks
from dedp_assets.graph.declare import Follow, InOrder
from dedp_assets.graph.outcomes.durations import durations_of
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.delta import transaction_id
from tests.hand_written import declare
from tests.helpers import a_record, write_log

EPOCH = datetime.fromtimestamp(1767600000, timezone.utc)
"""When the commits of hand-written logs are made, a millisecond apart."""
HOURS = dg.HourlyPartitionsDefinition("2026-01-05-00:00")
NAME = "gold/ordered"


def declared(when):
    """An hourly table."""
    return declare(NAME, when, partitions=HOURS, column="hour")


@dataclass
class Record:
    run_id: str
    at: str


@dataclass
class Committed:
    version: int
    timestamp: datetime
    record: Record | None


def test_a_run_of_several_partitions_takes_for_each_the_time_since_the_one_before():
    """A commit without a record, or of a run whose start nobody stated, has no duration."""

    def at(minute):
        return EPOCH + timedelta(minutes=minute)

    one, two = Record("one", at(0).isoformat()), Record("two", at(100).isoformat())
    commits = [(10, one), (25, one), (30, None), (130, two), (140, Record("three", ""))]
    listed = [Committed(version, at(minute), record) for version, (minute, record) in enumerate(commits)]
    assert list(durations_of(listed)) == [(0, 600), (1, 900), (3, 1800)]


def judged(root, minutes):
    """The check of an hourly table whose runs took so long."""
    for number, each in enumerate(minutes):
        owned = {"hour": f"2026-01-05-{number:02}"}
        began = EPOCH + timedelta(milliseconds=number + 1) - timedelta(minutes=each)
        record = a_record(NAME, owned, run_id=f"run-{number}", at=began.isoformat())
        commit = {"record": record, "changed": [owned], "txn": {transaction_id(NAME, owned, 0): 1}}
        write_log(root / NAME, {"id": "long", "hour": "string"}, ["hour"], [commit])
    lake = Lake(root=str(root), engine=SparkEngine())
    (checks,) = catch_up_checks([declared(InOrder())])
    made = dg.Definitions(
        [declared(InOrder()).definition()], asset_checks=[checks], resources={"lake": lake, "clock": None}
    )
    job = dg.define_asset_job("judge", dg.AssetSelection.checks(checks))
    resolved = dg.Definitions.merge(made, dg.Definitions(jobs=[job])).resolve_job_def("judge")
    ended = resolved.execute_in_process(run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}})
    (found,) = ended.get_asset_check_evaluations()
    return found.passed, {name: value.value for name, value in found.metadata.items()}, found.description


@pytest.mark.runs
def test_a_long_run_among_short_ones_is_made_up_and_slow_runs_are_never(tmp_path):
    """Of an hourly table: the figures are the lag and the periods until it is zero; the check warns of no end."""
    assert judged(tmp_path / "no", [])[0]
    passed, figures, _ = judged(tmp_path / "fast", [30, 30, 30, 90])
    assert (passed, figures["lag_seconds"], figures["periods_to_recover"]) == (True, 1800, 1)
    passed, figures, said = judged(tmp_path / "slow", [90, 60, 60])
    assert (passed, figures["lag_seconds"], figures["periods_to_recover"]) == (False, 1800, "never")
    assert said == "a run takes 60 min of 60 min between two: the lag of 30 min stays or grows"


def test_a_graph_without_an_order_has_no_such_check():
    """It has no queue of partitions that a slow run lengthens."""
    assert catch_up_checks([declared(Follow())]) == []
