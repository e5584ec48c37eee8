"""Tables in a sequence, in runs of Dagster: what a failed step stops, and what a run that goes on says."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType

import dagster as dg
import pytest

from dedp_assets.graph.declare import About, InSequence, Pinned, Reads, Runs, Target, lake_table, same
from dedp_assets.graph.outcomes.run_tags import DEGRADED, refusals
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.flow.local_sequencer import SequenceStep
from tests.hand_written import CHECKS, commit_day, daily
from tests.helpers import NOW

DAY = "2026-01-05"
DAYS = dg.DailyPartitionsDefinition("2026-01-05", end_date="2026-01-12")
RAW, PAID, PREVIEW, SHARED, EXPORT = "bronze/raw", "silver/paid", "gold/preview", "gold/shared", "gold/export"
SPECS = {name: daily(name) for name in (RAW, PAID, PREVIEW, SHARED, EXPORT)}
READS = {PAID: RAW, PREVIEW: PAID, SHARED: PREVIEW, EXPORT: RAW}
"""The export reads the raw rows: it is independent of every step before it."""
FAILING: set[str] = set()
EXECUTED: Counter[str] = Counter()


def sequence(**policies):
    """The sequence with the policies of some steps."""
    steps = [
        SequenceStep(n, [READS[n]] if READS[n] != RAW else [], policies.get(n.rpartition("/")[2], "stop"))
        for n in READS
    ]
    return InSequence("export", steps)


def step(name, in_sequence):
    """A table of the sequence, which writes its log by hand."""

    @lake_table(
        SPECS[name],
        reads=Reads({SPECS[READS[name]]: same("day")}),
        runs=Runs(DAYS, sequence=in_sequence),
        about=About("team:x"),
        patterns=[Table.overwrite],
        code_version="1",
    )
    def compute(upstream: Pinned, into: Target) -> WriteResult:
        """Count the execution, and fail if the test says so."""
        EXECUTED[name] += 1
        if name in FAILING:
            raise ContractError(f"{name} is refused")
        version = commit_day(RESOURCES["lake"], name, DAY, into.run.inputs)
        found = tuple(Finding(check, passed=True) for check in CHECKS)
        return WriteResult(into.name, version, applied=True, changed=True, reason="written", findings=found)

    return compute


def export_job(**policies):
    """A job over the sequence."""
    tables = [step(name, sequence(**policies)) for name in READS]
    job = dg.define_asset_job("export", executor_def=dg.in_process_executor)
    return dg.Definitions([t.definition() for t in tables], jobs=[job], resources=RESOURCES).resolve_job_def("export")


def stopping():
    return export_job()


def continuing():
    return export_job(preview="continue", shared="continue")


RESOURCES: dict[str, object] = {}


@pytest.fixture(autouse=True)
def resources(tmp_path):
    """A lake with a raw day, and steps of which none fails."""
    FAILING.clear()
    EXECUTED.clear()
    engine = SparkEngine()
    lake = Lake(root=str(tmp_path / "lake"), engine=engine)
    commit_day(lake, RAW, DAY)
    RESOURCES.update(lake=lake, clock=Clock(fixed=NOW.isoformat()), engine=engine)


@pytest.fixture
def instance():
    with dg.instance_for_test() as made:
        yield made


def execute(job, instance, tags=MappingProxyType({}), **options):
    tags = {**tags, "dagster/partition": DAY}
    return dg.execute_job(dg.reconstructable(job), instance, tags=tags, raise_on_error=False, **options)


def ended(result, kind):
    return {event.step_key.replace("_", "/", 1) for event in result.all_events if event.event_type_value == kind}


def test_a_step_that_stops_blocks_every_later_step_of_its_run(instance):
    """Also an independent one; the run says so, and is not degraded but stopped."""
    FAILING.add(PAID)
    with execute(stopping, instance) as done:
        assert ended(done, "STEP_FAILURE") == {PAID}
        assert ended(done, "STEP_START") == {PAID}
        (failed,) = failures(done)
        said = failed.step_failure_data.user_failure_data.description
        run = instance.get_run_by_id(done.run_id)
    assert said.startswith(f"stopped: {PAID} {DAY}: {PAID} is refused; blocked: {PREVIEW}, {SHARED}, {EXPORT}")
    assert DEGRADED not in run.tags
    assert EXECUTED == {PAID: 1}


def failures(done):
    return [event for event in done.all_events if event.is_step_failure]


def test_a_step_that_continues_lets_an_independent_one_run_and_the_run_fails_as_degraded(instance):
    """Its reader is blocked; executed again from the failure on, only the failed steps run, and the tags say so."""
    FAILING.add(PREVIEW)
    with execute(continuing, instance) as done:
        assert ended(done, "STEP_SUCCESS") == {PAID, EXPORT}
        assert ended(done, "STEP_START") == {PAID, PREVIEW, EXPORT}
        (failed,) = failures(done)
        run_id = done.run_id
    said = failed.step_failure_data.user_failure_data.description
    assert said.startswith(f"degraded: {PREVIEW} {DAY}: {PREVIEW} is refused; goes on: {EXPORT}; blocked: {SHARED}")
    run = instance.get_run_by_id(run_id)
    assert (run.status, run.tags[DEGRADED]) == (dg.DagsterRunStatus.FAILURE, PREVIEW)
    FAILING.clear()
    again = dg.ReexecutionOptions.from_failure(run_id, instance)
    with execute(continuing, instance, run.tags, reexecution_options=again) as resumed:  # copied, as the webserver does
        assert resumed.success
        told = instance.get_run_by_id(resumed.run_id).tags
        assert ended(resumed, "STEP_SUCCESS") == {PREVIEW, SHARED}
    assert EXECUTED == {PAID: 1, PREVIEW: 2, SHARED: 1, EXPORT: 1}
    assert (refusals(run.tags), refusals(told)) == ([(PREVIEW, DAY)], [])
    assert told[DEGRADED] == f"run {run_id[:8]}: {PREVIEW}"


def test_a_step_that_only_orders_is_no_input():
    """The dependency of an independent step is one of Dagster's alone, and only where no other leads there."""
    graph = stopping().asset_layer.asset_graph
    parents = {
        name: {"/".join(key.path) for key in graph.get(dg.AssetKey(name.split("/"))).parent_keys} for name in READS
    }
    assert parents == {PAID: {RAW}, PREVIEW: {PAID}, SHARED: {PREVIEW}, EXPORT: {RAW, PAID, PREVIEW, SHARED}}
    assert continuing().asset_layer.asset_graph.get(dg.AssetKey(["gold", "export"])).parent_keys == {
        dg.AssetKey(["bronze", "raw"]),
        dg.AssetKey(["silver", "paid"]),
    }


def test_a_sequence_says_what_the_tables_read():
    """A table that is no step of it, and another order than that of Reads, are refused by name."""
    with pytest.raises(ConfigError, match=r"silver/paid: sequence must have a step silver/paid, not only gold/export"):
        step(PAID, InSequence("export", [SequenceStep(EXPORT)]))
    wrong = InSequence("export", [SequenceStep(PAID), SequenceStep(PREVIEW)])
    with pytest.raises(ConfigError, match=r"gold/preview: sequence must say after=\['silver/paid'\] as Reads does"):
        step(PREVIEW, wrong)
    with pytest.raises(ConfigError, match="not a twice"):
        InSequence("export", [SequenceStep("a"), SequenceStep("a")])
