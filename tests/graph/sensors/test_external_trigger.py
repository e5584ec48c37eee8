"""The event sensor: one run for an event, whatever is repeated, lost, torn or restarted around it."""

from __future__ import annotations

import json
import logging
import time
from datetime import datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin  # noqa: TID251 - the daemon has no public name
from dagster._core.test_utils import InProcessTestWorkspaceLoadTarget  # noqa: TID251
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin  # noqa: TID251
from dagster._core.workspace.context import WorkspaceProcessContext  # noqa: TID251
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster._daemon.sensor import execute_sensor_iteration

from dedp_assets.case_study.defs.bronze.devices import devices
from dedp_assets.graph.declare import job_of
from dedp_assets.graph.outcomes.run_tags import refusal
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.sensors.external_trigger import events_arrived as over
from dedp_assets.graph.sensors.external_trigger import trigger
from dedp_assets.laptop.orchestration.instance import CONFIGURATION
from dedp_assets.patterns.connectors.web.events import Event
from dedp_assets.patterns.ingestion.external_trigger import send_event
from tests.graph.sensors.burst import Flights
from tests.helpers import NOW

events_arrived = over([devices], [job_of(devices)])


def event(id_="1", *objects, **changes):
    named = {"source": "urn:dedp:provider", "type": "dedp.devices.published", "time": NOW - timedelta(hours=1)}
    data = {"objects": list(objects or ["device_releases/v+1.jsonl"])}
    return Event(**{"id": id_, "data": data, **named, **changes})


@pytest.fixture
def box(zone):
    """The zone's inbox: what is sent into it, and what lies where."""
    folder = zone.landing / "events"

    def kept(how):
        return sorted(path.name for path in (folder / f"_{how}").glob("*") if not path.name.endswith(".reason"))

    def reason(how):
        (told,) = (folder / f"_{how}").glob("*.reason")
        return json.loads(told.read_text())["reason"]

    def replay(how):
        (path,) = (folder / f"_{how}").glob("*.json")
        path.rename(folder / path.name)

    return SimpleNamespace(
        folder=folder,
        send=lambda *sent: [send_event(folder, e) for e in sent],
        waiting=lambda: len([path for path in folder.glob("*") if not path.name.startswith(("_", "."))]),
        kept=kept,
        reason=reason,
        replay=replay,
    )


def keys(data):
    return [request.run_key for request in data.run_requests or []]


def recorded(zone, request, status):
    """The daemon's record of a requested run."""
    tags = {**request.tags, "dagster/run_key": request.run_key, "dagster/sensor_name": "events_arrived"}
    return zone.instance.add_run(dg.DagsterRun(job_name="refresh_devices", tags=tags, status=status))


def test_without_an_event_nothing_starts_and_nothing_is_asked(zone, monkeypatch):
    """A quiet tick is a look into a folder: it does not even ask Dagster for runs."""
    monkeypatch.setattr(type(zone.instance), "get_runs", lambda *_, **__: pytest.fail("asked for runs"))
    assert zone.tick(events_arrived).skip_message == "no event has arrived"
    (zone.landing / "events" / "_done").mkdir(parents=True)
    assert zone.tick(events_arrived).skip_message == "no event has arrived"


def test_beside_a_landing_zone_in_a_bucket_the_inbox_is_in_the_home(zone, tmp_path, monkeypatch):
    """A bucket has no rename, which sets an event aside; no request is sent."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    send_event(tmp_path / "landing" / "events", event())
    landing = Landing(root="s3://bucket/landing")
    context = dg.build_sensor_context(
        instance=zone.instance, resources={"landing": landing, "clock": Clock(fixed=NOW.isoformat())}
    )
    assert len(events_arrived(context).run_requests) == 1


def test_only_events_and_markers_start_the_refresh(zone):
    """The refresh has no schedule and no condition that would start it by the clock."""
    repository = zone.definitions.get_repository_def()
    assert "refresh_devices" not in {schedule.job_name for schedule in repository.schedule_defs}
    assert zone.definitions.resolve_asset_graph().get(dg.AssetKey(["bronze", "devices"])).automation_condition is None


@pytest.mark.parametrize("kind", ["dedp.devices.published", "dedp.feature.released"])
def test_one_event_is_one_run_that_knows_why_it_started(zone, box, kind):
    """The run carries trigger version, envelope, both times and the decoded object; then the event is done."""
    sent = event(type=kind)
    box.send(sent)
    (request,) = zone.tick(events_arrived).run_requests
    assert request.job_name == "refresh_devices"
    assert request.tags["dedp/cause"] == kind
    told = {tag.removeprefix("dedp.trigger/"): value for tag, value in request.tags.items() if "trigger/" in tag}
    assert json.loads(told.pop("envelope")) == json.loads(sent.to_json())
    assert told == {
        "version": "external_trigger/1",
        "event": "urn:dedp:provider/1",
        "event_time": "2026-01-20T11:00:00.000000+00:00",
        "processing_time": "2026-01-20T12:00:00+00:00",
        "object": "device_releases/v 1.jsonl",
    }
    zone.ran(dict(request.tags))
    assert keys(zone.tick(events_arrived)) == []
    assert (box.waiting(), len(box.kept("done"))) == (0, 1)


def test_repeated_deliveries_start_nothing_more(zone, box):
    """Before, during and after its run, the same event again is set aside as a repeat."""
    box.send(event())
    (request,) = zone.tick(events_arrived).run_requests
    copy = box.folder / "again.json"
    copy.write_text(event().to_json())
    assert keys(zone.tick(events_arrived)) == [request.run_key]
    zone.ran(dict(request.tags))
    copy.write_text(event().to_json())
    assert keys(zone.tick(events_arrived)) == []
    copy.write_text(event().to_json())
    assert keys(zone.tick(events_arrived)) == []
    assert len(box.kept("done")) == 1
    assert box.kept("aside") == ["again.json", "again.json.1", "again.json.2"]
    assert "repeat" in json.loads((box.folder / "_aside/again.json.2.reason").read_text())["reason"]


def test_what_came_while_the_daemon_was_down_is_not_missed(zone, box):
    """Nothing remembers when the sensor looked last: what lies there is what is to do."""
    box.send(*[event(str(n), f"device_releases/{n}.jsonl") for n in range(3)])
    zone.cursors[events_arrived.name] = "of another life"
    assert len(keys(zone.tick(events_arrived))) == 3


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
def test_a_crash_after_launching_starts_nothing_twice(zone, box, status):
    """The run is found by its tags, whether the tick that asked for it was recorded or not."""
    box.send(event())
    (request,) = zone.tick(events_arrived).run_requests
    recorded(zone, request, status)
    zone.cursors.clear()
    data = zone.tick(events_arrived)
    assert (keys(data), box.waiting()) == ([], 1)
    assert data.skip_message == "0 runs to start, 1 started, 0 deliveries set aside"


def test_a_crash_after_the_run_only_moves_the_event(zone, box):
    """An event whose run has succeeded is filed by the next tick, though it came back to the inbox."""
    box.send(event())
    (request,) = zone.tick(events_arrived).run_requests
    zone.ran(dict(request.tags))
    zone.tick(events_arrived)
    box.replay("done")
    assert keys(zone.tick(events_arrived)) == []
    assert (box.waiting(), len(box.kept("done"))) == (0, 1)


def test_a_launch_that_failed_keeps_the_event(zone, box):
    """Nothing recorded, or a run created and never launched: the same key is asked for until Dagster has it."""
    box.send(event())
    (request,) = zone.tick(events_arrived).run_requests
    assert keys(zone.tick(events_arrived)) == [request.run_key]
    recorded(zone, request, dg.DagsterRunStatus.NOT_STARTED)
    assert keys(zone.tick(events_arrived)) == [request.run_key]
    assert box.waiting() == 1


def test_a_failed_run_is_tried_again_and_then_kept_for_a_replay(zone, box):
    """Three attempts under keys of their own, again after each replay; the one that succeeds files the event."""
    box.send(event())
    asked = []
    for _ in range(3):
        for _ in range(3):
            (request,) = zone.tick(events_arrived).run_requests
            asked.append(request.run_key)
            zone.ran(dict(request.tags), fails=True)
        assert keys(zone.tick(events_arrived)) == []
        assert (box.waiting(), len(box.kept("failed"))) == (0, 1)
        assert box.reason("failed").startswith("gave up after 3 failed runs")
        box.replay("failed")
    (again,) = zone.tick(events_arrived).run_requests
    zone.ran(dict(again.tags))
    assert keys(zone.tick(events_arrived)) == []
    assert (len(box.kept("done")), box.kept("failed")) == (1, [])
    assert len({*asked, again.run_key}) == 10


def test_a_refused_load_is_not_repeated_and_can_be_replayed_after_a_fix(zone, box):
    """What an audit refused would be refused again: the event waits aside for a person, with the run to look at."""
    box.send(event())
    (request,) = zone.tick(events_arrived).run_requests
    zone.ran({**request.tags, **refusal("bronze/devices", "", None)}, fails=True)
    (failed,) = zone.instance.get_runs()
    assert keys(zone.tick(events_arrived)) == []
    assert box.reason("failed") == f"run {failed.run_id[:8]} refused it"
    box.replay("failed")
    assert keys(zone.tick(events_arrived)) == [f"{request.run_key}#2"]


def test_a_delivery_of_an_event_that_failed_is_a_repeat(zone, box):
    """The producer's retry does not start what waits for a person."""
    box.send(event())
    (request,) = zone.tick(events_arrived).run_requests
    zone.ran({**request.tags, **refusal("bronze/devices", "", None)}, fails=True)
    zone.tick(events_arrived)
    box.send(event())
    assert keys(zone.tick(events_arrived)) == []
    assert "repeat" in box.reason("aside")


def test_a_bad_payload_is_set_aside_with_its_reason_and_can_be_replayed(zone, box):
    """Its bytes are kept untouched; mended and moved back it starts its run; meanwhile the others go on."""
    box.send(event("2"))
    (box.folder / "torn.json").write_text(event().to_json()[:-2])
    assert len(keys(zone.tick(events_arrived))) == 1
    assert box.reason("aside").startswith("malformed: it is not JSON")
    aside = box.folder / "_aside" / "torn.json"
    assert aside.read_text() == event().to_json()[:-2]
    aside.write_text(event().to_json())
    aside.rename(box.folder / "torn.json")
    assert len(keys(zone.tick(events_arrived))) == 2


def test_an_unrelated_event_is_skipped_with_a_recorded_reason(zone, box):
    """In the tick and beside the event, which is kept."""
    box.send(event(type="dedp.users.published"))
    data = zone.tick(events_arrived)
    assert keys(data) == []
    assert "unrelated: no pipeline starts on dedp.users.published" in data.skip_message
    assert box.reason("aside") == "unrelated: no pipeline starts on dedp.users.published"


def test_a_contradiction_does_not_touch_the_run_that_is_under_way(zone, box):
    """The second event under an id is set aside; the first keeps its run and is done by it."""
    box.send(event())
    (request,) = zone.tick(events_arrived).run_requests
    recorded(zone, request, dg.DagsterRunStatus.STARTED)
    box.send(event("1", "device_releases/other.jsonl"))
    assert keys(zone.tick(events_arrived)) == []
    assert box.reason("aside").startswith("contradiction: an event of urn:dedp:provider with the id 1")
    assert box.waiting() == 1


def test_no_name_of_a_file_stops_the_tick(zone, box):
    """A file name that is no text is a delivery like any other."""
    box.folder.mkdir(parents=True)
    (box.folder / "\udcff.json").write_bytes(b"{")
    data = zone.tick(events_arrived)
    assert "malformed" in data.skip_message
    assert data.skip_message.encode()


def test_all_records_of_an_event_are_loaded_before_it_is_done(zone, box):
    """Two objects are two runs, and the event stays until both succeeded."""
    box.send(event("1", "device_releases/a.jsonl", "device_releases/b.jsonl"))
    first, second = zone.tick(events_arrived).run_requests
    assert [r.tags["dedp.trigger/object"] for r in (first, second)] == [f"device_releases/{n}.jsonl" for n in "ab"]
    zone.ran(dict(first.tags))
    assert keys(zone.tick(events_arrived)) == [second.run_key]
    assert box.waiting() == 1
    zone.ran(dict(second.tags))
    zone.tick(events_arrived)
    assert (box.waiting(), len(box.kept("done"))) == (0, 1)


def test_one_event_may_start_two_pipelines(zone, box):
    """Both jobs are started; the replay of the one that failed does not start the other again."""

    @dg.op
    def rebuild():
        pass

    @dg.job
    def rebuild_catalogue():
        rebuild()

    both = trigger(
        "both",
        pipelines={**devices.started_by, "rebuild_catalogue": [{"source": "urn:dedp:provider"}]},
        jobs=[job_of(devices), rebuild_catalogue],
        description="Two pipelines for one event.",
    )
    box.send(event())
    requests = {request.job_name: request for request in zone.tick(both).run_requests}
    assert sorted(requests) == ["rebuild_catalogue", "refresh_devices"]
    zone.ran(dict(requests["refresh_devices"].tags))
    zone.ran({**requests["rebuild_catalogue"].tags, **refusal("gold/catalogue", "", None)}, fails=True)
    assert keys(zone.tick(both)) == []
    box.replay("failed")
    (again,) = zone.tick(both).run_requests
    assert again.job_name == "rebuild_catalogue"


def test_all_of_a_burst_are_processed(zone, box):
    """Twenty events that come shuffled are twenty runs, oldest first, and none is left."""
    times = {n: NOW - timedelta(minutes=(n * 7) % 20 + 1) for n in range(20)}
    box.send(*[event(str(n), f"device_releases/{n}.jsonl", time=moment) for n, moment in times.items()])
    requests = zone.tick(events_arrived).run_requests
    moments = [datetime.fromisoformat(request.tags["dedp.trigger/event_time"]) for request in requests]
    assert moments == sorted(times.values())
    for request in requests:
        zone.ran(dict(request.tags))
    assert keys(zone.tick(events_arrived)) == []
    assert (box.waiting(), len(box.kept("done"))) == (0, 20)


def test_a_flood_is_asked_for_in_portions(zone, box):
    """A tick requests at most 25 runs and looks at 100 events; nothing beyond is lost."""
    box.send(*[event(str(n), f"device_releases/{n}.jsonl") for n in range(130)])
    rounds = []
    while requests := zone.tick(events_arrived).run_requests:
        rounds.append(len(requests))
        for request in requests:
            recorded(zone, request, dg.DagsterRunStatus.SUCCESS)
    assert max(rounds) == 25
    assert sum(rounds) == len(box.kept("done")) == 130


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    """The daemon's own sensor and queue loops over the burst, on an instance with the project's settings."""
    monkeypatch.setenv("BURST_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    own = {"run_launcher": {"module": "tests.graph.sensors.burst", "class": "HeldLauncher"}}
    more = "".join(f"{name}: {json.dumps(value)}\n" for name, value in own.items())
    (tmp_path / "dagster.yaml").write_text(CONFIGURATION.read_text() + more)
    code = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(module_name="tests.graph.sensors.burst"), location_name="burst"
    )
    Flights.begin()
    with (
        dg.DagsterInstance.from_config(str(tmp_path)) as instance,
        WorkspaceProcessContext(instance, InProcessTestWorkspaceLoadTarget(code)) as workspace,
        QueuedRunCoordinatorDaemon(interval_seconds=1) as queue,
    ):
        logger = logging.getLogger("burst")

        yield SimpleNamespace(
            tick=lambda: list(execute_sensor_iteration(workspace, logger, None, None)),
            dequeue=lambda: list(queue.run_iteration(workspace)),
        )


@pytest.mark.slow
def test_of_a_burst_at_most_five_run_at_once_and_all_in_the_end(daemon, tmp_path):
    """Twenty events through Dagster's sensor daemon, queue and launcher: counted while the runs are at work."""
    events = tmp_path / "landing" / "events"
    for number in range(20):
        send_event(events, event(str(number), f"device_releases/{number}.jsonl", type="burst"))
    daemon.tick()
    while len(Flights.loaded) < 20:
        before = len(Flights.loaded)
        daemon.dequeue()
        daemon.dequeue()
        Flights.land()
        assert len(Flights.loaded) > before, "runs wait in the queue though none is at work"
    ends = time.monotonic() + 120
    while len(list(events.glob("_done/*.json"))) < 20 and time.monotonic() < ends:
        time.sleep(0.5)  # the sensor ticks every five seconds
        daemon.tick()
    assert 1 < Flights.most <= 5
    assert sorted(Flights.loaded) == sorted(f"device_releases/{number}.jsonl" for number in range(20))
    assert [path.name for path in events.iterdir() if not path.name.startswith("_")] == []


def test_the_pool_of_a_table_lets_one_run_write(zone, tmp_path, monkeypatch):
    """Of the runs that are at work at once, one writes a table: every table that is computed has a pool of one slot."""
    graph = zone.definitions.resolve_asset_graph()
    pools = {node.key.to_user_string(): node.pools for node in graph.asset_nodes if node.is_executable}
    assert len(pools) > 10
    assert {table: found for table, found in pools.items() if len(found or ()) != 1} == {}
    (tmp_path / "dagster.yaml").write_bytes(CONFIGURATION.read_bytes())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        limits = instance.get_concurrency_config()
    assert limits.pool_config.default_pool_limit == 1
