"""Sensors over a lake whose logs are written by hand: whatever starts a JVM here is a mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dedp_assets.definitions import defs
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.graph.systems.postgres import OperationalDatabase
from tests.helpers import write_log


@cache
def graph() -> dg.Definitions:
    """The deployed graph, built once."""
    return defs()


class Zone:
    """A landing zone, a lake without data files, an instance, and ticks over them."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.root, self.instance = root, instance
        self.landing = root / "landing"
        self.cursors: dict[str, str | None] = {}
        self.engine = SparkEngine()
        self.kafka = Kafka()
        self.now = "2026-01-20T12:00:00+00:00"
        self.definitions = graph()

    def resources(self) -> dict[str, Any]:
        """What ticks get to look at."""
        return {
            "engine": self.engine,
            "lake": Lake(root=str(self.root / "lake"), engine=self.engine),
            "landing": Landing(root=str(self.landing)),
            "journal": Journal(folder=str(self.root / "measurements")),
            "clock": Clock(fixed=self.now),
            "kafka": self.kafka,
            "kafka_ads": self.kafka,
            "operational": OperationalDatabase(),
        }

    def tick(self, sensor: dg.SensorDefinition) -> Any:
        """One tick with the cursor of the tick before."""
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(sensor.name),
            resources=self.resources(),
            repository_def=self.definitions.get_repository_def(),
        ) as context:
            data = sensor.evaluate_tick(context)
        self.cursors[sensor.name] = data.cursor
        return data

    def bronze(self, *commits: dict[str, Any]) -> None:
        """Append commits to bronze/visits."""
        columns = {"raw": "string", "landed_on": "date", "event_date": "date"}
        write_log(self.root / "lake/bronze/visits", columns, ["landed_on", "event_date"], list(commits))

    def dated(self, name: str, *commits: dict[str, Any], column: str = "event_date") -> None:
        """Append commits to a table partitioned by one date."""
        write_log(self.root / "lake" / name, {"id": "long", column: "date"}, [column], list(commits))

    def ran(self, tags: dict[str, str], *, fails: bool = False) -> None:
        """Record a finished run with these tags."""

        @dg.op
        def work() -> None:
            if fails:
                raise dg.Failure("on purpose", allow_retries=False)

        @dg.job(config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}})
        def some_job() -> None:
            work()

        some_job.execute_in_process(instance=self.instance, tags=tags, raise_on_error=False)


@pytest.fixture
def zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Zone]:
    """A fresh zone; nobody may ask for a Spark session, of whatever engine: each tick gets a copy of the zone's."""
    asked: list[SparkEngine] = []

    def start(engine: SparkEngine) -> None:
        asked.append(engine)
        raise AssertionError("a tick asked for Spark")

    monkeypatch.setattr(SparkEngine, "_init_session", start)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Zone(tmp_path, instance)
    assert asked == []


@pytest.fixture
def keys() -> Callable[[Any], list[str]]:
    """Partition keys that a tick requested, in order."""
    return lambda data: [request.partition_key for request in data.run_requests or []]
