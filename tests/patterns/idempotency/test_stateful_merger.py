"""An execution of the past begins with the table of its time, and those after it follow."""

from __future__ import annotations

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import (
    AmbiguousKeys,
    AuditFailed,
    ConfigError,
    Conflict,
    ContractError,
    NotReady,
    TransactionReused,
)
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.commit import file_exchange
from dedp_assets.patterns.delta.rows import touched_files
from dedp_assets.patterns.idempotency.stateful_merger import merge_execution
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

TOTALS = TableSpec(
    "gold/totals",
    {"page": Column("STRING", required=True), "views": Column("BIGINT"), "last.day": Column("STRING")},
    checks={"views_are_few": "views < 1000"},
    executed_by="day",
)
SCHEMA = "page STRING, views BIGINT, `last.day` STRING"
DAYS = ["05", "06", "07", "08"]


class World:
    """A table of running totals, the increments of its days, and what a clean rebuild of some of them is."""

    def __init__(self, spark, table: Table) -> None:
        self.spark, self.table, self.increments, self.versions = spark, table, {}, {}

    def frame(self, day, rows) -> DataFrame:
        return self.spark.createDataFrame([(*row, day) for row in rows.items()], SCHEMA)

    def run(self, day, rows=None, *, due=None, **more):
        """Run a day; with other rows than before, because its input was corrected."""
        if rows is not None and self.increments.get(day) != rows:
            self.increments[day], self.versions[day] = rows, self.versions.get(day, 0) + 1
        known = sorted(self.versions) if due is None else due
        run = a_run(asset=self.table.name, sequence=self.versions[day], inputs={"day": day}, **more)
        return merge_execution(
            self.frame(day, self.increments[day]),
            self.table.target(run, partition={self.table.spec.executed_by: day}),
            keys=["page"],
            update={"views": "t.views + s.views", "last.day": "s.`last.day`"},
            due=known,
        )

    def rebuilt(self, *days):
        """The sum of the days by plain Python."""
        found = {}
        for day in days:
            for page, views in self.increments[day].items():
                found[page] = (found.get(page, (0,))[0] + views, day)
        return found

    def held(self, version=None):
        return {row["page"]: (row["views"], row["last.day"]) for row in read_back(self.table, version)}

    def versions_made(self, since):
        return [commit.operation for commit in self.table.ledger.commits(since=since)]


@pytest.fixture(scope="module")
def four_days(spark, tmp_path_factory):
    """Four days, and a compaction after the second."""
    made = World(spark, Table(TOTALS, tmp_path_factory.mktemp("four") / TOTALS.name, spark))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            touched_files, "SMALL_BYTES", 0
        )  # new rows are files of their own, so that there is what to compact
        for number, day in enumerate(DAYS):
            made.run(day, {"/": 1, f"/{day}": 10 ** (number % 3)})
            if number == 1:
                DeltaTable(str(made.table.location)).optimize.compact()
    return made


@pytest.fixture
def world(four_days, make_table):
    """A copy of them."""
    made = World(four_days.spark, make_table(TOTALS))
    shutil.copytree(four_days.table.location, made.table.location)
    made.increments, made.versions = dict(four_days.increments), dict(four_days.versions)
    return made


@pytest.mark.both
def test_a_backfill_begins_with_its_time_and_the_later_days_follow(world):
    """Corrected, the third day begins with the compacted rows before it; the fourth has to follow, the fifth waits.

    One commit takes the fourth day back and brings the corrected third: no version shows the rows in between. In the
    end the table is a clean rebuild. Nothing of a normal run restores anything.
    """
    table, operations = world.table, world.versions_made(-1)
    assert operations[1:] == ["MERGE", "MERGE", "OPTIMIZE", "MERGE", "MERGE"]
    assert world.held() == world.rebuilt(*DAYS)
    head = table.ledger.version()
    result = world.run("07", {"/": 5, "/x": 7})
    assert result.reason == "1 rows inserted, 1 rows updated, on the rows of version 3; 08 have to follow"
    assert table.ledger.version() == head + 1
    assert world.held() == world.rebuilt("05", "06", "07")
    assert table.ledger.commit(head + 1).record.notes["execution"] == {
        "key": "07", "base": 3, "after": "06", "pending": ["08"]
    }  # fmt: skip
    # The day after it would make the correction undone, had it not to wait.
    with pytest.raises(NotReady, match="09 comes after 08"):
        world.run("09", {"/": 1}, due=())
    assert world.run("08").reason.endswith("updated")
    assert world.run("09", {"/": 1}).applied
    assert world.held() == world.rebuilt(*DAYS, "09")
    assert not any("RESTORE" in operation for operation in world.versions_made(-1))
    # The day before the last again: it begins where it began the last time.
    world.run("08", {"/": 3})
    assert world.held() == world.rebuilt(*DAYS)
    assert active_files(table) == {file["path"] for file in table.ledger.state().files()}
    assert sum(file["num_records"] for file in table.ledger.state().files()) == len(world.held())


def test_a_rerun_of_the_first_day_begins_with_nothing(world):
    """All others have to follow; run in order they are a clean rebuild. Whoever asks for the last one first waits."""
    world.run("05", {"/first": 1})
    assert world.held() == world.rebuilt("05")
    with pytest.raises(NotReady, match="08 comes after 06"):
        world.run("08")
    for day in DAYS[1:]:
        world.run(day)
    assert world.held() == world.rebuilt(*DAYS)


def test_the_same_again_changes_nothing(world, monkeypatch):
    """A retry, of the last day and of a former one, also of a run that died on either side of its commit."""
    version = world.table.ledger.version()
    for day in DAYS:
        assert not world.run(day).applied
    assert world.table.ledger.version() == version
    exchange = file_exchange.exchange_files

    def dies(*given, after, **more):
        if after:
            exchange(*given, **more)
        raise KeyboardInterrupt

    for after in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(file_exchange, "exchange_files", partial(dies, after=after))
            with pytest.raises(KeyboardInterrupt):
                world.run("06", {"/": 2, "/06": 2})
        assert world.held() == (world.rebuilt("05", "06") if after else world.held(version))
        assert world.table.ledger.version() == version + after
    assert not world.run("06").applied
    assert world.table.ledger.version() == version + 1


def test_what_is_refused_leaves_the_table_as_it_was(world):
    """Rows that break a rule, or that nobody can place; an older input; other rows of the same input; no executions."""
    version, table = world.table.ledger.version(), world.table
    with pytest.raises(AuditFailed, match="views_are_few"):
        world.run("06", {"/": 5000})
    with pytest.raises(ContractError, match="no page"):
        world.run("06", {None: 5})
    twice = world.frame("06", {"/": 1}).unionAll(world.frame("06", {"/": 2}))
    run = a_run(sequence=9, inputs={"x": 1})
    with pytest.raises(AmbiguousKeys, match="page=/ "):
        merge_execution(twice, table.target(run, partition={"day": "06"}), keys=["page"])
    world.increments["06"], world.versions["06"] = {"/": 77}, 0
    with pytest.raises(Conflict, match="06 already applied upstream version 1"):
        world.run("06")
    world.versions["06"] = 1
    with pytest.raises(TransactionReused, match="came back with other rows"):
        world.run("06")
    for unnamed in ({}, {"day": ""}):
        with pytest.raises(
            ConfigError, match="gold/totals: partition must name the execution, under the name that the table declares"
        ):
            merge_execution(world.frame("06", {"/": 1}), table.target(run, partition=unnamed), keys=["page"])
    assert table.ledger.version() == version


def test_what_a_vacuum_removed_cannot_be_run_again(world):
    """It is refused before anything is touched, with the earliest execution that can be; that one still can."""
    table = world.table
    DeltaTable(str(table.location)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    version, held = table.ledger.version(), world.held()
    with pytest.raises(ContractError, match=r"07 cannot be run again.*version 3.*is the next one, or all from 05 on"):
        world.run("07", {"/": 9})
    world.run("09", {"/": 1, "/09": 2})
    with pytest.raises(ContractError, match=r"06 cannot be run again.*The earliest execution .* is 09, or all from 05"):
        world.run("06", {"/": 9})
    assert table.ledger.version() == version + 1
    world.increments |= {"06": {"/": 1, "/06": 10}, "07": {"/": 1, "/07": 100}}
    assert held == world.rebuilt(*DAYS)
    assert world.held() == world.rebuilt(*DAYS, "09")


def test_a_restore_by_somebody_is_followed(world):
    """What it took back has to follow; a day that it kept begins where it did. In the end it is a clean rebuild."""
    third = world.table.ledger.version() - 1
    world.table.restore(third, provenance=a_run(asset=TOTALS.name, run_id="somebody"))
    assert world.held() == world.rebuilt(*DAYS[:3])
    with pytest.raises(NotReady, match="09 comes after 08"):
        world.run("09", {"/": 1}, due=())
    assert not world.run("07").applied
    world.run("07", {"/": 4})
    world.run("08")
    assert world.held() == world.rebuilt(*DAYS)


def test_two_runs_at_once_are_one_after_the_other(world):
    """Twice the same day, or a day while the one before is corrected: each is in the rows once, by its last input."""
    together = Barrier(2)
    world.increments["09"], world.versions["09"] = {"/": 1, "/09": 1}, 1
    world.increments["08"], world.versions["08"] = {"/": 6}, 2

    def run(day, due):
        together.wait()
        try:
            return world.run(day, due=due)
        except (NotReady, Conflict):
            return None

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, ["09", "08"], [(), ()]))
        list(pool.map(run, ["09", "09"], [(), ()]))
    assert world.run("09") is not None
    assert world.held() == world.rebuilt(*DAYS, "09")


@pytest.mark.promise("any-sequence-ends-as-a")
def test_any_sequence_ends_as_a_clean_rebuild(spark, make_table):
    """Runs, corrections of any day, compactions and restores, in an order nobody planned; then each day that is behind.

    After every step the rows are the sum of some days in order; once all have followed, of all of them.
    """
    dice, made = random.Random(4), World(spark, make_table(TOTALS))  # noqa: S311 - test data
    for step in range(10):
        day = dice.choice(DAYS)
        kind = dice.choice(["run", "run", "run", "compact", "restore"]) if step > 3 else "run"
        if kind == "run":
            rows = {dice.choice("abc"): dice.randrange(1, 9) for _ in range(2)}
            before = made.increments.get(day), made.versions.get(day)
            try:
                made.run(day, rows, due=())
            except NotReady:
                made.increments[day], made.versions[day] = before
                if before[0] is None:
                    del made.increments[day], made.versions[day]
        elif kind == "compact":
            DeltaTable(str(made.table.location)).optimize.compact()
        else:
            made.table.restore(max(0, made.table.ledger.version() - 2), provenance=a_run(run_id=str(step)))
    for day in sorted(made.increments):
        made.run(day)
    assert made.held() == made.rebuilt(*sorted(made.increments))


@any_names(STORED)
def merged_executions(n):
    table = n.table("page STRING, views INT", executed_by="day")
    update = {n("views"): f"t.{n.q('views')} + s.{n.q('views')}"}
    for day, views in (("mon", 1), ("tue", 10), ("tue", 20)):
        rows = n.frame("page STRING, views INT, gone BOOLEAN", ("/a", views, False), ("/b", views, day == "tue"))
        into = table.target(a_run(replay=True), partition={"day": day})
        merge_execution(rows, into, keys=n.all("page"), update=update, deleted=n("gone"))
    yield table


@known_calls
def calls_that_work(known):
    executed = known.table("gold/executed", "id INT, name STRING", executed_by="day")
    return {
        "merge_execution": {
            "increment": known.frame("id INT, name STRING, gone BOOLEAN", (1, "Ada", False)),
            "into": executed.target(known.run, partition={"day": "2026-01-05"}),
            "keys": ["id"],
            "update": {"name": "s.name"},
            "deleted": "gone",
            "due": [],
        }
    }


@two_runs()
def merged_executions_at_once(world):
    columns = "page STRING, views INT"
    table = world.table("pages", columns, executed_by="day")
    options = {"keys": ["page"], "update": {"views": "t.views * 10 + s.views"}}
    base = table.target(world.run("base"), partition={table.spec.executed_by: "mon"})
    merge_execution(world.frame(columns, ("/a", 1)), base, **options)
    for day, views in (("tue", 2), ("wed", 3)):
        yield lambda w, day=day, views=views: merge_execution(
            w.frame(columns, ("/a", views)),
            w["pages"].target(w.run(day), partition={w["pages"].spec.executed_by: day}),
            **options,
        )
