"""Partitions in order, whoever launches a run: the tables' logs decide. They are written by hand, without Spark."""

# Without `from __future__ import annotations`: the declaration reads the parameters of a function in a function.

import itertools
import tempfile
from contextlib import nullcontext
from datetime import datetime, timezone

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.declare import About, InOrder, Pinned, Reads, Runs, Step, lake_table, same
from dedp_assets.graph.outcomes.run_tags import keys_of
from dedp_assets.graph.reconcile import backlogs
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.reconcile.requests import run_request
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.run.batches import NOT_COMPUTED
from dedp_assets.graph.run.ordering import fed_keys, require_turn
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Table, Target
from tests.hand_written import commit_day, daily

pytestmark = pytest.mark.runs

NOW = datetime(2026, 1, 20, tzinfo=timezone.utc)
DAYS = dg.DailyPartitionsDefinition("2026-01-01")
FIVE = [f"2026-01-{number:02}" for number in range(5, 10)]
AMOUNTS, TOTALS, OPEN = map(daily, ("silver/amounts", "gold/totals", "silver/open"))


class World:
    """Amounts by day, and totals up to each day: the total of the day before is handed over by another table."""

    def __init__(self, root, instance):
        self.root, self.instance = root, instance
        self.lake = Lake(root=str(root / "lake"), engine=SparkEngine())
        self.amounts, self.totals, self.failing, self.computed = {}, {}, set(), []
        self.table = self.declared()
        self.defs = dg.Definitions([self.table.definition()], resources={"lake": self.lake, "clock": Clock()})
        self.restart()

    def restart(self):
        self.loop = Reconciler([self.table])

    def declared(self):
        @lake_table(
            TOTALS,
            beside={OPEN: [Table.overwrite]},
            reads=Reads({AMOUNTS: same("day")}),
            runs=Runs(DAYS, InOrder(hands_over=OPEN)),
            about=About("team:x"),
            patterns=[Table.overwrite],
            code_version="1",
        )
        def totals(step: Step, amounts: Pinned, before: Pinned, into: Target, left: Target) -> WriteResult:
            """Add a day's amount to the total of the day before."""
            if step.key in self.failing:
                raise ContractError(f"{step.key} is not to be believed")
            previous = self.totals[before.partitions[0]["day"]] if before.partitions else 0
            total = previous + self.amounts[amounts.partitions[0]["day"]]
            for name in (OPEN.name, TOTALS.name):
                changed = total != self.totals.get(step.key)
                inputs, sequence = step.inputs.identities, step.inputs.sequence
                version = commit_day(self.lake, name, step.key, inputs, sequence, changed=changed)
            self.totals[step.key] = total
            self.computed.append(step.key)
            return WriteResult(TOTALS.name, version, applied=True, changed=True, reason="computed")

        return totals

    def amount(self, day, amount):
        """An amount of a day comes upstream."""
        self.amounts[day] = amount
        commit_day(self.lake, AMOUNTS.name, day)

    def launch(self, day, **tags):
        """Run a day as a person or a backfill does; the sentence it failed with."""
        loggers = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        key = None if keys_of(tags, DAYS) else day
        ended = self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            run_config=loggers, instance=self.instance, partition_key=key, raise_on_error=False, tags=tags
        )
        failed = ended.filter_events(lambda event: event.is_step_failure)
        return failed[0].step_failure_data.user_failure_data.description if failed else ""

    def plan(self):
        landing = Landing(root=str(self.root / "landing"))
        repository = self.defs.get_repository_def()
        return self.loop.reconcile(self.lake, landing, NOW, instance=self.instance, repository=repository)[0]

    def react(self):
        """Run what the reconciler asks for, until it asks for nothing; the days."""
        asked = []
        while asks := self.plan().asks:
            (ask,) = asks  # one at a time
            self.launch(ask.want.key, **run_request(ask, None).tags)
            asked += [each.key for each in ask.wants]
        return asked

    def waiting(self):
        return {gap.key: (gap.state, gap.reason.split("; ")[-1]) for gap in self.plan().gaps}

    def observed(self, day):
        """Newest observation of a day that says why it was not computed."""
        wanted = dg.AssetRecordsFilter(dg.AssetKey(["gold", "totals"]), asset_partitions=[day])
        records = self.instance.fetch_observations(wanted, limit=1).records
        return records[0].asset_observation.metadata[NOT_COMPUTED].value if records else ""

    def single_pass(self):
        return dict(
            zip(sorted(self.amounts), itertools.accumulate(v for _, v in sorted(self.amounts.items())), strict=True)
        )


@pytest.fixture
def world(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(tmp_path, instance)


@pytest.fixture
def five(world):
    for number, day in enumerate(FIVE, start=1):
        world.amount(day, number)
    return world


STEPS = st.tuples(st.sampled_from(["arrive", "run", "run"]), st.sampled_from(FIVE))


@pytest.mark.promise("no-partition-runs-before-the-one")
@given(st.lists(STEPS, max_size=25))
def test_the_logs_let_no_day_run_before_the_day_before_it(steps):
    """In any order of arrivals and runs: a day runs if the previous day is committed, or no earlier day has arrived."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(root=folder, engine=SparkEngine())
        upstream, totals = lake.table(AMOUNTS), lake.table(TOTALS)
        arrived, committed = set(), set()
        for step, day in steps:
            earlier = [each for each in FIVE if each < day]
            if step == "arrive":
                arrived.add(day)
                commit_day(lake, AMOUNTS.name, day)
                continue
            may_run = not arrived & {*earlier} or earlier[-1] in committed
            with nullcontext() if may_run else pytest.raises(NotReady, match=f"{TOTALS.name} {day} comes after"):
                require_turn(
                    totals, day, before=earlier, fed=lambda: fed_keys({upstream: same("day")}), refused=frozenset
                )
            if may_run:
                commit_day(lake, TOTALS.name, day, {AMOUNTS.name: 1}, 1)
                committed.add(day)


def test_runs_of_all_days_at_once_are_refused_out_of_turn_and_then_follow_in_order(five):
    """A backfill from the last day on, with every slot free: each run, and its day's page, names the first day.

    The first day starts with nothing before it. The totals are in the end those of a single pass.
    """
    said = {day: five.launch(day) for day in reversed(FIVE)}
    assert said[FIVE[0]] == ""
    for day in FIVE[1:]:
        assert said[day] == f"gold/totals {day} comes after {FIVE[0]}, which has not run"
        assert five.observed(day) == said[day]
    assert five.computed == [FIVE[0]]
    assert five.react() == FIVE[1:]
    assert five.computed == FIVE
    assert five.totals == five.single_pass()
    assert five.launch(FIVE[3]) == ""
    assert five.computed == FIVE


def test_a_failed_day_holds_the_later_ones_until_it_is_repaired(five):
    """Slots are free all the while; who waits for whom is stated by status and by a run that is launched by hand."""
    five.failing.add(FIVE[2])
    assert five.react() == FIVE[:3]
    waiting = five.waiting()
    assert waiting[FIVE[2]] == ("refused", f"{FIVE[2]} is not to be believed")
    assert {day: waiting[day] for day in FIVE[3:]} == dict.fromkeys(
        FIVE[3:], ("missing", f"comes after gold/totals {FIVE[2]}")
    )
    after = f"comes after {FIVE[2]}, which failed: repair it, and the later ones go on"
    assert five.launch(FIVE[3]) == five.observed(FIVE[3]) == f"gold/totals {FIVE[3]} {after}"
    assert five.totals.keys() == {*FIVE[:2]}
    five.failing.clear()
    assert five.launch(FIVE[2]) == ""
    assert five.react() == FIVE[3:]
    assert five.totals == five.single_pass()


def test_a_rerun_makes_the_later_days_stale_as_far_as_they_change(five):
    """They are replayed in order; a day whose total stays as it was ends the replay."""
    five.react()
    five.computed.clear()
    five.amount(FIVE[1], 20)
    assert five.waiting().keys() == {FIVE[1]}
    assert five.react() == FIVE[1:]
    assert five.totals == five.single_pass()
    five.amount(FIVE[2], 2)
    five.amount(FIVE[3], 5)  # one more and one less: the total of the fourth day is that of before
    assert five.react() == FIVE[2:4]
    assert five.totals == five.single_pass()
    five.restart()
    assert five.react() == []


def test_a_day_that_is_not_there_yet_holds_the_later_ones(five):
    """Nobody asks for a run in vain; a process that begins anew finds the same."""
    five.react()
    late, missing, later = "2026-01-11", "2026-01-10", "2026-01-12"
    five.amount(late, 7)
    five.amount(later, 8)
    for _ in range(2):
        assert five.react() == []
        assert five.waiting() == {
            late: ("waiting", f"comes after {missing}, which has not run"),
            later: ("missing", f"comes after gold/totals {late}"),
        }
        five.restart()
    assert five.launch(late) == f"gold/totals {late} comes after {missing}, which has not run"
    five.amount(missing, 6)
    assert five.react() == [missing, late, later]
    assert five.totals == five.single_pass()


def test_a_backlog_is_one_run_that_ends_at_the_day_that_failed(five, monkeypatch):
    """Each day before it has its commit; it has its refusal, and the later ones wait for it as ever."""
    monkeypatch.setattr(backlogs, "_FEW", 1)
    five.failing.add(FIVE[2])
    (ask,) = five.plan().asks
    assert [each.key for each in ask.wants] == FIVE
    said = five.launch(FIVE[0], **run_request(ask, None).tags)
    assert f"{FIVE[2]} is not to be believed" in said
    assert five.computed == FIVE[:2]
    waiting = five.waiting()
    assert waiting.keys() == {*FIVE[2:]}
    assert waiting[FIVE[2]] == ("refused", f"{FIVE[2]} is not to be believed")
    assert {waiting[day] for day in FIVE[3:]} == {("missing", f"comes after gold/totals {FIVE[2]}")}
    five.failing.clear()
    assert five.launch(FIVE[2]) == ""
    assert five.react() == FIVE[3:]
    assert five.totals == five.single_pass()


def test_a_backlog_that_died_is_asked_for_by_days_where_it_died(five, monkeypatch):
    """The day that the run is named after has a run of its own then, and the others share the next one."""
    monkeypatch.setattr(backlogs, "_FEW", 1)
    (ask,) = five.plan().asks
    tags = run_request(ask, None).tags
    job = five.defs.resolve_implicit_global_asset_job_def()
    five.instance.create_run_for_job(job, tags=tags, status=dg.DagsterRunStatus.FAILURE)
    asks = five.plan().asks
    assert [[each.key for each in ask.wants] for ask in asks] == [[FIVE[0]]]
    assert five.react() == FIVE
    assert five.totals == five.single_pass()


def test_a_run_of_several_days_goes_through_them_in_order(five):
    """A range in one run, as by night: each day finds the day before it."""
    ends = {"start": FIVE[0], "end": FIVE[-1]}
    tags = {f"dagster/asset_partition_range_{end}": day for end, day in ends.items()}
    loggers = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    job = five.defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(run_config=loggers, instance=five.instance, tags=tags).success
    assert five.computed == FIVE
    assert five.totals == five.single_pass()
    assert five.react() == []
