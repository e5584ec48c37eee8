"""Branches of a choice in runs: the partitions of another branch are skipped, and a table after the choice goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.graph.declare import (
    About,
    Branch,
    Follow,
    Nightly,
    Pinned,
    Reads,
    Runs,
    Target,
    lake_table,
    of_branch,
    same,
    schedules_of,
)
from dedp_assets.graph.inputs.feeds import pin
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.run.batches import NOT_COMPUTED
from dedp_assets.graph.run.choices import SKIPPED
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.flow.exclusive_choice import Router, Rule
from tests.hand_written import commit_day, daily
from tests.helpers import NOW

DAYS = dg.DailyPartitionsDefinition("2023-12-28", end_date="2024-01-08")
KEYS = ["2023-12-30", "2023-12-31", "2024-01-01", "2024-01-02"]
ROUTER = Router([Rule("legacy", before="2024-01-01"), Rule("modern", since="2024-01-01", before="2024-01-03")])
STATED = {"about": About("team:x"), "patterns": [Table.overwrite], "code_version": "1"}
SOURCE, LEGACY, MODERN, JOINED = map(daily, ("bronze/source", "silver/legacy", "silver/modern", "gold/joined"))
BROKEN: set[str] = set()


def branch(spec, name, by=Follow()):  # noqa: B008 - a record that nobody can change
    """A table that takes one branch; a day in ``BROKEN`` is refused."""

    def compute(source: Pinned, into: Target) -> WriteResult:
        if into.partition["day"] in BROKEN:
            raise ContractError(f"{into.partition['day']} is broken")
        return into.table.clear(partition=into.partition, provenance=into.run)

    compute.__name__ = name
    reads, runs = Reads({SOURCE: same("day")}), Runs(DAYS, Branch(ROUTER, name, by=by))
    return lake_table(spec, reads=reads, runs=runs, **STATED)(compute)


LEGACY_TABLE, MODERN_TABLE = branch(LEGACY, "legacy"), branch(MODERN, "modern")


@lake_table(
    JOINED,
    reads=Reads({LEGACY: of_branch("day", ROUTER, "legacy"), MODERN: of_branch("day", ROUTER, "modern")}),
    runs=Runs(DAYS),
    **STATED,
)
def joined(legacy: Pinned, modern: Pinned, into: Target) -> WriteResult:
    """Take what was chosen."""
    chosen = {"legacy": bool(legacy.partitions), "modern": bool(modern.partitions)}
    return into.noting(chosen).table.clear(partition=into.partition, provenance=into.noting(chosen).run)


TABLES = [LEGACY_TABLE, MODERN_TABLE, joined]


@dataclass
class World:
    """A lake with a source, and an instance that runs the tables."""

    lake: Lake
    resources: dict
    instance: dg.DagsterInstance

    def run(self, *keys, tables=None):
        """Run tables for a day, or for a range of days in one run."""
        span = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
        return dg.materialize(
            [table.definition() for table in tables or TABLES],
            partition_key=keys[0] if len(keys) == 1 else None,
            tags=span if len(keys) > 1 else {},
            resources=self.resources,
            instance=self.instance,
            raise_on_error=False,
        )

    def events(self, spec, kind, done=None):
        """Partition -> metadata of the events of a table."""
        of_type = dg.DagsterEventType[f"ASSET_{kind}"]
        found = {}
        for run in [done.run_id] if done else [run.run_id for run in self.instance.get_runs()]:
            for entry in self.instance.all_logs(run, of_type=of_type):
                data = entry.dagster_event.event_specific_data
                event = getattr(data, "asset_observation", None) or data.materialization
                if event.asset_key == dg.AssetKey(spec.name.split("/")):
                    found[event.partition] = {name: value.value for name, value in event.metadata.items()}
        return found

    def change(self, spec, key):
        """Change a day of a table by a commit of the library."""
        commit_day(self.lake, spec.name, key, sequence=self.lake.ledger(SOURCE.name).version())

    def holds(self, spec):
        """The days that a table has a commit of."""
        ledger = self.lake.ledger(spec.name)
        return [key for key in KEYS if ledger.exists() and ledger.latest({"day": key})]


@pytest.fixture
def world(tmp_path):
    """A source with four days around the boundary."""
    BROKEN.clear()
    engine = SparkEngine()
    lake = Lake(root=str(tmp_path), engine=engine)
    for key in KEYS:
        commit_day(lake, SOURCE.name, key)
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(lake, {"lake": lake, "clock": Clock(fixed=NOW.isoformat()), "engine": engine}, instance)


def wants(lake):
    """Table -> the days that the reconciler asks for."""
    found = {}
    for want in Overview(TABLES).poll(lake, None, datetime(2024, 1, 8, tzinfo=timezone.utc)):
        for table in want.tables:
            found.setdefault(table, []).append(want.key)
    return found


def test_each_day_is_computed_by_its_branch_alone_and_the_other_skips_it(world):
    """A run of all tables for each day, whenever it runs: the key decides, the table after the choice goes on."""
    for key in reversed(KEYS):
        assert world.run(key).success
    assert world.holds(LEGACY) == KEYS[:2]
    assert world.holds(MODERN) == KEYS[2:]
    assert world.holds(JOINED) == KEYS
    assert world.events(LEGACY, "MATERIALIZATION").keys() == {*KEYS[:2]}
    assert world.events(MODERN, "MATERIALIZATION").keys() == {*KEYS[2:]}
    assert world.events(LEGACY, "OBSERVATION").keys() == {*KEYS[2:]}
    assert world.events(MODERN, "OBSERVATION").keys() == {*KEYS[:2]}


def test_the_path_and_its_reason_are_metadata_of_the_run(world):
    """Of the branch that ran and of the one that did not, on the partition; both steps succeeded."""
    done = world.run("2024-01-01")
    taken = {"branch": "modern", "condition": "since 2024-01-01 and before 2024-01-03", "value": "2024-01-01"}
    told = world.events(MODERN, "MATERIALIZATION", done)["2024-01-01"]
    assert {name: told[name] for name in taken} == taken
    skipped = world.events(LEGACY, "OBSERVATION", done)["2024-01-01"]
    assert skipped == {SKIPPED: "the partition is of branch modern", **taken}
    assert len(done.get_step_success_events()) == 3


def test_one_run_over_the_boundary_divides_its_range(world):
    """As a backfill in a single run starts it: no day fails, none is materialized by both."""
    done = world.run(*KEYS)
    assert done.success
    assert (world.holds(LEGACY), world.holds(MODERN), world.holds(JOINED)) == (KEYS[:2], KEYS[2:], KEYS)
    assert world.events(LEGACY, "MATERIALIZATION").keys() == {*KEYS[:2]}
    assert world.events(MODERN, "MATERIALIZATION").keys() == {*KEYS[2:]}
    assert world.events(JOINED, "MATERIALIZATION").keys() == {*KEYS}
    assert world.events(JOINED, "OBSERVATION") == {}


def test_a_table_after_the_choice_reads_the_chosen_branch(world):
    """The other branch's table need not be there."""
    assert world.run("2023-12-31", tables=[LEGACY_TABLE, joined]).success
    assert not world.lake.ledger(MODERN.name).exists()
    notes = world.lake.ledger(JOINED.name).latest({"day": "2023-12-31"}).record.notes
    assert (notes["legacy"], notes["modern"]) == (True, False)
    with pytest.raises(NotReady, match="silver/modern"):
        pin(world.lake.table(MODERN), joined.reads.tables[MODERN], "2024-01-01")


def test_a_day_that_fails_in_its_branch_keeps_the_table_after_the_choice_from_that_day_alone(world):
    """A failure is told from a skip: the run fails with its reason, and days of both branches go on."""
    BROKEN.add("2023-12-31")
    done = world.run(*KEYS)
    assert not done.success
    assert (world.holds(LEGACY), world.holds(MODERN)) == (KEYS[:1], KEYS[2:])
    assert world.holds(JOINED) == ["2023-12-30", *KEYS[2:]]
    assert NOT_COMPUTED in world.events(JOINED, "OBSERVATION")["2023-12-31"]


def test_a_day_without_a_branch_is_refused_by_name(world):
    """Neither branch skips it in silence."""
    done = world.run("2024-01-05", tables=[MODERN_TABLE])
    assert not done.success
    (failed,) = done.get_step_failure_events()
    assert "rules must hold one that is true of 2024-01-05" in str(failed.step_failure_data)


def test_the_reconciler_asks_each_branch_for_its_own_days(world):
    """And the table after the choice once the chosen branch has dealt with a day."""
    asked = wants(world.lake)
    assert (asked[LEGACY.name], asked[MODERN.name]) == (KEYS[:2], KEYS[2:])
    assert JOINED.name not in asked
    world.change(LEGACY, "2023-12-31")
    assert wants(world.lake)[JOINED.name] == ["2023-12-31"]
    world.change(MODERN, "2024-01-01")
    assert wants(world.lake)[JOINED.name] == ["2023-12-31", "2024-01-01"]
    for key in KEYS[1:3]:
        assert world.run(key, tables=[joined]).success
    assert JOINED.name not in wants(world.lake)
    world.change(LEGACY, "2023-12-31")
    assert wants(world.lake)[JOINED.name] == ["2023-12-31"]


def test_a_table_after_the_choice_is_current_while_a_branch_has_no_table(world):
    """Nothing was sent to the other branch yet, and no log of it is waited for."""
    world.change(LEGACY, "2023-12-31")
    assert wants(world.lake)[JOINED.name] == ["2023-12-31"]
    assert world.run("2023-12-31", tables=[joined]).success
    assert JOINED.name not in wants(world.lake)


def test_a_schedule_asks_for_the_days_of_the_branch(world):
    """The newest complete day of another branch is none of its own."""
    nightly = branch(LEGACY, "legacy", by=Nightly("0 2 * * *", lookback=14))
    (schedule,) = schedules_of(nightly)
    at = datetime(2024, 1, 3, 2, tzinfo=timezone.utc)
    lake = {"lake": world.lake}
    with (
        dg.instance_for_test() as instance,
        dg.build_schedule_context(instance=instance, scheduled_execution_time=at, resources=lake) as context,
    ):
        (asked,) = schedule.evaluate_tick(context).run_requests
    ends = [asked.tags[f"dagster/asset_partition_range_{end}"] for end in ("start", "end")]
    assert ends == ["2023-12-30", "2023-12-31"]


def test_a_branch_that_no_rule_names_is_refused():
    """Where it is declared, as a table without partitions is, and a second start that asks for partitions."""
    with pytest.raises(ConfigError, match="branch must be one of legacy, modern, not 'moderne'"):
        Branch(ROUTER, "moderne")
    refused = {
        "silver/legacy: partitions must be there for Branch, not none": Runs(None, Branch(ROUTER, "legacy")),
        "when must hold one of .*, not Branch and Follow": Runs(DAYS, [Branch(ROUTER, "legacy"), Follow()]),
    }
    for text, runs in refused.items():
        with pytest.raises(ConfigError, match=text):
            lake_table(LEGACY, reads=Reads({SOURCE: same("day")}), runs=runs, **STATED)(LEGACY_TABLE.function)
