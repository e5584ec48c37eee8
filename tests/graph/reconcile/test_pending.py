"""Queues of tables in order: runs beyond the limit are rejected by name, and the others stay."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.graph.declare import InOrder
from dedp_assets.graph.reconcile.pending import reject_beyond
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.run.batches import NOT_COMPUTED
from dedp_assets.graph.sensors.reconciler import reconciler
from dedp_assets.laptop.orchestration import inprocess
from tests.hand_written import declare
from tests.helpers import NOW

pytestmark = pytest.mark.runs

KEYS = [f"2026-01-{number:02}" for number in range(5, 11)]


ORDERED, OTHER = declare("gold/ordered", InOrder(pending=3)), declare("gold/other", InOrder())


REPOSITORY = inprocess.RemoteRepositoryOrigin(inprocess.RegisteredCodeLocationOrigin("x"), "__repository__")


def queue(instance, table, key, event="PIPELINE_ENQUEUED"):
    """A run as the queue holds it, or one that left the queue."""
    job = DEFS.resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(
        job_def=job,
        remote_job_origin=inprocess.RemoteJobOrigin(REPOSITORY, job.name),
        tags={"dagster/partition": key},
        asset_selection={dg.AssetKey(table.spec.name.split("/"))},
    )
    instance.report_dagster_event(dg.DagsterEvent(event, run.job_name, message=event), run.run_id)
    return run.run_id


DEFS = dg.Definitions([ORDERED.definition(), OTHER.definition()], resources={"lake": None, "clock": None})
REPOSITORY_OF_DEFS = DEFS.get_repository_def()


def test_the_newest_runs_beyond_the_limit_are_rejected_and_none_is_dropped():
    """The reason names limit and length, on the run and its day. Runs that started, and other tables', do not count."""
    with dg.instance_for_test() as instance:
        began = queue(instance, ORDERED, KEYS[0], "PIPELINE_START")
        queued = [queue(instance, ORDERED, key) for key in KEYS[1:]]
        others = [queue(instance, OTHER, key) for key in KEYS]
        reasons = reject_beyond(instance, [ORDERED, OTHER], REPOSITORY_OF_DEFS)
        statuses = {run.run_id: run.status.value for run in instance.get_runs()}
        assert [statuses[each] for each in queued] == ["QUEUED"] * 3 + ["CANCELED"] * 2
        assert {statuses[each] for each in others} == {"QUEUED"}
        assert statuses[began] == "STARTED"
        rejected = f"gold/ordered {KEYS[4]} (run {queued[3][:8]}) is rejected: 3 requests are queued and the limit is 3"
        assert reasons[0].startswith(rejected)
        last = instance.all_logs(queued[3], of_type=dg.DagsterEventType.RUN_CANCELED)
        assert [event.user_message or event.dagster_event.message for event in last] == [reasons[0]]
        wanted = dg.AssetRecordsFilter(dg.AssetKey(["gold", "ordered"]), asset_partitions=[KEYS[4]])
        (record,) = instance.fetch_observations(wanted, limit=5).records
        assert record.asset_observation.metadata[NOT_COMPUTED].value == reasons[0]
        assert reject_beyond(instance, [ORDERED, OTHER], REPOSITORY_OF_DEFS) == []
        assert len(instance.get_runs()) == len([began, *queued, *others])


def test_a_tick_of_the_reconciler_rejects_what_is_queued_beyond_the_limit(tmp_path, monkeypatch):
    """As the daemon calls its sensor: the newest runs are cancelled, and each says limit and length."""
    monkeypatch.setenv("DEDP_LOOK_SECONDS", "0")
    given = {
        "lake": Lake(root=str(tmp_path / "lake"), engine=SparkEngine()),
        "landing": Landing(root=str(tmp_path / "landing")),
        "clock": Clock(fixed=NOW.isoformat()),
    }
    sensors = reconciler([ORDERED, OTHER], []), reconciler([ORDERED, OTHER], [], asks_for="deliveries")
    with dg.instance_for_test() as instance:
        queued = [queue(instance, ORDERED, key) for key in KEYS]
        others = [queue(instance, OTHER, key) for key in KEYS]

        def tick(sensor):
            with dg.build_sensor_context(instance, repository_def=REPOSITORY_OF_DEFS, resources=given) as context:
                assert sensor.evaluate_tick(context).run_requests == []
            return {run.run_id: run.status.value for run in instance.get_runs()}

        assert set(tick(sensors[1]).values()) == {"QUEUED"}
        statuses = tick(sensors[0])
        assert [statuses[each] for each in queued] == ["QUEUED"] * 3 + ["CANCELED"] * 3
        assert {statuses[each] for each in others} == {"QUEUED"}
        for run_id, key in zip(queued[3:], KEYS[3:], strict=True):
            (last,) = instance.all_logs(run_id, of_type=dg.DagsterEventType.RUN_CANCELED)
            said = f"gold/ordered {key} (run {run_id[:8]}) is rejected: 3 requests are queued and the limit is 3"
            assert (last.user_message or last.dagster_event.message).startswith(said)
        assert tick(sensors[0]) == statuses
