"""Retention Policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from functools import partial

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.cost.storage_tiering import Tier, move_to_tiers
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.log.base_changes import behind
from dedp_assets.patterns.delta.maintenance import hold_partition
from dedp_assets.patterns.governance.retention_policy import POLICY, Retention, apply_retention, plan_retention
from dedp_assets.patterns.ingestion.compactor import vacuum
from dedp_assets.patterns.observability._lags.lag_of_tables import sample_table
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, field_of, read_back, write_protocol
from tests.two_runs import two_runs

CLASSES = {"login": "personal", "note": "free text", "postcode": "quasi", "page": "public", "other": ""}
TODAY = NOW.date()


def no_spark():
    raise AssertionError("Spark was started")


def day(age):
    return TODAY - timedelta(days=age)


def name(age):
    return f"day={day(age)}"


def spec(*columns, by=("day",), table="silver/logins", **more):
    held = {column: Column("STRING", classification=CLASSES[column]) for column in columns}
    return TableSpec(table, {"day": Column("DATE"), **held}, by, **more)


def stored(folder, ages, *columns, table="silver/logins", **more):
    """A table with a row on days of these ages (``None``: without a day), written by delta-rs in one commit."""
    place, columns = folder / table, columns or ("login",)
    rows = {column: [f"{column} {age}" for age in ages] for column in columns}
    days = pa.array([None if age is None else day(age) for age in ages], pa.date32())
    write_deltalake(str(place), pa.table({"day": days, **rows}), partition_by=["day"])
    return Table(spec(*columns, table=table, **more), place, no_spark)


def plan_of(table, **more):
    return plan_retention(table, **{"now": NOW, **more})


def apply(plan, table):
    return apply_retention(plan, table.target(a_run(table.name)))


def ages_in(table):
    """The ages of the days that an independent reader finds rows of."""
    return sorted((TODAY - row["day"]).days for row in read_back(table) if row["day"])


def hold(table, age, *, release=False):
    return hold_partition(table, {"day": day(age)}, a_run(), by="legal", because="case 17", release=release)


def test_a_day_goes_once_its_last_row_is_old_enough(tmp_path):
    """At 29 and 30 days a day stays, as its last row is not 30 days old yet; the 31st day goes, at any hour."""
    table = stored(tmp_path, [0, 29, 30, 31, 400, -3])
    first, last = (
        datetime.combine(TODAY, moment, timezone.utc) for moment in (datetime.min.time(), datetime.max.time())
    )
    for now in (first, NOW, last, NOW.astimezone(timezone(timedelta(hours=14)))):
        assert plan_of(table, now=now).partitions == (name(400), name(31))
    assert plan_of(table, now=last + timedelta(microseconds=1)).partitions == (name(400), name(31), name(30))
    assert apply(plan_of(table), table).figures["partitions_expired"] == 2
    assert ages_in(table) == [-3, 0, 29, 30]


@pytest.mark.parametrize(
    ("columns", "days", "named"),
    [
        (("login", "postcode"), 30, "personal (login)"),
        (("note", "page"), 30, "free text (note)"),
        (("postcode", "page"), 365, "quasi (postcode)"),
        (("page", "other"), None, "no column of silver/logins is of a class with a retention"),
    ],
)
def test_the_shortest_retention_of_the_classes_decides(tmp_path, columns, days, named):
    """Personal, free text, quasi, public: the strictest rule is named, and public rows stay for ever."""
    table = stored(tmp_path, [10, 40, 366, 5000], *columns)
    plan = plan_of(table)
    assert {*plan.partitions} == {name(age) for age in (40, 366, 5000) if days and age > days}
    assert named in plan.reason
    assert {*plan.causes.values()} == ({f"older than {days} days, the retention of {named}"} if days else set())


def test_a_project_states_its_own_policy(tmp_path):
    """Also for columns that nobody classified."""
    table = stored(tmp_path, [1, 2, 3], "other", "page")
    assert plan_of(table, policy=[Retention("public", 2), Retention("", 1)]).partitions == (name(3), name(2))
    assert plan_of(table, policy=[]).partitions == ()


def test_what_the_plan_says_is_what_the_run_does(tmp_path):
    """The partitions of the plan go and no other, in one commit without Spark; again, nothing happens."""
    table = stored(tmp_path, [1, 40, 50, None])
    before = table.ledger.version()
    plan = plan_of(table)
    done = apply(plan, table)
    gone = {row["day"] for row in read_back(table, before)} - {row["day"] for row in read_back(table)}
    assert {f"day={each}" for each in gone} == {*plan.partitions} == {name(40), name(50)}
    assert (done.applied, done.changed, done.version) == (True, True, before + 1)
    assert done.figures["bytes_expired"] > 0
    again = apply(plan, table)
    assert (again.applied, again.version) == (False, before + 1)
    assert plan_of(table).partitions == ()
    assert apply(plan_of(table), table).applied is False


def test_the_commit_says_who_removed_which_partitions_by_which_rule(tmp_path):
    """An audit record of run, rule, days, class, partitions and bytes, which names no value of a row."""
    table = stored(tmp_path, [1, 40])
    apply(plan_of(table), table)
    commit = table.ledger.commit(table.ledger.version())
    record = commit.maintenance
    assert (commit.operation, commit.record, commit.expires) == ("EXPIRE PARTITIONS", None, True)
    assert (record.run_id, record.pattern) == ("run-1", "governance.retention_policy")
    assert record.notes["expired"] == "older than 30 days, the retention of personal (login)"
    assert record.figures["partitions"] == [name(40)]
    assert "login 40" not in str(DeltaTable(str(table.location)).history(1))


def test_an_expiry_is_no_change_for_whoever_follows_the_table(tmp_path):
    """No late data, no lag, no base that changed; a write of the same day afterwards is all three."""
    table = stored(tmp_path, [1, 40])
    ledger, before = table.ledger, table.ledger.version()
    version = apply(plan_of(table), table).version
    sampled = partial(sample_table, ledger, consumer="gold/x", applied=before, seen_at=NOW)
    assert (ledger.changes(since=before)[1], behind(ledger, before), sampled().unread) == ({}, (0, None), 0)
    write_deltalake(str(table.location), pa.table({"day": [day(40)], "login": ["late"]}), mode="append")
    assert ledger.changes(since=before)[1] == {(("day", f"{day(40)}"),): version + 1}
    assert (behind(ledger, before)[0], sampled().unread) == (1, 1)


def test_rows_are_on_disk_until_the_vacuum(tmp_path):
    """An earlier version is readable until then; afterwards no file holds the value."""
    table = stored(tmp_path, [1, 40])
    before = table.ledger.version()
    apply(plan_of(table), table)
    assert {row["login"] for row in read_back(table, before)} == {"login 1", "login 40"}
    later = datetime(2100, 1, 1, tzinfo=timezone.utc)
    assert vacuum(table.target(a_run()), retention_hours=720, now=later).figures["files_removed"] == 1
    assert not any(b"login 40" in file.read_bytes() for file in table.location.rglob("*.parquet"))


def test_a_legal_hold_wins_over_age_and_is_reported(tmp_path):
    """Who holds and why stands in the plan; a plan from before the hold is refused whole."""
    table = stored(tmp_path, [40, 50])
    early = plan_of(table)
    hold(table, 40)
    plan = plan_of(table)
    assert (plan.partitions, plan.held) == ((name(50),), {name(40): f"on legal hold: {name(40)} (legal: case 17)"})
    assert plan.reason.endswith("; 1 are held")
    with pytest.raises(Conflict, match=f"silver/logins is on legal hold: {name(40)} .* since the plan .*: plan again"):
        apply(early, table)
    assert ages_in(table) == [40, 50]
    apply(plan, table)
    assert ages_in(table) == [40]
    hold(table, 40, release=True)
    apply(plan_of(table), table)
    assert ages_in(table) == []


def test_a_hold_of_one_part_of_a_day_keeps_the_part_beside_one_without_a_value(tmp_path):
    """A partition with NULL goes alone: it is not taken for all partitions of its day."""
    place = tmp_path / "silver/logins"
    rows = pa.table({"day": [day(40)] * 2, "country": ["DE", None], "login": ["held", "gone"]})
    write_deltalake(str(place), rows, partition_by=["day", "country"])
    columns = {"country": Column("STRING", classification="public"), **spec("login").columns}
    table = Table(TableSpec("silver/logins", columns, ("day", "country")), place, no_spark)
    hold_partition(table, {"day": day(40), "country": "DE"}, a_run(), by="legal", because="x", release=False)
    apply(plan_of(table), table)
    assert [row["login"] for row in read_back(table)] == ["held"]


def test_what_a_reader_may_compute_again_stays(tmp_path):
    """The reader and its window are named; the last day of the window is in it."""
    table = stored(tmp_path, [31, 45, 46])
    plan = plan_of(table, readers={"gold/sessions": 45, "gold/today": 0})
    assert plan.partitions == (name(46),)
    assert plan.held == {name(age): "gold/sessions may compute the last 45 days again" for age in (31, 45)}
    apply(plan, table)
    assert ages_in(table) == [31, 45]


def test_a_hold_and_a_reader_are_both_named(tmp_path):
    """So that nobody expects the partition to go when one of the two ends."""
    table = stored(tmp_path, [40])
    hold(table, 40)
    (why,) = plan_of(table, readers={"gold/a": 60}).held.values()
    assert why == f"on legal hold: {name(40)} (legal: case 17); gold/a may compute the last 60 days again"


def test_a_partition_that_was_written_since_the_plan_keeps_all_partitions(tmp_path):
    """Late rows are younger than the plan: nothing is removed before somebody plans again."""
    table = stored(tmp_path, [40, 50])
    plan = plan_of(table)
    late = pa.table({"day": [day(50)], "login": ["late"]})
    write_deltalake(str(table.location), late, mode="append")
    with pytest.raises(Conflict, match=f"{name(50)} was written at version 1, after the plan of version 0: plan again"):
        apply(plan, table)
    assert ages_in(table) == [40, 50, 50]
    apply(plan_of(table), table)
    assert ages_in(table) == []


def test_other_commits_since_the_plan_change_nothing_about_it(tmp_path):
    """A new day, and another plan's removal."""
    table = stored(tmp_path, [40, 50])
    plan = plan_of(table)
    write_deltalake(str(table.location), pa.table({"day": [day(0)], "login": ["new"]}), mode="append")
    apply(plan_of(table, readers={"gold/a": 45}), table)
    assert ages_in(table) == [0, 40]
    assert apply(plan, table).figures["partitions_expired"] == 1
    assert ages_in(table) == [0]


def test_rows_without_a_day_and_rows_on_a_tier_stay_and_are_named(tmp_path):
    """What the policy cannot remove is no silent gap."""
    table = stored(tmp_path, [1, 40, None])
    (tmp_path / "cold").mkdir()
    tiers = [Tier("hot", 0, 1.0), Tier("cold", 35, 0.5, at=str(tmp_path / "cold"))]
    move_to_tiers(table.target(a_run()), tiers=tiers, by="day", now=NOW)
    plan = plan_of(table)
    assert plan.partitions == ()
    assert plan.held == {
        "day=NULL": "day is NULL, so that it has no age",
        name(40): "on tier cold: bring_back first (cost.storage_tiering)",
    }


def test_hours_go_by_their_time_and_another_column_may_tell_the_age(tmp_path):
    """A TIMESTAMP is compared as an instant; the column is found in any case."""
    place = tmp_path / "silver/hours"
    hours = [NOW - timedelta(days=30, hours=shift) for shift in (-1, 0, 1)]
    rows = pa.table(
        {"landed_on": [day(0)] * 3, "hour": pa.array(hours, pa.timestamp("us", "UTC")), "login": list("abc")}
    )
    write_deltalake(str(place), rows, partition_by=["landed_on", "hour"])
    columns = {"landed_on": Column("DATE"), "hour": Column("TIMESTAMP"), **spec("login").columns}
    del columns["day"]
    table = Table(TableSpec("silver/hours", columns, ("landed_on", "hour")), place, no_spark)
    assert plan_of(table).partitions == ()
    assert apply(plan_of(table, by="HOUR"), table).figures["partitions_expired"] == 1
    assert {row["login"] for row in read_back(table)} == {"a", "b"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"policy": [Retention("quasi", 1), Retention("quasi", 2)]}, "policy.*quasi.*twice|quasi"),
        ({"readers": {"gold/a": -1}}, "windows of 0 days or more, not {'gold/a': -1}"),
        ({"by": "login"}, "by must be a partition column of silver/logins of type DATE or TIMESTAMP, not login"),
        ({"by": "nothing"}, "not nothing: it has personal columns \\(login\\), which stay 30 days"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(tmp_path, more, said):
    """In a sentence that names the option."""
    with pytest.raises(ConfigError, match=said):
        plan_of(stored(tmp_path, [40]), **more)


def test_a_bound_table_without_days_is_refused_by_its_columns(tmp_path):
    """It could be kept for ever without anybody noticing."""
    place = tmp_path / "silver/logins"
    write_deltalake(str(place), pa.table({"day": [day(40)], "login": ["a"]}))
    with pytest.raises(ConfigError, match="not nothing: it has personal columns"):
        plan_of(Table(spec("login", by=()), place, no_spark))


@pytest.mark.parametrize("days", [0, -1, 10**9])
def test_a_retention_of_less_than_a_day_is_refused(days):
    """And one that no time can be subtracted by."""
    with pytest.raises(ConfigError, match=f"days of personal must be between 1 and 400000, not {days}"):
        Retention("personal", days)


def test_a_plan_of_another_table_or_kind_is_refused(tmp_path):
    """The partitions have the same names there."""
    table, other = (stored(tmp_path, [40], table=f"silver/{each}") for each in ("a", "b"))
    for plan in (
        plan_of(other),
        replace(plan_of(table), cursor={}),
        replace(plan_of(table), cursor={name(40): "silver/a@7"}),
    ):
        with pytest.raises(ConfigError, match="plan must be one of plan_retention for silver/a as it is there, not: "):
            apply(plan, table)
    assert ages_in(table) == [40]


def test_a_table_that_only_takes_appends_keeps_its_rows(tmp_path):
    """The refusal says so."""
    fields = [field_of("day", "date"), field_of("login", "string")]
    old = {"path": "a", "size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {"day": f"{day(40)}"}}
    write_protocol(
        tmp_path / "t", fields, partition_by=["day"], more=[{"add": old}], configuration={"delta.appendOnly": "true"}
    )
    table = Table(spec("login", table="silver/t"), tmp_path / "t", no_spark)
    with pytest.raises(ConfigError, match="append-only"):
        apply(plan_of(table), table)


@given(
    ages=st.sets(st.integers(-2, 70), max_size=8),
    held=st.sets(st.integers(-2, 70), max_size=3),
    days=st.integers(1, 60),
    windows=st.lists(st.integers(0, 60), max_size=2),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_plan_and_run_equal_a_plain_model(tmp_path_factory, ages, held, days, windows):
    """Old, not held, in no window: these go, oldest first; every other day stays, and is held if it is old."""
    table = stored(tmp_path_factory.mktemp("model"), sorted({*ages, 0}))
    for age in held & ages:
        hold(table, age)
    plan = plan_of(table, policy=[Retention("personal", days)], readers={f"r{n}": w for n, w in enumerate(windows)})
    old = {age for age in ages if age > days}
    stay = {age for age in old if age in held or any(age <= window for window in windows)}
    assert plan.partitions == tuple(name(age) for age in sorted(old - stay, reverse=True))
    assert {*plan.held} == {name(age) for age in stay}
    apply(plan, table)
    assert ages_in(table) == sorted({*ages, 0} - (old - stay))


def test_the_default_policy_has_a_rule_for_each_class_that_leads_to_a_person():
    """Public rows, and rows that nobody classified, stay."""
    assert {rule.of: rule.days for rule in POLICY} == {
        "personal": 30, "sensitive": 30, "free text": 30, "secret": 30, "quasi": 365,
    }  # fmt: skip


@pytest.mark.spark
def test_a_table_that_only_spark_changes_expires_by_deltas_own_statement(spark, tmp_path):
    """Its commit has the same note, so that nothing downstream follows it either."""
    place = tmp_path / "silver/mapped"
    spark.sql(
        f"CREATE TABLE delta.`{place}` (day DATE, login STRING) USING delta PARTITIONED BY (day) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    for age in (1, 40):
        spark.sql(f"INSERT INTO delta.`{place}` VALUES (DATE'{day(age)}', 'x')")
    table = Table(spec("login", table="silver/mapped", adopted=True), place, spark)
    assert apply(plan_of(table), table).figures["partitions_expired"] == 1
    assert [row["day"] for row in table.read().collect()] == [day(1)]
    commit = table.ledger.commit(table.ledger.version())
    assert commit.expires
    assert table.ledger.changes(since=commit.version - 1)[1] == {}


@known_calls
def calls_that_work(known):
    days = known.table("silver/retained", {"day": Column("DATE"), "login": Column("STRING", classification="personal")},
                       (date(2026, 1, 5), "ada"), by=("day",))  # fmt: skip
    plan = plan_retention(days, now=NOW + timedelta(days=90))
    return {"apply_retention": {"plan": plan, "into": days.target(known.run)}}


@two_runs()
def retained_at_once(world):
    personal = {"login": Column("STRING", classification="personal")}
    world.table("logins", "id INT, day DATE", more=personal, by=["day"])
    for age in (0, 40):
        rows = world.frame("id INT, day DATE, login STRING", (age, day(age), "x"))
        world["logins"].overwrite(rows, partition={"day": day(age)}, provenance=world.run(f"base-{age}"))
    rows = (7, day(0), "y")
    yield lambda w: apply_retention(plan_retention(w["logins"], now=NOW), w.into("logins", "retention"))
    yield lambda w: w["logins"].overwrite(
        w.frame("id INT, day DATE, login STRING", rows), partition={"day": day(0)}, provenance=w.run("2")
    )
