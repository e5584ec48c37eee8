"""What a run does with its partitions and says of each, told from logs that are written by hand: no Spark."""

from dataclasses import replace

import dagster as dg
import pytest

from dedp_assets.graph.catalogue.specs import LAUNCHPAD, asset_spec, check_specs
from dedp_assets.graph.outcomes import failures
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.outcomes.run_tags import FORCE, REQUEST, refusals
from dedp_assets.graph.run.batches import Inputs, Work
from dedp_assets.graph.run.runner import run
from dedp_assets.patterns.core.errors import AuditFailed, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, store_at
from tests.helpers import NOW, a_record, write_log

pytestmark = pytest.mark.runs

DAYS = dg.DailyPartitionsDefinition("2026-01-05", "2026-01-12")
FIRST, SECOND, THIRD = "2026-01-05", "2026-01-06", "2026-01-07"
RANGE = {"dagster/asset_partition_range_start": FIRST, "dagster/asset_partition_range_end": THIRD}
COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "when")}
CHECKS = ("rows_are_accounted_for", "rows_lie_in_their_partition", "constraints_hold", "is_right")


def spec(name):
    return TableSpec(name, COLUMNS, partition_by=("day",))


def owned(day):
    return {"day": day}


class Pipeline:
    """Two tables, ``bronze/x`` and ``silver/x`` from it, with a table beside the second; and an instance."""

    def __init__(self, root, instance):
        self.root, self.instance = root, instance
        self.computed, self.steps = [], []
        self.fails, self.build_fails, self.heals, self.applies = {}, {}, True, True
        self.tables = {name: self.table(name) for name in ("bronze/x", "silver/x", "silver/x_dead")}
        self.defs = dg.Definitions([self.asset("bronze/x"), self.asset("silver/x", deps=["bronze/x"])])

    def table(self, name):
        return Table(spec(name), self.root / name, lambda: pytest.fail("it asked for a Spark session"))

    def refusals(self, name):
        return Refusals(store_at(self.root / "_refused" / name))

    def write(self, name, day, inputs, **fields):
        """A commit of a table, its data file, and nothing left of what it had there before."""
        findings = tuple({"name": check, "passed": True} for check in CHECKS)
        record = a_record(name, owned(day), inputs=inputs, findings=findings, **fields)
        write_log(
            self.root / name, {"id": "long", "day": "date"}, ["day"], [{"changed": [owned(day)], "record": record}]
        )
        version = self.tables[name].ledger.version()
        for old in self.files(name, day):
            old.parent.mkdir(exist_ok=True)
            if self.heals:
                old.write_bytes(b"x" * 100)
        return version

    def files(self, name, day):
        state = self.tables[name].ledger.state()
        return [self.root / name / file["path"] for file, key in state.keyed_files() if dict(key)["day"] == day]

    def asset(self, name, deps=()):
        table = self.tables[name]
        beside = (self.tables["silver/x_dead"],) if name == "silver/x" else ()

        def reads(day):
            if error := self.fails.get((name, day)):
                raise error
            return Inputs({"source": day}, found="looked at once")

        def build(step):
            self.steps.append(step)
            errors = self.build_fails.get((name, step.key), [])
            if errors and (error := errors.pop(0)):
                raise error
            self.computed.append((name, step.key))
            version = self.write(name, step.key, dict(step.inputs.identities), cause=step.provenance.cause)
            for other in beside:
                self.write(other.name, step.key, dict(step.inputs.identities))
            said = "1 rows published" if self.applies else "already applied: nothing to do"
            return WriteResult(name, version, applied=self.applies, changed=self.applies, reason=said)

        specs = [
            asset_spec(
                spec(n),
                patterns=[Table.overwrite],
                owners=[],
                code_version="1",
                partitions=DAYS,
                deps=[d.split("/") for d in deps],
            )
            for n in (name, *[t.name for t in beside])
        ]

        @dg.multi_asset(
            specs=specs,
            check_specs=check_specs(spec(name), (), {"is_right": "always"}, partitions=DAYS),
            config_schema=LAUNCHPAD,
            name=name.replace("/", "_"),
        )
        def made(context: dg.AssetExecutionContext):
            yield from run(context, Work(table, reads, build, beside=beside, refusals=self.refusals(name)), at=NOW)

        return made

    def run(self, day="", *, tags=None, config=None, only=None):
        """Run all or one of the assets; what Dagster says."""
        ops = {"ops": {op: {"config": {"force": True}} for op in config}} if config else {}
        loggers = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        return self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            run_config={**ops, **loggers},
            instance=self.instance,
            partition_key=day or None,
            tags=tags,
            asset_selection=[dg.AssetKey(key.split("/")) for key in only] if only else None,
            raise_on_error=False,
        )

    def shown(self, name, day):
        """Metadata of the newest materialization of a partition."""
        wanted = dg.AssetRecordsFilter(dg.AssetKey(name.split("/")), asset_partitions=[day])
        (record,) = self.instance.fetch_materializations(wanted, limit=1).records
        return {key: value.value for key, value in record.asset_materialization.metadata.items()}

    def materialized(self, name):
        return self.instance.get_materialized_partitions(dg.AssetKey(name.split("/")))

    def tags(self, done):
        return self.instance.get_run_by_id(done.run_id).tags


@pytest.fixture
def pipeline(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        yield Pipeline(tmp_path, instance)


def failure(done):
    """Step -> the sentence it failed with."""
    return {
        event.step_key: event.step_failure_data.user_failure_data.description
        for event in done.all_events
        if event.is_step_failure
    }


def test_a_run_that_finds_nothing_changed_says_so(pipeline):
    """In the metadata of every table of the step and by a tag; no row is claimed as written."""
    assert pipeline.run(FIRST).success
    assert pipeline.shown("silver/x", FIRST)["rows written"] == 1
    assert pipeline.shown("silver/x", FIRST)["outcome"] == "1 rows published"
    pipeline.computed.clear()
    done = pipeline.run(FIRST)
    assert (done.success, pipeline.computed) == (True, [])
    for name in pipeline.tables:
        shown = pipeline.shown(name, FIRST)
        assert shown["unchanged since version"] == 1
        assert not [key for key in shown if key.startswith("rows ")]
        assert shown["dagster/partition_row_count"] == 1
    assert pipeline.tags(done)["dedp.unchanged/silver.x"] == "since version 1"
    assert "dedp.unchanged/bronze.x" in pipeline.tags(done)


def test_a_run_whose_write_was_there_already_claims_no_rows(pipeline):
    """Computed or not: what it did not write it does not count."""
    pipeline.applies = False
    done = pipeline.run(FIRST, tags={FORCE: "true"})
    shown = pipeline.shown("silver/x", FIRST)
    assert not [key for key in shown if key.startswith("rows ")]
    assert (shown["unchanged since version"], shown["outcome"]) == (1, "already applied: nothing to do")
    assert pipeline.tags(done)["dedp.unchanged/silver.x"] == "since version 1"


@pytest.mark.parametrize("harm", ["gone", "cut"])
@pytest.mark.parametrize("name", ["silver/x", "bronze/x"])
def test_a_lost_file_is_computed_again_and_the_run_says_why(pipeline, name, harm):
    """Only in the table that lost it; the other one is as it was."""
    pipeline.run(FIRST)
    pipeline.run(SECOND)
    pipeline.computed.clear()
    (path,) = pipeline.files(name, FIRST)
    path.unlink() if harm == "gone" else path.write_bytes(b"x")
    assert pipeline.run(SECOND).success
    assert pipeline.computed == []
    done = pipeline.run(FIRST)
    assert (done.success, pipeline.computed) == (True, [(name, FIRST)])
    shown = pipeline.shown(name, FIRST)
    assert path.name in shown["computed again because"]
    assert f"{name} lacks 1 of its data files" in shown["computed again because"]
    assert shown["cause"] == "repair"


def test_what_cannot_be_brought_back_is_no_success(pipeline):
    """Computed again, the file is still not there: the run fails and names it."""
    pipeline.run(FIRST)
    pipeline.files("silver/x", FIRST)[0].unlink()
    pipeline.heals = False
    (said,) = failure(pipeline.run(FIRST)).values()
    assert "silver/x lacks" in said
    assert "put them back from a backup" in said


def test_a_table_beside_that_was_not_written_from_the_same_inputs_is_computed_again(pipeline):
    """A crash between the two, or a hand that changed one of them."""
    pipeline.run(FIRST)
    pipeline.write("silver/x_dead", FIRST, {"other": 1})
    pipeline.computed.clear()
    assert pipeline.run(FIRST).success
    assert pipeline.computed == [("silver/x", FIRST)]


@pytest.mark.parametrize(
    ("options", "computed"),
    [
        ({"config": ["silver_x"]}, ["silver/x"]),
        ({"tags": {FORCE: "true"}}, ["bronze/x", "silver/x"]),
        ({"tags": {FORCE: "false"}}, []),
    ],
    ids=["launchpad", "tag", "tag that says no"],
)
def test_somebody_may_ask_to_compute_what_is_unchanged(pipeline, options, computed):
    """For one table in the launchpad, for the whole run by a tag; the ledger says that it was asked for."""
    pipeline.run(FIRST)
    pipeline.computed.clear()
    assert pipeline.run(FIRST, **options).success
    assert [name for name, _ in pipeline.computed] == computed
    for name in computed:
        assert pipeline.shown(name, FIRST)["computed again because"] == "somebody asked for it (force)"
        assert pipeline.shown(name, FIRST)["cause"] == "forced"
        assert pipeline.steps[-1].provenance.replay
    assert not pipeline.steps[0].provenance.replay


def test_a_force_that_is_neither_yes_nor_no_is_refused(pipeline):
    """Nothing is computed for a word nobody knows."""
    (said, *_) = failure(pipeline.run(FIRST, tags={FORCE: "silver"})).values()
    assert "the tag dedp/force must be true or false, not silver" in said
    assert pipeline.computed == []


NOT_READY = NotReady(f"{SECOND}: 0 files but no _SUCCESS")
REFUSED = AuditFailed(f"silver/x day={SECOND}: nothing published", findings=[Finding("is_right", passed=False)])


def test_one_day_that_is_not_ready_does_not_keep_the_others_from_the_end(pipeline):
    """The run fails and names the day once for each step at its end; the others are there in every table."""
    pipeline.fails["bronze/x", SECOND] = NOT_READY
    done = pipeline.run(tags=RANGE)
    assert failure(done) == {"silver_x": str(NOT_READY)}
    for name in pipeline.tables:
        assert pipeline.materialized(name) == {FIRST, THIRD}
        assert pipeline.shown(name, THIRD)["rows written"] == 1
    assert pipeline.computed == [(n, d) for n in ("bronze/x", "silver/x") for d in (FIRST, THIRD)]
    observed = pipeline.instance.fetch_observations(dg.AssetKey(["bronze", "x"]), limit=10).records
    assert [r.partition_key for r in observed] == [SECOND]
    assert observed[0].asset_observation.metadata["not computed"].value == str(NOT_READY)
    pipeline.fails.clear()
    assert pipeline.run(tags=RANGE).success
    assert pipeline.materialized("silver/x") == {FIRST, SECOND, THIRD}


def test_what_an_earlier_step_did_not_compute_is_not_taken_from_before(pipeline):
    """A day that was there already and is refused now is not reported as computed by the steps that follow."""
    pipeline.run(SECOND)
    pipeline.fails["bronze/x", SECOND] = NOT_READY
    done = pipeline.run(tags=RANGE)
    assert failure(done) == {"silver_x": str(NOT_READY)}
    assert ("silver/x", SECOND) not in pipeline.computed[2:]


def test_a_refused_day_is_noted_until_it_is_published(pipeline):
    """What was refused, by which code, in which run and why, for whoever asks for it next; a crash is no refusal."""
    pipeline.fails[("bronze/x", FIRST)] = ContractError("it holds no line")
    done = pipeline.run(FIRST, tags={REQUEST: f"bronze/x:{FIRST}@8~3"}, only=["bronze/x"])
    note = Refusal(("8",), "1", done.run_id, f"bronze/x {FIRST}: it holds no line")
    (noted,) = (known := pipeline.refusals("bronze/x").by_key()).values()
    assert noted.judged_by
    assert known == {FIRST: replace(note, judged_by=noted.judged_by)}
    pipeline.fails = {("bronze/x", SECOND): NotReady("nothing has landed")}
    pipeline.run(SECOND, only=["bronze/x"])
    pipeline.run(FIRST, only=["bronze/x"])
    assert pipeline.refusals("bronze/x").by_key() == {}


@pytest.mark.parametrize(("name", "passed"), [("bronze/x", ["bronze/x", "silver/x"]), ("silver/x", ["bronze/x"])])
def test_a_refused_day_fails_the_run_and_its_check_alone(pipeline, name, passed):
    """Its tag keeps it from being tried again; the other days are published, and what was judged of them has passed."""
    pipeline.build_fails[name, SECOND] = [REFUSED]
    done = pipeline.run(tags=RANGE)
    fixed = "No approval overrules is_right: it waits for corrected data or a fix of the code"
    assert failure(done) == {"silver_x": f"{REFUSED}. {fixed}"}
    assert pipeline.materialized("silver/x") == {FIRST, THIRD}
    assert refusals(pipeline.tags(done)) == [(name, SECOND)]
    found = [e for e in done.get_asset_check_evaluations() if e.check_name == "is_right"]
    assert [e.asset_key.to_user_string() for e in found if not e.passed] == [name]
    assert [e.asset_key.to_user_string() for e in found if e.passed] == passed


@pytest.mark.parametrize("only", [["bronze/x"], ["silver/x", "silver/x_dead"]])
def test_a_step_that_nobody_follows_fails_itself(pipeline, only):
    """Nothing is green that lacks a day."""
    pipeline.fails[only[0], SECOND] = NOT_READY
    assert failure(pipeline.run(tags=RANGE, only=only)) == {only[0].replace("/", "_"): str(NOT_READY)}
    assert pipeline.materialized(only[0]) == {FIRST, THIRD}


def test_no_day_ready_ends_the_run_at_once(pipeline):
    """There is nothing to go on with."""
    pipeline.fails = {("bronze/x", day): NotReady(f"{day}: no marker") for day in (FIRST, SECOND, THIRD)}
    ((step, said),) = failure(pipeline.run(tags=RANGE)).items()
    assert step == "bronze_x"
    assert all(day in said for day in (FIRST, SECOND, THIRD))


def test_an_unexpected_error_loses_no_report_of_the_days_before_it(pipeline):
    """They are published and say so; the run fails with the error itself, and what was refused before is told."""
    pipeline.fails["bronze/x", FIRST] = NotReady(f"{FIRST}: no marker")
    pipeline.build_fails["bronze/x", THIRD] = [ZeroDivisionError("a bug")]
    done = pipeline.run(tags=RANGE)
    (event,) = [event for event in done.all_events if event.is_step_failure]
    assert "ZeroDivisionError" in str(event.step_failure_data.error)
    assert pipeline.materialized("bronze/x") == {SECOND}
    assert pipeline.shown("bronze/x", SECOND)["rows written"] == 1
    observed = pipeline.instance.fetch_observations(dg.AssetKey(["bronze", "x"]), limit=10).records
    assert [r.partition_key for r in observed] == [FIRST]


def waits(done):
    return [e.step_retry_data.seconds_to_wait for e in done.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]


@pytest.mark.parametrize("error", [TimeoutError("no answer"), ConnectionResetError("gone"), Conflict("was first")])
def test_what_may_pass_is_tried_again_after_longer_and_longer_pauses(pipeline, monkeypatch, error):
    """Twice; then it succeeds, or fails for good, and the days beside it are reported in either case."""
    monkeypatch.setattr(failures, "_STEP", Backoff(attempts=3, first_seconds=0.001, jitter=0))
    pipeline.build_fails["silver/x", SECOND] = [error, error]
    done = pipeline.run(tags=RANGE)
    assert (done.success, waits(done)) == (True, [0.001, 0.002])
    assert pipeline.materialized("silver/x") == {FIRST, SECOND, THIRD}
    pipeline.build_fails["silver/x", THIRD] = [error] * 3
    done = pipeline.run(tags={**RANGE, FORCE: "true"})
    assert waits(done) == [0.001, 0.002]
    assert failure(done) == {"silver_x": f"silver/x {THIRD}: {error}"}


@pytest.mark.parametrize("error", [ContractError("bad"), NotReady("not there"), ValueError("bug")])
def test_what_cannot_pass_is_tried_once(pipeline, error):
    """Bad data, a missing upstream and a bug are no better the second time."""
    pipeline.build_fails["silver/x", FIRST] = [error]
    done = pipeline.run(FIRST)
    assert (done.success, waits(done)) == (False, [])
    assert pipeline.build_fails["silver/x", FIRST] == []


def test_a_delivery_is_looked_at_once(pipeline):
    """What was found when it was looked at reaches what loads it."""
    pipeline.run(FIRST)
    assert {step.inputs.found for step in pipeline.steps} == {"looked at once"}
