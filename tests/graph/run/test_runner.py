"""A declared table in a run: what becomes of a run that loses its engine, or has nothing to write."""

from __future__ import annotations

import dagster as dg
import pytest
from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException

from dedp_assets.graph.catalogue.contracts import ContractFolder, with_contracts
from dedp_assets.graph.checks.contracts import declared_contract
from dedp_assets.graph.declare import About, Gates, Reads, Runs, lake_table
from dedp_assets.graph.inputs.feeds import Pinned, same
from dedp_assets.graph.reconcile.requests import NOT_RETRIED
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.run.batches import Step
from dedp_assets.patterns.core.errors import AuditFailed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.quality.constraints_enforcer import enforce_constraints
from tests.helpers import NOW, a_record, write_log

DAY = "2026-01-05"
COLUMNS = {
    "id": Column("BIGINT", "identity", classification="public"),
    "day": Column("DATE", "day", classification="public"),
}
SOURCE = TableSpec("bronze/source", COLUMNS, partition_by=("day",))
TOTALS = TableSpec("gold/totals", COLUMNS, partition_by=("day",), comment="One row per day.")
GONE = SparkConnectGrpcException("<_MultiThreadedRendezvous of RPC: status = StatusCode.UNAVAILABLE>")
ANEW = SparkConnectGrpcException("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid. Session not found.")
LEFT = SparkConnectException("[NO_ACTIVE_SESSION] No active Spark session found.")
ASKED = {"dagster/max_retries": "2", "dagster/retry_on_asset_or_op_failure": "true"}


DAYS = dg.DailyPartitionsDefinition("2026-01-05", end_date="2026-01-12")


@pytest.fixture
def resources(tmp_path):
    """What a run of a table with one upstream day is given."""
    write_log(
        tmp_path / "bronze/source",
        {"id": "long", "day": "date"},
        ["day"],
        [{"record": a_record("bronze/source", {"day": DAY}), "changed": [{"day": DAY}]}],
    )
    engine = SparkEngine()
    lake, clock = Lake(root=str(tmp_path), engine=engine), Clock(fixed=NOW.isoformat())
    return {"lake": lake, "clock": clock, "engine": engine}


@pytest.fixture
def computed(resources):
    """``computed(error, tags)``: the run of a table whose computation ends with an error, and its instance."""

    def run(error, **tags):
        @lake_table(
            TOTALS,
            reads=Reads({SOURCE: same("day")}),
            runs=Runs(DAYS),
            about=About("team:x"),
            patterns=[Table.overwrite],
            code_version="1",
        )
        def totals(step: Step, source: Pinned, into: Target) -> WriteResult:
            """Lose the engine."""
            try:
                raise error
            except SparkConnectException as lost:
                raise RuntimeError("in the midst of it") from lost

        with dg.DagsterInstance.ephemeral() as instance:
            done = dg.materialize(
                [totals.definition()],
                partition_key=DAY,
                resources=resources,
                instance=instance,
                tags=tags,
                raise_on_error=False,
            )
            (failed,) = done.get_step_failure_events()
            return instance.get_run_by_id(done.run_id).tags, failed.step_failure_data

    return run


@pytest.mark.parametrize("error", [GONE, ANEW, LEFT], ids=["no answer", "another server", "afterwards"])
def test_a_run_that_lost_its_engine_asks_dagster_for_another(computed, error):
    """In one sentence for people; a new process has a new session."""
    tags, failure = computed(error)
    assert ASKED.items() <= tags.items()
    said = failure.user_failure_data.description
    assert said == f"gold/totals {DAY}: the Spark engine went away during the run, which is asked for again"


def test_a_run_that_a_sensor_asks_for_again_is_not_started_twice(computed):
    """What the run was started with stands."""
    tags, _ = computed(GONE, **NOT_RETRIED)
    assert tags["dagster/max_retries"] == "0"


def test_a_run_that_fails_for_another_reason_is_not_asked_for_again(computed):
    """A fault of the code is one the next time, too."""
    tags, _ = computed(SparkConnectGrpcException("[DIVIDE_BY_ZERO] Division by zero."))
    assert not ASKED.keys() & tags.keys()


def test_checks_of_a_run_that_wrote_nothing_are_reported(resources):
    """A pattern that looks and finds nothing to write says what it judged; Dagster waits for each verdict."""

    @lake_table(
        TOTALS,
        reads=Reads({SOURCE: same("day")}),
        runs=Runs(DAYS),
        gates=Gates(checks={"nothing_is_late": "Says so."}),
        about=About("team:x"),
        patterns=[Table.overwrite],
        code_version="1",
    )
    def totals(step: Step, source: Pinned, into: Target) -> WriteResult:
        """Find nothing new."""
        found = (Finding("nothing_is_late", passed=True), Finding("rows_lie_in_their_partition", passed=True))
        found += (Finding("rows_are_accounted_for", passed=True), Finding("constraints_hold", passed=True))
        return WriteResult(into.name, 0, applied=False, changed=False, reason="nothing new", findings=found)

    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([totals.definition()], partition_key=DAY, resources=resources, instance=instance)
        evaluated = {each.check_name: each.passed for each in done.get_asset_check_evaluations()}
    assert evaluated["nothing_is_late"]


@pytest.mark.parametrize("passes", [True, False])
def test_a_run_names_the_version_of_the_contract_in_its_record_and_in_each_check(resources, tmp_path, passes):
    """Published rows and refused ones alike: all violations of a batch stand beside the version that they break."""
    given: list[Target] = []
    findings = tuple(Finding(name, passed=passes, note="" if passes else "3 rows") for name in ("sold", "dated"))

    @lake_table(
        TOTALS,
        reads=Reads({SOURCE: same("day")}),
        runs=Runs(DAYS),
        gates=Gates(checks={"sold": "Says so.", "dated": "Says so."}),
        about=About("team:x"),
        patterns=[Table.overwrite],
        code_version="1",
    )
    def totals(step: Step, source: Pinned, into: Target) -> WriteResult:
        """Judge two rules."""
        given.append(into)
        if not passes:
            raise AuditFailed("gold/totals: nothing published", findings=findings)
        more = ("rows_lie_in_their_partition", "rows_are_accounted_for", "constraints_hold")
        found = (*findings, *(Finding(name, passed=True) for name in more))
        return WriteResult(into.name, 0, applied=False, changed=False, reason="nothing new", findings=found)

    folder = ContractFolder(tmp_path / "contracts")
    folder.publish(declared_contract([totals], "gold/totals", "1.2.0"))
    shown = with_contracts(dg.Definitions([totals.definition()]), folder)
    (asset,) = (each for each in shown.assets or () if isinstance(each, dg.AssetsDefinition))
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([asset], partition_key=DAY, resources=resources, instance=instance, raise_on_error=False)
        evaluated = {each.check_name: each.metadata["contract"].value for each in done.get_asset_check_evaluations()}
    assert done.success == passes
    assert given[0].run.notes["contracts"] == {"gold/totals": "1.2.0"}
    assert {name: evaluated[name] for name in ("sold", "dated")} == {"sold": "1.2.0", "dated": "1.2.0"}


@pytest.mark.parametrize("pattern", [enforce_constraints, Table.overwrite])
@pytest.mark.parametrize("passes", [True, False])
def test_rules_without_a_check_of_their_own_are_one_check(resources, passes, pattern):
    """Also under names that no check may have; a foreign key that is declared keeps its own, all figures are shown."""
    rules = {"id_is_not_null": 0, f"lies_in_day={DAY}": 0, "id_is_a_DECIMAL(10,2)": 0 if passes else 3}
    broken = [Finding(name, not n, figures={name: n}, note="above 0" if n else "") for name, n in rules.items()]

    @lake_table(
        TOTALS,
        reads=Reads({SOURCE: same("day")}),
        runs=Runs(DAYS),
        gates=Gates(checks={"parents_are_known": "Says so."}),
        about=About("team:x"),
        patterns=[pattern],
        code_version="1",
    )
    def totals(step: Step, source: Pinned, into: Target) -> WriteResult:
        """Judge a foreign key, and rules of the columns."""
        more = ("rows_lie_in_their_partition", "rows_are_accounted_for", "constraints_hold", "parents_are_known")
        found = (*(Finding(name, passed=True) for name in more), *broken)
        if not passes:
            raise AuditFailed("gold/totals: nothing published", findings=found)
        return WriteResult(into.name, 0, applied=False, changed=False, reason="nothing new", findings=found)

    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [totals.definition()], partition_key=DAY, resources=resources, instance=instance, raise_on_error=False
        )
        evaluated = {each.check_name: each for each in done.get_asset_check_evaluations()}
    judged = evaluated["constraints_hold"]
    assert (done.success, judged.passed, evaluated["parents_are_known"].passed) == (passes, passes, True)
    assert {name: judged.metadata[name].value for name in rules} == rules
    assert judged.description == (None if passes else f"{DAY}: id_is_a_DECIMAL(10,2): above 0")


@pytest.mark.parametrize("applied", [True, False])
def test_rules_that_a_pattern_answers_by_quarantine_warn_and_do_not_fail_the_step(resources, applied):
    """The rows without a fault are published, or none is and the others are put aside: the run says so and goes on."""
    refused = tuple(Finding(name, passed=False, note="3 rows") for name in ("prices_are_there", "it_is_in_time"))

    @lake_table(
        TOTALS,
        reads=Reads({SOURCE: same("day")}),
        runs=Runs(DAYS),
        gates=Gates(checks={"prices_are_there": "Says so."}, reports={"it_is_in_time": "Says so."}),
        about=About("team:x"),
        patterns=[Table.overwrite],
        code_version="1",
    )
    def totals(step: Step, source: Pinned, into: Target) -> WriteResult:
        """Put rows aside."""
        return WriteResult(into.name, 0, applied=applied, changed=applied, reason="put aside", findings=refused)

    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([totals.definition()], partition_key=DAY, resources=resources, instance=instance)
        evaluated = {each.check_name: each for each in done.get_asset_check_evaluations()}
    warn, error = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
    for name, severity in {"prices_are_there": warn, "it_is_in_time": error}.items():
        found = evaluated[name]
        assert (found.passed, found.severity, found.description) == (False, severity, f"{DAY}: 3 rows")


def test_a_declared_check_that_nothing_judged_warns_and_does_not_fail_the_write(resources):
    """What is published is not called refused, and what nobody judged is not called right."""

    @lake_table(
        TOTALS,
        reads=Reads({SOURCE: same("day")}),
        runs=Runs(DAYS),
        gates=Gates(checks={"parents_are_known": "Says so."}, if_empty="It is refused."),
        about=About("team:x"),
        patterns=[Table.overwrite],
        code_version="1",
    )
    def totals(step: Step, source: Pinned, into: Target) -> WriteResult:
        """Publish, and judge the constraints alone."""
        found = (Finding("constraints_hold", passed=True),)
        return WriteResult(into.name, 1, applied=True, changed=True, reason="3 rows published", findings=found)

    asset = totals.definition()
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([asset], partition_key=DAY, resources=resources, instance=instance)
        evaluated = {each.check_name: each for each in done.get_asset_check_evaluations()}
    assert evaluated.keys() == {check.name for check in asset.check_keys}
    assert evaluated.pop("constraints_hold").passed
    assert {(each.passed, each.severity) for each in evaluated.values()} == {(False, dg.AssetCheckSeverity.WARN)}
    assert {each.description for each in evaluated.values()} == {
        f"{DAY}: nothing judged the rows by it before they were published"
    }
