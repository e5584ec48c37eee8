"""Whatever happens to files, tables, ticks and runs: the reconciler's loop ends with every table as it should be."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import dagster as dg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dedp_assets.graph.declare import (
    About,
    Follow,
    InOrder,
    Inputs,
    Job,
    OnDelivery,
    Reads,
    Request,
    Runs,
    Step,
    lake_table,
)
from dedp_assets.graph.inputs.feeds import Feed, day_to_week, pin, same, whole
from dedp_assets.graph.reconcile import backlogs
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.reconcile.reconciling import Tried, plan_requests
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target, transaction_id
from dedp_assets.patterns.idempotency._executions import Executions, executions_of
from dedp_assets.patterns.ingestion.readiness_marker import delivering
from tests.helpers import a_record, write_log

NOW = datetime(2100, 1, 1, tzinfo=timezone.utc)
DAYS = dg.DailyPartitionsDefinition("2026-01-05", end_date="2026-01-15")
WEEKS = dg.WeeklyPartitionsDefinition("2026-01-05", day_offset=1, end_date="2026-01-19")
KEYS = ["2026-01-06", "2026-01-07", "2026-01-13"]
STATED = {"patterns": [Table.overwrite], "about": About("team:x"), "code_version": "1"}
TICKS = 12
FOLLOW = Follow()


def spec(name, *partition_by):
    columns = {"id": Column("BIGINT", "identity"), **{column: Column("DATE", "day") for column in partition_by}}
    return TableSpec(name, columns, partition_by=partition_by, comment="x")


BRONZE, SILVER = spec("bronze/in", "landed_on", "day"), spec("silver/daily", "day")
ARRIVED = Feed(reads=lambda day: ({"day": day},), feeds=lambda changed: [changed["day"]])


def declare(declared, reads, partitions, when=FOLLOW):
    def build(step: Step, into: Target) -> WriteResult: ...

    return lake_table(declared, reads=Reads(reads), runs=Runs(partitions, when), **STATED)(build)


def look(request: Request) -> Inputs: ...


@lake_table(BRONZE, reads=Reads(inputs=look), runs=Runs(DAYS, OnDelivery("in"), job=Job("load", "x")), **STATED)
def bronze(step: Step, into: Target) -> WriteResult: ...


TABLES = [
    bronze,
    declare(SILVER, {BRONZE: ARRIVED}, DAYS),
    declare(spec("gold/daily", "day"), {SILVER: same("day")}, DAYS),
    declare(spec("gold/weekly", "day"), {SILVER: day_to_week("day")}, WEEKS),
    declare(spec("gold/all"), {SILVER: whole()}, None),
    declare(spec("gold/both", "day"), {SILVER: same("day"), BRONZE: ARRIVED}, DAYS),
    declare(replace(spec("gold/sum"), executed_by="day"), {SILVER: same("day")}, DAYS, InOrder(FOLLOW)),
    declare(replace(spec("gold/merged"), executed_by="day"), {SILVER: same("day")}, DAYS),
]
BY_NAME = {table.spec.name: table for table in TABLES}


@dataclass
class World:
    """A graph whose tables are dictionaries; their logs are written by hand, as the library would write them.

    Attributes:
        versions: table -> its content at each version: partition -> rows.
        runs: run key -> request, whether it succeeded, by which code; what Dagster has recorded.
        code: version of the declaration that deliveries are read by, which every row shows.
    """

    root: object
    versions: dict = field(default_factory=dict)
    generations: dict = field(default_factory=dict)
    landed: dict = field(default_factory=dict)
    runs: dict = field(default_factory=dict)
    crashes: int = 0
    code: int = 1

    def __post_init__(self):
        self.lake = Lake(root=str(self.root / "lake"), engine=SparkEngine())
        self.landing = Landing(root=str(self.root / "landing"))
        self.restart()

    def restart(self):
        self.overview = Overview(TABLES)

    def copy(self, root):
        """The same world elsewhere, with what it remembers; files that nobody writes again are shared."""
        shutil.copytree(self.root, root, copy_function=os.link, dirs_exist_ok=True)
        state = {name: deepcopy(getattr(self, name)) for name in ("versions", "generations", "landed", "runs")}
        world = World(root, **state, crashes=self.crashes, code=self.code)
        world.overview = deepcopy(self.overview, {id(each): each for t in TABLES for each in (t, *t.tables)})
        return world

    # --- what happens to the world ------------------------------------------------------------------------------------

    def land(self, day, happened):
        number = len(self.landed.setdefault(day, []))
        self.landed[day].append((f"{day}/{number}", happened))
        with delivering(self.root / "landing/in" / day) as folder:
            (folder / f"{number}.jsonl").write_text(happened)

    def mend(self):
        self.code += 1

    def restore(self, name, back, ours):
        known = self.versions.get(name, [])
        if len(known) < 3:
            return
        version = max(1, len(known) - 1 - back)
        target = dict(known[version])
        if ours:
            self.generations[name] = self.generations.get(name, 0) + 1
            self.commit(name, dict(known[-1]), {"txn": {f"{name}/generation": self.generations[name]}})
        self.commit(name, target, {"operation": "RESTORE", "parameters": {"version": version}})

    def drop(self, name):
        self.versions.pop(name, None)
        self.generations.pop(name, None)
        shutil.rmtree(self.root / "lake" / name, ignore_errors=True)

    def commit(self, name, content, commit):
        columns = BY_NAME[name].spec.partition_by
        before = self.versions.setdefault(name, [{}])[-1]
        changed = [p for p in {**before, **content} if before.get(p) != content.get(p)]
        values = [dict(partition) for partition in changed]
        types = {"id": "long", **dict.fromkeys(columns, "date")}
        write_log(self.root / "lake" / name, types, list(columns), [{"changed": values, **commit}])
        self.versions[name].append(content)

    # --- what the platform does ---------------------------------------------------------------------------------------

    def plan(self):
        versions = {BRONZE.name: str(self.code)}
        wants = self.overview.poll(self.lake, self.landing, NOW, versions=versions)
        fresh = Overview(TABLES).poll(self.lake, self.landing, NOW, versions=versions)
        assert wants == fresh, "what is remembered makes a difference"
        wants = [replace(want, code=versions.get(want.named, "1")) for want in wants]

        def tried(requests):
            found = {}
            for key, (request, succeeded, code) in self.runs.items():
                if request in requests:
                    last, ours = found.get(request, Tried()), code == requests[request]
                    failed, ended = last.failed + (ours and not succeeded), last.succeeded + (ours and succeeded)
                    found[request] = Tried(failed, ended, key, last.earlier + (not ours))
            return found

        return plan_requests(wants, busy={}, refused=lambda *_: None, tried=tried, limit=25)

    def launch(self, ask, end):
        """Run what is asked for, to a certain end, unless Dagster knows the run's key."""
        if ask.run_key in self.runs:
            return
        failing = end != "succeeds"
        if failing:
            self.crashes += 1
        fails = failing and self.crashes <= 2
        tables = ask.tables[: 1 if fails and end == "dies after a table" else None]
        wants = ask.wants[: 1 if fails and end == "dies after a day" else None]
        if not (fails and end == "dies before it writes"):
            for name in tables:
                for want in wants:
                    with suppress(NotReady):
                        self.compute(name, want.key)
        self.runs[ask.run_key] = (ask.want.request, not fails, ask.want.code)

    def compute(self, name, key):
        table = BY_NAME[name]
        owned = owned_by(key, table.spec)
        if name == BRONZE.name:
            delivery = self.landing.delivery("in", key)
            inputs, sequence, notes = {"in": delivery.identity}, None, {"delivery": delivery.identity}
            rows = {}
            for number, (row, happened) in enumerate(self.landed[key]):
                assert delivery.files[number].name == f"{number}.jsonl"
                rows.setdefault((("day", happened), ("landed_on", key)), set()).add(f"{row} by {self.code}")
        else:
            pins = [pin(self.lake.table(up), feed, key) for up, feed in table.reads.tables.items()]
            inputs, notes = {p.table.name: p.changed for p in pins}, {}
            sequence = sum(p.changed for p in pins)
            read = set().union(*(self.rows(p.table.name, p.partitions, p.version) for p in pins))
            rows = {tuple(sorted(owned.items())): read} if read else {}
        if table.spec.executed_by:
            self.execute(table, key, frozenset(read), inputs, sequence)
            return
        self.publish(name, owned, {p: frozenset(found) for p, found in rows.items()}, inputs, sequence, notes)

    def publish(self, name, owned, rows, inputs, sequence, notes):
        ledger = self.lake.ledger(name)
        last = ledger.latest(owned) if ledger.exists() else None
        code = str(self.code) if name == BRONZE.name else "1"
        if last and last.record and (last.record.inputs, last.record.code_version) == (inputs, code):
            return
        before = self.versions.get(name, [{}])[-1]
        kept = {p: found for p, found in before.items() if not owned.items() <= dict(p).items()}
        applied = len(self.versions.get(name, [])) if sequence is None else sequence
        kind = "runs" if sequence is None else ""
        txn = {transaction_id(name, owned, self.generations.get(name, 0), kind): applied}
        record = a_record(name, owned, inputs=inputs, sequence=sequence, notes=notes, code_version=code)
        self.commit(name, {**kept, **rows}, {"record": record, "txn": txn})

    def execute(self, table, key, rows, inputs, sequence):
        """Add a day's rows to the rows there are: to all of them, or in order to those of the days before it."""
        name, ledger, owned = table.spec.name, self.lake.ledger(table.spec.name), owned_by(key, table.spec)
        last = ledger.latest(owned) if ledger.exists() else None
        if last and last.record and (last.record.inputs, last.record.partition) == (inputs, owned):
            return
        known = self.versions.get(name, [{}])
        base, notes = len(known) - 1, {}
        if table.runs.in_order:
            executions = executions_of(ledger, until=base).now if ledger.exists() else Executions()
            standing = executions.find(key)
            if standing and ledger.commit(standing.version).record.inputs == inputs:
                return
            due = {day for partition in self.versions[SILVER.name][-1] for _, day in partition}
            start = executions.start(name, key, due)
            base = base if start.base is None else start.base
            pending = list(start.pending)
            notes = {"execution": {"key": key, "base": base, "after": start.after, "pending": pending}}
        held = known[base].get((), ())
        others = held if table.runs.in_order else tuple(pair for pair in held if pair[0] != key)
        txn = {transaction_id(name, owned, self.generations.get(name, 0)): sequence}
        record = a_record(name, owned, inputs=inputs, sequence=sequence, notes=notes)
        content = (*others, (key, rows)) if rows else others
        self.commit(name, {(): content}, {"record": record, "txn": txn})

    def rows(self, name, partitions, version):
        content = self.versions[name][version]
        return set().union(*(
            rows for p, rows in content.items() if any(part.items() <= dict(p).items() for part in partitions)
        ))  # fmt: skip

    # --- what should be -----------------------------------------------------------------------------------------------

    def expected(self):
        """The graph computed from what has landed, by the present code, without logs."""
        by_day = {}
        for rows in self.landed.values():
            for row, happened in rows:
                by_day.setdefault(happened, set()).add(f"{row} by {self.code}")
        daily = {(("day", day),): frozenset(rows) for day, rows in by_day.items()}
        weekly = {}
        for day, rows in by_day.items():
            (monday,) = day_to_week("day").feeds({"day": day})
            weekly[(("day", monday),)] = weekly.get((("day", monday),), frozenset()) | rows
        everything = frozenset().union(*by_day.values())
        return {
            "silver/daily": daily,
            "gold/daily": daily,
            "gold/both": daily,
            "gold/weekly": weekly,
            "gold/all": {(): everything} if everything else {},
            "gold/sum": {(): tuple((day, frozenset(rows)) for day, rows in sorted(by_day.items()))},
            "gold/merged": {(): tuple((day, frozenset(rows)) for day, rows in sorted(by_day.items()))},
        }

    def held(self):
        found = {name: self.versions.get(name, [{}])[-1] for name in BY_NAME if name != BRONZE.name}
        found["gold/merged"] = {p: tuple(sorted(rows)) for p, rows in found["gold/merged"].items()}
        return {name: {p: rows for p, rows in content.items() if rows} for name, content in found.items()}


ENDS = st.sampled_from(
    ["succeeds", "dies before it writes", "dies after a table", "dies after a day", "dies after it wrote"]
)
EVENTS = st.one_of(
    st.tuples(st.just("land"), st.sampled_from(KEYS), st.sampled_from(KEYS)),
    st.tuples(st.just("tick"), st.lists(st.one_of(st.none(), ENDS), min_size=6, max_size=6)),
    st.tuples(st.just("tick"), st.just(["succeeds"] * 25)),
    st.tuples(st.just("restore"), st.sampled_from(list(BY_NAME)), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("drop"), st.sampled_from([name for name in BY_NAME if name.startswith("gold")])),
    st.tuples(st.just("mend")),
    st.tuples(st.just("forget runs")),
    st.tuples(st.just("restart")),
)


def happen(world, name, *told):
    if name == "tick":
        # A tick without an end for a run lost it: the daemon died before it was launched.
        for ask, end in zip(world.plan().asks, told[0], strict=False):
            if end is not None:
                world.launch(ask, end)
    elif name == "forget runs":
        world.runs.clear()
    else:
        getattr(world, name)(*told)


@pytest.mark.promise("the-graph-converges-whatever-happens")
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples // 4)
@example(events=[("restore", "silver/daily", 1, True)], few=7)
@example(
    events=[("mend",), ("tick", ["dies after it wrote"] * 6), ("restore", "bronze/in", 3, False), ("mend",)], few=7
)
@example(events=[("restore", "gold/both", 1, False), ("restore", "bronze/in", 2, True), ("restart",)], few=7)
@example(events=[("drop", "gold/daily"), ("forget runs",), ("restore", "silver/daily", 2, False)], few=7)
@example(events=[("restore", "gold/merged", 2, False), ("restore", "gold/sum", 2, True), ("restart",)], few=7)
@example(events=[("restore", "gold/merged", 3, True), ("restore", "gold/merged", 2, False), ("restart",)], few=7)
@example(
    events=[("restore", "gold/sum", 5, False), ("land", KEYS[2], KEYS[1]), ("restore", "gold/sum", 3, False)], few=7
)
@example(events=[("restore", "gold/sum", 1, False), ("restore", "gold/sum", 1, False)], few=7)
@example(
    events=[
        ("restore", "gold/sum", 1, False),
        ("tick", ["succeeds", None, None, None, None, None]),
        ("restore", "gold/sum", 2, False),
    ],
    few=7,
)
@example(events=[("land", KEYS[0], KEYS[1]), ("land", KEYS[1], KEYS[0])], few=0)
@given(events=st.lists(EVENTS, min_size=1, max_size=10), few=st.sampled_from([0, 7]))
def test_the_graph_converges_whatever_happens(tmp_path_factory, events, few):
    """After a bounded number of ticks every table equals one computed from what has landed, and nothing is asked for.

    Late data, lost ticks, dead runs, deleted run records, restarts, a mended declaration of what lands, tables restored
    and dropped, in any order; each stale partition in a run of its own, or neighbours in one.
    """
    root = tmp_path_factory.mktemp("world")
    world = a_past(tmp_path_factory).copy(root)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backlogs, "_FEW", few)
        for event in events:
            happen(world, *event)
        converge(world)
        assert world.plan().gaps == ()
    assert world.held() == world.expected()
    shutil.rmtree(root)


_PAST = []


def a_past(tmp_path_factory):
    """A past to go back to: the same for every order of events, so that one world has it, and the others are copies."""
    if not _PAST:
        world = World(tmp_path_factory.mktemp("past"))
        for late in (False, True):
            for day in KEYS:
                world.land(day, KEYS[0] if late else day)
            converge(world)
        _PAST.append(world)
    return _PAST[0]


def converge(world):
    for _ in range(TICKS):
        asks = world.plan().asks
        if not asks:
            return
        for ask in asks:
            world.launch(ask, "succeeds")
    raise AssertionError(f"after {TICKS} ticks there is still something to ask for")
