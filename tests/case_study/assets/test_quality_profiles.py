"""Profiles of the visits, from the changed days to the judgement."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.case_study.defs.platform.quality_profiles import OF_THE_DAY, REPORT
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.resources.lake import lake_of
from tests.case_study.assets.conftest import day
from tests.helpers import a_run

pytestmark = pytest.mark.spark

TABLE = "platform/quality_profiles"
A_DAY = """
    SELECT concat('{day}-', id) AS visit_id, timestamp('{day}') + make_interval(0, 0, 0, 0, 0, id) AS event_time,
        concat('u', id % 50) AS user_id, concat('/posts/', id % 5) AS page, CAST(NULL AS STRING) AS referrer,
        'a browser' AS user_agent, '10.0.0.1' AS ip, {device} AS device_type, '1' AS device_version,
        200 AS status, 100 + id AS bytes, DATE '{day}' AS event_date, 'file' AS source_file, id AS line_number,
        DATE '{day}' AS landed_on, false AS was_dead_lettered
    FROM range(600)
"""
USUAL = "if(id % 4 = 0, 'phone', 'desktop')"


def write(world, *numbers, device=USUAL):
    """Write days of 600 visits to the silver table, in one commit each for a single day."""
    table = lake_of(world.settings).table(VISITS)
    query = " UNION ALL ".join(A_DAY.format(day=day(number), device=device) for number in numbers)
    owned = {"event_date": day(numbers[0])} if len(numbers) == 1 else {}
    table.overwrite(table.session.sql(query), provenance=a_run(VISITS.name), partition=owned)


def days(world):
    """The profiled days, each with the versions of silver/visits that it was profiled at."""
    found = {}
    for row in world.rows(TABLE):
        found.setdefault(row["data_partition"].removeprefix("event_date="), set()).add(row["table_version"])
    return {name: sorted(versions) for name, versions in found.items()}


def drift_of(world, **counts):
    """The greatest drift that is plotted on the asset, beside the expected counts."""
    told = world.materialization(TABLE)
    assert (told["judged days"], told["unusual figures"]) == (counts["days"], counts["unusual"])
    return told["greatest drift [PSI]"]


def test_changed_days_are_profiled_and_a_drift_warns_without_blocking(world):
    """Each day is judged by the days before alone; a run without a change profiles nothing, and judges the same."""
    write(world, 0, 1, 2, 3)
    first = world.ledger(VISITS.name).version()
    assert world.compute(TABLE).failure == ""
    assert days(world) == {day(number): [first] for number in range(4)}
    assert {row["column"] for row in world.rows(TABLE)} == {*VISITS.columns} > {*OF_THE_DAY}
    assert world.evaluation(TABLE, REPORT).passed
    assert drift_of(world, days=4, unusual=0) < 0.01

    write(world, 2, device="'toaster'")  # two days are too few to judge the third by
    write(world, 4, device="if(id % 4 = 0, 'desktop', 'phone')")
    assert world.compute(TABLE).failure == ""
    again = {day(2): [first, first + 2], day(4): [first + 2]}
    assert days(world) == {**{day(number): [first] for number in range(4)}, **again}
    found = world.evaluation(TABLE, REPORT)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    partition = f"event_date={day(4)}"
    assert {*found.metadata} == {f"{name}.device_type {partition}" for name in ("distribution", "share_shift")}
    assert drift_of(world, days=2, unusual=2) == found.metadata[f"distribution.device_type {partition}"].value > 0.1

    version = world.ledger(TABLE).version()
    assert world.compute(TABLE).failure == ""
    assert world.ledger(TABLE).version() == version
    assert not world.evaluation(TABLE, REPORT).passed
    assert drift_of(world, days=2, unusual=2) > 0.1
