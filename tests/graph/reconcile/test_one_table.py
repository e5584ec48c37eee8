"""One table that cannot be observed: it is a named trouble, and every other table is asked for as before."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.graph.checks.causes import CauseWatch
from dedp_assets.graph.declare import About, Follow, LakeTable, OnDelivery, Reads, Runs, lake_table, whole
from dedp_assets.graph.outcomes.run_tags import keys_of
from dedp_assets.graph.reconcile.arrivals import Arrivals
from dedp_assets.graph.reconcile.edges import Edge, Group
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.reconcile.requests import in_flight
from dedp_assets.graph.reconcile.watching import TableWatch
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.sensors.replay import OpenLetters
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table
from tests.hand_written import DAYS, commit_day, daily, declare
from tests.helpers import NOW, a_record, write_log

DAY = "2026-01-17"
FOLLOWING = [f"silver/t{number}" for number in range(4)]
LANDING = [f"bronze/l{number}" for number in range(3)]


def loading(name: str) -> LakeTable:
    """A table by day that loads the folder of its name, and that nobody computes."""

    def build(step, into):
        raise AssertionError("nobody computes it")

    stated = {"about": About("team:x"), "patterns": [Table.overwrite], "code_version": "1"}
    runs = Runs(DAYS, OnDelivery(name.partition("/")[2]))
    return lake_table(daily(name), reads=Reads(inputs=lambda _: None), runs=runs, **stated)(build)


TABLES = [*(declare(name, Follow()) for name in FOLLOWING), *map(loading, LANDING)]
EVERY = {*FOLLOWING, *LANDING}


def deliver(landing: Path, dataset: str, file: str | bytes = "a.csv") -> None:
    """A complete delivery of one file."""
    folder = landing / dataset / DAY
    folder.mkdir(parents=True, exist_ok=True)
    (folder / os.fsdecode(file)).write_text("id\n1\n")
    (folder / "_SUCCESS").touch()


@pytest.fixture
def world(tmp_path):
    """A lake where every table has one partition to compute, and every landing one to load."""
    lake, landing = Lake(root=str(tmp_path / "lake"), engine=SparkEngine()), Landing(root=str(tmp_path / "landing"))
    commit_day(lake, "bronze/x", DAY)
    for name in LANDING:
        deliver(tmp_path / "landing", name.partition("/")[2])
    return lake, landing


def asked(world, loop, **options) -> tuple[set[str], dict[str, str]]:
    """The tables that are asked for, and the reasons of those that cannot be observed."""
    outcome, overview = loop.reconcile(*world, NOW, **options)
    return {table for ask in outcome.asks for table in ask.tables}, dict(overview.unreadable)


def test_without_a_fault_every_table_is_asked_for(world):
    """Otherwise the next test proves nothing."""
    assert asked(world, Reconciler(TABLES)) == (EVERY, {})


PLACES = {
    "its log": (TableWatch, "poll", lambda self: self.spec.name, EVERY),
    "its deliveries": (Arrivals, "poll", lambda self: self.table.spec.name, {*LANDING}),
    "its upstream": (Edge, "poll", lambda self: self.name, {*FOLLOWING}),
    "its applied versions": (TableWatch, "applied", lambda self: self.spec.name, {*FOLLOWING}),
}
ERRORS = st.sampled_from([
    IndexError("list index out of range"), KeyError("silver/x"), ContractError("its log cannot be read"),
    NotReady("it is not there"), UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"),
    OSError(5, "Input/output error"), ZeroDivisionError(), dg.DagsterInvalidDefinitionError("no such partitions"),
    RecursionError(), MemoryError("a map of 9 GB"), AssertionError(""),
])  # fmt: skip


@given(st.sampled_from(sorted(PLACES)), st.data(), ERRORS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_error_of_one_table_leaves_the_others_as_they_are(world, monkeypatch, place, data, error):
    """Wherever it is raised and whatever it is; the table is named, and asked for again once the error is gone."""
    owner, method, named, tables = PLACES[place]
    broken, plain = data.draw(st.sampled_from(sorted(tables))), getattr(owner, method)

    def failing(self, *arguments, **options):
        if named(self) == broken:
            raise error
        return plain(self, *arguments, **options)

    loop = Reconciler(TABLES)
    with monkeypatch.context() as patched:
        patched.setattr(owner, method, failing)
        assert asked(world, loop) == (EVERY - {broken}, {broken: loop_reason(loop, broken)})
        assert broken in loop_reason(loop, broken) or str(error) in loop_reason(loop, broken)
        causes = CauseWatch(TABLES).poll(*world, NOW)
        assert {(e.kind, e.table) for e in causes.troubles if e.needs_somebody} == {("unreadable", broken)}
        assert broken in causes.unjudged
    assert asked(world, loop) == (EVERY, {})


def loop_reason(loop: Reconciler, table: str) -> str:
    (overview,) = loop._overviews.values()
    return overview.unreadable[table]


def test_an_error_in_the_plan_of_tables_that_run_together_is_that_tables(world, monkeypatch):
    """They are planned at once, and one by one after an error."""
    plain = Group._behind

    def failing(self, edges, *arguments):
        if any(edge.name == FOLLOWING[1] for edge in edges):
            raise ValueError("no calendar")
        return plain(self, edges, *arguments)

    monkeypatch.setattr(Group, "_behind", failing)
    tables, reasons = asked(world, Reconciler(TABLES))
    assert tables == EVERY - {FOLLOWING[1]}
    assert reasons == {FOLLOWING[1]: f"{FOLLOWING[1]} cannot be observed: ValueError: no calendar"}


@pytest.mark.parametrize("file", [b"\xff.csv", b"caf\xe9 2026.csv", b"\xc3\x28.csv", "a:b.csv"])
def test_a_file_whose_name_engines_cannot_take_holds_its_delivery_alone(world, file):
    """With the name in letters that every terminal has; all others are loaded."""
    deliver(Path(world[1].root), "l1", file)
    outcome, overview = Reconciler(TABLES).reconcile(*world, NOW)
    assert {table for ask in outcome.asks for table in ask.tables} == EVERY - {"bronze/l1"}
    (held,) = [gap for gap in outcome.gaps if gap.state == "unusable"]
    assert (held.table, held.key, dict(overview.unreadable)) == ("bronze/l1", DAY, {})
    assert "in its name, which engines take for something else: rename it" in held.reason
    (trouble,) = [each for each in CauseWatch(TABLES).poll(*world, NOW).troubles if each.needs_somebody]
    assert (trouble.kind, trouble.table, trouble.partition) == ("unusable", "bronze/l1", DAY)
    trouble.reason.encode("utf-8")


def test_a_folder_whose_name_is_no_text_is_named_and_nothing_else_waits(world):
    """It is no partition, and its name can be printed."""
    (Path(world[1].root) / "l0" / os.fsdecode(b"2026-01-\xff")).mkdir()
    outcome, overview = Reconciler(TABLES).reconcile(*world, NOW)
    assert {table for ask in outcome.asks for table in ask.tables} == EVERY
    (strange,) = [each.strange for each in overview.arrivals if each.strange]
    assert strange == {"2026-01-\\xff": "is no day between 2026-01-05 and today"}


def test_a_delivery_that_cannot_be_listed_is_held_with_the_systems_words(world, monkeypatch):
    """Other days of the same landing are loaded."""
    plain = os.scandir

    def scandir(path):
        if str(path).endswith(f"l1/{DAY}"):
            raise PermissionError(13, "Permission denied")
        return plain(path)

    monkeypatch.setattr(os, "scandir", scandir)
    outcome, _ = Reconciler(TABLES).reconcile(*world, NOW)
    (held,) = [gap for gap in outcome.gaps if gap.state == "unusable"]
    assert (held.table, held.key) == ("bronze/l1", DAY)
    assert "cannot be listed (Permission denied)" in held.reason


# --- a project that changes while its runs wait -----------------------------------------------------------------------


@dg.asset(key=["silver", "t0"], partitions_def=DAYS)
def stays() -> None: ...


REPOSITORY = dg.Definitions(assets=[stays]).get_repository_def()


def start(instance, asset: str, **tags: str) -> None:
    """A run of an asset that is being started."""

    @dg.asset(key=asset.split("/"))
    def was_there() -> None: ...

    job = dg.Definitions(assets=[was_there]).resolve_implicit_global_asset_job_def()
    selected = frozenset([was_there.key])
    instance.create_run_for_job(job, tags=tags, status=dg.DagsterRunStatus.STARTING, asset_selection=selected)


def test_a_queued_run_of_a_removed_table_counts_for_that_table_alone():
    """And one whose partitions are others now, by the keys that it names."""
    first, last = (f"dagster/asset_partition_range_{end}" for end in ("start", "end"))
    with dg.DagsterInstance.ephemeral() as instance:
        start(instance, "silver/gone", **{"dagster/partition": DAY})
        start(instance, "silver/gone", **{first: DAY, last: "2026-01-19"})
        start(instance, "silver/t0", **{first: "week-1", last: "week-2"})
        start(instance, "silver/t0", **{first: "2026-01-06", last: "2026-01-07"})
        found = in_flight(instance, REPOSITORY)
    assert found == {
        "silver/gone": {DAY, ""},  # of a range of partitions that nobody knows any more, the table
        "silver/t0": {"week-1", "week-2", "2026-01-06", "2026-01-07"},
    }


@given(
    st.sampled_from(
        [DAYS, dg.HourlyPartitionsDefinition("2026-01-05-00:00"), dg.StaticPartitionsDefinition(["a", "b"]), None]
    ),
    st.text(max_size=12),
    st.text(max_size=12),
)
def test_tags_of_other_partitions_are_never_an_error(partitions, first, last):
    """Whatever the run was started with, and whatever the declaration is now."""
    ends = dict(zip((f"dagster/asset_partition_range_{end}" for end in ("start", "end")), (first, last), strict=True))
    assert {*keys_of(ends, partitions)} <= {first, last}
    assert [*keys_of({"dagster/partition": first}, partitions)] == [first]


def test_a_table_that_the_deployed_code_does_not_have_is_no_error(world):
    """As in a process that loaded the declarations before or after a table was removed."""
    tables, reasons = asked(world, Reconciler(TABLES), repository=REPOSITORY)
    assert (tables, reasons) == (EVERY, {})


# --- letters of a landing without partitions --------------------------------------------------------------------------

SHOPS = TableSpec("silver/shops_dead_letter", {"raw": Column("STRING", "as it came")}, comment="x")


def test_letters_without_partitions_are_replayed_as_a_whole(tmp_path):
    """A new version of the code asks for the table, the same one does not, and a saved letter is none."""
    folder = tmp_path / SHOPS.name

    def commit(code_version: str, still_open: int) -> None:
        record = a_record("silver/shops", {}, code_version=code_version, figures={"open": still_open})
        write_log(folder, {"raw": "string"}, [], [{"record": record, "changed": [{}]}])

    commit("1", 3)
    ledger = Ledger(folder, name=SHOPS.name)
    known = OpenLetters(SHOPS)
    plan = known.plan(ledger, code_version="2")
    assert (plan.partitions, plan.cursor) == (("",), {"": "code-2"})
    assert known.plan(ledger, code_version="1").partitions == ()
    commit("2", 0)
    assert known.plan(ledger, code_version="3").partitions == ()


@pytest.mark.parametrize("first", [True, False])
def test_a_table_is_what_its_own_declaration_says_whatever_a_reader_states(world, first):
    """A reader in Python that states a table of a file in part, without its partitions."""
    stated = TableSpec(FOLLOWING[0], {"id": Column("BIGINT")})
    commit_day(world[0], stated.name, "2026-01-16")

    def build(step, into):
        raise AssertionError("nobody computes it")

    reader = lake_table(
        TableSpec("gold/all", {"id": Column("BIGINT")}), reads=Reads({stated: whole()}), about=About("team:x"),
        patterns=[Table.overwrite], code_version="1", runs=Runs(when=Follow()),
    )(build)  # fmt: skip
    loop = Reconciler([reader, *TABLES] if first else [*TABLES, reader])
    found, unreadable = asked(world, loop)
    assert unreadable == {}
    assert found >= {*FOLLOWING}
