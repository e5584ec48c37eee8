"""Fan-in in the reconciler: what a day waits for, when it is asked for, and when again; logs by hand, runs recorded."""

from __future__ import annotations

from datetime import datetime, timezone

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.declare import (
    About,
    Nightly,
    OnRequest,
    Reads,
    Runs,
    Step,
    Target,
    aligned,
    day_to_hour,
    hour_to_day,
    lake_table,
    unaligned,
)
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from tests.helpers import a_record, write_log

DAY = "2026-01-05"
KEYS = [f"{DAY}-{hour:02d}" for hour in range(24)]
MORNING = datetime(2026, 1, 6, 1, tzinfo=timezone.utc)
NIGHT = datetime(2026, 1, 5, 3, tzinfo=timezone.utc)
DAYS = dg.DailyPartitionsDefinition(DAY, end_offset=1)
HOURS = dg.HourlyPartitionsDefinition(f"{DAY}-00", fmt="%Y-%m-%d-%H", end_offset=1)
STATED = {"patterns": [Table.overwrite], "about": About("team:x"), "code_version": "1"}


def spec(name, column, kind):
    return TableSpec(name, {"id": Column("BIGINT"), column: Column(kind)}, partition_by=(column,), comment="x")


SOURCE, BY_HOUR = spec("silver/source", "day", "DATE"), spec("silver/by_hour", "hour", "STRING")
REPORT, SO_FAR = spec("gold/report", "day", "DATE"), spec("gold/so_far", "day", "DATE")


def declare(declared, reads, runs):
    def build(step: Step, into: Target) -> WriteResult: ...

    return lake_table(declared, reads=Reads(reads), runs=runs, **STATED)(build)


TABLES = [
    declare(BY_HOUR, {SOURCE: day_to_hour("day")}, Runs(HOURS, OnRequest())),
    declare(REPORT, {BY_HOUR: aligned(hour_to_day("hour"))}, Runs(DAYS)),
    declare(SO_FAR, {BY_HOUR: unaligned(hour_to_day("hour"), after_hours=12)}, Runs(DAYS)),
]
REPOSITORY = dg.Definitions(
    [table.definition() for table in TABLES],
    resources={name: dg.ResourceDefinition.none_resource() for name in ("lake", "clock", "alerts")},
).get_repository_def()
HOURLY = dg.AssetKey(["silver", "by_hour"])


class Lakes:
    """A lake of hand-written logs, recorded runs of hours, and looks of the reconciler."""

    def __init__(self, root, instance):
        self.root, self.instance = root, instance
        self.lake = Lake(root=str(root), engine=SparkEngine())
        self.landing = Landing(root=str(root / "landing"))
        self.loop, self.now = Reconciler(TABLES), NIGHT

    def commit(self, table, key, *, applied=1, rows=True):
        column = table.partition_by[0]
        kind = {"id": "long", column: "date" if column == "day" else "string"}
        commit = {
            "changed": [{column: key}] if rows else [],
            "txn": {f"{table.name}/{column}={key}/0": applied},
            "record": a_record(table.name, {column: key}),
        }
        write_log(self.root / table.name, kind, [column], [commit])

    def run_of(self, key, status):
        """Record a run of an hour, without an execution."""
        tags = {"dagster/partition": key}
        run = dg.DagsterRun(job_name="x", status=status, tags=tags, asset_selection=frozenset({HOURLY}))
        self.instance.add_run(run)
        return run.run_id

    def look(self):
        """The days that are asked for, by table, and why the others wait."""
        outcome, _ = self.loop.reconcile(
            self.lake, self.landing, self.now, instance=self.instance, repository=REPOSITORY
        )
        asked = {table: ask.want.key for ask in outcome.asks for table in ask.tables}
        return asked, {gap.table: gap.reason for gap in outcome.gaps if gap.state == "waiting"}

    def goal(self, table):
        """The version that a run of the day would apply."""
        outcome, _ = self.loop.reconcile(
            self.lake, self.landing, self.now, instance=self.instance, repository=REPOSITORY
        )
        return {name: int(ask.want.goal) for ask in outcome.asks for name in ask.tables}[table.name]


@pytest.fixture
def lakes(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        yield Lakes(tmp_path / "lake", instance)


def test_a_day_is_asked_for_once_all_of_its_hours_are_there_and_says_what_it_waits_for_until_then(lakes):
    """23 of 24 ask for nothing; the one that is missing is named; with it the day is asked for at its version."""
    for key in [*KEYS[:7], *KEYS[8:]]:
        lakes.commit(BY_HOUR, key)
    asked, waiting = lakes.look()
    assert asked == {}
    assert waiting == dict.fromkeys(
        ("gold/report", "gold/so_far"), f"{DAY} waits for 1 of 24: {KEYS[7]} (waiting) of silver/by_hour"
    )
    lakes.commit(BY_HOUR, KEYS[7], rows=False)
    assert lakes.look() == ({"gold/report": DAY, "gold/so_far": DAY}, {})
    assert lakes.goal(REPORT) == 24


def test_an_hour_that_changes_makes_the_published_day_stale(lakes):
    """With rows or without: the same day is asked for again, at the version of that hour."""
    for key in KEYS:
        lakes.commit(BY_HOUR, key)
    for table in (REPORT, SO_FAR):
        lakes.commit(table, DAY, applied=24)
    assert lakes.look() == ({}, {})
    lakes.commit(BY_HOUR, KEYS[3], rows=False)
    assert lakes.look()[0] == {"gold/report": DAY, "gold/so_far": DAY}
    assert lakes.goal(SO_FAR) == 25


def test_a_partial_day_is_asked_for_when_the_last_hour_has_failed_and_again_when_it_comes(lakes):
    """Not while it runs; without a new commit, as a run that ends is no news of a log."""
    for key in KEYS[:23]:
        lakes.commit(BY_HOUR, key)
    run = lakes.run_of(KEYS[23], dg.DagsterRunStatus.STARTED)
    asked, waiting = lakes.look()
    assert (asked, waiting["gold/so_far"]) == ({}, f"{DAY} waits for 1 of 24: {KEYS[23]} (running) of silver/by_hour")
    lakes.instance.report_run_failed(lakes.instance.get_run_by_id(run))
    asked, waiting = lakes.look()
    assert (asked, [*waiting]) == ({"gold/so_far": DAY}, ["gold/report"])
    lakes.commit(SO_FAR, DAY, applied=23)
    assert lakes.look()[0] == {}
    lakes.commit(BY_HOUR, KEYS[23])
    assert lakes.look() == ({"gold/report": DAY, "gold/so_far": DAY}, {})


def test_a_failed_run_that_dagster_starts_again_is_no_end(lakes):
    """Nor is one of three attempts of the reconciler; the third is."""
    for key in KEYS[:23]:
        lakes.commit(BY_HOUR, key)
    run = lakes.run_of(KEYS[23], dg.DagsterRunStatus.FAILURE)
    lakes.instance.add_run_tags(run, {"dagster/will_retry": "true"})
    assert lakes.look()[0] == {}
    for asked in ({}, {}, {"gold/so_far": DAY}):
        again = lakes.run_of(KEYS[23], dg.DagsterRunStatus.FAILURE)
        lakes.instance.add_run_tags(again, {"dedp/request": f"silver/by_hour:{KEYS[23]}@1"})
        assert lakes.look()[0] == asked


def test_a_refused_hour_has_failed(lakes):
    """By the note in the lake, though no run is recorded."""
    for key in KEYS[:23]:
        lakes.commit(BY_HOUR, key)
    assert lakes.look()[0] == {}
    Refusals(lakes.lake.refused(BY_HOUR.name)).note(KEYS[23], Refusal(("1",), "1", "run-1", "it was refused"))
    assert lakes.look()[0] == {"gold/so_far": DAY}


def test_at_noon_the_day_so_far_is_asked_for_without_any_news(lakes):
    """The clock alone does it; while an hour runs, it does not."""
    for key in KEYS[:12]:
        lakes.commit(BY_HOUR, key)
    assert lakes.look()[0] == {}
    lakes.now = NIGHT.replace(hour=12)
    run = lakes.run_of(KEYS[12], dg.DagsterRunStatus.STARTED)
    assert lakes.look()[0] == {}
    lakes.instance.report_run_canceled(lakes.instance.get_run_by_id(run))
    assert lakes.look()[0] == {"gold/so_far": DAY}
    lakes.now = NIGHT.replace(hour=11)
    assert Reconciler(TABLES).reconcile(lakes.lake, lakes.landing, lakes.now)[0].asks == ()


def test_at_noon_nothing_but_the_clock_asks_for_the_day_so_far(lakes):
    """No commit, no run: the reconciler looks at what waits again."""
    lakes.commit(BY_HOUR, KEYS[0])
    assert lakes.look()[0] == {}
    lakes.now = NIGHT.replace(hour=12)
    assert lakes.look()[0] == {"gold/so_far": DAY}


def test_a_stale_day_is_held_while_one_of_its_hours_is_computed_again(lakes):
    """It was asked for, and is no longer until that run has ended."""
    for key in KEYS:
        lakes.commit(BY_HOUR, key)
    assert "gold/so_far" in lakes.look()[0]
    run = lakes.run_of(KEYS[3], dg.DagsterRunStatus.STARTED)
    asked, waiting = lakes.look()
    assert (asked, [*waiting]) == ({"gold/report": DAY}, ["gold/so_far"])
    lakes.instance.report_run_failed(lakes.instance.get_run_by_id(run))
    assert lakes.look() == ({"gold/report": DAY, "gold/so_far": DAY}, {})


def test_a_day_without_a_row_is_found_again_after_a_log_that_could_not_be_read(lakes):
    """What was known is judged anew, hours without rows included."""
    for key in KEYS:
        lakes.commit(BY_HOUR, key, rows=False)
    assert lakes.look()[0] == {"gold/report": DAY, "gold/so_far": DAY}
    damaged = lakes.root / REPORT.name / "_delta_log" / f"{0:020d}.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    assert lakes.look()[0] == {"gold/so_far": DAY}
    damaged.unlink()
    assert lakes.look()[0] == {"gold/report": DAY, "gold/so_far": DAY}


def test_0_of_24_hours_ask_for_a_run_that_calls_the_error_handler_once(lakes):
    """Nobody has committed anything: the failed runs of the hours ask for it. A refusal of the day ends it."""
    lakes.now = MORNING
    for key in KEYS:
        lakes.run_of(key, dg.DagsterRunStatus.FAILURE)
    assert lakes.look()[0] == {"gold/so_far": DAY}
    assert lakes.goal(SO_FAR) == 0
    Refusals(lakes.lake.refused(SO_FAR.name)).note(DAY, Refusal(("0",), "1", "run-1", "no hour is there"))
    assert lakes.look()[0] == {}
    lakes.commit(BY_HOUR, KEYS[0])
    assert lakes.look()[0] == {"gold/so_far": DAY}


@given(st.permutations(KEYS).flatmap(lambda keys: st.tuples(st.just(keys), st.sets(st.integers(1, 23), max_size=3))))
def test_a_look_from_nothing_finds_what_looks_along_the_way_find(tmp_path_factory, drawn):
    """Whatever the order of the hours, and wherever the reconciler looked or was started anew."""
    keys, looks = drawn
    root = tmp_path_factory.mktemp("lake")
    lakes = Lakes(root, None)
    for number, key in enumerate(keys):
        if number in looks:
            assert lakes.look()[0] == {}
        lakes.commit(BY_HOUR, key, rows=number % 3 > 0)
    seen = lakes.look()
    assert seen == Lakes(root, None).look() == ({"gold/report": DAY, "gold/so_far": DAY}, {})


def test_a_schedule_does_not_ask_for_an_unaligned_day():
    """It looks at times of its own, at which runs may be under way."""
    feed = unaligned(hour_to_day("hour"))
    with pytest.raises(ConfigError, match=r"when must be Follow\(\) or OnRequest\(\) for unaligned"):
        declare(SO_FAR, {BY_HOUR: feed}, Runs(DAYS, Nightly("0 2 * * *", lookback=1)))
