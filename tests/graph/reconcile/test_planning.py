"""A plan is what the runs then do: the same runs in the same order, the same partitions held, the others untouched."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import dagster as dg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.commands._output import console
from dedp_assets.commands.plan import _printed
from dedp_assets.graph.declare import Follow, InOrder
from dedp_assets.graph.inputs.feeds import day_to_week, pin, same, whole
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.outcomes.run_tags import REQUEST
from dedp_assets.graph.reconcile import backlogs
from dedp_assets.graph.reconcile.described_plans import Planned as Printed
from dedp_assets.graph.reconcile.planning import plan_runs
from dedp_assets.graph.reconcile.reconciler import Reconciler, judges_of
from dedp_assets.graph.reconcile.run_plans import RunPlan
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.delta import transaction_id
from tests.graph.reconcile.test_convergence import (
    ARRIVED,
    BRONZE,
    BY_NAME,
    DAYS,
    ENDS,
    KEYS,
    NOW,
    SILVER,
    TABLES,
    WEEKS,
    World,
    a_past,
    bronze,
    declare,
    spec,
)
from tests.helpers import a_record, write_log

Runs = list[tuple[int, tuple[str, ...], tuple[str, ...]]]


class Planned(World):
    """The world of the convergence test, whose rewritten partitions count as changed, as those of Delta do."""

    def commit(self, name, content, commit):
        """Write a commit; every partition of the write that has rows, before or after it, is another one."""
        owned = commit["record"].partition if "record" in commit else None
        before = self.versions.setdefault(name, [{}])[-1]
        if owned is not None and not BY_NAME[name].spec.executed_by:
            touched = [p for p in {**before, **content} if owned.items() <= dict(p).items()]
            commit = {"changed": [dict(p) for p in touched], **commit}
        super().commit(name, content, commit)

    @property
    def tables(self):
        """The declared tables, by the present declaration of what lands."""
        return [replace(bronze, code_version=str(self.code)), *TABLES[1:]]

    def perform(self) -> tuple[Runs, set]:
        """Run what the reconciler asks for until it asks for nothing; return the runs, and what is held."""
        return performed(self.tables, self.lake, self.landing, self.compute)

    def unforeseen(self, plan: RunPlan) -> bool:
        """Whether a load of the plan finds records of days that nobody could know of."""
        loads = [key for run in plan.runs if BRONZE.name in run.tables for key in run.keys]
        held = self.versions.get(BRONZE.name, [{}])[-1]
        known = {key: {dict(p)["day"] for p in held if dict(p)["landed_on"] == key} or {key} for key in loads}
        return any({happened for _, happened in self.landed[key]} != known[key] for key in loads)


def performed(tables, lake, landing, compute, again=()) -> tuple[Runs, set]:
    """Run what the reconciler asks for, tick by tick, one run after the other, and after the first tick the wishes."""
    runs: Runs = []
    for wave in range(1, 40):
        outcome, _ = Reconciler(tables).reconcile(lake, landing, NOW, limit=1_000)
        if wave > 1:
            again = ()
        if not (outcome.asks or again):
            return runs, {(gap.table, gap.key) for gap in outcome.gaps}
        for ask in outcome.asks:
            keys = tuple(want.key for want in ask.wants)
            runs.append((wave, tuple(sorted(ask.tables)), keys))
            for name in ask.tables:
                for key in keys:
                    with suppress(NotReady):
                        compute(name, key)
        for name, key in again:
            runs.append((wave, (name,), (key,)))
            compute(name, key)
    raise AssertionError("it does not come to an end")


def runs_of(plan: RunPlan) -> Runs:
    """The runs of a plan as :func:`performed` lists them."""
    return [(run.wave, tuple(sorted(run.tables)), run.keys) for run in plan.runs]


EVENTS = st.one_of(
    st.tuples(st.just("land"), st.sampled_from(KEYS), st.sampled_from(KEYS)),
    st.tuples(st.just("tick"), st.lists(st.one_of(st.none(), ENDS), min_size=6, max_size=6)),
    st.tuples(st.just("restore"), st.sampled_from(list(BY_NAME)), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("drop"), st.sampled_from([name for name in BY_NAME if name.startswith("gold")])),
    st.tuples(st.just("mend")),
)


def happen(world, name, *values):
    """Let an event happen to a world."""
    if name == "tick":
        for ask, end in zip(world.plan().asks, values[0], strict=False):
            if end is not None:
                world.launch(ask, end)
    else:
        getattr(world, name)(*values)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples // 2)
@given(events=st.lists(EVENTS, min_size=1, max_size=6), few=st.sampled_from([0, 7]))
def test_a_plan_is_what_the_runs_then_do(tmp_path_factory, events, few):
    """After late files, lost ticks, dead runs, restores, dropped tables and another declaration of what lands.

    Records of a file that nobody has read may ask for more: then every planned run of the first wave happens, and what
    happens beside the plan is downstream of the load.
    """
    root = tmp_path_factory.mktemp("planned")
    world = a_past(tmp_path_factory).copy(root)
    world.__class__ = Planned
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backlogs, "_FEW", few)
        for event in events:
            happen(world, *event)
        plan = plan_runs(world.tables, world.lake, world.landing, NOW)
        unforeseen = world.unforeseen(plan)
        runs, held = world.perform()
    if unforeseen:
        assert BRONZE.name in plan.opened
        assert [run for run in runs_of(plan) if run[0] == 1] == [run for run in runs if run[0] == 1]
    else:
        assert runs_of(plan) == runs
        computed = {(name, key) for _, names, keys in runs for name in names for key in keys}
        assert not computed & {(name, key) for name, keys in plan.current.items() for key in keys}
    assert {(gap.table, gap.key) for gap in plan.held} == held == set()
    shutil.rmtree(root)


@dataclass
class Graph:
    """A graph of tables without rows: a landing, a table of each day, and tables that read others, as drawn.

    Attributes:
        root: folder of the lake and of the landing zone.
        shapes: of each further table, how it reads, which earlier tables, and whether in order.
        codes: table -> version of its code.
        landed: landing day -> days that its records happened on.
        history: table -> the partitions that each version changed.
    """

    root: Path
    shapes: tuple
    codes: dict = field(default_factory=dict)
    landed: dict = field(default_factory=dict)
    history: dict = field(default_factory=dict)

    def __post_init__(self):
        world = World(self.root)
        self.lake, self.landing, self._land = world.lake, world.landing, world.land
        daily, self.declared = [SILVER], [bronze, declare(SILVER, {BRONZE: ARRIVED}, DAYS)]
        for number, (shape, which, in_order) in enumerate(self.shapes):
            name, upstream = f"gold/t{number}", [daily[place % len(daily)] for place in which]
            if shape == "daily":
                reads = dict.fromkeys(upstream, same("day"))
                made = declare(spec(name, "day"), reads, DAYS, InOrder(Follow()) if in_order else Follow())
                daily.append(made.spec)
            elif shape == "both":
                made = declare(spec(name, "day"), {upstream[0]: same("day"), BRONZE: ARRIVED}, DAYS)
                daily.append(made.spec)
            elif shape == "weekly":
                made = declare(spec(name, "day"), {upstream[0]: day_to_week("day")}, WEEKS)
            else:
                made = declare(spec(name), {upstream[0]: whole()}, None)
            self.declared.append(made)

    @property
    def tables(self):
        """The tables, by their present code."""
        return [replace(each, code_version=self.codes.get(each.spec.name, "1")) for each in self.declared]

    def table(self, place):
        """A table by a drawn number."""
        return self.tables[place % len(self.declared)]

    # --- events -------------------------------------------------------------------------------------------------------

    def land(self, day, happened):
        """Deliver one more file of a day, with records of that day or of one that the table knows of the delivery."""
        known = {dict(p)["day"] for p in self.partitions(BRONZE.name) if dict(p)["landed_on"] == day}
        happened = happened if happened in known or not known else min(known)
        self.landed.setdefault(day, set()).add(happened if known else day)
        self._land(day, happened)

    def late(self, day, happened):
        """Deliver records of another day, and load them."""
        self.landed.setdefault(day, set()).add(happened)
        self._land(day, happened)
        self.compute(BRONZE.name, day)

    def act(self, number):
        """Perform the first requests only."""
        outcome, _ = Reconciler(self.tables).reconcile(self.lake, self.landing, NOW, limit=1_000)
        for ask in outcome.asks[:number]:
            for name in ask.tables:
                for want in ask.wants:
                    self.compute(name, want.key)

    def refuse(self, place):
        """Refuse a partition that would be requested, by the present code."""
        outcome, _ = Reconciler(self.tables).reconcile(self.lake, self.landing, NOW, limit=1_000)
        if not outcome.asks:
            return
        want = outcome.asks[place % len(outcome.asks)].want
        table = next(each for each in self.tables if each.spec.name == want.tables[0])
        note = Refusal((want.goal,), table.code_version, "run", "dead letters", judged_by=judges_of(table, self.lake))
        Refusals(self.lake.refused(table.spec.name)).note(want.key, note)

    def mend(self, place):
        """Change the code of a table."""
        name = self.table(place).spec.name
        self.codes[name] = f"{int(self.codes.get(name, '1')) + 1}"

    def restore(self, place, back):
        """Restore a table by another writer."""
        name = self.table(place).spec.name
        history = self.history.get(name, [])
        version = len(history) - back
        if version < 1:
            return
        taken = {partition for changed in history[version:] for partition in changed}
        self.commit(name, taken, {"operation": "RESTORE", "parameters": {"version": version}})

    # --- runs ---------------------------------------------------------------------------------------------------------

    def partitions(self, name):
        """The partitions of a table that were ever written."""
        return {partition for changed in self.history.get(name, []) for partition in changed}

    def commit(self, name, changed, more):
        """Write a commit that changes partitions."""
        table = next(each for each in self.declared if each.spec.name == name)
        columns = list(table.spec.partition_by)
        types = {"id": "long", **dict.fromkeys(columns, "date")}
        write_log(self.root / "lake" / name, types, columns, [{"changed": [dict(p) for p in sorted(changed)], **more}])
        self.history.setdefault(name, []).append(set(changed))

    def compute(self, name, key):
        """Commit a partition as a run would, without rows."""
        table = next(each for each in self.tables if each.spec.name == name)
        owned = owned_by(key, table.spec)
        if name == BRONZE.name:
            changed = {(("day", day), ("landed_on", key)) for day in self.landed[key]}
            notes = {"delivery": self.landing.delivery("in", key).identity}
            record = a_record(name, owned, notes=notes, code_version=table.code_version)
            self.commit(name, changed, {"record": record, "txn": {transaction_id(name, owned, 0, "runs"): 1}})
            return
        version = sum(pin(self.lake.table(up), feed, key).changed for up, feed in table.reads.tables.items())
        self.commit(name, {tuple(owned.items())}, {"txn": {transaction_id(name, owned, 0): version}})


DAYS_OF = st.sampled_from(KEYS)
PLACES = st.integers(0, 6)
SHAPES = st.tuples(
    st.sampled_from(["daily", "both", "weekly", "all"]), st.lists(PLACES, min_size=1, max_size=2), st.booleans()
)
HAPPENING = st.one_of(
    st.tuples(st.just("land"), DAYS_OF, DAYS_OF),
    st.tuples(st.just("late"), DAYS_OF, DAYS_OF),
    st.tuples(st.just("act"), st.integers(0, 8)),
    st.tuples(st.just("refuse"), PLACES),
    st.tuples(st.just("mend"), PLACES),
    st.tuples(st.just("restore"), PLACES, st.integers(1, 3)),
)


@pytest.mark.promise("a-plan-is-what-the-runs")
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples // 2)
@given(
    shapes=st.lists(SHAPES, min_size=1, max_size=5).map(tuple),
    events=st.lists(HAPPENING, min_size=2, max_size=10),
    few=st.sampled_from([0, 7]),
    wished=st.lists(st.tuples(PLACES, PLACES), max_size=2),
)
def test_a_plan_of_any_graph_is_what_the_runs_then_do(tmp_path_factory, shapes, events, few, wished):
    """Over random graphs, with late files, restores, refused partitions and changed code: run by run, and what is held.

    What the plan calls current is not written by any of these runs. A person may wish for partitions that are current.
    """
    root = tmp_path_factory.mktemp("graph")
    graph = Graph(root, shapes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backlogs, "_FEW", few)
        for name, *values in events:
            getattr(graph, name)(*values)
        plan = plan_runs(graph.tables, graph.lake, graph.landing, NOW)
        current = sorted((name, key) for name, keys in plan.current.items() if name != BRONZE.name for key in keys)
        again = dict.fromkeys([current[(one * 7 + other) % len(current)] for one, other in wished if current], "wish")
        plan = plan_runs(graph.tables, graph.lake, graph.landing, NOW, again=again)
        versions = {name: len(history) for name, history in graph.history.items()}
        runs, held = performed(graph.tables, graph.lake, graph.landing, graph.compute, again)
    assert runs_of(plan) == runs
    assert {(gap.table, gap.key) for gap in plan.held} >= held
    for name, keys in plan.current.items():
        written = {p for changed in graph.history.get(name, [])[versions.get(name, 0) :] for p in changed}
        column = next(iter(next(t for t in graph.declared if t.spec.name == name).spec.partition_by), "")
        assert not keys & {dict(partition).get(column, "") for partition in written}, name
    shutil.rmtree(root)


STARTED, FAILED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE


def run_of(table, key, status, **tags):
    """A run of a partition, as the history has it."""
    selected = {dg.AssetKey(table.split("/"))}
    tags = {"dagster/partition": key, **tags}
    return dg.DagsterRun(job_name="some_job", status=status, tags=tags, asset_selection=selected)


@pytest.fixture
def world(tmp_path):
    """Three days that have landed and are loaded."""
    made = Planned(tmp_path)
    for day in KEYS:
        made.land(day, day)
        made.compute(BRONZE.name, day)
    return made


def test_a_run_under_way_comes_first_and_what_it_feeds_follows(world):
    """It is not asked for again; the plan ends as it does without it."""
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_run(run_of("silver/daily", KEYS[0], STARTED))
        plan = plan_runs(TABLES, world.lake, world.landing, NOW, instance=instance)
    alone = plan_runs(TABLES, world.lake, world.landing, NOW)
    under_way = [(run.wave, run.tables, run.keys) for run in plan.runs if run.under_way]
    assert under_way == [(1, ("silver/daily", "gold/daily", "gold/merged"), (KEYS[0],))]
    assert sorted((run.tables, run.keys) for run in plan.runs) == sorted((run.tables, run.keys) for run in alone.runs)


def test_what_was_given_up_is_stuck_and_so_is_what_comes_after_it_in_order(world):
    """The table in order waits for the day that failed three times; nothing else does."""
    world.perform()
    world.drop("gold/sum")
    first = plan_runs(TABLES, world.lake, world.landing, NOW)
    assert [(run.tables, run.keys, run.follows) for run in first.runs] == [
        (("gold/sum",), (key,), (number,) if number else ()) for number, key in enumerate(KEYS)
    ]
    request = first.runs[0].wants[0].request
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(3):
            instance.add_run(run_of("gold/sum", KEYS[0], FAILED, **{REQUEST: request}))
        plan = plan_runs(TABLES, world.lake, world.landing, NOW, instance=instance)
    assert plan.runs == ()
    assert [(gap.key, gap.state) for gap in plan.stuck] == [
        (KEYS[0], "waiting"),
        (KEYS[1], "missing"),
        (KEYS[2], "missing"),
    ]
    assert "gave up after 3 failed runs" in plan.held[0].reason
    assert "comes after gold/sum" in plan.held[1].reason


def test_a_part_of_a_plan_has_the_runs_before_and_after(world):
    """Of a gold table the run upstream that it waits for, of a day of silver everything that follows from it."""
    whole = plan_runs(TABLES, world.lake, world.landing, NOW)
    weekly = whole.about(lambda table, key: (table, key) == ("gold/weekly", "2026-01-12"))
    assert [(run.tables[0], run.keys) for run in weekly.runs] == [
        ("silver/daily", (KEYS[2],)),
        ("gold/weekly", ("2026-01-12",)),
    ]
    silver = whole.about(lambda table, key: (table, key) == ("silver/daily", KEYS[2]))
    following = {table for run in silver.runs for table in run.tables}
    assert following == {table.spec.name for table in TABLES[1:]}
    assert all({*run.keys} & {KEYS[2], "2026-01-12", ""} for run in silver.runs if run.tables != ("gold/sum",))
    assert whole.about(lambda table, _: table == "bronze/in").runs == ()


def test_many_runs_are_summed_up_for_people(world):
    """By wave and tables, with the number of partitions; the document has each of them."""
    few = plan_runs(TABLES, world.lake, world.landing, NOW)
    planned = lines_of(few, world)
    assert sum("gold/sum" in line and line.startswith("│") for line in planned.splitlines()) == 3
    runs = tuple(replace(run, number=run.number + 100 * turn) for turn in range(3) for run in few.runs)
    summed = lines_of(replace(few, runs=runs), world)
    assert "(9)" in summed
    assert f"{len(runs)} runs in" in summed


def lines_of(plan, world):
    """A plan as it is printed."""
    terminal = console()
    with terminal.capture() as capture:
        for each in map(_printed, Printed(plan, TABLES, world.lake, world.landing).lines()):
            terminal.print(each)
    return capture.get()
