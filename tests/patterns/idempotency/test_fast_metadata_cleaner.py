"""A unit is emptied in the log and loaded again: no day is doubled, none is lost, and readers never see half of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from threading import Event, Thread

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.idempotency._units import DayRange, days_of, first_day, frozen_names
from dedp_assets.patterns.idempotency.fast_metadata_cleaner import (
    UNITS_LEAVE_ROOM,
    freeze_units,
    load_unit,
    plan_units,
)
from dedp_assets.patterns.ingestion.compactor import compact, vacuum
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_record, a_run, active_files, files_of, read_back, write_log
from tests.two_runs import two_runs

VISITS = TableSpec(
    "staging/weekly",
    {"id": Column("BIGINT", required=True), "day": Column("DATE", required=True), "week": Column("STRING")},
    partition_by=("week",),
    comment="One row per visit.",
)
MONDAY = date(2026, 1, 5)
WEEK = [(MONDAY + timedelta(days=n)).isoformat() for n in range(7)]
WITHOUT_SPARK = lambda: pytest.fail("it asked for a Spark session")  # noqa: E731


@pytest.fixture
def weekly(make_table):
    return make_table(VISITS)


@pytest.fixture
def load(spark, weekly):
    """Load days, each with two visits, or as many as are named."""

    def loaded(*days, visits=2, version=1, table=weekly, unit="week", **run):
        each = " UNION ALL ".join(f"SELECT id, DATE '{day}' AS day FROM range({visits})" for day in days)
        identified = dict.fromkeys(days, version)
        provenance = a_run(**{"inputs": {"days": [*days], "version": version}, **run})
        rows = spark.sql(each).coalesce(1)
        return load_unit(rows, table.target(provenance), days=identified, by="day", unit=unit)

    return loaded


def held(table):
    """Visits by unit and day, through an independent reader."""
    return dict(sorted(Counter((row["week"], str(row["day"])) for row in read_back(table)).items()))


def evenly(*days, week=WEEK[0], visits=2):
    return {(week, day): visits for day in days}


def actions_of(table, version):
    text = (table.location / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


# --- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.promise("two-weeks-are-loaded-day")
@pytest.mark.both
def test_two_weeks_are_loaded_day_by_day_and_a_rerun_doubles_nothing(weekly, load):
    """The first run creates, the second one adds; each week holds its own days; a rerun of all of it changes no row.

    A day in the middle alone is refused, and a retry of a run that succeeded finds it applied.
    """
    next_monday = (MONDAY + timedelta(days=7)).isoformat()
    load(WEEK[0])
    before = active_files(weekly)
    result = load(WEEK[1])
    assert result.reason == f"1 days added to unit {WEEK[0]}: 2 rows published"
    assert before < active_files(weekly)
    load(WEEK[2], WEEK[3])
    load(next_monday)
    expected = evenly(*WEEK[:4]) | evenly(next_monday, week=next_monday)
    assert held(weekly) == expected
    with pytest.raises(ContractError, match=f"{WEEK[2]} is loaded already, in one unit with {', '.join(WEEK[:4])}"):
        load(WEEK[2], version=2)
    with pytest.raises(ContractError, match="is loaded already"):
        load(WEEK[0], version=2)
    for days in (WEEK[:1], WEEK[1:2], WEEK[2:4]):
        assert not load(*days, run_id="run-2").applied
    assert held(weekly) == expected
    assert [c.operation for c in weekly.ledger.commits()].count("CREATE TABLE") == 1


def test_a_replay_from_monday_on_empties_the_week_and_leaves_every_other(weekly, load):
    """Monday begins the week anew, the following days come after, with the same rows at the end."""
    next_monday = (MONDAY + timedelta(days=7)).isoformat()
    load(*WEEK[:4])
    load(next_monday)
    expected, others = held(weekly), files_of(weekly, week=next_monday)
    begun = load(WEEK[0], version=2, replay=True)
    assert held(weekly) == evenly(WEEK[0]) | evenly(next_monday, week=next_monday)
    load(WEEK[1], version=2)
    load(WEEK[2], WEEK[3], version=2)
    assert held(weekly) == expected
    assert files_of(weekly, week=next_monday) == others
    assert begun.reason.startswith(f"unit {WEEK[0]} emptied and loaded with 1 days")


def test_a_reader_never_errs_and_never_sees_half_of_a_week_that_is_loaded_again(weekly, load):
    """Polled all the while, the week shows its old rows or its new ones, and the commit that exchanges them is one."""
    load(*WEEK)
    seen, over = [], Event()

    def poll():
        while not over.is_set():
            seen.append(DeltaTable(str(weekly.location)).to_pyarrow_table().num_rows)

    reader = Thread(target=poll)
    reader.start()
    try:
        results = [load(*WEEK, visits=visits, version=visits) for visits in (3, 4)]
    finally:
        over.set()
        reader.join()
    assert set(seen) <= {14, 21, 28}
    assert len(seen) > 2
    assert [result.version for result in results] == [2, 3]
    assert held(weekly) == evenly(*WEEK, visits=4)


def test_a_run_that_dies_between_emptying_and_loading_is_healed_by_the_next(weekly, load, monkeypatch):
    """Other weeks stay readable, the emptied one is empty, and a rerun brings it back; a dead load changes nothing."""
    next_monday = (MONDAY + timedelta(days=7)).isoformat()
    load(*WEEK)
    load(next_monday)
    before = held(weekly)

    def die(*_, **__):
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(stage_commit, "commit_files", die)
        with pytest.raises(SystemExit):
            load(*WEEK, version=2)
    assert held(weekly) == before
    load_unit(None, weekly.target(a_run()), days={WEEK[0]: 2}, by="day")
    assert held(weekly) == evenly(next_monday, week=next_monday)
    with monkeypatch.context() as patched:
        patched.setattr(stage_commit, "commit_files", die)
        with pytest.raises(SystemExit):
            load(*WEEK, version=2)
    assert held(weekly) == evenly(next_monday, week=next_monday)
    load(*WEEK, version=2)
    assert held(weekly) == before


def test_a_day_of_another_unit_is_refused_whole(spark, weekly, load):
    """Rows of a day that was not named, or of none, publish nothing; days of two weeks are no call."""
    load(WEEK[0])
    for stray in ("DATE '2026-01-12'", f"DATE '{WEEK[2]}'"):
        rows = spark.sql(f"SELECT id, if(id = 1, {stray}, DATE '{WEEK[1]}') AS day FROM range(3)")
        with pytest.raises(AuditFailed, match="rows_are_of_their_days"):
            load_unit(rows, weekly.target(a_run()), days={WEEK[1]: 1}, by="day")
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        load(WEEK[1], visits=0)
    assert held(weekly) == evenly(WEEK[0])
    for days in ({WEEK[6]: 1, "2026-01-12": 1}, {}, {"Monday": 1}):
        with pytest.raises(ConfigError):
            load_unit(rows, weekly.target(a_run()), days=days, by="day")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_a_time_is_of_its_day_in_utc_in_whatever_zone_the_session_is(spark, make_table, zone):
    """To the microsecond; a text that is no day is of none."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    columns = {"at": Column("TIMESTAMP"), "day": Column("STRING"), "week": Column("STRING")}
    units = make_table(TableSpec(f"units_{zone.lower().replace('/', '_')}", columns, partition_by=("week",)))
    try:
        for number, clock in enumerate(("00:00:00", "23:59:59.999999")):
            rows = spark.sql(f"SELECT TIMESTAMP '{WEEK[0]} {clock}Z' AS at, 'no day' AS day")
            run = a_run(run_id=clock, sequence=number)
            assert load_unit(rows, units.target(run), days={WEEK[0]: number}, by="at").rows.written == 1
        rows = spark.sql(f"SELECT TIMESTAMP '{WEEK[1]} 00:00:00Z' AS at, 'no day' AS day")
        for by in ("at", "day"):
            with pytest.raises(AuditFailed, match="rows_are_of_their_days"):
                load_unit(rows, units.target(a_run(run_id=by, sequence=3)), days={WEEK[0]: 3}, by=by)
        with pytest.raises(ConfigError, match=r"^column at is INT, which says no day"):
            load_unit(spark.sql("SELECT 1 AS at"), units.target(a_run()), days={WEEK[0]: 1}, by="at")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_two_runs_of_a_day_at_once_load_it_once(weekly, load, monkeypatch):
    """The one that commits second was decided on before the first: it is refused as a conflict, to be run again."""
    load(WEEK[0])
    stage, inner = Table.stage, []

    def meanwhile(self, rows, **options):
        staged = stage(self, rows, **options)
        if not inner:
            inner.append(True)
            load(WEEK[1], version=7)
        return staged

    monkeypatch.setattr(Table, "stage", meanwhile)
    with pytest.raises(Conflict, match="was written at version 2"):
        load(WEEK[1], version=8)
    assert held(weekly) == evenly(*WEEK[:2])


def test_a_week_that_others_changed_is_loaded_whole_or_not_at_all(weekly, load):
    """After a foreign DELETE nobody can say which days are there: none is added, all seven replace what is left."""
    load(WEEK[0])
    DeltaTable(str(weekly.location)).delete("id = 0")
    with pytest.raises(ContractError, match="nobody can say which days"):
        load(WEEK[1])
    plan = plan_units({WEEK[0]: 1, WEEK[1]: 1}, weekly.ledger)
    assert plan.partitions == tuple(WEEK)
    load(*WEEK)
    assert held(weekly) == evenly(*WEEK)


# --- emptying ---------------------------------------------------------------------------------------------------------


def hand_written(location, *, weeks=(WEEK[0], "2026-01-12"), files=3):
    """A table of which there is nothing but its log."""
    table = Table(VISITS, location, WITHOUT_SPARK)
    table.ensure()
    columns = {"id": "long", "day": "date", "week": "string"}
    write_log(location, columns, ["week"], [{"changed": [{"week": week}] * files} for week in weeks])
    return table


@pytest.mark.parametrize("files", [3, 30])
def test_emptying_reads_no_file_and_writes_none(tmp_path, files):
    """There are no data files at all, and no Spark: the commit holds removals only, however many files there are."""
    weekly = hand_written(tmp_path / "weekly", files=files)
    result = load_unit(None, weekly.target(a_run()), days={WEEK[3]: 1}, by="day")
    kinds = Counter(kind for action in actions_of(weekly, result.version) for kind in action)
    assert kinds == {"commitInfo": 1, "txn": 1, "remove": files}
    left = pa.table(DeltaTable(str(weekly.location)).get_add_actions(flatten=True)).to_pylist()
    assert {file["partition.week"] for file in left} == {"2026-01-12"}
    assert not load_unit(None, weekly.target(a_run()), days={WEEK[0]: 1}, by="day").changed


def test_loading_again_removes_by_metadata_what_a_delete_rewrites(weekly, load):
    """The exchange keeps no former row in a new file: the plain DELETE of one day copies the six others."""
    load(*WEEK)
    again = load(*WEEK, version=2, visits=3)
    files = [action for action in actions_of(weekly, again.version) if {"add", "remove"} & action.keys()]
    added = sum(json.loads(action["add"]["stats"])["numRecords"] for action in files if "add" in action)
    assert added == 21
    DeltaTable(str(weekly.location)).delete(f"day = '{WEEK[0]}'")
    files = [action["add"] for action in actions_of(weekly, again.version + 1) if "add" in action]
    assert sum(json.loads(file["stats"])["numRecords"] for file in files) == 18


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("day", "unit", "first", "days"),
    [
        ("2024-12-29", "week", "2024-12-23", 7),
        ("2024-12-30", "week", "2024-12-30", 7),
        ("2025-01-05", "week", "2024-12-30", 7),
        ("2025-01-06", "week", "2025-01-06", 7),
        ("2027-01-03", "week", "2026-12-28", 7),
        ("2024-02-29", "month", "2024-02-01", 29),
        ("2024-02-29", "year", "2024-01-01", 366),
        ("2024-02-29", lambda day: day - timedelta(days=day.toordinal() % 10), "2024-02-24", 10),
    ],
)
def test_a_unit_is_called_by_its_first_day(day, unit, first, days):
    """A week across a year's end is one week, and no week of another year has its name."""
    assert first_day(date.fromisoformat(day), unit) == date.fromisoformat(first)
    found = days_of(date.fromisoformat(day), unit)
    assert (found[0].isoformat(), len(found)) == (first, days)


def test_the_year_boundary_is_loaded_into_one_week(weekly, load):
    """Days of 2024 and 2025 that share a week share its partition; the first week of the year before keeps its own."""
    load("2024-01-01")
    load("2024-12-30", "2024-12-31", "2025-01-01")
    load("2025-01-05")
    assert {week for week, _ in held(weekly)} == {"2024-01-01", "2024-12-30"}
    assert sum(held(weekly).values()) == 10


@pytest.mark.parametrize("unit", ["day", "Week", lambda day: day + timedelta(days=1), lambda _: date(2020, 1, 1)])
def test_what_is_no_unit_is_refused(unit):
    """A wrong name, a first day that comes later, a unit that does not end."""
    with pytest.raises(ConfigError):
        days_of(MONDAY, unit)


@pytest.mark.parametrize("by", [("day",), ("week", "day"), ()])
def test_a_table_without_a_partition_for_each_unit_is_refused(tmp_path, by):
    """Emptying is metadata alone only where the unit is the partition."""
    table = Table(replace(VISITS, partition_by=by), tmp_path / "weekly", WITHOUT_SPARK)
    with pytest.raises(ConfigError, match="partitioned by its unit alone"):
        load_unit(None, table.target(a_run()), days={WEEK[0]: 1}, by="day")


# --- planning ---------------------------------------------------------------------------------------------------------


def loaded_log(location, *loads):
    """A log in which days were loaded: each load names its days with their versions, and whether it added them."""
    commits = []
    for number, (days, adds) in enumerate(loads, start=1):
        week = first_day(date.fromisoformat(min(days)), "week").isoformat()
        record = a_record("weekly", {"week": week}, notes={"days": days})
        kind = ":appends" if adds else ""
        commits.append({"changed": [{"week": week}], "record": record, "txn": {f"weekly/week={week}/0{kind}": number}})
    write_log(location, {"id": "long", "day": "date", "week": "string"}, ["week"], commits)
    return Table(VISITS, location, WITHOUT_SPARK).ledger


def test_a_backfill_of_one_day_expands_to_its_week_in_order_and_says_so(tmp_path):
    """Tuesday is asked for: Monday to Sunday are loaded, and the plan names what asked; the next week is left alone."""
    present = dict.fromkeys([*WEEK, "2026-01-12"], 1)
    ledger = loaded_log(tmp_path, ({WEEK[0]: 1}, False), (dict.fromkeys(WEEK[1:], 1), True), ({"2026-01-12": 1}, False))
    assert plan_units(present, ledger).partitions == ()
    plan = plan_units(present, ledger, asked=[WEEK[1]])
    assert plan.partitions == tuple(WEEK)
    assert plan.reason == f"unit {WEEK[0]} is loaded whole: {WEEK[1]} again"
    changed = plan_units({**present, WEEK[2]: 5}, ledger)
    assert (changed.partitions, changed.cursor[WEEK[2]]) == (tuple(WEEK), 5)


def test_only_days_that_are_new_are_added_to_their_week(tmp_path):
    """Without a table everything is new; then what is not loaded yet; a day that vanished has its week loaded again."""
    present = dict.fromkeys(WEEK[:3], 1)
    nothing = Table(VISITS, tmp_path / "nothing", WITHOUT_SPARK).ledger
    assert plan_units(present, nothing).partitions == tuple(WEEK[:3])
    ledger = loaded_log(tmp_path / "some", ({WEEK[0]: 1}, False), ({WEEK[1]: 1}, True))
    assert plan_units(present, ledger).partitions == (WEEK[2],)
    vanished = plan_units({WEEK[0]: 1}, ledger)
    assert (vanished.partitions, vanished.cursor[WEEK[1]]) == ((WEEK[0], WEEK[1]), "")


# --- freezing ---------------------------------------------------------------------------------------------------------


def test_old_weeks_are_frozen_by_metadata_alone_and_refuse_every_day_of_them(weekly, load):
    """Rows stay, files stay, partitions become fewer in one commit, for every reader; a day inside is refused by name.

    The week that begins in the old month and ends in the next belongs to the old one, and the open month is left.
    """
    for first in (date(2025, 12, 1), date(2025, 12, 15), date(2025, 12, 29), date(2026, 1, 5)):
        load(first.isoformat(), (first + timedelta(days=6)).isoformat())
    files, days = active_files(weekly), Counter(str(row["day"]) for row in read_back(weekly))
    early = freeze_units(weekly.target(a_run()), before=date(2026, 1, 4))
    assert (early.applied, early.reason) == (False, "nothing to relabel")
    frozen = freeze_units(weekly.target(a_run()), before=date(2026, 1, 12))
    assert frozen.figures == {"files": 3, "partitions_before": 4, "partitions_after": 2}
    assert active_files(weekly) == files
    assert Counter(str(row["day"]) for row in read_back(weekly)) == days
    name = "2025-12-01..2026-01-04"
    expected = {(name, 6 * 2), (WEEK[0], 2 * 2)}
    by_week = Counter(row["week"] for row in read_back(weekly))
    assert set(by_week.items()) == expected
    read = weekly.session.read.format("delta").load(str(weekly.location)).groupBy("week").count().collect()
    assert {tuple(row) for row in read} == expected
    assert {tuple(row) for row in weekly.read({"week": name}).groupBy("week").count().collect()} == {(name, 12)}
    assert weekly.ledger.commit(frozen.version).changed == frozenset()
    pruned = pa.table(DeltaTable(str(weekly.location)).get_add_actions(flatten=True)).to_pylist()
    assert {str(file["min.day"]) for file in pruned} == {"2025-12-01", "2025-12-15", "2025-12-29", "2026-01-05"}
    no_day_of_it_can_be_loaded(weekly, load, name)
    load("2026-01-06")
    assert len(read_back(weekly)) == sum(days.values()) + 2


def no_day_of_it_can_be_loaded(weekly, load, name):
    for day in ("2025-12-01", "2025-12-08", "2026-01-04"):
        with pytest.raises(ContractError, match=f"is frozen into {name}: no day of it can be loaded"):
            load(day, version=9)
    asked = plan_units({"2025-12-01": 1}, weekly.ledger, asked=["2025-12-01"])
    assert (asked.partitions, list(asked.held)) == ((), ["2025-12-01"])
    assert not freeze_units(weekly.target(a_run()), before=date(2026, 1, 12)).applied


def test_what_was_frozen_is_compacted_and_vacuumed_like_any_table(weekly, load):
    """Files of several weeks become one of their month, with the same rows for Spark and for an independent reader."""
    for day in ("2025-12-01", "2025-12-08", "2025-12-22"):
        load(day)
    freeze_units(weekly.target(a_run()), before=date(2026, 1, 5))
    frozen = read_back(weekly)
    assert compact(weekly.target(a_run()), min_small_files=2).changed is False
    assert len(active_files(weekly)) == 1
    vacuum(weekly.target(a_run()), retention_hours=0, now=NOW + timedelta(days=3650), allow_unsafe=True)
    assert read_back(weekly) == frozen
    by_spark = weekly.session.read.format("delta").load(str(weekly.location)).groupBy("week").count().collect()
    assert {tuple(row) for row in by_spark} == {("2025-12-01..2026-01-04", 6)}


@pytest.mark.promise("a-load-that-was-decided")
def test_a_load_that_was_decided_on_before_its_week_was_frozen_is_refused(weekly, load, monkeypatch):
    """It would bring the frozen days a second time."""
    load("2025-12-01")
    stage = Table.stage

    def frozen_meanwhile(self, rows, **options):
        staged = stage(self, rows, **options)
        freeze_units(weekly.target(a_run()), before=date(2026, 1, 5))
        return staged

    monkeypatch.setattr(Table, "stage", frozen_meanwhile)
    with pytest.raises(Conflict):
        load("2025-12-01", version=2)
    assert len(read_back(weekly)) == 2


def test_months_are_frozen_into_years(tmp_path):
    """Frozen units are units of a larger one still, without Spark; a later checkpoint keeps what was frozen."""
    weeks = ["2024-12-30", "2025-03-03", "2025-03-10", "2025-06-30"]
    table = hand_written(tmp_path / "weekly", weeks=weeks, files=1)
    freeze_units(table.target(a_run()), before=date(2026, 2, 1))
    found = {dict(key)["week"] for key in table.ledger.state().statistics()}
    assert found == {"2024-12-02..2025-01-05", "2025-03-03..2025-04-06", "2025-06-02..2025-07-06"}
    freeze_units(table.target(a_run()), before=date(2026, 2, 1), larger="year")
    DeltaTable(str(table.location)).create_checkpoint()
    found = {dict(key)["week"]: stats.files for key, stats in table.ledger.state().statistics().items()}
    assert found == {"2024-01-01..2025-01-05": 1, "2025-01-06..2026-01-04": 3}


class _State:
    """The units that a table holds."""

    def __init__(self, names):
        self.names = names

    def statistics(self):
        return {(("week", name),): None for name in self.names}


@given(
    days=st.sets(st.dates(date(2019, 12, 1), date(2026, 6, 1)), min_size=1, max_size=30),
    befores=st.lists(st.dates(date(2020, 1, 1), date(2026, 12, 31)), min_size=1, max_size=3),
    intos=st.lists(st.sampled_from(["month", "year"]), min_size=3, max_size=3),
)
def test_freezing_covers_each_day_once_whatever_comes_first(days, befores, intos):
    """Every day keeps one unit that holds it, no open one lies in a frozen one, and none past the bound is frozen."""
    names = {first_day(day, "week").isoformat() for day in days}
    for before, into in zip(befores, intos, strict=False):
        try:
            moved = frozen_names(_State(names), "week", before, "week", into)
        except ConfigError:
            break
        names = {moved.get(name, name) for name in names}
        spans = sorted(map(DayRange.parse, names))
        ends = [span.last or span.first + timedelta(days=6) for span in spans]
        assert all(end < after.first for end, after in zip(ends, spans[1:], strict=False))
        assert all(sum(s.first <= day <= e for s, e in zip(spans, ends, strict=True)) == 1 for day in days)
        assert all(DayRange.parse(new).last < before for new in moved.values())


# --- quota ------------------------------------------------------------------------------------------------------------


def test_too_many_units_are_told_before_a_catalogue_refuses_them(spark, weekly):
    """Above a share of the limit the load is published with a warning that counts the units; below it there is none."""
    quota = replace(UNITS_LEAVE_ROOM, warn_above=0.5 * 4)
    for number, passed in enumerate([True, True, False]):
        day = (MONDAY + timedelta(days=7 * number)).isoformat()
        rows = spark.sql(f"SELECT id, DATE '{day}' AS day FROM range(1)")
        result = load_unit(rows, weekly.target(a_run(), audits=[quota]), days={day: 1}, by="day")
        (finding,) = [finding for finding in result.findings if finding.name == "units_leave_room"]
        assert (finding.passed, finding.figures["units"]) == (passed, number + 1)
    assert (finding.severity, UNITS_LEAVE_ROOM.warn_above) == ("warn", 3200)


@known_calls
def calls_that_work(known):
    units = known.table("gold/units", "id INT, day STRING, week STRING", by=("week",))
    return {
        "freeze_units": {"into": units.target(known.run), "before": date(2026, 3, 2)},
        "plan_units": {"present": {"2026-01-05": 1}, "ledger": units.ledger, "asked": ["2026-01-05"]},
    }


def loading(world, first):
    """A table of weeks that holds a day, and how to load further days into it."""
    columns = "id INT, day STRING"
    table = world.table("weekly", f"{columns}, week STRING", by=["week"])

    def write(w, day):
        load_unit(w.frame(columns, (1, day)), w.into("weekly", day), days={day: 1}, by="day")

    write(world, first)
    assert table.ledger.exists()
    return write


@two_runs()
def units_at_once(world):
    write = loading(world, "2026-01-05")
    yield lambda w: write(w, "2026-01-06")
    yield lambda w: write(w, "2026-01-07")


@two_runs()
def frozen_at_once(world):
    write = loading(world, "2025-12-01")
    yield lambda w: write(w, "2025-12-09")
    yield lambda w: freeze_units(w.into("weekly", "freeze"), before=date(2026, 2, 1))
