"""The rerun law of the graph: run, run again, run an old partition again, die in the middle and run again: same rows.

What is run is found by walking the graph, so that a new table is under the law by being there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from dedp_assets.case_study import defs
from dedp_assets.case_study.sources import devices, operational, partner_visits
from dedp_assets.case_study.sources.ads import ads_before
from dedp_assets.case_study.sources.visits import BROKEN
from dedp_assets.case_study.sources.visits_topic import publish
from dedp_assets.graph.declare import LakeTable, declared
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.systems import postgres
from dedp_assets.graph.systems.orchestrator import Orchestrator
from dedp_assets.patterns.core.measuring.measurements import Measurement
from tests.case_study.assets.conftest import MONDAY, day, visits_of
from tests.faults.failpoints import dying
from tests.helpers import OF_PRODUCERS

TO = "..."
"""Between the first and the last key of a range."""
pytestmark = [pytest.mark.slow, pytest.mark.budget(250, "every table of the graph is computed several times")]
BY_RUN = {"run_id", "dead_lettered_at"}
"""Columns that say which run refused a record, and when."""
OF_FILES = {"gold/legacy_page_view_files", "serving/page_view_files"}
"""Tables with the names of CSV files, which are of the run that wrote them; the lines are compared instead."""
OF_CROWDS = {"serving/private_visitors"}
"""Tables that show no group as small as any here, by chance of one in a million."""
OF_LOGS = {"platform/contracts"}
"""Tables about the logs of other tables, which are computed after those."""
REQUESTS = set()
"""Requests for the start of another team's report."""
START = datetime(MONDAY.year, MONDAY.month, MONDAY.day, tzinfo=timezone.utc)
END = START + timedelta(days=2)
TABLES = {table.spec.name: table for table in declared(defs)}


@pytest.fixture
def ads(kafka):
    """A topic that holds the ads before the visits of both days."""
    # The topic does not stamp its records, so that they arrive at the time of the platform's clock.
    # The client is held until the answer: creating a topic fails once nobody holds it.
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.create_topics([NewTopic(kafka.topic, 1, config=OF_PRODUCERS)])[kafka.topic].result()
    pageless = json.dumps({"display_id": "pageless", "display_time": START.isoformat(), "ad_id": "ad1"})
    publish(kafka, [*ads_before([*visits_of(0), *visits_of(1)]), pageless], key="ad_page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEDP_KAFKA", kafka.bootstrap)
        patch.setenv("DEDP_ADS_TOPIC", kafka.topic)
        patch.setattr(Clock, "now", lambda _: END + timedelta(hours=1))
        yield


@pytest.fixture
def landed(ads, world, database, services, monkeypatch):
    """A world in which two days have landed, with late records and one that is broken, and nothing was loaded."""
    monkeypatch.setattr(postgres, "address", lambda _: database)
    monkeypatch.setenv("DEDP_SERVICES", services.url)
    # A webserver starts a run once for a request.
    REQUESTS.clear()
    monkeypatch.setattr(Orchestrator, "launch", lambda *_, tags, request, **__: REQUESTS.add(tags[request]) or "run")
    failed = json.dumps({**json.loads(visits_of(0)[0]), "visit_id": "failed", "status": 500})
    world.land(day(0), [*visits_of(0), failed], broken=BROKEN[:1])
    world.land(day(1), visits_of(1), late=visits_of(0, count=3, seed=9))
    devices.deliver(world.landing / "devices", devices.devices(count=5))
    world.archive("2024.parquet", "before", "the", "platform")
    for number in range(2):
        date = MONDAY + timedelta(days=number)
        shapes = {"magazine": partner_visits.magazine_visits, "radio": partner_visits.radio_visits}
        files = {name: [*visits(date, count=3), *visits(MONDAY, count=1, seed=9)] for name, visits in shapes.items()}
        partner_visits.deliver(world.landing / "partner_visits", date, files)
    measured = [
        Measurement(metric="gap", table="silver/visits", at=START + timedelta(days=number, hours=1), verdict="ok")
        for number in range(2)
    ]
    Journal(folder=str(world.settings.home / "measurements")).append(measured)
    with database.connect() as connection:
        operational.create(connection)
        operational.work(connection, at=START + timedelta(hours=23, minutes=59, seconds=57), steps=6)
    return world


def steps(world) -> Iterator[tuple[str, list[str], LakeTable[...] | None]]:
    """Every asset that can be computed, after those that it reads: its name, its keys, its declaration."""
    graph, seen = world.platform.definitions.resolve_asset_graph(), set()
    for key in graph.toposorted_asset_keys:
        node, name = graph.get(key), "/".join(key.path)
        if node.is_materializable and key not in seen:
            seen |= set(node.execution_set_asset_keys)
            main = next((t for t in TABLES.values() if name in {spec.name for spec in t.tables}), None)
            yield name, keys_of(node.partitions_def), main if name in names_of(main) else None


def names_of(table) -> list[str]:
    return [spec.name for spec in table.tables] if table else []


def keys_of(partitions) -> list[str]:
    """The keys of the days that landed; an empty one without partitions, and of hours two and a range."""
    if partitions is None:
        return [""]
    windows = {key: partitions.time_window_for_partition_key(key) for key in partitions.get_partition_keys()}
    keys = [key for key, window in windows.items() if window.start < END and window.end > START]
    return keys if len(keys) < 24 else [keys[0], f"{keys[1]}{TO}{keys[-2]}", keys[-1]]


def compute(world, name, key, **tags):
    """Compute a partition, or a range in one run."""
    first, _, last = key.partition(TO)
    span = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last} if last else {}
    return world.compute(name, "" if last else key, **span, **tags)


class Contents:
    """The rows of every table, read again where there is a new version."""

    def __init__(self, world) -> None:
        self.world, self.known = world, {}

    def now(self) -> dict[str, Counter[str]]:
        """The business columns of every row of every table, in no order."""
        versions = self.world.versions()
        for table in TABLES.values():
            for spec in table.tables:
                if self.known.get(spec.name, (None,))[0] != versions[spec.name]:
                    varying = {*BY_RUN, *({"file"} if spec.name in OF_FILES else ())}
                    kept = [column for column in spec.content if column not in varying]
                    rows = Counter(str([row[column] for column in kept]) for row in self.world.rows(spec.name))
                    self.known[spec.name] = versions[spec.name], rows
        shown = self.world.exported().glob("*/*/[!.]*=*")
        folders = sorted(path for path in shown if path.is_dir())
        files = {str(folder): Counter(_lines(folder)) for folder in folders}
        return {**{name: rows for name, (_, rows) in self.known.items()}, **files}


def _lines(folder) -> list[str]:
    """The lines of all CSV files of a folder, which holds no other file but the marker."""
    assert {path.suffix for path in folder.iterdir()} == {".csv", ""}
    return [line for path in folder.glob("*.csv") for line in path.read_text().splitlines()]


def load_dying(world, name, keys, table) -> None:
    """Compute an asset for the first time: the run of the first key dies before its commit, that of the last after it.

    Whatever is refused after that is asked for again by a person.
    """
    for number, key in enumerate(keys):
        for below in names_of(table):
            for point, at in (("before", 0), ("after", len(keys) - 1)):
                if number == at:
                    with dying(point, below=f"/{below}/") as failpoint:
                        ended = compute(world, name, key)
                    assert ended.failure or not failpoint.reached, (below, point)
        if compute(world, name, key).failure:
            assert compute(world, name, key, **{FORCE: "true"}).failure == "", (name, key)


@pytest.mark.promise("no-rerun-backfill-or-death")
def test_no_rerun_backfill_or_death_changes_a_row(landed):
    """Each table and its files: the first runs die, the newest run again, then the oldest: all is as before."""
    everything = sorted(steps(landed), key=lambda step: step[0] in OF_LOGS)
    assert {name for _, _, table in everything for name in names_of(table)} == {
        spec.name for table in TABLES.values() for spec in table.tables
    }
    for name, keys, table in everything:
        load_dying(landed, name, keys, table)
    contents = Contents(landed)
    before = contents.now()
    assert {name for name, rows in before.items() if not rows} <= OF_CROWDS
    for name, keys, _ in everything:
        assert compute(landed, name, keys[-1]).failure == ""
    assert contents.now() == before
    assert len(REQUESTS) == 2, "a report is started for each of the two days, whatever died or ran again"
    for name, keys, table in everything:
        if table and (
            table.reads.tables or table.runs.partitions
        ):  # what is captured anew is another snapshot, and no rerun
            assert landed.compute(name, keys[0], **{FORCE: "true"}).failure == ""
            assert contents.now() == before, name
