"""Vacuum and Optimize Policies: classes at their boundaries, hours, limits, order, gain, and what the past may lose."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.delta import Ledger, Table
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.ingestion.compactor import compact, plan_compaction
from dedp_assets.patterns.storage.vacuum_optimize_policies import (
    POLICIES,
    MaintenancePolicy,
    Workload,
    judge_retention,
    plan_maintenance,
    workload_of,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import a_record, a_run, write_log

NOW = datetime(2026, 1, 6, 2, tzinfo=timezone.utc)
HOUR, DAY, MIB = timedelta(hours=1), timedelta(days=1), 1024 * 1024
PEAK = QuietHours(zone="UTC", start="08:00", end="18:00")
DUE = Workload(table="silver/clicks", average_bytes=MIB, written_at=NOW - DAY, gain="40 small files")


def hot(table="silver/clicks", **stated):
    return replace(DUE, table=table, writes_per_hour=120, **stated)


def due(*tables, now=NOW, **options):
    return plan_maintenance(tables, now=now, **options).partitions


# --- classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("writes", "average", "days", "kind"),
    [
        (10.1, 32 * MIB, 0, "streaming_hot"),
        (10, 32 * MIB, 0, "batch_regular"),
        (10.1, 64 * MIB - 1, 0, "streaming_hot"),
        (10.1, 64 * MIB, 0, "batch_regular"),
        (10.1, None, 0, "batch_regular"),
        (1, 32 * MIB, 31, "batch_regular"),
        (0.99, 32 * MIB, 31, "historical_archive"),
        (0, 128 * MIB, 30, "batch_regular"),
        (0, 128 * MIB, 30.01, "historical_archive"),
        (0.04, MIB, 1, "batch_regular"),
    ],
)
def test_a_table_has_the_class_of_its_writes_files_and_age(writes, average, days, kind):
    """Just inside and just outside of 10 and 1 writes an hour, 64 MiB, and 30 days."""
    written = NOW - timedelta(days=days)
    table = Workload(table="t", writes_per_hour=writes, average_bytes=average, written_at=written)
    assert table.table_class(NOW) == kind


def test_a_table_without_a_write_in_the_log_is_an_archive_and_an_empty_one_is_not():
    """A log that was cleaned up no longer tells when the files came."""
    assert Workload(table="t", average_bytes=1).table_class(NOW) == "historical_archive"
    assert Workload(table="t").table_class(NOW) == "batch_regular"


def test_each_class_has_its_intervals_and_retention():
    """As documented, in hours."""
    stated = {kind: (each.optimize_hours, each.vacuum_hours, each.retention_hours) for kind, each in POLICIES.items()}
    assert stated == {
        "streaming_hot": (6, 168, 168),
        "batch_regular": (24, 24, 720),
        "historical_archive": (720, 2160, 2160),
    }


def test_a_table_that_is_written_no_longer_gets_the_policy_of_archives_at_the_next_look():
    """The same workload, looked at a month later: another class, and other intervals."""
    table = replace(DUE, optimized_at=NOW - 2 * DAY, vacuumed_at=NOW - HOUR)
    assert due(table) == ("optimize silver/clicks",)
    month = NOW + 30 * DAY
    plan = plan_maintenance([replace(table, optimized_at=month - DAY)], now=month)
    assert plan.partitions == ()
    assert plan.held["optimize silver/clicks"].startswith("historical_archive: not due until ")


# --- what is due, and worthwhile --------------------------------------------------------------------------------------


def test_a_job_is_due_once_its_interval_has_begun_anew_and_not_before():
    """Every six hours since midnight, whatever minute the last job ended at."""
    six = NOW.replace(hour=6)
    table = hot(optimized_at=NOW, vacuumed_at=NOW)
    assert due(table, now=six - timedelta(seconds=1)) == ()
    assert due(table, now=six) == ("optimize silver/clicks",)
    assert due(replace(table, optimized_at=six - timedelta(seconds=1)), now=six) == ("optimize silver/clicks",)


def test_a_regular_table_is_due_after_a_write_and_a_hot_one_is_not():
    """Batch tables are optimized each day and after writes."""
    regular = replace(DUE, optimized_at=NOW - HOUR, vacuumed_at=NOW, written_at=NOW)
    assert due(regular) == ("optimize silver/clicks",)
    assert due(replace(regular, written_at=NOW - 2 * HOUR)) == ()
    assert due(hot(optimized_at=NOW - HOUR, vacuumed_at=NOW, written_at=NOW)) == ()


def test_a_table_that_needs_nothing_gets_no_version(tmp_path):
    """Nine small files are no gain: nothing is planned, and the job, if it ran all the same, would commit nothing."""
    record = a_record("gold/sales", {})
    write_log(tmp_path / "gold/sales", {"id": "integer"}, [], [{"changed": [{}], "record": record}] * 9)
    ledger = Ledger(tmp_path / "gold/sales", name="gold/sales")
    now = ledger.commit(9).timestamp + HOUR
    found = workload_of(ledger, [plan_compaction(ledger)], now=now)
    assert (found.gain, found.average_bytes, round(found.writes_per_hour, 3)) == ("", 100, round(9 / 24, 3))
    plan = plan_maintenance([found], now=now)
    assert plan.held["optimize gold/sales"] == "batch_regular: nothing to gain"
    assert plan.partitions == ("vacuum gold/sales",)
    table = Table.at(tmp_path / "gold/sales", lambda: pytest.fail("Spark was started"), name="gold/sales")
    assert not compact(table.target(a_run())).applied
    assert ledger.version() == 9
    write_log(tmp_path / "gold/sales", {"id": "integer"}, [], [{"changed": [{}], "record": record}])
    more = workload_of(ledger, [plan_compaction(ledger)], now=now)
    assert more.gain == "1 partitions have 10 or more files below 134217728 bytes"


def test_a_vacuum_has_nothing_to_gain_after_everything_replaced_went():
    """No write since a retention before the last vacuum: nothing was replaced that it left."""
    archive = replace(DUE, written_at=NOW - 400 * DAY, vacuumed_at=NOW - 100 * DAY, gain="")
    plan = plan_maintenance([archive], now=NOW)
    assert plan.partitions == ()
    assert plan.held["vacuum silver/clicks"].startswith("historical_archive: nothing to gain: no write since")
    assert due(replace(archive, vacuumed_at=NOW - 330 * DAY)) == ("vacuum silver/clicks",)


# --- hours and load ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hour", "starts"), [(7.99, True), (8, False), (12, False), (17.99, False), (18, True)], ids=str
)
def test_what_is_due_at_noon_is_put_off_until_the_evening(hour, starts):
    """Six-hourly optimization falls on noon; from 8 to 18 nothing starts, and at 18 the job is due still."""
    now = NOW.replace(hour=0) + hour * HOUR
    plan = plan_maintenance([hot(optimized_at=now - 6 * HOUR, vacuumed_at=now)], now=now, avoid=[PEAK])
    assert bool(plan.partitions) == starts
    if not starts:
        assert plan.held["optimize silver/clicks"] == "streaming_hot: put off until 2026-01-06T18:00:00+00:00"


@pytest.mark.parametrize(
    ("window", "now", "until"),
    [
        (("Europe/Berlin", "22:00", "06:00"), "2026-01-06T23:30+01:00", "2026-01-07T06:00:00+01:00"),
        (("Europe/Berlin", "22:00", "06:00"), "2026-01-06T05:59+01:00", "2026-01-06T06:00:00+01:00"),
        (("Europe/Berlin", "22:00", "06:00"), "2026-01-06T06:00+01:00", ""),
        # The clock is put forward in the night to March 29: the window is an hour shorter, and ends at 4 UTC.
        (("Europe/Berlin", "22:00", "06:00"), "2026-03-29T00:30+01:00", "2026-03-29T05:00:00+01:00"),
        # It is put back in the night to October 25: what ends at 02:30 ends at the second 02:30.
        (("Europe/Berlin", "22:00", "02:30"), "2026-10-25T00:10+00:00", "2026-10-25T01:30:00+00:00"),
    ],
)
def test_hours_over_midnight_and_over_a_change_of_the_clock(window, now, until):
    """In the zone of the window."""
    zone, start, end = window
    plan = plan_maintenance([DUE], now=datetime.fromisoformat(now), avoid=[QuietHours(zone=zone, start=start, end=end)])
    assert plan.partitions == () if until else plan.partitions
    assert plan.reason.endswith(f"; put off until {until}") if until else "put off" not in plan.reason


def test_windows_one_after_another_are_one():
    """A lunch that begins as the morning ends."""
    morning, lunch = (QuietHours(zone="UTC", start=a, end=b) for a, b in (("08:00", "12:00"), ("12:00", "13:00")))
    plan = plan_maintenance([DUE], now=NOW.replace(hour=9), avoid=[lunch, morning])
    assert plan.reason.endswith("put off until 2026-01-06T13:00:00+00:00")


@pytest.mark.parametrize(
    ("load", "why"),
    [
        ({"cpu": 0.71}, "71% of cpu are in use, more than 70%"),
        ({"cpu": 0.1, "memory": 0.81}, "81% of memory are in use, more than 80%"),
        ({"cpu": 0.7, "memory": 0.8}, ""),
    ],
)
def test_nothing_starts_on_a_machine_that_is_busy(load, why):
    """Above 70 % of the processors or 80 % of the memory, which are arguments."""
    plan = plan_maintenance([DUE], now=NOW, load=load)
    assert bool(plan.partitions) == (not why)
    assert set(plan.held.values()) == ({f"batch_regular: {why}"} if why else set())


# --- limits and order -------------------------------------------------------------------------------------------------


def test_of_ten_due_tables_three_are_optimized_and_two_vacuumed_at_once():
    """Those that run count; what is running is not planned again."""
    ten = [replace(DUE, table=f"silver/t{n}") for n in range(10)]
    plan = plan_maintenance(ten, now=NOW)
    assert plan.partitions == (
        "optimize silver/t0", "vacuum silver/t0", "optimize silver/t1", "vacuum silver/t1", "optimize silver/t2",
    )  # fmt: skip
    assert plan.held["optimize silver/t3"] == "batch_regular: 3 at once is the most"
    assert plan.held["vacuum silver/t2"] == "batch_regular: 2 at once is the most"
    running = ["optimize silver/t0", "optimize silver/t1", "vacuum silver/t0", "vacuum silver/t1"]
    assert due(*ten, running=running) == ("optimize silver/t2",)
    assert plan_maintenance(ten, now=NOW, running=running).held["optimize silver/t0"] == "batch_regular: it is running"


def test_gold_comes_before_silver_before_bronze_where_one_job_runs_at_once():
    """In whatever order the tables are given; hot tables first within a layer."""
    tables = [replace(DUE, table=name) for name in ("bronze/a", "other/a", "silver/a", "gold/b")]
    order = []
    while tables:
        (job,) = [key for key in due(*tables, most_optimize=1) if key.startswith("optimize")]
        order.append(job.partition(" ")[2])
        tables = [each for each in tables if each.table != order[-1]]
    assert order == ["gold/b", "silver/a", "bronze/a", "other/a"]
    assert due(replace(DUE, table="gold/a"), hot("gold/z"))[0] == "optimize gold/z"


@given(
    st.lists(
        st.builds(
            Workload,
            table=st.sampled_from([f"{layer}/{n}" for layer in ("gold", "silver", "bronze", "raw") for n in range(4)]),
            writes_per_hour=st.sampled_from([0, 2, 20]),
            average_bytes=st.sampled_from([None, 1, 100 * MIB]),
            written_at=st.sampled_from([None, NOW, NOW - 40 * DAY]),
            optimized_at=st.sampled_from([None, NOW, NOW - DAY, NOW - 50 * DAY]),
            gain=st.sampled_from(["", "many files"]),
        ),
        unique_by=lambda each: each.table,
    ),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_each_job_is_planned_or_held_with_a_reason_and_never_more_than_there_may_be(tables, optimize, vacuum):
    """A job is held for want of a slot only if all slots are taken by tables that are as important at least."""
    plan = plan_maintenance(tables, now=NOW, most_optimize=optimize, most_vacuum=vacuum)
    assert sorted((*plan.causes, *plan.held)) == sorted(
        f"{j} {t.table}" for j in ("optimize", "vacuum") for t in tables
    )
    rank = {layer: number for number, layer in enumerate(("gold", "silver", "bronze", "raw"))}
    for job, most in (("optimize", optimize), ("vacuum", vacuum)):
        chosen = [rank[key.split()[1].split("/")[0]] for key in plan.partitions if key.startswith(job)]
        late = [rank[k.split()[1].split("/")[0]] for k, why in plan.held.items() if k.startswith(job) and "most" in why]
        assert len(chosen) <= most
        assert chosen == sorted(chosen)
        if late:
            assert len(chosen) == most
            assert max(chosen) <= min(late)


# --- what the log tells -----------------------------------------------------------------------------------------------


def note(ledger, operation, at, *, record=None, files=()):
    """A commit at a time, by hand."""
    info = {"timestamp": int(at.timestamp() * 1000), "operation": operation}
    info |= {"userMetadata": record.to_json()} if record else {}
    adds = [
        {"add": {"path": f"{at.timestamp()}-{n}", "partitionValues": {}, "size": size, "modificationTime": 1,
                 "dataChange": True, "stats": json.dumps({"numRecords": 1})}}
        for n, size in enumerate(files)
    ]  # fmt: skip
    commits.write(ledger.store, ledger.version() + 1, [{"commitInfo": info}, *adds])


@pytest.fixture
def ledger(tmp_path):
    """A table without a write."""
    write_log(tmp_path / "silver/clicks", {"id": "integer"}, [], [])
    return Ledger(tmp_path / "silver/clicks", name="silver/clicks")


def test_the_log_tells_writes_sizes_and_the_last_maintenance(ledger):
    """Writes of the last day only; maintenance is none, whoever did it."""
    record = a_record("silver/clicks", {})
    for hours in (300, 26, 20, 10, 5):
        note(ledger, "WRITE", NOW - hours * HOUR, record=record, files=(100, 300))
    note(ledger, "VACUUM END", NOW - 4 * HOUR, record=record)
    note(ledger, "OPTIMIZE", NOW - 3 * HOUR, record=record, files=(400,))
    note(ledger, "VACUUM END", NOW - 2 * HOUR)
    note(ledger, "WRITE", NOW - HOUR, record=record, files=(800,))
    assert workload_of(ledger, now=NOW) == Workload(
        table="silver/clicks",
        writes_per_hour=4 / 24,
        average_bytes=(5 * 400 + 400 + 800) // 12,
        written_at=NOW - HOUR,
        optimized_at=NOW - 3 * HOUR,
        vacuumed_at=NOW - 2 * HOUR,
    )


def test_a_table_without_rows_and_a_table_that_is_not_there(ledger, tmp_path):
    """Nothing to divide by; and nothing to maintain."""
    found = workload_of(ledger, now=NOW)
    assert (found.average_bytes, found.writes_per_hour, found.written_at) == (None, 0, None)
    assert found.table_class(NOW) == "batch_regular"
    with pytest.raises(NotReady):
        workload_of(Ledger(tmp_path / "none"), now=NOW)


def test_files_of_other_writers_are_worth_a_look_until_the_next_optimization(ledger):
    """Their statistics may mislead readers; afterwards they were looked at."""
    note(ledger, "WRITE", NOW - 3 * HOUR, files=(1,))
    held, planned = Plan((), "tidy"), Plan(("day=1",), "1 partitions are out of order by id")
    assert workload_of(ledger, [held, planned], now=NOW).gain == (
        "1 partitions are out of order by id; 1 commits of other writers, whose statistics may mislead"
    )
    note(ledger, "OPTIMIZE", NOW - 2 * HOUR, record=a_record("silver/clicks", {}))
    assert workload_of(ledger, [held], now=NOW).gain == ""


def test_a_busy_log_is_read_for_a_day_and_an_old_one_to_the_last_write(ledger, monkeypatch):
    """Once the last maintenance is known, commits of more than a day ago are not parsed."""
    record, parsed = a_record("silver/clicks", {}), []
    for hours in range(200, 40, -1):
        note(ledger, "WRITE", NOW - hours * HOUR, record=record, files=(1,))
    note(ledger, "OPTIMIZE", NOW - 3 * HOUR, record=record)
    note(ledger, "VACUUM END", NOW - 2 * HOUR, record=record)
    real = ledger.states.commit
    monkeypatch.setattr(ledger.states, "commit", lambda version, *rest: parsed.append(version) or real(version, *rest))
    assert workload_of(ledger, now=NOW).written_at == NOW - 41 * HOUR
    assert parsed == [162, 161, 160, 159]


# --- retention --------------------------------------------------------------------------------------------------------


def with_properties(tmp_path, **properties):
    stated = {name.replace("_", "."): value for name, value in properties.items()}
    write_log(tmp_path / "t", {"id": "integer"}, [], [])
    ledger = Ledger(tmp_path / "t", name="gold/t")
    meta = dict(ledger.actions("metaData")[-1]) | {"configuration": stated}
    commits.write(
        ledger.store, 1, [{"commitInfo": {"timestamp": 1, "operation": "SET TBLPROPERTIES"}}, {"metaData": meta}]
    )
    return ledger


FILES, LOG = "delta_deletedFileRetentionDuration", "delta_logRetentionDuration"


@pytest.mark.parametrize(
    ("stated", "promised", "note"),
    [
        ({}, 0, ""),
        ({FILES: "interval 30 days"}, 0, ""),
        (
            {FILES: "interval 29 days"},
            0,
            "gold/t: its property lets replaced files go after 696 h, the policy after 720",
        ),
        ({FILES: "interval 2 days"}, 0, "48 h are below the 168 h that readers and writers at work need"),
        ({LOG: "interval 365 days"}, 720, ""),
        ({LOG: "interval 365 days"}, 721, "gold/t: time travel of 721 h was promised, and files go after 720 h"),
        ({FILES: "interval 365 days"}, 721, "gold/t: time travel of 721 h was promised, and the log goes after 720 h"),
        ({FILES: "interval 365 days", LOG: "interval 365 days"}, 8760, ""),
    ],
)
def test_the_past_ends_with_the_files_or_with_the_log(tmp_path, stated, promised, note):
    """A log that is kept for a year promises nothing if the files go after a month."""
    policy = POLICIES["batch_regular"]
    found = judge_retention(with_properties(tmp_path, **stated), policy=policy, promised_hours=promised)
    assert (found.passed, found.severity) == (not note, "warn")
    assert note in found.note


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"retention_hours": 167}, "retention_hours must be at least 168, not 167"),
        ({"optimize_hours": 0}, "optimize_hours must be at least 1, not 0"),
        ({"vacuum_hours": -1}, "vacuum_hours must be at least 1, not -1"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(stated, sentence):
    """A week is the least retention that readers and writers at work survive."""
    with pytest.raises(ConfigError, match=sentence):
        replace(POLICIES["streaming_hot"], **stated)
    assert replace(POLICIES["streaming_hot"], retention_hours=168).retention_hours == 168


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"most_optimize": 0}, "most_optimize must be at least 1, not 0"),
        ({"most_vacuum": 0}, "most_vacuum must be at least 1, not 0"),
        ({"load": {"cpu": 1.2}}, "load must lie between 0 and 1, not 1.2 of cpu"),
        ({"load": {"memory": -0.1}}, "load must lie between 0 and 1, not -0.1 of memory"),
        ({"load": {"disk": 0.1}}, "load must be"),
        ({"running": ["silver/clicks"]}, "running must name jobs like 'optimize gold/sales', not 'silver/clicks'"),
        ({"policies": {"cold": POLICIES["streaming_hot"]}}, "policies must be"),
        (
            {"avoid": [QuietHours(zone="UTC", start=a, end=b) for a, b in (("08:00", "18:00"), ("18:00", "08:00"))]},
            "avoid must leave hours for maintenance, not none until",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options, sentence):
    """By their name."""
    with pytest.raises(ConfigError, match=sentence):
        plan_maintenance([DUE], now=NOW, **options)


def test_two_tables_of_one_name_are_refused_and_no_table_is_a_plan():
    """Their jobs could not be told apart."""
    with pytest.raises(ConfigError, match="tables must have different names, not silver/clicks twice"):
        plan_maintenance([DUE, hot()], now=NOW)
    assert plan_maintenance([], now=NOW) == Plan((), "0 optimizations and 0 vacuums of 0 tables")


def test_a_policy_of_ones_own_decides():
    """Every hour, and archives as well."""
    hourly = MaintenancePolicy(optimize_hours=1, vacuum_hours=1, retention_hours=168)
    table = hot(optimized_at=NOW - HOUR, vacuumed_at=NOW - HOUR)
    policies = {"streaming_hot": hourly}
    assert due(table, policies=policies) == ("optimize silver/clicks", "vacuum silver/clicks")
    assert due(table) == ()


def test_a_time_in_another_zone_is_the_same_time():
    """The interval begins anew by UTC."""
    local = NOW.replace(hour=6).astimezone(ZoneInfo("Asia/Tokyo"))
    assert due(hot(optimized_at=NOW, vacuumed_at=NOW), now=local) == ("optimize silver/clicks",)


@known_calls
def calls_that_work(known):
    return {
        "plan_maintenance": {"tables": [DUE], "now": NOW, "avoid": [PEAK], "running": ["optimize gold/sales"]},
        "workload_of": {"ledger": known.daily.ledger, "plans": [Plan((), "tidy")], "now": NOW},
        "judge_retention": {"ledger": known.daily.ledger, "policy": POLICIES["batch_regular"], "promised_hours": 24},
    }
