"""A first load: files as exports are, and the days of one file in few runs, each with its verdict."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import dagster as dg
import pytest

from dedp_assets.graph.outcomes.run_tags import keys_of
from dedp_assets.graph.reconcile import backlogs
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.reconcile.requests import run_request
from dedp_assets.graph.resources.clock import Clock
from tests.components.landed_project import Project

pytestmark = pytest.mark.spark
NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
DAYS = [(date(2026, 1, 1) + timedelta(days=n)).isoformat() for n in range(6)]
SPOILT, STATIONS = DAYS[2], "abcdefghijkl"
WEATHER = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/weather
  folder: weather
  format: {csv: {delimiter: ;, decimal: ",", skip_first: 2, skip_last: 1}}
  exclude: [README.md, "*.sha256"]
  partitions: {daily: {start: 2026-01-01}}
  event_time: day
  keys: [day, station]
  columns:
    day: {type: DATE, format: d.M.yyyy}
    station: {type: STRING}
    rain: {type: DOUBLE}
    wind: {type: "DECIMAL(6,2)", called: Wind Speed}
  gates: {audits: [{name: no_rain_is_negative, of: negative, where: rain < 0, fail_above: 0}]}
  about: {owner: "team:data"}
"""
SHOPS = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/shops
  folder: shops
  format: {json: {records: data.shops}}
  keys: [id]
  columns: {id: {type: BIGINT}, price: {type: "DECIMAL(6,2)"}, tags: {type: "ARRAY<STRING>"}}
  about: {owner: "team:data"}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """An export of many days in one file, with a title, a sum and files beside; and an answer of a service."""
    made = Project(tmp_path_factory.mktemp("project"), {"weather/defs.yaml": WEATHER, "shops/defs.yaml": SHOPS})
    rows = [
        f"{int(day[8:])}.{int(day[5:7])}.{day[:4]};{station};{'-0,5' if day == SPOILT else ',25'};3,50"
        for day in DAYS
        for station in STATIONS
    ]
    rows[-1] = rows[-1].replace("3,50", "1.2")
    text = "\n".join(["Weather of two stations", "", "day;station;rain;Wind Speed", *rows, "sum;;9,75;"])
    made.land("weather/2026-02-10", {"all.csv": text, "README.md": "# read me", "all.csv.sha256": "beef"})
    shops = {
        "version": 1,
        "data": {"shops": [{"id": 1, "price": 1.50, "tags": ["a"]}, {"id": 2, "price": "x", "tags": []}]},
    }
    made.land("shops", {"shops.json": json.dumps(shops, indent=1)})
    return made


def plan(project, instance):
    """What the reconciler asks for now."""
    loop = Reconciler(list(project.tables.values()))
    return loop.reconcile(project.lake, project.zone, NOW, instance=instance)[0]


def test_the_days_of_a_file_are_computed_in_few_runs_with_a_verdict_each(project, monkeypatch):
    """A day that a gate refuses is the only one without a commit, and the only one that is told."""
    monkeypatch.setattr(backlogs, "_FEW", 3)
    monkeypatch.setattr(backlogs, "_MOST", 4)
    project.run("bronze/weather", "2026-02-10")
    resources = {"lake": project.lake, "clock": Clock(), "landing": project.zone}
    with dg.DagsterInstance.ephemeral() as instance:
        asks = plan(project, instance).asks
        silver = [ask for ask in asks if ask.want.named == "silver/weather"]
        assert [len(ask.wants) for ask in silver] == [4, 2]
        assets = [project.tables["silver/weather"].definition()]
        for ask in silver:
            tags = run_request(ask, None).tags
            assert keys_of(tags, dg.DailyPartitionsDefinition("2026-01-01")) == [each.key for each in ask.wants]
            dg.materialize(assets, tags=tags, resources=resources, instance=instance, raise_on_error=False)
        left = [gap for gap in plan(project, instance).gaps if gap.table == "silver/weather"]
    assert [(gap.key, gap.state) for gap in left] == [(SPOILT, "refused")]
    assert "no_rain_is_negative: above 0 (negative=12)" in left[0].reason
    ledger = project.lake.ledger("silver/weather")
    commits = {day: ledger.latest({"event_date": day}) for day in DAYS}
    assert [day for day, commit in commits.items() if commit is None] == [SPOILT]
    assert len({commit.version for commit in commits.values() if commit}) == len(DAYS) - 1
    assert {day for day, commit in commits.items() if commit and commit.record.verdict == "warned"} == {DAYS[-1]}


def test_the_values_of_an_export_are_read_as_it_writes_them(project):
    """Days by their pattern, decimals behind a comma; a number with a point there is a letter."""
    rows = project.rows("silver/weather", "day", "station", "rain", "wind")
    days = [date.fromisoformat(day) for day in DAYS if day != SPOILT]
    expected = [(day, station, 0.25, Decimal("3.50")) for day in days for station in STATIONS]
    assert set(rows) == set(expected) - {expected[-1]}
    assert len(rows) == len(expected) - 1
    (reason,) = project.rows("silver/weather_dead_letter", "reason")
    assert reason == ("wind is not a DECIMAL(6,2)",)
    lines = project.rows("bronze/weather", "line_number")
    assert [number for (number,) in sorted(lines)] == list(range(4, 4 + len(DAYS) * len(STATIONS)))


def test_the_elements_of_an_answer_are_records(project):
    """Each with its number; what does not fit is a letter with its text as it stands in the file."""
    project.run("bronze/shops")
    project.run("silver/shops", refuses=True)
    assert project.rows("bronze/shops", "line_number") == [(1,), (2,)]
