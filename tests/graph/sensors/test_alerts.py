"""The sensor of alerts: a trouble of the platform is raised once and cleared once, and looking asks for no run."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest

from dedp_assets.case_study.defs.gold.daily_visitors import daily_visitors
from dedp_assets.case_study.defs.silver.visits import visits
from dedp_assets.case_study.defs.staging.visits import visits as staged_visits
from dedp_assets.graph.checks.causes import CauseWatch
from dedp_assets.graph.declare import Expects
from dedp_assets.graph.observe import observing
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.resources.alerting import Alerting, outbox_of
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.sensors.alerts import alerts
from dedp_assets.graph.sensors.reconciler import reconciler
from dedp_assets.location import lake_sensors
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta import transaction_id
from tests.helpers import a_record, fill

# Without expectations: what the detectors find is no matter of these tests, apart from the last ones.
TABLES = [
    replace(table, about=replace(table.about, expects=Expects())) for table in (visits, daily_visitors, staged_visits)
]
DAY = "2026-01-19"


class Watched:
    """The sensor over a zone, with the file channel of a home of its own."""

    def __init__(self, zone, home):
        self.zone, self.home = zone, home
        self.lake = zone.resources()["lake"]
        self.restart()
        plain = zone.resources
        zone.resources = lambda: {**plain(), "alerts": Alerting()}

    def restart(self):
        self.sensor = alerts(TABLES)

    def tick(self):
        """One tick; the skip message."""
        fill(self.zone.root / "lake")
        data = self.zone.tick(self.sensor)
        assert not data.run_requests
        return data.skip_message

    def heard(self, name=""):
        """Event, alert, table and partition of each message, without those of other names."""
        path = self.home / "alerts.jsonl"
        messages = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [(m["event"], m["name"], m["table"], m["partition"]) for m in messages if name in ("", m["name"])]

    def message(self):
        return json.loads((self.home / "alerts.jsonl").read_text().splitlines()[-1])

    def refuse(self, table, key, *, goal="1", code=""):
        note = Refusal((goal,), code or table.code_version, "run-1", f"{key}: 3 rows of 40 are broken")
        Refusals(self.lake.refused(table.spec.name)).note(key, note)


@pytest.fixture
def watched(zone, tmp_path, monkeypatch):
    """A lake of which silver/visits lacks a day."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DEDP_ALERTS", "file")
    zone.bronze({"changed": [{"landed_on": DAY, "event_date": DAY}]})
    return Watched(zone, tmp_path / "home")


def test_a_platform_without_trouble_is_silent(watched):
    """A partition that the reconciler is about to ask for is none."""
    assert watched.tick() == "0 troubles; file: 0 delivered"
    assert watched.heard() == []


def test_a_refused_partition_is_raised_once_and_cleared_once(watched):
    """Over restarts of the sensor, with the sentence of the refusal and the command that shows more."""
    watched.refuse(visits, DAY)
    for _ in range(3):
        watched.tick()
        watched.restart()
    where = ("refused", "silver/visits", DAY)
    assert watched.heard() == [("raised", *where)]
    message = watched.message()
    assert (message["reason"], message["command"], message["severity"]) == (
        f"{DAY}: 3 rows of 40 are broken",
        "dedp status silver/visits",
        "warning",
    )
    Refusals(watched.lake.refused("silver/visits")).clear(DAY)
    for _ in range(2):
        watched.tick()
    assert watched.heard() == [("raised", *where), ("cleared", *where)]


def test_a_refusal_that_new_data_or_new_code_overtook_is_cleared(watched):
    """The reconciler asks for the partition again, so nobody has to do anything."""
    watched.refuse(visits, DAY)
    watched.tick()
    watched.zone.bronze({"changed": [{"landed_on": DAY, "event_date": DAY}]})
    watched.tick()
    assert [event for event, *_ in watched.heard("refused")] == ["raised", "cleared"]


def test_a_refusal_of_a_table_that_the_reconciler_leaves_alone_counts_by_its_note(watched):
    """Of the present code only: another code has not refused anything."""
    watched.refuse(staged_visits, "2026-01-05")
    watched.refuse(staged_visits, "2026-01-06", code="0")
    watched.tick()
    assert watched.heard() == [("raised", "refused", "staging/visits", "2026-01-05")]


def test_many_partitions_of_a_table_are_few_alerts(watched, monkeypatch):
    """The oldest by themselves, the others by their number."""
    monkeypatch.setattr(observing, "_SHOWN", 2)
    for day in range(5, 10):
        watched.refuse(staged_visits, f"2026-01-{day:02d}")
    watched.tick()
    assert watched.heard() == [
        ("raised", "refused", "staging/visits", "2026-01-05"),
        ("raised", "refused", "staging/visits", "2026-01-06"),
        ("raised", "refused, many", "staging/visits", ""),
    ]
    assert watched.message()["figure"] == "3 more partitions"


def test_a_partition_whose_runs_fail_again_and_again_is_critical(watched):
    """After the third, with the run to look at; not while the reconciler goes on by itself."""
    asking = reconciler([visits], [])
    for _ in range(3):
        watched.tick()
        assert watched.heard() == []
        (request,) = watched.zone.tick(asking).run_requests
        watched.zone.ran({**request.tags, "dagster/run_key": request.run_key}, fails=True)
    watched.tick()
    assert watched.heard() == [("raised", "given up", "silver/visits", DAY)]
    message = watched.message()
    assert (message["severity"], message["figure"], message["limit"]) == ("critical", "3 runs", "3 runs")
    assert message["reason"].startswith("gave up after 3 failed runs: look at run ")
    record = a_record("silver/visits", {"event_date": DAY}, sequence=1)
    txn = {transaction_id("silver/visits", {"event_date": DAY}, 0): 1}
    watched.zone.dated("silver/visits", {"changed": [{"event_date": DAY}], "record": record, "txn": txn})
    watched.tick()
    assert watched.heard("given up")[1:] == [("cleared", "given up", "silver/visits", DAY)]


@pytest.mark.parametrize(("now", "stale"), [("2026-01-21T02:00:00+00:00", False), ("2026-01-21T02:00:01+00:00", True)])
def test_a_table_older_than_declared_is_stale(watched, now, stale):
    """With its age and the declared limit; a table that was never loaded is none."""
    watched.zone.dated("gold/daily_visitors", {"changed": [{"event_date": DAY}]})
    watched.zone.now = now
    watched.tick()
    assert watched.heard("stale") == [("raised", "stale", "gold/daily_visitors", "")] * stale
    if stale:
        message = watched.message()
        assert (message["figure"], message["limit"]) == ("26.0003 h", "at most 26 h")
        assert message["reason"] == f"the newest complete partition is {DAY}"


def test_nothing_of_the_demo_is_stale(watched):
    """Its rows are of the days that somebody chose; what it refused is told all the same."""
    watched.zone.dated("gold/daily_visitors", {"changed": [{"event_date": DAY}]})
    Lake(root=str(watched.zone.root / "lake"), engine=watched.zone.engine).mark_demo()
    watched.refuse(visits, DAY)
    watched.zone.now = "2026-11-27T02:00:00+00:00"
    watched.tick()
    assert [(event, name) for event, name, *_ in watched.heard()] == [("raised", "refused")]


def test_a_log_that_cannot_be_read_is_critical_and_clears_nothing_else(watched):
    """Nobody knows how its partitions are, nor those of its readers, so their alerts last."""
    watched.refuse(visits, DAY)
    watched.tick()
    log = watched.zone.root / "lake" / "bronze" / "visits" / "_delta_log"
    damaged = max(log.glob("*.json"))
    whole = damaged.read_text()
    damaged.write_text("{")
    watched.restart()
    watched.tick()
    assert watched.heard()[1:] == [("raised", "unreadable", "bronze/visits", "")]
    assert watched.message()["severity"] == "critical"
    damaged.write_text(whole)
    watched.restart()
    watched.tick()
    assert watched.heard()[2:] == [("cleared", "unreadable", "bronze/visits", "")]
    assert [e.alert.kind for e in outbox_of(settings()).open_episodes()] == ["refused"]


def test_what_is_owed_leaves_where_the_observation_fails(watched, monkeypatch):
    """The tick fails, and the message of a run is delivered."""
    Alerting().raise_alert("incomplete", "gold/summary")

    def broken(*_, **__):
        raise ContractError("the landing zone is gone")

    monkeypatch.setattr(CauseWatch, "poll", broken)
    with pytest.raises(ContractError, match="the landing zone is gone"):
        watched.tick()
    assert watched.heard() == [("raised", "incomplete", "gold/summary", "")]


def test_an_alert_of_code_lasts_until_code_clears_it(watched):
    """No observation of the platform ends it."""
    Alerting().raise_alert("incomplete", "gold/summary")
    watched.tick()
    watched.tick()
    Alerting().clear("incomplete", "gold/summary")
    watched.tick()
    assert [event for event, *_ in watched.heard()] == ["raised", "cleared"]


def test_a_project_without_channels_has_no_sensor_of_alerts(watched, monkeypatch):
    """The case study has it anyway, and its tick says which setting lacks."""
    assert "alerts" in {sensor.name for sensor in lake_sensors(TABLES, [])}
    monkeypatch.delenv("DEDP_ALERTS")
    assert "alerts" not in {sensor.name for sensor in lake_sensors(TABLES, [])}
    assert "alerts" in {sensor.name for sensor in watched.zone.definitions.get_repository_def().sensor_defs}
    assert watched.tick() == "0 troubles; no channel delivers (DEDP_ALERTS)"


def test_a_flow_that_is_interrupted_is_raised_at_the_second_look_and_noted_in_the_journal(watched):
    """By what the table declares; the journal has the figures of every look that says something new."""
    flowing = replace(daily_visitors, about=replace(daily_visitors.about, expects=Expects(gap_minutes=60)))
    watched.zone.dated(flowing.spec.name, {"changed": [{"event_date": DAY}]})
    watched.sensor = alerts([flowing])
    watched.tick()
    assert watched.heard("interrupted") == []
    watched.tick()
    assert watched.heard("interrupted") == [("raised", "interrupted", flowing.spec.name, "")]
    assert watched.message()["limit"] == "at most 60 min"
    noted = watched.zone.resources()["journal"].since(date(2026, 1, 1))
    assert {(each.metric, each.verdict) for each in noted} == {
        ("gap", "fail"),
        ("future_commits", "ok"),
        ("future_events", "ok"),
    }
