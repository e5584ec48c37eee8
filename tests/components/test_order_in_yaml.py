"""Runs in order and runs at once of a table in YAML."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.components.checking import completed, drafts_of
from dedp_assets.graph.declare import AtOnce, Follow, InOrder, Nightly
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from tests.components.declarations import SPECS, VISITS
from tests.helpers import NOW, a_run, read_back

DAYS = ["2026-01-05", "2026-01-06", "2026-01-07"]
FILE = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/visits_so_far
    comment: One row per page, day by day.
    columns:
      event_date: {type: DATE, comment: UTC day, required: true}
      page: {type: STRING, comment: path, required: true}
      views: {type: BIGINT, comment: visits up to the day, required: true}
    partition_by: [event_date]
  reads:
    tables:
      silver/visits: {same: {column: event_date}}
  runs:
    partitions: {daily: {start: 2026-01-05}}
    when: WHEN
  about: {owner: team:web, used_by: dashboards}
  code_version: "1"
  steps:
    - sql: >
        SELECT DATE {event_date} AS event_date, page, sum(views) AS views
        FROM (SELECT page, 1L AS views FROM {rows} UNION ALL SELECT page, views FROM {previous}) GROUP BY page
    - idempotency.data_overwrite: {}
"""
IN_ORDER = "{in_order: {by: {follow: {}}, hands_over: gold/visits_so_far, pending: 7}}"


def declared(when, text=FILE):
    """The table of the file, and the faults."""
    (draft,), faults = drafts_of(text.replace("WHEN", when), "defs.yaml")
    specs = {**SPECS, **{spec.name: spec for spec in draft.tables}}
    table, _, more = completed(draft, specs)
    return table, [str(fault) for fault in (*faults, *more)]


def test_an_order_and_slots_are_those_of_python():
    """Options, defaults and what asks for the partitions."""
    table, faults = declared(IN_ORDER)
    assert faults == []
    assert table.runs.when == InOrder(Follow(), hands_over=table.spec, pending=7)
    assert table.hands_over == table.spec
    alone = FILE.replace("UNION ALL SELECT page, views FROM {previous}", "")
    table, faults = declared("{at_once: {runs: 5, by: {nightly: {cron: 0 2 * * *, lookback: 3}}, priority: 2}}", alone)
    assert faults == []
    assert table.runs.when == AtOnce(5, by=Nightly("0 2 * * *", lookback=3), priority=2)


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("{in_order: {}}", "unknown name {previous}: known are event_date, rows, visits"),
        ("{in_order: {hands_over: silver/visits}}", "InOrder.hands_over must be among the written tables, not silver/"),
        ("{in_order: {hands_over: gold/visits_so_far, pending: 0}}", "InOrder.pending must be 1 or more, not 0"),
        ("{at_once: {runs: 2, shares: latest.json}}", "slots of gold/visits_so_far must be 1, not 2: its runs share"),
    ],
)
def test_an_order_or_slots_that_no_table_can_have_are_a_fault(when, said):
    """In one sentence, as in Python."""
    text = FILE if "in_order" in when else FILE.replace("UNION ALL SELECT page, views FROM {previous}", "")
    table, faults = declared(when, text)
    assert table is None
    (fault,) = faults
    assert said in fault


@pytest.mark.spark
def test_totals_that_are_handed_over_are_those_of_a_single_pass(spark, tmp_path):
    """The first day reads no rows of a day before, with no word about it in the file; the third alone is refused."""
    table, _ = declared(IN_ORDER)
    lake = Lake(root=str(tmp_path), engine=SparkEngine())
    pages = {DAYS[0]: ["/a", "/b"], DAYS[1]: ["/a"], DAYS[2]: ["/b", "/c", "/c"]}
    for day, found in pages.items():
        texts = [f"('{number}', TIMESTAMP '{day} 10:00:00', 'u', '{page}')" for number, page in enumerate(found)]
        named = f"VALUES {', '.join(texts)} AS v(visit_id, event_time, user_id, page)"
        rows = spark.sql(f"SELECT *, DATE '{day}' AS event_date FROM {named}")
        overwrite_partition(rows, lake.table(VISITS).target(a_run(run_id=day), partition={"event_date": day}))
    asset, resources = table.definition(), {"lake": lake, "clock": Clock(fixed=NOW.isoformat())}
    with dg.DagsterInstance.ephemeral() as instance:

        def ran(day):
            options = {"resources": resources, "instance": instance, "raise_on_error": False}
            return dg.materialize([asset], partition_key=day, **options).success

        assert [ran(day) for day in (DAYS[0], DAYS[2], DAYS[1], DAYS[2])] == [True, False, True, True]
    rows = read_back(lake.table(table.spec))
    held = {(str(row["event_date"]), row["page"]): row["views"] for row in rows}
    assert held == {
        (day, page): count
        for number, day in enumerate(DAYS, start=1)
        for page in ("/a", "/b", "/c")
        if (count := sum(pages[each].count(page) for each in DAYS[:number]))
    }
