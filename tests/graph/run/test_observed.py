"""Observed lineage of steps: one start and one end of each attempt, and what was really opened and committed."""

from __future__ import annotations

import json
import logging

import dagster as dg
import pytest

from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.checks.lineage import declared_lineage, judge_lineage
from dedp_assets.graph.declare import About, Every, Job, Reads, Runs, lake_job, lake_table
from dedp_assets.graph.inputs.feeds import Pinned, same, whole
from dedp_assets.graph.mail.lineage_outbox import LineageOutbox
from dedp_assets.graph.outcomes import failures
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.run.appending import appending
from dedp_assets.graph.run.batches import Inputs, Step
from dedp_assets.patterns.core.errors import Conflict, ContractError
from dedp_assets.patterns.core.results import Finding, RowCounts, WriteResult
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.running.opening import note_opened, noting_opened
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, LocalStore, Table, Target
from tests.helpers import NOW, a_record, write_log
from tests.openlineage import faults_of

DAY, NEXT = "2026-01-05", "2026-01-06"
COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "day")}
SOURCE = TableSpec("bronze/source", COLUMNS, partition_by=("day",))
OTHER = TableSpec("bronze/other", COLUMNS, partition_by=("day",))
SECRET = TableSpec("silver/secret", COLUMNS)
TOTALS = TableSpec("gold/totals", COLUMNS, partition_by=("day",), comment="One row per day.")
FILES = Source("landing/visits", "Files.", ("file",), "team:collectors")
TOPIC = Source("kafka/visits", "Records.", ("kafka",), "team:collectors")
JUDGED = tuple(
    Finding(name, passed=True) for name in ("rows_are_accounted_for", "rows_lie_in_their_partition", "constraints_hold")
)
DAYS = dg.DailyPartitionsDefinition(DAY, end_date="2026-01-12")


class Platform:
    """A lake with two upstream tables, and the lineage of its runs.

    Attributes:
        do: what the table's function does.
    """

    def __init__(self, root):
        self.root, self.home = root / "lakehouse", root / "lineage"
        for table in (SOURCE, OTHER):
            written = [{"record": a_record(table.name, {"day": day}), "changed": [{"day": day}]} for day in (DAY, NEXT)]
            write_log(self.root / table.name, {"id": "long", "day": "date"}, ["day"], written)
        self.do, self.sources, self.inputs = (lambda *_: None), (), None

    def table(self):
        @lake_table(
            TOTALS,
            reads=Reads({SOURCE: same("day"), OTHER: same("day")}, sources=self.sources, inputs=self.inputs),
            runs=Runs(DAYS),
            about=About("team:x"),
            patterns=[Table.overwrite],
            code_version="1",
        )
        def totals(step: Step, source: Pinned, other: Pinned, into: Target) -> WriteResult:
            """Do what the test says."""
            done = self.do(step, source, other, into)
            return done or WriteResult(into.name, 0, False, False, "nothing new", findings=JUDGED)

        return totals

    def run(self, key=DAY, **options):
        engine = SparkEngine()
        lake = Lake(root=str(self.root), lineage=options.pop("lineage", str(self.home)), engine=engine)
        resources = {"lake": lake, "clock": Clock(fixed=NOW.isoformat()), "engine": engine}
        with dg.DagsterInstance.ephemeral() as own:
            return dg.materialize(
                [self.table().definition()],
                partition_key=key,
                resources=resources,
                instance=options.pop("instance", own),
                raise_on_error=False,
                **options,
            )

    def events(self):
        files = sorted(self.home.glob("*/*/*.json"))
        found = [json.loads(file.read_text()) for file in files]
        assert [fault for event in found for fault in faults_of(event)] == []
        return found

    def last(self):
        return self.events()[-1]


@pytest.fixture
def platform(tmp_path):
    return Platform(tmp_path)


def opens(pinned):
    """Open a table as a read does, without an engine."""
    note_opened(pinned.table.spec, pinned.table.store.uri, pinned.version, pinned.partitions)


def wrote(table, version=3, rows=5, **more):
    """The result of a commit."""
    counts = RowCounts(read=rows, written=rows)
    return WriteResult(
        table, version, True, True, "written", rows=counts, partition={"day": DAY}, findings=JUDGED, **more
    )


def names(datasets):
    return [each["facets"]["symlinks"]["identifiers"][0]["name"] for each in datasets]


def test_a_pinned_table_that_nobody_opened_is_no_input(platform):
    """What was opened has the version that was opened, the partition and the counts of the log."""
    platform.do = lambda _step, source, *_: opens(source)
    platform.run(NEXT)
    start, end = platform.events()
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["job"] == {**end["job"], "namespace": "dedp", "name": "gold_totals"}
    (read,) = end["inputs"]
    assert (read["namespace"], read["name"]) == ("file", str(platform.root / "bronze/source"))
    assert read["facets"]["version"]["datasetVersion"] == str(Ledger(platform.root / "bronze/source").version())
    assert read["inputFacets"]["subset"]["inputCondition"]["partitions"] == [{"dimensions": {"day": NEXT}}]
    assert end["outputs"] == []
    assert end["run"]["facets"]["nominalTime"]["nominalEndTime"].startswith("2026-01-07T00:00:00")


def test_an_undeclared_read_and_an_undeclared_write_are_seen(platform):
    """Opened by other ways than a pinned input, and written beside what is declared."""

    def strays(step, source, other, into):
        opens(source)
        note_opened(SECRET, "file:///elsewhere/secret", 4)
        return wrote(
            into.name,
            beside=(
                wrote(SECRET.name),
                wrote("silver/not_applied"),
            ),
        )

    platform.do = strays
    platform.run()
    event = platform.last()
    assert names(event["inputs"]) == ["bronze/source", "silver/secret"]
    assert event["inputs"][1]["name"] == "/elsewhere/secret"
    assert names(event["outputs"]) == ["gold/totals", "silver/secret", "silver/not_applied"]
    assert event["outputs"][0]["facets"]["version"]["datasetVersion"] == "3"
    assert event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 5


def test_what_a_write_left_unchanged_is_no_output(platform):
    """A result without a commit."""
    platform.do = lambda *given: WriteResult(given[-1].name, 1, False, False, "same rows", findings=JUDGED)
    platform.run()
    assert platform.last()["outputs"] == []


def test_reads_of_the_own_table_are_no_inputs(platform):
    """A merge reads what it writes, and the table is not its own source."""
    platform.do = lambda *given: note_opened(TOTALS, given[-1].table.store.uri, 1)
    platform.run()
    assert platform.last()["inputs"] == []


def test_a_failed_run_names_its_inputs_and_no_outputs(platform):
    """With the sentence of the failure."""

    def refuses(step, source, other, into):
        opens(other)
        raise ContractError("3 rows of 40 are broken")

    platform.do = refuses
    assert not platform.run().success
    event = platform.last()
    assert (event["eventType"], names(event["inputs"]), event["outputs"]) == ("FAIL", ["bronze/other"], [])
    assert "3 rows of 40 are broken" in event["run"]["facets"]["errorMessage"]["message"]


def test_a_secret_in_an_error_does_not_leave_the_platform(platform, monkeypatch):
    """An address with a password, as a driver quotes it."""
    monkeypatch.setenv("DEDP_POSTGRES", "postgresql://ada:s3cret-pw@db.example/shop")

    def breaks(*_):
        raise RuntimeError("postgresql://ada:s3cret-pw@db.example/shop is down; password s3cret-pw")

    platform.do = breaks
    platform.run()
    assert "s3cret-pw" not in json.dumps(platform.events())


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), KeyboardInterrupt()], ids=["a bug", "an interruption"])
def test_whatever_ends_a_step_ends_its_attempt(platform, error):
    """One start, one end."""

    def breaks(*_):
        raise error

    platform.do = breaks
    assert not platform.run().success
    assert [each["eventType"] for each in platform.events()] == ["START", "FAIL"]


def test_a_retry_is_a_run_of_its_own_of_the_same_job(platform, monkeypatch):
    """The first attempt failed, the second succeeded."""
    monkeypatch.setattr(failures, "_STEP", Backoff(attempts=3, first_seconds=0))
    attempts = []

    def waits(step, source, other, into):
        attempts.append(step)
        if len(attempts) == 1:
            raise Conflict("another writer was first")

    platform.do = waits
    assert platform.run().success
    events = platform.events()
    assert [each["eventType"] for each in events] == ["START", "FAIL", "START", "COMPLETE"]
    ids = [each["run"]["runId"] for each in events]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert len({each["job"]["name"] for each in events}) == 1
    assert len({each["run"]["facets"]["parent"]["run"]["runId"] for each in events}) == 1


def test_a_source_is_an_input_if_the_inputs_name_it(platform):
    """With the identity of its content as version; the other way in, which was not used, is none."""
    platform.sources = (FILES, TOPIC)
    platform.inputs = lambda: Inputs({f"landing/visits/{DAY}": "sha"})
    platform.run()
    (read,) = platform.last()["inputs"]
    assert read["facets"]["version"]["datasetVersion"] == "sha"
    assert (read["namespace"], read["name"].endswith("/landing/visits")) == ("file", True)
    assert read["facets"]["ownership"]["owners"][0]["name"] == "team:collectors"


@pytest.mark.parametrize(
    ("landing", "place"),
    [("/data/landing", ("file", "/data/landing/visits")), ("s3a://sources/a/b", ("s3://sources", "a/b/visits"))],
)
def test_a_delivery_has_the_address_of_the_landing_zone(platform, landing, place, monkeypatch):
    """As OpenLineage names folders and buckets."""
    monkeypatch.setenv("DEDP_LANDING", landing)
    platform.sources = (FILES,)
    platform.inputs = lambda: Inputs({f"landing/visits/{DAY}": "sha"})
    platform.run()
    (read,) = platform.last()["inputs"]
    assert (read["namespace"], read["name"]) == place


@pytest.mark.parametrize(
    ("variables", "place"),
    [({}, ("kafka", "visits")), ({"DEDP_KAFKA": "broker:9092"}, ("kafka://broker:9092", "visits"))],
)
def test_a_source_that_no_identity_names_is_asked_during_the_run(platform, variables, place, monkeypatch):
    """By its address, where the settings tell the address."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    platform.sources = (TOPIC,)
    platform.run()
    (read,) = platform.last()["inputs"]
    assert (read["namespace"], read["name"]) == place


def test_a_table_of_a_database_has_the_address_of_the_database(platform, monkeypatch):
    """Without user and password."""
    monkeypatch.setenv("DEDP_POSTGRES", "postgresql://ada:pw@db.example/shop")
    platform.sources = (Source("postgres/users", "Users.", ("postgres",), "team:x"),)
    platform.run()
    (read,) = platform.last()["inputs"]
    assert (read["namespace"], read["name"]) == ("postgres://db.example:5432", "shop.public.users")


def test_lineage_that_cannot_be_written_breaks_nothing(platform, caplog):
    """It is a line in the log."""
    platform.home.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, "dedp.lineage"):
        assert platform.run().success
    assert "an event of lineage was not noted" in caplog.text


def test_without_a_folder_nothing_is_noted(platform):
    """As in a test of somebody's table."""
    assert platform.run(lineage="").success
    assert not platform.home.exists()


def test_the_run_is_read_back(platform):
    """As the tracker compares it."""
    platform.do = lambda _step, source, _other, into: opens(source) or wrote(into.name)
    platform.run()
    (run,) = LineageOutbox(LocalStore(str(platform.home))).runs()
    assert ([*map(str, run.inputs)], [*map(str, run.outputs)]) == (["bronze/source"], ["gold/totals"])


def test_opened_tables_are_noted_in_the_block_alone():
    """And an inner block keeps its own."""
    note_opened(SOURCE, "file:///x", 1)
    with noting_opened() as outer:
        note_opened(SOURCE, "file:///x", 1)
        with noting_opened() as inner:
            note_opened(OTHER, "file:///y", 2)
    assert ([each.spec for each in outer], [each.spec for each in inner]) == ([SOURCE], [OTHER])


@pytest.mark.parametrize("error", ["", "the topic lost records"], ids=["appended", "failed in between"])
def test_an_append_is_observed_with_its_commits(platform, error):
    """Opened tables and sources are inputs, and what was committed before a failure is an output."""
    table = Table.at(platform.root / SOURCE.name, SparkEngine)

    @dg.op(required_resource_keys={"lake", "clock"})
    def append_source(context):
        with appending(context, table, code_version="1", column="day", at=NOW, sources=[TOPIC]):
            note_opened(OTHER, "file:///other", None)
            record = a_record(table.name, {"day": NEXT}, run_id=context.run.run_id)
            write_log(platform.root / SOURCE.name, {}, [], [{"record": record, "changed": [{"day": NEXT}]}])
            if error:
                raise ContractError(error)

    lake = Lake(root=str(platform.root), lineage=str(platform.home), engine=SparkEngine())
    job = dg.GraphDefinition(name="stream", node_defs=[append_source]).to_job()
    resources = {"lake": lake, "clock": Clock(fixed=NOW.isoformat())}
    assert job.execute_in_process(resources=resources, raise_on_error=False).success == (not error)
    start, end = platform.events()
    assert (start["eventType"], end["eventType"]) == ("START", "FAIL" if error else "COMPLETE")
    assert end["job"]["name"] == "append_source"
    assert names(end["inputs"]) == ["bronze/other", "kafka/visits"]
    assert "version" not in end["inputs"][0]["facets"]
    (written,) = end["outputs"]
    assert written["facets"]["version"]["datasetVersion"] == "3"
    assert written["outputFacets"]["subset"]["outputCondition"]["partitions"] == [{"dimensions": {"day": NEXT}}]


def test_a_table_without_partitions_is_observed_in_a_job_that_has_some(platform):
    """Dagster gives the job the partitions of its other tables, and the run has no key."""
    spec = TableSpec("gold/all", COLUMNS)

    @lake_table(
        spec, reads=Reads({SOURCE: whole()}), about=About("team:x"), patterns=[Table.overwrite], code_version="1"
    )
    def everything(source: Pinned, into: Target) -> WriteResult:
        """Open what is read."""
        opens(source)
        return WriteResult(into.name, 0, False, False, "nothing new", findings=JUDGED)

    engine = SparkEngine()
    lake = Lake(root=str(platform.root), lineage=str(platform.home), engine=engine)
    tables = [everything.definition(), platform.table().definition()]
    job = dg.define_asset_job("both", selection=dg.AssetSelection.assets("gold/all", "gold/totals"))
    made = dg.Definitions(
        tables, jobs=[job], resources={"lake": lake, "clock": Clock(fixed=NOW.isoformat()), "engine": engine}
    )
    done = made.resolve_job_def("both").execute_in_process(asset_selection=[dg.AssetKey(["gold", "all"])])
    assert done.success
    start, end = platform.events()
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert [each["name"] for each in end["inputs"]] == [str(platform.root / "bronze/source")]
    assert "nominalTime" not in end["run"]["facets"]


def test_a_job_apart_from_partitions_is_a_node_by_what_it_declares(platform):
    """Without a declaration it is a blind spot."""
    when = Every("0 4 * * *", description="At night.")

    def append_source(context) -> None:
        """Append."""

    def tidy_up(context) -> None:
        """Tidy up."""

    jobs = [
        lake_job(Job("stream", "Appends."), when, reads=[TOPIC, OTHER], writes=[SOURCE])(append_source),
        lake_job(Job("tidy", "Tidies."), when)(tidy_up),
    ]
    graph = declared_lineage([platform.table()], jobs)
    assert "source:kafka/visits -> bronze/source by append_source" in {str(edge) for edge in graph.edges}
    assert "bronze/source -> gold/totals by gold_totals" in {str(edge) for edge in graph.edges}
    finding, measured = judge_lineage([platform.table()], jobs, [], NOW)
    assert finding.figures["blind_spots"] == ["tidy_up"]
    assert measured.measurements[0].value == 4 / 5
