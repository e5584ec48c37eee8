"""The sensor of lineage: events of runs reach a server in order, at least once, and over restarts."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from dedp_assets.graph.mail.lineage_outbox import LineageOutbox
from dedp_assets.graph.mail.openlineage import Attempt, complete_event, start_event
from dedp_assets.graph.mail.openlineage_datasets import Touched, place_at
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.sensors.lineage import lineage
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.location import lake_sensors
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.running.lineage import LAKE, Dataset
from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, ColumnOrigin
from dedp_assets.patterns.delta import LocalStore
from sensors import sensors
from tests.helpers import a_record, write_log
from tests.openlineage import faults_of

NOON = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)


class Watched:
    """The sensor over a zone whose lake has a folder for lineage."""

    def __init__(self, zone, folder, url):
        self.zone, self.outbox, self.now = zone, LineageOutbox(LocalStore(str(folder))), NOON
        lake = Lake(root=str(zone.root / "lake"), lineage=str(folder), engine=zone.engine)
        plain = zone.resources
        zone.resources = lambda: {**plain(), "lake": lake, "clock": Clock(fixed=self.now.isoformat())}
        self.restart(url)

    def restart(self, url):
        self.sensor = lineage(url)

    def tick(self, **later):
        self.now += timedelta(**later)
        data = self.zone.tick(self.sensor)
        assert not data.run_requests
        return data.skip_message

    def ran(self, run):
        attempt = Attempt(run_id=run, job="job", step="step")
        self.outbox.append(run, start_event(attempt, at=self.now), at=self.now)
        self.outbox.append(run, complete_event(attempt, at=self.now), at=self.now)


@pytest.fixture
def watched(zone, tmp_path, webhook):
    return Watched(zone, tmp_path / "lineage", webhook.base)


def heard(webhook):
    return [body["eventType"] for _, _, body in webhook.taken]


def test_events_are_delivered_once(watched, webhook):
    """Those of a tick, and those that come later."""
    assert watched.tick() == "0 delivered"
    watched.ran("1")
    assert watched.tick(seconds=30) == "2 delivered"
    watched.ran("2")
    assert watched.tick(seconds=30) == "2 delivered"
    assert watched.tick(seconds=30) == "0 delivered"
    assert heard(webhook) == ["START", "COMPLETE"] * 2


def test_what_is_owed_survives_restarts_and_a_receiver_that_is_down(watched, webhook):
    """It waits, with pauses that grow, and arrives in order."""
    watched.ran("1")
    watched.restart(f"http://127.0.0.1:{free_port()}")
    assert "does not answer" in watched.tick()
    watched.ran("2")
    watched.restart(webhook.base)
    assert watched.tick().startswith("waits until")
    assert watched.tick(minutes=2) == "4 delivered"
    assert heard(webhook) == ["START", "COMPLETE"] * 2


DAY, NEXT = "2026-01-05", "2026-01-06"
READ = {"day": DAY}
VERDICT = Finding("rows_are_few", passed=False, severity="warn", note="3 of 40").as_dict()
TRACED = ColumnLineage({"visitors": ColumnOrigin((ColumnInput("silver/visits", "id", "AGGREGATION"),))})


def noted(lake, name="silver/visits", version=1):
    """A run that read a day of a table and wrote another one."""
    places = {each: place_at(str(Path(lake.root).as_uri()) + "/" + each) for each in (name, "gold/daily")}
    read, written = (
        Touched(namespace=places[each][0], name=places[each][1], known_as=Dataset(LAKE, each), version=v, partitions=p)
        for each, v, p in ((name, version, [READ]), ("gold/daily", 3, []))
    )
    attempt = Attempt(run_id="1", job="job", step="step")
    return complete_event(attempt, at=NOON, inputs=[read], outputs=[written])


def test_an_event_is_delivered_with_facts_of_the_logs_as_of_the_version_that_was_read(watched, webhook):
    """Counts and verdicts of the partition, traced columns; neither a later commit nor another day counts."""
    lake = watched.zone.resources()["lake"]
    record = a_record("silver/visits", READ, findings=(VERDICT,))
    later = a_record("silver/visits", READ)
    commits = [{"record": record, "changed": [READ, {"day": NEXT}]}, {"record": later, "changed": [READ]}]
    write_log(Path(lake.root) / "silver/visits", {"id": "long", "day": "date"}, ["day"], commits)
    lake.column_lineage("gold/daily").put("columns.json", json.dumps({"lineage": TRACED.to_json()}).encode())
    watched.outbox.append("1", noted(lake), at=NOON)
    assert watched.tick() == "1 delivered"
    ((_, _, event),) = webhook.taken
    assert faults_of(event) == []
    (read,), (written,) = event["inputs"], event["outputs"]
    assert read["inputFacets"]["dataQualityMetrics"]["fileCount"] == 1
    (found,) = read["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (found["assertion"], found["description"]) == ("rows_are_few", "3 of 40")
    (origin,) = written["facets"]["columnLineage"]["fields"]["visitors"]["inputFields"]
    assert (origin["name"], origin["field"]) == (read["name"], "id")


@pytest.mark.parametrize("forgotten", [False, True], ids=["no log", "a log without the version"])
def test_an_event_whose_log_tells_nothing_is_delivered_as_it_was_noted(watched, webhook, forgotten, caplog):
    """The table was removed, or its log cleaned up, before the receiver was there."""
    lake = watched.zone.resources()["lake"]
    if forgotten:
        write_log(Path(lake.root) / "silver/visits", {"id": "long", "day": "date"}, ["day"], [{"changed": [READ]}])
    event = noted(lake, version=9)
    watched.outbox.append("1", event, at=NOON)
    assert watched.tick() == "1 delivered"
    assert [body for _, _, body in webhook.taken] == [event]
    assert "less about silver/visits" in caplog.text


def test_an_event_of_another_form_holds_nothing_back(watched, webhook):
    """Of another producer, in the same folder."""
    theirs = {"eventType": "COMPLETE", "run": {"runId": "1"}, "job": {}, "inputs": [{"dataset": "visits"}]}
    watched.outbox.append("0", theirs, at=NOON)
    watched.ran("1")
    assert watched.tick() == "3 delivered"
    assert theirs in [body for _, _, body in webhook.taken]


def test_the_sensor_is_there_where_a_receiver_is_named(monkeypatch):
    """Of the case study, and of any project."""
    for made in (lake_sensors, sensors):
        monkeypatch.delenv("DEDP_LINEAGE_URL", raising=False)
        assert "lineage" not in {sensor.name for sensor in made([], [])}
        monkeypatch.setenv("DEDP_LINEAGE_URL", "http://marquez:5000")
        assert "lineage" in {sensor.name for sensor in made([], [])}


def test_an_address_that_is_none_is_refused_when_definitions_are_loaded():
    """Not at each tick."""
    with pytest.raises(ConfigError, match="must be an http"):
        lineage("marquez:5000")
