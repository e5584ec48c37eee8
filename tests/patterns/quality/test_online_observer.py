"""Online Observer."""

from __future__ import annotations

import time
from dataclasses import replace
from inspect import isfunction

import pytest

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, ContractError, NotReady, PatternError
from dedp_assets.patterns.core.measuring.observing import Watch
from dedp_assets.patterns.core.measuring.profiles import Profile
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.quality._profiles import observed_write as _observed_write
from dedp_assets.patterns.quality.online_observer import (
    PROFILE,
    PROFILED_BY,
    observe_ahead,
    observe_online,
    reconcile_profile,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, job_group, jobs_of, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

PROFILES = TableSpec("quality/profiles", PROFILE, PROFILED_BY)
ADDRESSES = TableSpec("silver/addresses", {"id": Column("BIGINT"), "zip": Column("STRING")})


@pytest.fixture
def addresses(make_table):
    """A table of addresses, not made yet."""
    return make_table(ADDRESSES)


@pytest.fixture
def profiles(make_table):
    """A table of profiles, not made yet."""
    return make_table(PROFILES)


@pytest.fixture
def batch(spark):
    """``batch(10)``: as many addresses, of which the last has a letter in its postal code."""

    def rows(count, start=0):
        wrong = f"id = {start + count - 1}"
        return spark.range(start, start + count).selectExpr("id", f"if({wrong}, '1234X', string(10000 + id)) AS zip")

    return rows


def targets(addresses, profiles, **fields):
    """The targets of one run."""
    run = a_run("silver/addresses", **fields)
    return addresses.target(run), profiles.target(run)


def finding(result):
    """The verdict on the observation."""
    return next(each for each in result.findings if each.name == "rows_are_profiled")


def exact(profile):
    """What a profile says without an error."""
    states = profile.columns.values()
    return [(s.column, s.rows, s.nulls, s.minimum, s.maximum, s.shortest, s.sampled, s.shape_counts()) for s in states]


@pytest.mark.both
def test_the_run_that_wrote_the_rows_stores_their_profile_and_sees_a_wrong_format(addresses, profiles, batch):
    """Under the version of the commit; the figures equal those of a pass over the stored rows; time is recorded."""
    started = time.monotonic()
    result = observe_online(batch(10), *targets(addresses, profiles))
    took = time.monotonic() - started
    record = addresses.ledger.commit(result.version).record
    assert record.notes["profile"]["zip"]["shapes"] == {"digits 5": 9, "letters and digits 5": 1}
    stored = read_back(profiles)
    assert {(row["run_id"], row["table_version"], row["status"]) for row in stored} == {
        (record.run_id, result.version, "final")
    }
    assert 0 < result.figures["observer_seconds"] < took
    assert finding(result).passed
    observe_ahead(addresses.read(), profiles.target(a_run(run_id="recomputed")), addresses)
    recomputed = [row for row in read_back(profiles) if row["run_id"] == "recomputed"]
    assert exact(Profile.of_rows(stored)) == exact(Profile.of_rows(recomputed))


def test_the_rows_are_computed_once(spark, addresses, make_table, batch):
    """The write starts as many Spark jobs as the bare one."""
    other = make_table(TableSpec("silver/bare", ADDRESSES.columns))
    with job_group(spark):
        other.target(a_run("silver/bare")).stage(batch(50)).publish()
        bare = len(jobs_of(spark))
    with job_group(spark):
        observe_online(batch(50), addresses.target(a_run("silver/addresses")))
        assert len(jobs_of(spark)) == bare > 0


PROFILING = "dedp_assets.patterns.quality._profile"


def held(table):
    """The rows of a table that may not be made yet."""
    return read_back(table) if table.ledger.exists() else []


WORK = [name for name, each in vars(_observed_write).items() if isfunction(each) and PROFILING in each.__module__]
"""What the observer does by functions of the profiles, before, in and after the pass."""


@pytest.fixture(params=["in the pass", *WORK])
def fault(request, monkeypatch):
    """An observer that fails at one of its steps."""
    name = "profile_expressions" if request.param == "in the pass" else request.param
    real = getattr(_observed_write, name)

    def wrong(*args, **options):
        if request.param == "in the pass":
            return {**real(*args, **options), "wrong": "count(raise_error('the observer is wrong'))"}
        raise RuntimeError("the observer is wrong")

    monkeypatch.setattr(_observed_write, name, wrong)
    return request.param


def test_a_fault_of_the_observer_is_isolated(addresses, profiles, batch, fault):
    """Whatever it was at, before, in or after the pass: the rows are committed once, and the run warns."""
    result = observe_online(batch(10), *targets(addresses, profiles))
    assert (len(read_back(addresses)), result.rows.written, held(profiles)) == (10, 10, [])
    assert (finding(result).passed, finding(result).severity) == (False, "warn")
    assert "the observer is wrong" in finding(result).note
    assert "\n" not in finding(result).note


@pytest.mark.parametrize("fault", ["require_profiles", "in the pass", "write_profiles"], indirect=True)
def test_a_fault_fails_the_run_if_that_is_asked_for_and_a_rerun_writes_no_row_twice(
    addresses, profiles, batch, fault, monkeypatch
):
    """Nothing is committed before the pass is over; after the commit, the rerun stores the profile that is missing."""
    into = targets(addresses, profiles, inputs={"file": "1"}, sequence=1)
    with pytest.raises(Exception, match="the observer is wrong"):
        observe_online(batch(10), *into, on_fault="fail", append=True)
    assert len(held(addresses)) == (10 if fault == "write_profiles" else 0)
    monkeypatch.undo()
    again = observe_online(batch(10), *into, on_fault="fail", append=True)
    assert (len(read_back(addresses)), len(read_back(profiles))) == (10, 2)
    assert again.applied is (fault != "write_profiles")


BROKEN = {
    "other columns": replace(PROFILES, columns={"id": Column("BIGINT")}, partition_by=()),
    "other partitions": replace(PROFILES, partition_by=PROFILED_BY[:1]),
    "damaged": PROFILES,
}
"""Tables that no profile can be stored in."""


@pytest.mark.parametrize("broken", BROKEN)
def test_a_table_of_profiles_that_takes_none_does_not_stop_the_rows(addresses, make_table, batch, broken):
    """The rows are there with their profile in the commit record, and the run warns; asked to fail, it writes none."""
    table = make_table(replace(BROKEN[broken], name="quality/broken"))
    if broken == "damaged":
        table.store.put(f"_delta_log/{0:020}.json", b"no log")
    with pytest.raises(PatternError):
        observe_online(batch(10), *targets(addresses, table), on_fault="fail")
    result = observe_online(batch(10), *targets(addresses, table))
    assert (len(read_back(addresses)), finding(result).passed, result.beside) == (10, False, ())
    assert "zip" in addresses.ledger.commit(result.version).record.notes["profile"]


def test_figures_of_other_rows_than_the_published_ones_do_not_count(addresses, profiles, batch, monkeypatch):
    """As of a task that was counted twice: no profile is better than a wrong one."""
    observed = Watch.observed

    def twice(watch):
        found = observed(watch)
        return {**found, "__dedp_rows": 20} if "__dedp_profile_0_nulls" in found else found

    monkeypatch.setattr(Watch, "observed", twice)
    result = observe_online(batch(10), *targets(addresses, profiles))
    assert "20 rows were observed with all figures, 10 were written" in finding(result).note
    assert (read_back(profiles), "profile" in addresses.ledger.commit(1).record.notes) == ([], False)
    with pytest.raises(ContractError, match="20 rows were observed"):
        observe_online(batch(11), *targets(addresses, profiles, run_id="run-2"), on_fault="fail")
    assert len(read_back(addresses)) == 10


def test_refused_rows_and_no_rows_have_no_fault_of_the_observer(addresses, profiles, batch):
    """An audit refuses as ever, and an empty write has a profile of 0 rows."""
    bare = Audit.none_where("zip_is_a_number", "zip RLIKE 'X'")
    into, about = targets(addresses, profiles)
    with pytest.raises(AuditFailed, match="zip_is_a_number"):
        observe_online(batch(10), into.with_audits(bare), about)
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        observe_online(batch(0), into, about)
    assert finding(observe_online(batch(10).filter("false"), into, about, allow_empty=True)).passed
    assert {row["rows"] for row in read_back(profiles)} == {0}


def test_a_profile_beside_the_load_is_provisional_until_it_is_held_against_the_commit(addresses, profiles, batch):
    """It is final if as many rows were committed, and says so if not; a second look changes nothing."""
    for number, (observed, status) in enumerate([(10, "final"), (12, "differs")]):
        into, about = targets(addresses, profiles, run_id=f"run-{number}", inputs={"file": number})
        observe_ahead(batch(observed), about, addresses)
        mine = {"run_id": f"run-{number}"}
        assert {row["status"] for row in read_back(profiles) if mine.items() <= row.items()} == {"provisional"}
        with pytest.raises(NotReady, match="has not committed"):
            reconcile_profile(addresses, about)
        version = into.stage(batch(10, start=number)).publish().version
        found = reconcile_profile(addresses, about)
        assert (found.figures["observed"], found.figures["committed"]) == (observed, 10)
        assert not reconcile_profile(addresses, about).applied
        rows = [row for row in read_back(profiles) if mine.items() <= row.items()]
        assert {(row["status"], row["table_version"]) for row in rows} == {(status, version)}
    into, about = targets(addresses, profiles, run_id="run-9")
    into.stage(batch(5)).publish()
    with pytest.raises(NotReady, match="has no provisional profile"):
        reconcile_profile(addresses, about)


def test_a_sample_is_the_same_each_time_and_estimates_what_is_not_rare(spark, make_table, profiles):
    """Counts stay exact, shares lie within 3 points, and one row in 20,000 is missed or not, but always the same."""
    table = make_table(TableSpec("silver/places", {"id": Column("BIGINT"), "country": Column("STRING")}))
    rows = spark.range(20_000).selectExpr(
        "id",
        "CASE WHEN id = 7 THEN 'Oz' WHEN id % 10 = 0 THEN NULL WHEN id % 3 = 0 THEN 'Peru' ELSE 'USA' END country",
    )
    sampled = {"sample": 0.1, "sample_by": ["id"]}
    for run in ("run-1", "run-2"):
        part = rows.repartition(3) if run == "run-2" else rows
        observe_ahead(part, profiles.target(a_run(run_id=run)), table, **sampled)
    first, second = (
        Profile.of_rows(r for r in read_back(profiles) if r["run_id"] == run) for run in ("run-1", "run-2")
    )
    one, two = first.columns["country"], second.columns["country"]
    assert (one.rows, one.nulls, one.maximum) == (20_000, 2_000, "USA")
    assert one.is_sampled
    assert (one.sampled, one.categories()) == (two.sampled, two.categories())
    assert one.sampled == pytest.approx(2_000, rel=0.1)
    assert one.shares()["Peru"] == pytest.approx(1 / 3, abs=0.03)
    assert one.categories(scaled=True)["USA"] == pytest.approx(12_000, rel=0.1)
    chosen = rows.filter("id = 7 AND pmod(xxhash64('sample', id), 1000000) < 100000").count()
    assert ("Oz" in one.categories()) is bool(chosen)


def test_options_that_cannot_work_are_refused_and_not_isolated(addresses, profiles, batch):
    """A fault of whoever calls is none of the observer."""
    into, about = targets(addresses, profiles)
    with pytest.raises(ConfigError, match="sample_by must name the columns"):
        observe_online(batch(1), into, about, sample=0.5)
    with pytest.raises(ConfigError, match="no column nope"):
        observe_online(batch(1), into, about, sample=0.5, sample_by=["nope"])
    with pytest.raises(ConfigError, match="must be of one run, not of two"):
        observe_online(batch(1), into, profiles.target(a_run(run_id="another")))
    with pytest.raises(ConfigError, match="sequence"):
        observe_online(batch(1), into, about, append=True)


@any_names(STORED, handed_on=["zip"])
def observed_under_any_name(names):
    table = names.table("id INT, zip STRING")
    rows = names.frame("id INT, zip STRING", (1, "12345"), (2, None))
    profiles = names.make_table(replace(PROFILES, name=f"profiles/{table.name}"))
    sampled = {"sample": 0.5, "sample_by": names.all("id")}
    observe_online(rows, table.target(a_run()), profiles.target(a_run()), on_fault="fail", **sampled)
    yield table
    yield [{"rows": row["rows"], "nulls": row["nulls"]} for row in read_back(profiles)]


@known_calls
def calls_that_work(known):
    profiles = known.table("quality/profiles_ahead", PROFILE, by=PROFILED_BY)
    return {
        "observe_ahead": {
            "rows": known.visits,
            "table": known.daily,
            "into": profiles.target(known.run),
            "partition": "day=mon",
            "sample": 0.5,
            "sample_by": ["id"],
        },
        "reconcile_profile": {"table": known.daily, "into": profiles.target(known.run)},
    }


@two_runs()
def observed_at_once(world):
    """Rows with the profile in the record of the same commit."""
    columns = "id INT, day STRING"
    world.table("seen", columns, by=["day"])
    observe_online(world.frame(columns, (1, "mon")), world.into("seen", "0", "mon"))
    for name, number in (("1", 2), ("2", 3)):
        yield lambda w, name=name, number=number: observe_online(
            w.frame(columns, (number, "mon")), w.into("seen", name, "mon")
        )


@two_runs()
def observed_ahead_at_once(world):
    """A profile beside its load, and one that is held against its commit."""
    columns = "id INT, day STRING"
    world.table("seen", columns, by=["day"])
    world.specs["profiles"] = TableSpec("profiles", PROFILE, PROFILED_BY)

    def observe(w, name, *ids):
        observe_ahead(w.frame(columns, *[(n, "mon") for n in ids]), w.into("profiles", name), w["seen"])

    observe(world, "1", 1, 2)
    world.into("seen", "1", "mon").stage(world.frame(columns, (1, "mon"))).publish()
    yield lambda w: reconcile_profile(w["seen"], w.into("profiles", "1"))
    yield lambda w: observe(w, "2", 3)
