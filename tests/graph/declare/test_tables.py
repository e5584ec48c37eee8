"""The decorator that declares a table: what follows from a declaration, and what a wrong one is told."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pytest

from dedp_assets.case_study import defs
from dedp_assets.case_study.defs.silver.visits import visits
from dedp_assets.graph.declare import (
    About,
    AtOnce,
    Follow,
    Gates,
    Inputs,
    Nightly,
    OnRequest,
    Pinned,
    Reads,
    Request,
    Runs,
    Step,
    day_to_week,
    declared,
    lake_table,
    same,
    whole,
)
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.sensors.reconciler import reconciler
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target
from tests.helpers import NOW, a_record, a_run, write_log

DAYS = dg.DailyPartitionsDefinition("2026-01-05", end_date="2026-01-12")
WEEKS = dg.WeeklyPartitionsDefinition("2026-01-05", day_offset=1)
COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "day")}
SOURCE = TableSpec("bronze/source", COLUMNS, partition_by=("day",))
OTHER = TableSpec("bronze/other", COLUMNS, partition_by=("day",))
TOTALS = TableSpec("gold/totals", COLUMNS, partition_by=("day",), comment="One row per day.")
REST = TableSpec("gold/totals_rest", COLUMNS, partition_by=("day",), comment="The rest.")
STATED = {"patterns": [Table.overwrite], "about": About("team:x"), "code_version": "1"}
FOLLOW, ASKED = Follow(), Runs(when=OnRequest())
LATE = Nightly("0 2 * * *", lookback=14, follows_late=True)


@lake_table(
    TOTALS,
    beside={REST: [Table.overwrite]},
    reads=Reads({SOURCE: same("day")}),
    runs=Runs(DAYS),
    gates=Gates(
        [Audit(name="some", of="written", fail_below=1)],
        checks={"known": "It is known."},
        reports={"soon": "It came soon."},
    ),
    **STATED,
)
def totals(step: Step, source: Pinned, into: Target, rest: Target, clock: Clock) -> WriteResult:
    """Count."""
    reason = f"{step.key} {source.changed} {into.name} {rest.name} {clock.now():%Y}"
    return WriteResult(into.name, 0, applied=True, changed=True, reason=reason, partition=into.owned)


def test_everything_that_dagster_shows_follows_from_the_declaration():
    """Assets, lineage, partitions, owners, and checks with what they say; only a report blocks nothing."""
    made = totals.definition()
    assert {key.to_user_string() for key in made.keys} == {"gold/totals", "gold/totals_rest"}
    for spec in made.specs:
        assert [dep.asset_key.to_user_string() for dep in spec.deps] == ["bronze/source"]
        assert (spec.partitions_def, spec.owners, spec.code_version) == (DAYS, ["team:x"], "1")
    checks = {check.name: check for check in made.check_specs}
    assert checks["some"].description == "written: fails below 1"
    assert (checks["known"].description, checks["known"].blocking) == ("It is known.", True)
    assert (checks["soon"].description, checks["soon"].blocking) == ("It came soon.", False)
    assert all(check.description for check in checks.values())
    assert {check.partitions_def for check in checks.values()} == {DAYS}
    assert made.op.pool == "gold_totals"


def test_a_table_can_be_computed_without_dagster(tmp_path):
    """It is the function that was decorated: tables and inputs in, what the pattern returned out."""
    lake = Lake(root=str(tmp_path), engine=SparkEngine())
    step = Step("2026-01-05", Inputs({}), a_run())
    pinned = Pinned(lake.table(SOURCE), ({"day": "2026-01-05"},), 3, 2)
    into, rest = (step.target(lake.table(table)) for table in totals.tables)
    result = totals(step, pinned, into, rest, Clock(fixed=NOW.isoformat()))
    assert result.reason == "2026-01-05 2 gold/totals gold/totals_rest 2026"
    assert result.partition == {"day": "2026-01-05"}


def test_what_a_pass_read_is_the_cost_of_one_of_its_tables(tmp_path):
    """All tables of a function are written from one pass: their costs add up to what was read."""
    lake, read = Lake(root=str(tmp_path), engine=SparkEngine()), Cost(rows_read=1000, files_read=2, bytes_read=9_000)
    step = Step("2026-01-05", Inputs({}), replace(a_run(), read=read))
    own, rest = totals._targets(step, [lake.table(table) for table in totals.tables])
    assert own.run.read == read
    assert (rest.run.read.rows_read, rest.run.read.files_read, rest.run.read.bytes_read) == (0, 0, 0)
    assert [audit.name for audit in own.audits] == ["some"]


def test_what_has_a_greatest_age_starts_before_what_has_none():
    """Unless a priority is stated; dashboards do not wait for a backfill of what nobody waits for."""
    fresh = replace(totals, about=replace(totals.about, fresh_hours=26))
    stated = replace(fresh, runs=replace(fresh.runs, when=AtOnce(2, priority=5)))
    assert [table.priority for table in (totals, fresh, stated)] == [0, 1, 5]


def test_parameters_that_nobody_declared_are_refused():
    """A function that asks for more tables than there are is told at its declaration, with both numbers."""

    def two(step: Step, one: Target, other: Target) -> WriteResult: ...

    def old(step: Step, table: Table) -> WriteResult: ...

    def one(step: Step, into: Target) -> WriteResult: ...

    def pins(step: Step, source: Pinned, into: Target) -> WriteResult: ...

    def looks(request: Request) -> Inputs: ...

    def asks_for_a_step(step: Step) -> Inputs: ...

    with pytest.raises(ConfigError, match="two takes 2 parameters of type Target, but gold/totals declares 1"):
        lake_table(TOTALS, reads=Reads(inputs=looks), runs=ASKED, **STATED)(two)
    with pytest.raises(ConfigError, match="table must be a Target, not a Table: old of gold/totals writes to a target"):
        lake_table(TOTALS, reads=Reads(inputs=looks), runs=ASKED, **STATED)(old)
    with pytest.raises(ConfigError, match="pins takes 1 parameters of type Pinned, but gold/totals declares 0"):
        lake_table(TOTALS, reads=Reads(inputs=looks), runs=ASKED, **STATED)(pins)
    with pytest.raises(ConfigError, match="of type Step, but gold/totals declares 0"):
        lake_table(TOTALS, reads=Reads(inputs=asks_for_a_step), runs=ASKED, **STATED)(one)
    with pytest.raises(ConfigError, match="gold/totals reads nothing"):
        lake_table(TOTALS, reads=Reads(), **STATED)(pins)
    with pytest.raises(TypeError, match="unexpected keyword argument 'aduits'"):
        lake_table(TOTALS, reads=Reads(inputs=looks), aduits=[], **STATED)(pins)


def test_every_declared_table_of_the_graph_is_found():
    """By looking through the modules: there is no list."""
    found = {table.spec.name: table for table in declared(defs)}
    assert found["silver/visits"] is visits
    assert [spec.name for spec in found["silver/visits"].tables] == ["silver/visits", "silver/visits_dead_letter"]


class Lakes:
    """A lake of hand-written logs, and ticks of the reconciler over tables that are declared here."""

    def __init__(self, root, instance, tables):
        self.root, self.instance, self.cursor, self.tables = root, instance, None, tables
        self.sensor = reconciler(tables, [])
        self.resources = {
            "lake": Lake(root=str(root), engine=SparkEngine()),
            "landing": Landing(root=str(root / "landing")),
            "clock": Clock(fixed=NOW.isoformat()),
        }
        self.repository = dg.Definitions(
            [table.definition() for table in tables], sensors=[self.sensor], resources=self.resources
        ).get_repository_def()

    def commit(self, name, *days, applied=None, column="day", **notes):
        txn = {f"{name}/{column}={days[0]}/0": applied} if applied is not None else {}
        record = a_record(name, {column: days[0]}, notes=notes) if applied is not None or notes else None
        commit = {"changed": [{column: day} for day in days], "txn": txn, "record": record}
        write_log(
            self.root / name,
            {"id": "long", column: "date"},
            [column],
            [commit],
        )

    def tick(self):
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, repository_def=self.repository, resources=self.resources
        ) as context:
            data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor
        found = {}
        for request in data.run_requests or []:
            names = ", ".join(sorted(key.to_user_string() for key in request.asset_selection))
            found.setdefault(names, []).append(request.partition_key)
        return found


@pytest.fixture
def lakes(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        yield lambda *tables: Lakes(tmp_path, instance, tables)


def declare(name, tables, partitions=None, when=FOLLOW, needs=None, **reads):
    columns = COLUMNS if partitions else {"id": Column("BIGINT", "identity")}
    spec = TableSpec(name, columns, partition_by=("day",) if partitions else (), comment="x")

    def build(step: Step, into: Target) -> WriteResult: ...

    return lake_table(spec, reads=Reads(tables, **reads), runs=Runs(partitions, when, needs=needs), **STATED)(build)


def test_one_sensor_serves_every_mapping(lakes):
    """The same day, a week and a table as a whole follow one change; what does not follow is left alone."""
    lake = lakes(
        declare("gold/daily", {SOURCE: same("day")}, DAYS),
        declare("gold/other", {SOURCE: same("day")}, DAYS),
        declare("gold/weekly", {SOURCE: day_to_week("day")}, WEEKS),
        declare("gold/all", {SOURCE: whole()}),
        declare("staging/daily", {SOURCE: same("day")}, DAYS, OnRequest()),
    )
    lake.commit("bronze/source", "2026-01-06", "2026-01-08")
    asked = lake.tick()
    assert asked == {
        "gold/daily, gold/other": ["2026-01-06", "2026-01-08"],
        "gold/weekly": ["2026-01-05"],
        "gold/all": [None],
    }


def test_a_late_key_is_corrected_in_one_run_down_to_the_last_table_that_keeps_keys(lakes):
    """Without a second tick and start; a week, and gold that is late by itself, have runs of their own."""
    daily = declare("silver/daily", {SOURCE: same("day")}, DAYS)
    lake = lakes(
        daily,
        declare("gold/daily", {daily.spec: same("day")}, DAYS),
        declare("gold/weekly", {daily.spec: day_to_week("day")}, WEEKS),
    )
    lake.commit("bronze/source", "2026-01-06")
    assert lake.tick() == {"gold/daily, silver/daily": ["2026-01-06"]}
    lake.commit("silver/daily", "2026-01-06", applied=1)
    assert lake.tick() == {"gold/daily": ["2026-01-06"], "gold/weekly": ["2026-01-05"]}


def test_what_follows_late_data_alone_is_asked_for_where_it_was_computed_before(lakes):
    """In no run of the upstream's, with what is computed from it by the same key, and after a restore, too."""
    daily = declare("silver/daily", {SOURCE: same("day")}, DAYS)
    cube = declare("gold/cube", {daily.spec: same("day")}, DAYS, LATE)
    tables = daily, cube, declare("gold/of_cube", {cube.spec: same("day")}, DAYS)
    lake = lakes(*tables, declare("gold/weekly", {cube.spec: day_to_week("day")}, WEEKS))
    lake.commit("bronze/source", "2026-01-06", "2026-01-08")
    assert lake.tick() == {"silver/daily": ["2026-01-06", "2026-01-08"]}
    lake.commit("silver/daily", "2026-01-06", applied=1)
    lake.commit("silver/daily", "2026-01-08", applied=1)
    assert lake.tick() == {}
    lake.commit("gold/cube", "2026-01-06", applied=1)
    assert lake.tick() == {"gold/of_cube": ["2026-01-06"], "gold/weekly": ["2026-01-05"]}
    lake.commit("silver/daily", "2026-01-06", applied=1)
    lake.commit("silver/daily", "2026-01-08", applied=1)
    late = {"gold/cube, gold/of_cube": ["2026-01-06"], "gold/weekly": ["2026-01-05"]}
    assert lake.tick() == late
    assert lakes(*lake.tables).tick() == late
    lake.commit("gold/cube", "2026-01-06", applied=3)
    assert "gold/cube" not in lake.tick()


@pytest.mark.promise("a-late-visit-refreshes-its")
def test_a_late_visit_refreshes_its_day_of_each_table_that_has_it_and_nothing_else(lakes):
    """Cube, layout, contexts and impressions of one day at once; of a day that no night has computed, nothing.

    A late ad refreshes the impressions alone, of the day that has them.
    """
    names = ["gold/visits_cube", "platform/visits_context", "silver/ad_impressions", "silver/visits_by_visitor"]
    graph = {table.spec.name: table for table in declared(defs)}
    lake = lakes(*(graph[name] for name in names))
    over, today = "2026-01-06", "2026-01-07"

    def commit(name, *days, applied=None):
        lake.commit(name, *days, applied=applied, column="event_date")

    commit("silver/ads", over)
    commit("silver/visits", over, today)
    assert lake.tick() == {}
    for name in names:
        commit(name, over, applied=2 if name == "silver/ad_impressions" else 1)
    assert lake.tick() == {}
    commit("silver/visits", over)
    commit("silver/visits", today)
    of_visits = "gold/visits_cube, platform/visits_context, silver/visits_by_visitor"
    assert lake.tick() == {of_visits: [over], "silver/ad_impressions": [over]}
    for name in names:
        commit(name, over, applied=3 if name == "silver/ad_impressions" else 2)
    commit("silver/ads", over)
    assert lake.tick() == {"silver/ad_impressions": [over]}


def test_a_table_that_needs_a_service_waits_alone_until_it_answers(lakes):
    """Nothing is asked for that would fail, what else is late is corrected without it, and what waited follows."""
    said = ["the mail server does not answer"]
    daily = declare("silver/daily", {SOURCE: same("day")}, DAYS)
    lake = lakes(daily, declare("mails/mails", {daily.spec: same("day")}, DAYS, needs=lambda: said[0]))
    lake.commit("bronze/source", "2026-01-06")
    assert lake.tick() == {"silver/daily": ["2026-01-06"]}
    lake.commit("silver/daily", "2026-01-06", applied=1)
    assert lake.tick() == {}
    said[0] = ""
    assert lake.tick() == {"mails/mails": ["2026-01-06"]}


def test_a_change_of_a_reference_asks_for_nothing_and_without_it_nothing_is_asked_for(lakes):
    """Once it is there, what waited follows; then only what is read counts, for a process that starts anew as well."""
    joined = declare("gold/joined", {SOURCE: same("day")}, DAYS, references=[OTHER])
    assert [dep.asset_key.path[-1] for spec in joined.definition().specs for dep in spec.deps] == ["source", "other"]
    lake = lakes(joined)
    lake.commit("bronze/source", "2026-01-06")
    assert lake.tick() == {}
    lake.commit("bronze/other", "2026-01-09")
    assert lake.tick() == {"gold/joined": ["2026-01-06"]}
    lake.commit("gold/joined", "2026-01-06", applied=1)
    lake.commit("bronze/other", "2026-01-06")
    assert lake.tick() == {}
    assert lakes(joined).tick() == {}
    lake.commit("bronze/source", "2026-01-06")
    assert lake.tick() == {"gold/joined": ["2026-01-06"]}


def test_a_revision_of_a_reference_asks_for_the_days_that_it_is_about(lakes):
    """From the day on that its commit names, also for a process that starts anew; without a name, for all days.

    A later revision of fewer days does not hide an earlier one, and what was computed since is left alone.
    """
    joined = declare("gold/joined", {SOURCE: same("day")}, DAYS, references=[OTHER], revised_by=[OTHER])
    lake, days = lakes(joined), ["2026-01-06", "2026-01-07", "2026-01-08"]
    lake.commit("bronze/other", "2026-01-05")
    lake.commit("bronze/source", *days)
    assert lake.tick() == {"gold/joined": days}
    for day in days:
        lake.commit("gold/joined", day, applied=2)
    assert lake.tick() == {}
    lake.commit("bronze/other", "2026-01-05", true_since="2026-01-07")
    assert lake.tick() == {"gold/joined": days[1:]}
    lake.commit("bronze/other", "2026-01-05", true_since="2026-01-08")
    lake.commit("bronze/other", "2026-01-05", true_since="2026-01-09")
    assert lake.tick() == lakes(joined).tick() == {"gold/joined": days[1:]}
    lake.commit("gold/joined", days[1], applied=3)
    assert lake.tick() == {"gold/joined": days[2:]}
    lake.commit("gold/joined", days[2], applied=4)
    assert lake.tick() == {}
    lake.commit("bronze/other", "2026-01-05")
    assert lake.tick() == lakes(joined).tick() == {"gold/joined": days}


def test_only_references_of_days_revise_them():
    """A table that is no reference, or other partitions than days, are told so."""
    with pytest.raises(ConfigError, match="gold/joined: revised_by must be among the references, not bronze/other"):
        declare("gold/joined", {SOURCE: same("day")}, DAYS, revised_by=[OTHER])
    with pytest.raises(ConfigError, match="partitions must be days for revised_by, not WeeklyPartitionsDefinition"):
        declare("gold/joined", {SOURCE: day_to_week("day")}, WEEKS, references=[OTHER], revised_by=[OTHER])


def test_a_table_with_two_upstream_tables_follows_either(lakes):
    """What it applied counts both, so a change of the second one is seen after the first was applied."""
    lake = lakes(declare("gold/joined", {SOURCE: same("day"), OTHER: same("day")}, DAYS))
    lake.commit("bronze/source", "2026-01-06")
    lake.commit("bronze/other", "2026-01-07")
    assert lake.tick() == {}
    lake.commit("bronze/other", "2026-01-06")
    assert lake.tick() == {"gold/joined": ["2026-01-06"]}
    lake.commit("gold/joined", "2026-01-06", applied=3)
    assert lake.tick() == {}
    lake.commit("bronze/other", "2026-01-06")
    assert lake.tick() == {"gold/joined": ["2026-01-06"]}
    lake.commit("gold/joined", "2026-01-06", applied=4)
    assert lake.tick() == {}
    lake.commit("bronze/source", "2026-01-06")
    assert lake.tick() == {"gold/joined": ["2026-01-06"]}


def test_dates_before_the_first_partition_are_held_back(lakes):
    """A run of them would fail: they are no partition of the table."""
    lake = lakes(declare("gold/daily", {SOURCE: same("day")}, DAYS))
    lake.commit("bronze/source", "2026-01-04", "2026-01-05")
    assert lake.tick() == {"gold/daily": ["2026-01-05"]}
