"""Steps of a file: the same rows, checks and commits as the same table in Python."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.components.chains.declaring import _named_places, _touching, declare, draft
from dedp_assets.components.yaml.documents import documents
from dedp_assets.graph.declare import (
    About,
    Gates,
    Nightly,
    Pinned,
    Reads,
    Runs,
    Touches,
    job_of,
    lake_table,
    same,
    schedules_of,
)
from dedp_assets.graph.declare.partitions import daily
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.connectors.delivery.csv_folder import CsvFolder
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Target
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish
from tests.components.declarations import GOOD, SPECS, USERS, VISITS
from tests.helpers import NOW, a_run, read_back

pytestmark = pytest.mark.budget(40, "three lakes, and a run of a whole table in each")
DAY = "2026-01-05"
PAGES = TableSpec(
    "gold/pages",
    {
        "event_date": Column("DATE", "UTC day", required=True),
        "page": Column("STRING", "path", required=True),
        "views": Column("BIGINT", "visits of the page", required=True),
    },
    partition_by=("event_date",),
    checks={"views_are_there": "views > 0"},
    comment="One row per page and day.",
)
QUERY = "SELECT event_date, page, count(*) AS views FROM {rows} GROUP BY event_date, page"
FILE = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/pages
    comment: One row per page and day.
    columns:
      event_date: {type: DATE, comment: UTC day, required: true}
      page: {type: STRING, comment: path, required: true}
      views: {type: BIGINT, comment: visits of the page, required: true}
    partition_by: [event_date]
    checks: {views_are_there: views > 0}
  reads:
    tables:
      silver/visits: {same: {column: event_date}}
  runs:
    partitions: {daily: {start: 2026-01-05}}
    when: {nightly: {cron: 0 2 * * *, lookback: 14}}
  gates:
    audits:
      - {name: few_pages, of: written, warn_above: 100}
    if_empty: Warns of a day without visits.
  about:
    owner: team:web
    used_by: dashboards
    fresh_hours: 26
    derived: {views: [visit_id]}
  code_version: "1"
  description: Count the visits of each page of a day.
  steps:
    - error_management.windowed_deduplicator: {keys: [visit_id], order_by: [event_time]}
    - tally: {identity: [visit_id]}
    - sql: SELECT event_date, page, count(*) AS views FROM {rows} GROUP BY event_date, page
    - account: {represented: views}
    - quality.audit_write_audit_publish: {allow_empty: true}
"""
VIEWS = Audit(name="views_are_counted", of="views", sql="sum(views)", fail_below=0)


@lake_table(
    PAGES,
    reads=Reads({VISITS: same("event_date")}),
    runs=Runs(daily(NOW.date().replace(2026, 1, 5)), Nightly("0 2 * * *", lookback=14)),
    gates=Gates(
        (Audit(name="few_pages", of="written", warn_above=100), VIEWS), if_empty="Warns of a day without visits."
    ),
    about=About(owner="team:web", used_by="dashboards", fresh_hours=26, derived={"views": ["visit_id"]}),
    patterns=[audit_write_audit_publish, deduplicate],
    code_version="1",
)
def pages(visits: Pinned, into: Target) -> WriteResult:
    """Count the visits of each page of a day."""
    split = deduplicate(visits.rows(), keys=["visit_id"], order_by=["event_time"])
    rows, seen = tally(split, identity=["visit_id"])
    counted = rows.sparkSession.sql(QUERY, rows=rows)
    return audit_write_audit_publish(counted, into.reading(seen, represented="views"), allow_empty=True)


WITH_VIEWS = FILE.replace(
    "    if_empty", "      - {name: views_are_counted, of: views, sql: sum(views), fail_below: 0}\n    if_empty"
)


def in_file(text):
    """The table that a text declares."""
    (document,) = documents(text, "defs.yaml")
    table, faults = declare(draft(document), SPECS)
    assert not faults
    return table


def shown(table):
    """What Dagster shows of a table, apart from the place of its code and the digest of what a file declares."""
    (spec,) = table.definition().specs
    metadata = {name: value for name, value in spec.metadata.items() if name != "dagster/code_references"}
    return spec.replace_attributes(metadata=metadata, code_version=spec.code_version.partition("-")[0])


def test_a_table_of_a_file_is_the_table_in_python():
    """Declaration, asset, checks, partitions, job, schedule, lineage and description."""
    table = in_file(WITH_VIEWS)
    assert (table.spec, table.runs, table.about.owner) == (pages.spec, pages.runs, pages.about.owner)
    assert {c: tuple(n) for c, n in table.about.derived.items()} == {"views": ("visit_id",)}
    assert table.gates == pages.gates
    assert tuple(table.patterns) == tuple(pages.patterns)
    assert list(table.reads.tables) == list(pages.reads.tables)
    assert table.reads == pages.reads
    made, other = table.definition(), pages.definition()
    assert shown(table) == shown(pages)
    assert list(made.check_specs) == list(other.check_specs)
    assert (made.partitions_def, made.op.pool, made.op.name) == (other.partitions_def, other.op.pool, other.op.name)
    assert made.op.description == other.op.description
    assert job_of(table).name == job_of(pages).name
    assert [s.cron_schedule for s in schedules_of(table)] == [s.cron_schedule for s in schedules_of(pages)]
    assert table.lineage() == pages.lineage()


@pytest.fixture
def lake_with(spark, tmp_path):
    """Make a lake with visits and users, of which one visit is there twice."""

    def make(name):
        lake = Lake(root=str(tmp_path / name), engine=SparkEngine())
        found = [("1", "a", "/"), ("2", "b", "/"), ("3", "a", "/x"), ("3", "a", "/x"), ("4", "c", "/x")]
        texts = [(visit, f"{DAY} 10:00:00", user, page, DAY) for visit, user, page in found]
        rows = spark.createDataFrame(
            texts, "visit_id STRING, event_time STRING, user_id STRING, page STRING, day STRING"
        )
        rows = rows.selectExpr(
            "visit_id", "timestamp(event_time) AS event_time", "user_id", "page", "date(day) AS event_date"
        )
        overwrite_partition(rows, lake.table(VISITS).target(a_run(), partition={"event_date": DAY}))
        users = spark.createDataFrame([("a", "Ada"), ("b", "Bob")], "user_id STRING, login STRING")
        load_full(users, lake.table(USERS).target(a_run()))
        return lake

    return make


def last_commit(lake, name):
    """What the newest commit of a table says, apart from run, times and cost."""
    commit = lake.ledger(name).latest({"event_date": DAY})
    record = commit.record
    said = {field: getattr(record, field) for field in ("asset", "partition", "pattern", "inputs")}
    said["code_version"] = record.code_version.partition("-")[0]
    findings = [(finding["name"], finding["passed"], finding["figures"]) for finding in record.findings]
    return commit.operation, said, record.verdict, record.rows, findings, dict(record.figures)


def test_a_run_of_a_file_commits_what_a_run_in_python_commits(lake_with):
    """The same rows, and the same record of inputs, audits and row counts."""
    seen = {}
    for name, table in {"python": pages, "file": in_file(WITH_VIEWS)}.items():
        lake = lake_with(name)
        resources = {"lake": lake, "clock": Clock(fixed=NOW.isoformat())}
        with dg.DagsterInstance.ephemeral() as instance:
            done = dg.materialize([table.definition()], partition_key=DAY, resources=resources, instance=instance)
            checks = {each.check_name: each.passed for each in done.get_asset_check_evaluations()}
        rows = sorted(str(row) for row in read_back(lake.table(table.spec)))
        seen[name] = (rows, checks, last_commit(lake, "gold/pages"))
    assert seen["file"] == seen["python"]
    assert len(seen["file"][0]) == 2


def known_or_not(rows, users, event_date):
    """Keep all rows; a step between patterns, over rows, a reference and the partition."""
    assert (users.columns, event_date) == (["user_id", "login"], DAY)
    return rows.filter("known IS NOT NULL")


def test_a_chain_of_every_kind_of_step_runs(lake_with):
    """Split, tally, inspection, join to a reference, Python, SQL, accounting, and a second table to write."""
    text = GOOD.replace(
        "    - sql: SELECT", "    - python: tests.components.chains.test_steps:known_or_not\n    - sql: SELECT"
    )
    text = text.replace("warn_above: 0.5", "fail_above: 0").replace("where: page IS NULL", "where: page = '/x'")
    text = text.replace("fail_below: 1.0", "warn_below: 1.0").replace("    reports: {soon: It came soon.}\n", "")
    table, lake = in_file(text), lake_with("chain")
    resources = {"lake": lake, "clock": Clock(fixed=NOW.isoformat())}
    with dg.DagsterInstance.ephemeral() as instance:
        asset = table.definition()
        done = dg.materialize([asset], partition_key=DAY, resources=resources, instance=instance, raise_on_error=False)
        judged = {each.check_name: each.passed for each in done.get_asset_check_evaluations()}
    assert judged["users_are_there_once"]
    assert [name for name, passed in judged.items() if not passed] == [
        "pages_are_known"
    ]  # as of a table in Python: what was put aside needs somebody
    assert [(row["page"], row["views"]) for row in read_back(lake.table(table.spec))] == [("/", 2)]
    (aside,) = table.beside
    assert [(row["page"], row["views"]) for row in read_back(lake.table(aside))] == [("/x", 2)]
    commit = lake.ledger("gold/page_counts").latest({"event_date": DAY})
    assert commit.record.inputs["silver/visits"] == 1


def test_places_that_a_step_names_count_as_declared():
    """Absolute paths, URIs and folders of CSV sinks; no name, number or list."""
    options = {
        "to": "/exports",
        "bucket": "s3://lake/x",
        "sink": CsvFolder("/out"),
        "name": "to",
        "most": 3,
        "by": ["/a"],
    }
    assert list(_named_places(options)) == ["/exports", "s3://lake/x", "/out"]
    reads = _touching(Reads(touches=Touches(files=["snapshots"], whole_lake=True)), ["/out"])
    assert reads.touches == Touches(files=("snapshots", "/out"), whole_lake=True)
