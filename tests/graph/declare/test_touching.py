"""Places that a declared table's functions may touch: what the declaration says, and refusals in the run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from dedp_assets.case_study import defs, reporting
from dedp_assets.graph.declare import About, Inputs, Pinned, Reads, Request, Runs, Touches, declared, lake_table, same
from dedp_assets.graph.declare.replays import _Work
from dedp_assets.graph.declare.touching import access_to
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.permissions import is_allowed
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target, store_at, table_lock, transaction_id
from dedp_assets.patterns.security.fine_grained_accessor_for_resources import AccessPolicy, lint_policies
from tests.helpers import NOW, a_record, a_run, refusal, write_log

DAY = "2026-01-05"
COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "day")}
A, B, C, BESIDE = (TableSpec(f"silver/{name}", COLUMNS, partition_by=("day",)) for name in ("a", "b", "c", "beside"))


@pytest.fixture
def lake(tmp_path):
    """Tables a, b, c and one beside b, by hand-written logs."""
    for table in (A, B, C, BESIDE):
        rows = [{"record": a_record(table.name, {"day": DAY}), "changed": [{"day": DAY}]}]
        commits = rows if table in (A, C) else []
        write_log(tmp_path / "lake" / table.name, {"id": "long", "day": "date"}, ["day"], commits)
    return Lake(root=str(tmp_path / "lake"), engine=SparkEngine())


def files(lake):
    """What lies in the lake, without the platform's own notes on runs."""
    root = store_at(lake.root)
    return [each for each in root.files() if not each.path.startswith(("_refused/", "_lineage/"))]


def compute(lake, do, *, find=None, touches=Touches()):  # noqa: B008 - frozen
    """Run a table that reads a and writes b; return its failure, empty for a success."""

    def inputs(request: Request, lake: Lake) -> Inputs:
        if find:
            find(lake)
        return Inputs({"found": 1})

    @lake_table(
        B,
        reads=Reads({A: same("day")}, inputs=inputs, touches=touches),
        runs=Runs(dg.DailyPartitionsDefinition(DAY)),
        about=About("team:x"),
        beside={BESIDE: [Table.overwrite]},
        patterns=[Table.overwrite],
    )
    def made(source: Pinned, into: Target, beside: Target, lake: Lake) -> WriteResult:
        """Do what the test says."""
        do(lake, source, into, beside)
        return WriteResult(into.name, 1, False, False, "nothing new")

    resources = {"lake": lake, "clock": Clock(fixed=NOW.isoformat()), "engine": SparkEngine()}
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [made.definition()], partition_key=DAY, resources=resources, instance=instance, raise_on_error=False
        )
        events = [each for each in done.all_events if each.is_step_failure]
    return "" if done.success else events[0].step_failure_data.user_failure_data.description


TOUCHES = {
    "reads rows": lambda lake: lake.table(C).read(),
    "streams": lambda lake: lake.table(C).stream(),
    "looks at the log": lambda lake: lake.ledger(C.name).version(),
    "opens by the log": lambda lake: Table.at(lake.table(C).store.address, lambda: None),
    "writes": lambda lake: lake.table(C).store.put("new", b"1"),
    "removes": lambda lake: lake.table(C).store.delete_folder(""),
    "clears": lambda lake: lake.table(C).clear(partition={"day": DAY}, provenance=None),
    "locks": lambda lake: table_lock(lake.table(C).store).__enter__(),
    "writes to its upstream": lambda lake: lake.table(A).store.put("new", b"1"),
    "writes a file elsewhere": lambda lake: store_at(lake.files("other")).put("new", b"1"),
}


def test_a_function_is_refused_another_place_before_anything_changes(lake):
    """In any way that the library has; the sentence names the table and the path."""
    before, said = files(lake), dict[str, str]()

    def do(lake, *_):
        said.update({way: refusal(lambda touch=touch: touch(lake)) for way, touch in TOUCHES.items()})

    assert compute(lake, do) == ""
    place = {"writes to its upstream": "silver/a", "writes a file elsewhere": "_files/other", "locks": "silver/.c.lock"}
    for way, sentence in said.items():
        assert re.match(rf"silver/b may not (read|write|delete) {lake.root}/{place.get(way, 'silver/c')}", sentence), (
            way
        )
    assert said.keys() == TOUCHES.keys()
    assert files(lake) == before


@pytest.mark.parametrize("where", ["function", "inputs"])
def test_a_run_that_touches_another_place_fails_with_the_path(lake, where):
    """In the function, and in the one that finds its inputs before."""
    before, touch = files(lake), lambda lake, *_: lake.table(C).read()
    given = (touch, None) if where == "function" else (lambda *_: pytest.fail("it was computed"), touch)
    said = compute(lake, given[0], find=given[1])
    assert f"silver/b may not read {lake.root}/silver/c, only silver/a, silver/b, silver/beside: " in said
    assert files(lake) == before


def test_a_run_touches_what_it_declares(lake):
    """Upstream rows and logs, its own tables, a checkpoint and plain files."""

    def do(lake, source, into, beside):
        assert source.table.ledger.version() == 1
        for target in (into, beside):
            with table_lock(target.table.store):
                target.table.store.put("part", b"1")
                target.table.store.delete("part")
        for place in (lake.files(into.name), lake.checkpoint(into.name)):
            store_at(place).put("new", b"1")

    assert compute(lake, do) == ""


def test_further_places_are_declared(lake):
    """A log that is looked at, a table that gets a commit without rows, a folder by name and by path."""
    elsewhere = f"{lake.root}/../elsewhere"
    touches = Touches(reads=[C], writes=[A], files=["snapshots", elsewhere])

    def do(lake, *_):
        assert lake.ledger(C.name).version() == 1
        lake.table(A).store.put("_delta_log/milestone", b"1")
        store_at(lake.files("snapshots")).within("a/v1").put("part", b"1")
        store_at(elsewhere).put("part", b"1")

    assert compute(lake, do, touches=touches) == ""
    assert "may not write" in compute(lake, lambda lake, *_: lake.table(C).store.put("x", b""), touches=touches)


def test_a_table_may_look_at_the_whole_lake(lake):
    """And writes no other table all the same."""
    touches = Touches(whole_lake=True)
    assert compute(lake, lambda lake, *_: lake.ledger(C.name).version(), touches=touches) == ""
    assert "may not write" in compute(lake, lambda lake, *_: lake.table(C).store.put("x", b""), touches=touches)


def test_a_setting_lifts_the_restriction(lake, monkeypatch):
    """For a project that declares its places later."""
    monkeypatch.setenv("DEDP_UNDECLARED", "allow")
    assert compute(lake, lambda lake, *_: lake.ledger(C.name).version()) == ""


def test_nothing_is_restricted_after_a_run(lake):
    """Not after one that was refused either."""
    assert "may not read" in compute(lake, lambda lake, *_: lake.ledger(C.name).version())
    assert lake.ledger(C.name).version() == 1
    assert lake.table(C).store.put("x", b"") is None


def test_a_replay_of_letters_is_restricted_as_the_table_is(lake):
    """The function that replays is the table's own."""
    valid, dead = lake.table(B), lake.table(BESIDE)
    commit = {"record": a_record(B.name, {"day": DAY}), "txn": {transaction_id(B.name, {"day": DAY}, 0): 1}}
    write_log(Path(lake.root) / B.name, {}, [], [commit])
    write_log(Path(lake.root) / BESIDE.name, {}, [], [{"changed": [{"day": DAY}]}])
    access = access_to(lake, [A], [B, BESIDE], Touches())
    replayed = _Work(valid, dead, {}, lambda *_: lake.table(C).read(), (), {}, access)
    with pytest.raises(ConfigError, match=r"silver/b may not read .*/silver/c, only silver/a, silver/b"):
        replayed.partition(DAY, a_run(B.name))
    assert replace(replayed, replay=lambda into, _: into.name).partition(DAY, a_run(B.name)) == B.name


def test_declared_tables_have_exact_policies(lake):
    """The lint passes over the policies of all declared tables, each of which may write its own table."""
    tables = [*declared(defs), *declared(reporting)]
    accesses = {table.spec.name: table.access(lake) for table in tables}
    found = lint_policies([AccessPolicy.of(access) for access in accesses.values()])
    assert found.passed, found.note
    assert found.figures["policies"] == len(tables) > 50
    for table in tables:
        access = accesses[table.spec.name]
        for spec in table.tables:
            assert is_allowed(access, "write", lake.table(spec).store.address + "/part")
        for spec in {*table.reads.upstream} - {*table.tables, *table.reads.touches.writes}:
            assert is_allowed(access, "read", lake.table(spec).store.address + "/part")
            assert not is_allowed(access, "write", lake.table(spec).store.address + "/part")
