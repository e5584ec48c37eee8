"""The sensor of lineage: events of runs reach a server in order, at least once, and over restarts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.graph.mail.lineage_outbox import LineageOutbox
from dedp_assets.graph.mail.openlineage import Attempt, complete_event, start_event
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.sensors.lineage import lineage
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.location import lake_sensors
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import LocalStore
from sensors import sensors

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
