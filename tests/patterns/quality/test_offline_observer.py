"""Offline Observer."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.sql.types import ArrayType, DecimalType, IntegerType, MapType, StringType, StructType, TimestampType

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, SchemaMismatch
from dedp_assets.patterns.core.measuring.profiles import ColumnProfile, Profile
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.quality import offline_observer
from dedp_assets.patterns.quality._profiles.profile_measures import profiled_columns
from dedp_assets.patterns.quality.offline_observer import (
    PROFILE,
    PROFILED_BY,
    ProfileRules,
    judge_profile,
    observe_offline,
    propose_rule,
)
from tests.contracts.known_calls import known_calls
from tests.core.measuring.test_profiles import state
from tests.helpers import NOW, a_run, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

PROFILES = TableSpec("quality/profiles", PROFILE, PROFILED_BY)
HOURLY = TableSpec(
    "silver/orders",
    {
        "id": Column("BIGINT"),
        "country": Column("STRING"),
        "email": Column("STRING", classification="personal"),
        "amount": Column("DECIMAL(10,2)"),
        "hour": Column("INT", required=True),
    },
    partition_by=("hour",),
)


def country(values):
    """A profile of one column of texts."""
    return Profile({"country": state(values, column="country", kind="STRING")})


def verdicts(measured):
    """Metric -> verdict."""
    return {each.metric: each.verdict for each in measured.measurements}


def judged(profile, history, **options):
    """The judgement of a profile of the orders."""
    return judge_profile(profile, history, NOW, table="silver/orders", **options)


USUAL = [country(["USA"] * 900 + ["Peru"] * 90 + [None] * 10)] * 3


# --- the judgement


def test_another_share_of_a_valid_country_is_an_alert():
    """USA from 90 % to nothing, while each row is valid and no share of NULL changed."""
    found = judged(country(["Unknown"] * 900 + ["Peru"] * 90 + [None] * 10), USUAL)
    assert verdicts(found) == {
        "schema_changes": "ok",
        "null_share.country": "ok",
        "distinct_values.country": "ok",
        "new_categories.country": "ok",
        "share_shift.country": "fail",
        "distribution.country": "warn",
    }
    assert found.troubles[0].reason == "country is Unknown in 90.9% of the values, usual are 0.0%"


def test_fifty_categories_instead_of_five_are_an_alert():
    """Both by their number and because nobody saw them before."""
    usual = [country([f"c{n % 5}" for n in range(1000)])]
    found = judged(country([f"c{n % 50}" for n in range(1000)]), usual)
    assert {each.metric for each in found.troubles} >= {"distinct_values.country", "new_categories.country"}
    assert "45 new values beside 5 known ones" in found.finding("orders_are_usual").note


def test_a_day_like_the_others_is_none():
    """Whatever the order of the rows, and with a value or two that are new."""
    day = ["Peru"] * 85 + ["Chile"] * 5 + ["USA"] * 900 + [None] * 10
    assert judged(country(day), USUAL).verdict == "ok"


def test_a_column_that_was_never_empty_and_is_now_in_part_is_an_alert():
    """40 % of NULL where there was none."""
    found = judged(country(["USA"] * 600 + [None] * 400), [country(["USA"] * 1000)])
    assert [each.metric for each in found.troubles] == ["null_share.country"]
    assert found.troubles[0].reason == "country is NULL in 40.0% of the rows, usual are 0.0%"


def test_a_column_of_numbers_that_turns_to_nan_is_an_alert():
    """No NULL, no new category, and nothing that one can add up."""
    usual = Profile({"amount": state([1.0] * 1000)})
    bad = Profile({"amount": replace(usual.columns["amount"], nans=300, infinities=50)})
    assert [each.metric for each in judged(bad, [usual]).troubles] == ["not_finite_share.amount"]
    assert not judged(usual, [bad]).troubles


def test_numbers_that_moved_are_a_drift_while_every_other_figure_is_usual():
    """Within the same bounds, with as many distinct values and no NULL; the same numbers in another order are none."""
    draw = random.Random(5)  # noqa: S311 - seeded data
    usual = [Profile({"amount": state([draw.gauss(100, 20) for _ in range(2000)])}) for _ in range(3)]
    same = Profile({"amount": state([draw.gauss(100, 20) for _ in range(2000)])})
    moved = Profile({"amount": state([draw.gauss(115, 20) for _ in range(2000)])})
    assert not judged(same, usual).troubles
    (drift,) = judged(moved, usual).troubles
    assert (drift.metric, drift.verdict, drift.at_most) == ("distribution.amount", "warn", 0.1)
    assert 0.1 < drift.value < 1


def test_null_in_a_sample_is_no_other_category():
    """A third of the values is NULL, as ever; the categories are as usual, in the sample of a tenth, too."""

    def sampled(values):
        full = state(values, column="country", kind="STRING")
        return Profile({"country": replace(full, rows=10 * full.rows, nulls=10 * full.nulls, sampled=full.rows)})

    day = ["USA"] * 500 + ["Peru"] * 167 + [None] * 333
    found = judged(sampled(day), [sampled(day)] * 3)
    (drift,) = (each for each in found.measurements if each.metric == "distribution.country")
    assert (drift.verdict, drift.value) == ("ok", pytest.approx(0, abs=0.001))


def test_a_key_may_grow_with_the_rows_and_a_category_may_not():
    """Ten times the rows have ten times the keys; 200 shops that become 20,000 are something else."""
    keys, more = (country([f"k{n}" for n in range(rows)]) for rows in (1000, 10_000))
    assert verdicts(judged(more, [keys]))["distinct_values.country"] == "ok"
    shops = country([f"s{n % 200}" for n in range(20_000)])
    many = country([f"s{n}" for n in range(20_000)])
    assert verdicts(judged(many, [shops] * 3))["distinct_values.country"] == "fail"


@pytest.mark.parametrize(
    ("history", "rows", "reason"),
    [
        ([], 1000, "0 earlier profiles, 1 or more are needed"),
        (USUAL, 12, "12 rows, 500 or more are needed"),
        ([country(["USA"] * 8)], 1000, "8 rows, 500 or more are needed"),
    ],
)
def test_too_little_history_or_rows_is_an_answer_of_its_own(history, rows, reason):
    """Neither ok nor an alert."""
    found = judged(country(["Unknown"] * rows), history)
    columns = [each for each in found.measurements if each.metric != "schema_changes"]
    assert {each.verdict for each in columns} == {"unknown"}
    assert all(reason in each.reason for each in columns)
    assert not found.troubles


def test_columns_and_types_that_changed_are_named_and_nothing_else():
    """Against the newest earlier profile; a column of another type has nothing to compare with."""

    def columns(**kinds):
        return Profile({name: ColumnProfile(column=name, type=kind, rows=1000) for name, kind in kinds.items()})

    usual = [columns(a="INT", b="INT", c="STRING")]
    found = judged(columns(a="INT", b="STRING", d="DATE"), usual)
    assert found.troubles[0].reason == "d DATE was added; c STRING was removed; b is STRING, was INT"
    assert [each.metric for each in found.troubles] == ["schema_changes"]
    assert not judged(usual[0], usual).troubles
    assert judged(usual[0], []).measurements[0].verdict == "unknown"


def test_a_sample_is_not_compared_with_all_rows():
    """Its distinct values are those of fewer rows."""
    sampled = Profile({"country": replace(USUAL[0].columns["country"], sampled=100)})
    assert verdicts(judged(sampled, USUAL))["distinct_values.country"] == "unknown"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_null_shift": 0.0}, "max_null_shift must be a share above 0 and at most 1, not 0"),
        ({"max_share_shift": 1.5}, "max_share_shift must be a share above 0 and at most 1, not 1.5"),
        ({"max_distinct_ratio": 1.0}, "max_distinct_ratio must be above 1, not 1"),
        ({"minimum_history": 0}, "minimum_history must be 1 or more, not 0"),
        ({"max_new_categories": -1}, "max_new_categories must be 0 or more, not -1"),
    ],
)
def test_rules_that_judge_nothing_are_refused(options, message):
    """By name."""
    with pytest.raises(ConfigError, match=message):
        ProfileRules(**options)


@pytest.mark.parametrize(
    ("column", "rule", "message"),
    [
        ("nope", "not_null", "column must be one of a, n, not nope"),
        ("a", "not_null", "1 of 3 rows have no value"),
        ("n", "length", "it has no length"),
        ("a", "bounds", "it has no bounds that order numbers or times"),
    ],
)
def test_a_rule_that_the_profile_does_not_support_is_not_proposed(column, rule, message):
    """It says why."""
    profile = Profile(
        {"a": state(["x", "y", None], column="a", kind="STRING"), "n": state([1, 2, 3], column="n", kind="INT")}
    )
    with pytest.raises(ConfigError, match=message):
        propose_rule(profile, column=column, rule=rule)


def test_values_that_are_personal_sampled_or_too_many_make_no_rule():
    """A rule names values, and it has to know all of them."""
    known = state(["x"], column="a", kind="STRING")
    many = state([str(n) for n in range(3000)], column="a", kind="STRING")
    for each in (replace(known, values=b""), replace(known, rows=9), many):
        with pytest.raises(ConfigError, match="its values are not all known"):
            propose_rule(Profile({"a": each}), column="a", rule="known_values")


# --- the observation


@pytest.fixture
def orders(make_table):
    """An empty table of orders by hour."""
    return make_table(HOURLY)


@pytest.fixture
def profiles(make_table):
    """A table of profiles, not made yet."""
    return make_table(PROFILES)


@pytest.fixture
def write(spark, orders):
    """``write([(1, "USA", "a@b", Decimal(1))], hour=3)``: replace an hour of the orders."""

    def written(rows, *, hour):
        frame = spark.createDataFrame([(*row, hour) for row in rows], SCHEMA)
        return orders.overwrite(frame, partition={"hour": hour}, provenance=a_run("silver/orders"))

    return written


SCHEMA = "id BIGINT, country STRING, email STRING, amount DECIMAL(10,2), hour INT"


def some(count, *, start=0):
    """As many orders."""
    return [(n, "USA" if n % 10 else None, f"u{n}@x.org", Decimal(n)) for n in range(start, start + count)]


def stored(profiles, **wanted):
    """Profile rows with some values, through an independent reader."""
    return [row for row in read_back(profiles) if wanted.items() <= row.items()]


@pytest.mark.spark
def test_a_second_run_does_nothing_and_new_late_and_backfilled_partitions_are_seen(orders, profiles, write):
    """By the versions of the log: an hour before those that were seen is new, too; a compaction is not."""
    write(some(10), hour=5)
    write(some(20), hour=6)
    assert observe_offline(orders, profiles.target(a_run("p"))).applied
    again = observe_offline(orders, profiles.target(a_run("p", run_id="run-2")))
    assert (again.applied, again.version) == (False, profiles.ledger.version())
    write(some(7), hour=1)
    write(some(12), hour=6)
    seen = observe_offline(orders, profiles.target(a_run("p", run_id="run-3")))
    assert seen.reason == "profiled 2 partitions of silver/orders at version 4"
    found = sorted((r["table_version"], r["data_partition"], r["rows"]) for r in stored(profiles, column="id"))
    assert found == [(2, "hour=5", 10), (2, "hour=6", 20), (4, "hour=1", 7), (4, "hour=6", 12)]


@pytest.mark.spark
def test_a_crash_before_the_commit_leaves_no_row_twice_and_the_producer_alone(orders, profiles, write, monkeypatch):
    """No commit, lock or file in the producer's table; an emptied hour is a profile of 0 rows, a version is pinned."""
    write(some(10), hour=5)
    before = sorted(str(path) for path in orders.location.rglob("*"))

    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stage_commit, "commit_files", die)
        with pytest.raises(KeyboardInterrupt):
            observe_offline(orders, profiles.target(a_run("p")))
    assert stored(profiles) == []
    assert sorted(str(path) for path in orders.location.rglob("*")) == before
    orders.clear(partition={"hour": 5}, provenance=a_run("silver/orders", run_id="run-2"))
    observe_offline(orders, profiles.target(a_run("p")), version=1)
    observe_offline(orders, profiles.target(a_run("p", run_id="run-2")))
    found = sorted((r["table_version"], r["rows"]) for r in stored(profiles, column="country"))
    assert found == [(1, 10), (2, 0)]


@pytest.mark.spark
def test_24_hours_observed_at_once_merge_to_the_day(spark, orders, profiles):
    """Exact figures are those of all rows, estimates lie within their error, and each hour has its own profile."""
    rows = spark.range(2400).selectExpr(
        "id", "if(id % 9 = 0, NULL, concat('c', id % 7)) country", "'x' email", "CAST(id AS DECIMAL(10,2)) amount",
        "CAST(id % 24 AS INT) hour",
    )  # fmt: skip
    orders.overwrite(rows, provenance=a_run("silver/orders"))
    observe_offline(orders, profiles.target(a_run("p")))
    parts = [Profile.of_rows(stored(profiles, data_partition=f"hour={hour}")) for hour in range(24)]
    assert [part.rows for part in parts] == [100] * 24
    day = Profile.merged(parts).columns
    countries = [f"c{n % 7}" for n in range(2400) if n % 9]
    assert (day["country"].nulls, day["country"].categories()) == (267, Counter(countries))
    assert (day["id"].minimum, day["id"].maximum, day["hour"].categories()["23"]) == ("0", "2399", 100)
    assert day["id"].distinct_count == pytest.approx(2400, rel=0.03)
    assert day["amount"].quantile(0.5) == pytest.approx(1200, abs=2 * 0.01 * 2400)


@pytest.mark.spark
def test_two_observers_at_a_time_do_not_both_store(orders, profiles, write, monkeypatch):
    """The slower one is refused, and finds nothing to do when it runs again."""
    write(some(10), hour=5)
    storing = offline_observer.write_profiles

    def after_another(*args, **options):
        monkeypatch.setattr(offline_observer, "write_profiles", storing)
        write(some(3), hour=6)
        observe_offline(orders, profiles.target(a_run("p", run_id="faster")))
        return storing(*args, **options)

    monkeypatch.setattr(offline_observer, "write_profiles", after_another)
    with pytest.raises(Conflict):
        observe_offline(orders, profiles.target(a_run("p")))
    assert not observe_offline(orders, profiles.target(a_run("p"))).applied
    assert len(stored(profiles, column="id", data_partition="hour=5")) == 1


@pytest.fixture
def odd(spark, make_table):
    """A table of three rows with a column of each kind of type, of which one is personal."""
    types = {
        "f": "DOUBLE",
        "t": "TIMESTAMP",
        "n": "TIMESTAMP_NTZ",
        "d": "DATE",
        "b": "BOOLEAN",
        "raw": "BINARY",
        "tags": "ARRAY<STRING>",
        "attributes": "MAP<STRING, INT>",
        "address": "STRUCT<city: STRING, `zip.code`: STRING>",
        "secret": "STRUCT<name: STRING>",
        "v": "VARIANT",
    }
    kinds = {name: Column(kind, classification="personal" if name == "secret" else "") for name, kind in types.items()}
    table = make_table(TableSpec("silver/odd", kinds))
    one = """double('NaN') f, TIMESTAMP '2026-01-05 01:02:03' t, TIMESTAMP_NTZ '2026-01-05 01:02:03.5' n,
        DATE '2026-01-05' d, true b, X'00FF' raw, array('x', NULL) tags, map('k', 1) attributes,
        named_struct('city', 'Bonn', 'zip.code', '53111') address, named_struct('name', 'Ada 1') secret,
        parse_json('1') v"""
    two = """double('Infinity'), NULL, NULL, NULL, NULL, X'', array(), map(),
        named_struct('city', '', 'zip.code', 'D-53'), NULL, NULL"""
    three = one.replace("'NaN'", "'1.5'").replace("'53111'", "'5311X'")
    table.overwrite(
        spark.sql(f"SELECT {one} UNION ALL SELECT {two} UNION ALL SELECT {three}"), provenance=a_run("silver/odd")
    )
    return table


INNER = [IntegerType(), StringType(), DecimalType(5, 2), DecimalType(6, 2), TimestampType(), ArrayType(IntegerType())]
INNER += [StructType().add("a", kind) for kind in (IntegerType(), StringType())]


def test_a_column_of_another_type_is_a_change_whatever_the_type_holds():
    """Lists and maps of everything, also of structs, whose own fields are columns of the profile themselves.

    A profile of an earlier release knew no more than ARRAY, and is no change.
    """
    kinds = [*INNER[:-2], *map(ArrayType, INNER), *[MapType(StringType(), kind) for kind in INNER]]
    profiles = {}
    for kind in {*kinds}:
        (column,) = profiled_columns(StructType().add("c", kind), {})
        profiles[kind] = Profile({"c": ColumnProfile(column="c", type=column.type, rows=1000)})
    for one in profiles:
        for other in profiles:
            changes = judged(profiles[one], [profiles[other]]).measurements[0].value
            assert changes == float(one != other), (one, other)
    before = Profile({"c": ColumnProfile(column="c", type="ARRAY", rows=1000)})
    for kind, profile in profiles.items():
        assert judged(profile, [before]).measurements[0].value == float(not isinstance(kind, ArrayType)), kind
    assert (before + profiles[ArrayType(IntegerType())]).columns["c"].type == "ARRAY<INT>"


@pytest.mark.spark
@pytest.mark.both
def test_each_type_is_profiled_as_declared_and_personal_values_are_not_kept(odd, profiles):
    """Numbers, texts, times, nested fields, collections; of a personal column its counts, lengths and shapes only."""
    observe_offline(odd, profiles.target(a_run("p")))
    found = Profile.of_rows(stored(profiles, table_name="silver/odd")).columns
    assert {state.rows for state in found.values()} == {3}
    f = found["f"]
    assert (f.nans, f.infinities, f.minimum, f.maximum, f.measured) == (1, 1, "1.5", "1.5", 1)
    assert (found["t"].minimum, found["t"].quantile(0.5)) == ("2026-01-05 01:02:03", 1767574923.0)
    assert (found["n"].maximum, found["n"].quantile(0.5)) == ("2026-01-05 01:02:03.5", 1767574923.5)
    assert (found["d"].nulls, found["d"].quantile(0.5)) == (1, 20458.0)
    assert found["b"].categories() == {"true": 2}
    assert (found["raw"].empties, found["raw"].longest, found["tags"].longest, found["tags"].empties) == (1, 2, 2, 1)
    assert (found["attributes"].empties, round(found["tags"].distinct_count)) == (1, 2)
    assert (found["address"].type, found["address.city"].empties) == ("STRUCT", 1)
    assert found["address.`zip.code`"].shape_counts() == {"digits 5": 1, "letters and digits 5": 1, "other 4": 1}
    secret = found["secret.name"]
    assert (secret.nulls, secret.longest, secret.shape_counts()) == (1, 5, {"other 5": 2})
    assert (secret.minimum, secret.maximum, secret.values, secret.quantiles) == (None, None, b"", b"")
    assert b"Ada" not in b"".join(v for r in stored(profiles) for v in r.values() if isinstance(v, bytes))
    assert (found["v"].nulls, found["v"].distinct) == (1, b"")


@pytest.mark.spark
@pytest.mark.both
def test_a_sample_is_sketched_and_all_rows_are_counted_for_each_type(make_table, profiles, odd):
    """Sketches equal those of a table of the sampled rows alone; counts, bounds and lengths those of all rows."""
    whole, some = (make_table(replace(odd.spec, name=f"silver/{name}")) for name in ("whole", "some"))
    whole.overwrite(odd.read(), provenance=a_run("silver/whole"))
    some.overwrite(odd.read().filter("pmod(xxhash64('sample', f), 1000000) < 500000"), provenance=a_run("silver/some"))
    assert 0 < some.read().count() < 3
    observe_offline(odd, profiles.target(a_run("p")), sample=0.5, sample_by=["f"])
    for table in (whole, some):
        observe_offline(table, profiles.target(a_run("p")))
    sample, everything, seen = (
        Profile.of_rows(stored(profiles, table_name=name)).columns
        for name in ("silver/odd", "silver/whole", "silver/some")
    )
    for name, column in sample.items():
        assert counted(column) == counted(everything[name]), name
        assert sketched(column) == sketched(seen[name]), name


def counted(column):
    bounds = column.minimum, column.maximum, column.shortest, column.longest
    return column.rows, column.nulls, column.nans, column.infinities, column.empties, *bounds


def sketched(column):
    kept = column.categories(), column.shape_counts()
    return column.sampled, column.distinct_count, column.measured, column.quantile(0.5), *kept


@pytest.mark.spark
def test_a_rule_that_was_found_is_turned_on_and_refuses_what_is_new(spark, make_table, profiles):
    """As an audit and as a constraint: the profiled rows pass, a country that nobody saw does not."""
    table = make_table(
        TableSpec("silver/places", {"country": Column("STRING"), "day": Column("DATE"), "n": Column("INT")})
    )
    good = spark.sql(
        "SELECT 'O''Brien' country, DATE '2026-01-05' day, 3 n UNION ALL SELECT NULL, DATE '2026-01-09', 7"
    )
    table.overwrite(good, provenance=a_run("silver/places"))
    observe_offline(table, profiles.target(a_run("p")))
    profile = Profile.of_rows(stored(profiles))
    proposed = [
        propose_rule(profile, column="country", rule="known_values"),
        propose_rule(profile, column="country", rule="length"),
        propose_rule(profile, column="day", rule="bounds"),
        propose_rule(profile, column="n", rule="not_null"),
    ]
    checks = {audit.name: f"NOT ({audit.where})" for audit in proposed}
    assert good.filter(" AND ".join(checks.values())).count() == 2
    table.overwrite(good.union(good), provenance=a_run("silver/places"), audits=proposed)
    bad = spark.sql("SELECT 'Unknown' country, DATE '2027-01-05' day, CAST(NULL AS INT) n")
    with pytest.raises(AuditFailed) as refused:
        table.overwrite(bad, provenance=a_run("silver/places"), audits=proposed)
    failed = {finding.name for finding in refused.value.findings if finding.refuses}
    assert failed >= {"country_is_known", "day_lies_within_bounds", "n_is_not_null"}


@pytest.mark.spark
def test_a_table_that_holds_no_profiles_and_a_sample_of_nothing_are_refused(orders, make_table, profiles):
    """Before anything is read."""
    flat = make_table(replace(PROFILES, name="quality/flat", partition_by=("table_name",)))
    with pytest.raises(ConfigError, match="must be partitioned by"):
        observe_offline(orders, flat.target(a_run("p")))
    with pytest.raises(SchemaMismatch, match="nulls is missing"):
        observe_offline(orders, orders.target(a_run("p")))
    with pytest.raises(ConfigError, match="sample must be above 0 and at most 1, not 0"):
        observe_offline(orders, profiles.target(a_run("p")), sample=0.0)
    with pytest.raises(ConfigError, match="sample_by must name the columns"):
        observe_offline(orders, profiles.target(a_run("p")), sample=0.5)
    assert not profiles.ledger.exists()
    orders.ensure()
    with pytest.raises(ConfigError, match="version must be one of silver/orders, 0 to 0, not 7"):
        observe_offline(orders, profiles.target(a_run("p")), version=7)


@any_names(STORED, handed_on=["id", "country"])
def profiled_under_any_name(names):
    table = names.table("id INT, country STRING, day STRING", by=["day"])
    rows = names.frame("id INT, country STRING, day STRING", (1, "USA", "mon"), (2, None, "tue"), (3, None, "tue"))
    table.overwrite(rows, provenance=a_run())
    profiles = names.make_table(replace(PROFILES, name=f"profiles/{table.name}"))
    observe_offline(table, profiles.target(a_run()))
    yield [{"rows": row["rows"], "nulls": row["nulls"]} for row in read_back(profiles)]


@known_calls
def calls_that_work(known):
    profile = Profile({"id": ColumnProfile(column="id", type="INT", rows=1000, minimum="1", maximum="9")})
    return {
        "judge_profile": {
            "profile": profile,
            "history": [profile],
            "now": NOW,
            "table": "silver/daily",
            "partition": "day=mon",
            "rules": ProfileRules(),
        },
        "propose_rule": {"profile": profile, "column": "id", "rule": "bounds"},
    }


@two_runs()
def profiled_at_once(world):
    """Two observers of one table, of which one comes second."""
    columns = "page STRING, day STRING"
    table = world.table("read", columns, by=["day"])
    world.specs["profiles"] = TableSpec("profiles", PROFILE, PROFILED_BY)
    for number, day in enumerate(("mon", "tue")):
        table.append(world.frame(columns, ("/", day)), provenance=world.run(day, sequence=number + 1))
        if day == "mon":
            observe_offline(table, world.into("profiles", "base"))
    for name in ("1", "2"):
        yield lambda w, name=name: observe_offline(w["read"], w.into("profiles", name))
