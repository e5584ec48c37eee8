"""Local Aggregator."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import combinations, pairwise
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import is_apart, require_together
from dedp_assets.patterns.storage.bucket import lay_out
from dedp_assets.patterns.value.distributed_aggregator import aggregate
from dedp_assets.patterns.value.local_aggregator import Layout, aggregate_locally, judge_placement
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, files_of, read_back
from tests.renaming import STORED, any_names

FOUR = Layout(by=("user-id",), buckets=4)
COLUMNS = {
    "user-id": Column("STRING", "visitor"),
    "seen": Column("INT", "second of the day"),
    "page": Column("STRING", "path"),
    "score": Column("DOUBLE", "any number"),
    "day": Column("STRING", "when"),
}
LAID_OUT = TableSpec("visits", {**COLUMNS, **FOUR.declared}, partition_by=("day", "bucket"), checks={**FOUR.checks})
SHARDED = TableSpec("sharded", {**COLUMNS, "bucket": Column("STRING")}, partition_by=("bucket",))
PAGES = {
    "pages": "transform(array_sort(collect_list(struct(seen, page))), each -> each.page)",
    "visits": "count(*)",
    "mean": "avg(seen)",
}
MON, TUE = {"day": "mon/1"}, {"day": "tue 2"}
SCHEMA = "`user-id` STRING, seen INT, page STRING, score DOUBLE, day STRING"


def landed(day, count=120, seed=3):
    """Visits in no order: NULL and odd names among the visitors, one of whom has most visits."""
    random = Random(f"{seed}/{day}")  # noqa: S311 - test data
    names = [None, "", "a", "A", "é/x", "a b", *map(str, range(20))]
    users = [random.choice(names) if random.random() < 0.4 else "hot" for _ in range(count)]
    rows = [
        (user, second, f"/{second % 7}", random.choice([0.0, -0.0, None]), day) for second, user in enumerate(users)
    ]
    random.shuffle(rows)
    return rows


def walked(rows):
    """Pages of each visitor in the order of time, by plain Python."""
    found = {}
    for user, _, page, *_ in sorted(rows, key=lambda row: row[1]):
        found.setdefault(user, []).append(page)
    return found


def pages_of(frame):
    """Pages by visitor; fails if one is there twice."""
    rows = frame.collect()
    found = {row["user-id"]: row["pages"] for row in rows}
    assert len(found) == len(rows)
    return found


def plan(frame):
    with redirect_stdout(io.StringIO()) as shown:
        frame.explain("extended")
    return shown.getvalue().partition("== Physical Plan ==")[2]


def by_user(table, *partitions, **options):
    wanted = {"keys": ["user-id"], "measures": PAGES, "layout": FOUR, "partitions": partitions}
    return aggregate_locally(table, **{**wanted, **options})


@pytest.fixture
def visits(spark, make_table):
    """Two days, each laid out in four buckets."""
    table = make_table(LAID_OUT)
    for day in (MON, TUE):
        rows = spark.createDataFrame(landed(day["day"]), SCHEMA).repartition(3)
        lay_out(rows, table.target(a_run(), partition=day), layout=FOUR)
    return table


@pytest.mark.both
def test_groups_are_those_of_the_distributed_aggregator_without_an_exchange(spark, visits):
    """One row for each visitor, the first and the last of a file and NULL too; a plain grouping of the same has one."""
    local = by_user(visits, MON)
    assert pages_of(local) == walked(landed("mon/1"))
    assert "Exchange" not in plan(local)
    counts = {"visits": "count(*)", "least": "min(seen)"}
    # Few rows are read as one task, in which a plain grouping needs no exchange either.
    distributed = aggregate(visits.read(MON).repartition(2), keys=["user-id"], measures=counts)
    sql = {"visits": "count(*)", "least": "min(seen)"}
    assert sorted(map(str, by_user(visits, MON, measures=sql).collect())) == sorted(map(str, distributed.collect()))
    assert "Exchange hashpartitioning" in plan(distributed)
    assert len(files_of(visits, **MON)) == 4
    assert {row[0] for row in local.select(F.spark_partition_id()).collect()} == set(range(4))
    finer = by_user(visits, keys=["user-id", "score", "day"], measures={"n": "count(*)"})
    assert "Exchange" not in plan(finer)
    plain = visits.read().groupBy("`user-id`", "score", "day").count()
    assert sorted(map(str, map(tuple, finer.collect()))) == sorted(map(str, map(tuple, plain.collect())))


@pytest.mark.spark
def test_keys_of_another_kind_and_wider_reads_are_refused(visits):
    """By page, or by visitor over several days, a group lies in many places: the Distributed Aggregator's work."""
    for options in ({"keys": ["page"], "partitions": [MON]}, {"partitions": [MON, TUE]}, {"layout": None}):
        with pytest.raises(ConfigError, match=r"distributed_aggregator\.aggregate"):
            by_user(visits, **options)
    for options in ({"keys": []}, {"keys": ["nobody"]}, {"measures": {"USER-ID": "1"}}, {"partitions": [{"x": "1"}]}):
        with pytest.raises(ConfigError):
            by_user(visits, **{"partitions": [MON], **options})
    nothing = by_user(visits, {"day": "never"})
    assert nothing.collect() == []
    assert nothing.columns == ["user-id", "pages", "visits", "mean"]


@pytest.mark.spark
def test_another_number_of_buckets_is_refused_until_all_is_laid_out_anew(spark, visits):
    """The bucket names its layout: no row of an old one is taken for one of the new; a day is reorganised at once."""
    eight = replace(FOUR, buckets=8)
    with pytest.raises(ContractError, match=r"other buckets than 8, e\.g\. 0 of 4"):
        by_user(visits, MON, layout=eight)
    before = read_back(visits)
    tuesday = files_of(visits, **TUE)
    done = lay_out(visits.read(MON), visits.target(a_run(run_id="run-2"), partition=MON), layout=eight, rewrite=True)
    assert done.applied
    assert files_of(visits, **TUE) == tuesday
    assert pages_of(by_user(visits, MON, layout=eight)) == walked(landed("mon/1"))
    with pytest.raises(ContractError, match="other buckets than 4"):
        by_user(visits, MON)
    assert pages_of(by_user(visits, TUE)) == walked(landed("tue 2"))
    assert [{**row, "bucket": ""} for row in before] == sorted(
        [{**row, "bucket": ""} for row in read_back(visits)], key=lambda row: [str(value) for value in row.values()]
    )


@pytest.mark.spark
def test_no_row_gets_into_a_bucket_that_is_not_its_own(spark, visits):
    """A misplaced row, or one in a bucket that is none, is refused by the table's own constraint."""
    for bucket in ("'1 of 4'", "'0 of 0'", "'x'", "'1 of -4'"):
        rows = spark.createDataFrame(landed("mon/1"), SCHEMA).selectExpr("*", f"{bucket} AS bucket")
        with pytest.raises(AuditFailed, match="constraints_hold"):
            visits.overwrite(rows, partition=MON, provenance=a_run(run_id="run-3"))
    assert pages_of(by_user(visits, MON)) == walked(landed("mon/1"))


@pytest.fixture
def sharded(spark, make_table):
    """Makes a table of one day whose rows somebody else placed, by an expression."""

    def make(name, shard):
        table = make_table(replace(SHARDED, name=name))
        rows = spark.createDataFrame(landed("mon/1"), SCHEMA).selectExpr("*", f"{shard} AS bucket")
        table.overwrite(rows, provenance=a_run())
        return table

    return make


def aggregated(table, **options):
    return aggregate_locally(table, keys=["user-id"], measures=PAGES, **options)


@pytest.mark.spark
def test_rows_that_somebody_else_placed_are_judged_by_bounds_or_in_one_pass(sharded):
    """Ranges that do not meet are proof by the log; of others each key is looked at, at the version that is read."""
    ranges = sharded("ranges", "CASE WHEN `user-id` < 'a' THEN 'low' WHEN `user-id` >= 'a' THEN 'high' END")
    assert judge_placement(ranges, keys=["user-id"]).passed
    assert pages_of(aggregated(ranges)) == walked(landed("mon/1"))
    assert "Exchange" not in plan(aggregated(ranges))
    hashed = sharded("hashed", "CAST(hash(`user-id`) % 3 AS STRING)")
    with pytest.raises(ConfigError, match="judge_placement"):
        aggregated(hashed)
    found = judge_placement(hashed, keys=["user-id"])
    assert (found.passed, found.figures["keys apart"]) == (True, 0)
    assert pages_of(aggregated(hashed, placed=found)) == walked(landed("mon/1"))
    with pytest.raises(ConfigError, match="judge_placement"):
        aggregated(hashed, placed=replace(found, about={**found.about, "version": 0}))
    other = judge_placement(sharded("other", "'one'"), keys=["user-id"])
    assert other.passed
    with pytest.raises(ConfigError, match="judge_placement"):
        aggregated(hashed, placed=other)


@pytest.mark.promise("a-key-in-two-places")
@pytest.mark.spark
def test_a_key_in_two_places_is_refused_with_an_example(spark, make_table, sharded):
    """Before anything is aggregated, whatever the table says of its layout."""
    with pytest.raises(ConfigError, match="does not declare its layout"):
        lay_out(spark.createDataFrame([], SCHEMA), make_table(SHARDED).target(a_run()), layout=FOUR)
    spread = sharded("spread", "CAST(seen % 2 AS STRING)")
    found = judge_placement(spread, keys=["user-id"])
    assert not found.passed
    twice = {user for user, *_ in landed("mon/1") if len({row[1] % 2 for row in landed("mon/1") if row[0] == user}) > 1}
    assert found.figures["keys apart"] == len(twice)
    assert "lies in bucket=0 and in bucket=1" in found.note
    with pytest.raises(ConfigError, match="not laid out by user-id"):
        aggregated(spread, placed=found)
    with pytest.raises(ContractError, match=r"other buckets than 4, e\.g\. 0, 1"):
        aggregated(spread, layout=FOUR)
    named = sharded("named", "concat(CAST(seen % 4 AS STRING), ' of 4')")
    with pytest.raises(ContractError, match="no constraint that keeps each row"):
        aggregated(named, layout=FOUR)


@pytest.mark.spark
def test_laid_out_rows_are_audited_and_written_once(spark, visits):
    """A refused layout publishes nothing, the same again changes no row, a pinned version is read as it was."""
    version, files = visits.ledger.version(), active_files(visits)
    rows = spark.createDataFrame(landed("mon/1", seed=9), SCHEMA)
    none = Audit.none_where("nobody_is_hot", "`user-id` = 'hot'")
    with pytest.raises(AuditFailed, match="nobody_is_hot"):
        lay_out(rows, visits.target(a_run(run_id="run-4"), partition=MON, audits=[none]), layout=FOUR)
    assert active_files(visits) == files
    for run in ("run-5", "run-6"):
        lay_out(rows, visits.target(a_run(run_id=run), partition=MON), layout=FOUR)
        assert pages_of(by_user(visits, MON)) == walked(landed("mon/1", seed=9))
    assert visits.ledger.commit(visits.ledger.version()).record.pattern == "storage.bucket"
    assert pages_of(by_user(visits, MON, version=version)) == walked(landed("mon/1"))
    assert pages_of(by_user(visits, TUE)) == walked(landed("tue 2"))


def test_a_layout_has_columns_and_buckets():
    """And its column is none of those that it is made of."""
    faults = {"by": (), "buckets": 0, "column": "user-id"}
    refused = "by must name columns of a key, such as user_id, other than|buckets must be at least 1, such as 16, not 0"
    for wrong in ({name: value} for name, value in faults.items()):
        with pytest.raises(ConfigError, match=refused):
            replace(FOUR, **wrong)


def test_texts_that_a_collation_makes_equal_are_in_no_bucket_together():
    """A hash sees the bytes and a grouping the collation: such a key is refused, whatever the layout."""
    columns = {"who": {"type": "string", "metadata": {"__COLLATIONS": {"who": "spark.UTF8_LCASE"}}}}
    state = SimpleNamespace(columns=columns, partition_columns=("bucket",))
    with pytest.raises(ConfigError, match="texts of who are equal by its collation"):
        require_together("visits", state, {}, keys=["Who"], layout=Layout(by=("who",), buckets=2))


def stated(keys, *, known):
    """What the log says of a file with these keys."""
    held = [key for key in keys if key is not None]
    bounds = {"min.key": min(held), "max.key": max(held)} if held and known else {}
    return {"num_records": len(keys), **bounds, **({"null_count.key": len(keys) - len(held)} if known else {})}


FILES = st.lists(st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=3)


@given(st.lists(FILES, min_size=2, max_size=4), st.booleans())
def test_bounds_prove_only_what_is_true(groups, known):
    """If the log's bounds are taken as proof, no key is in two groups; ranges that do not meet are always proof."""
    state = SimpleNamespace(columns={"key": {"type": "long", "metadata": {}}}, partition_columns=("shard",))
    files = {
        (("shard", str(n)),): [(stated(keys, known=known), None) for keys in group] for n, group in enumerate(groups)
    }
    sets = [{key for keys in group for key in keys} for group in groups]
    ranges = sorted((min(held), max(held)) for each in sets if (held := each - {None}))
    meet = any(low <= high for (_, high), (low, _) in pairwise(ranges)) or sum(None in each for each in sets) > 1
    assert is_apart(state, files, ["key"]) == (known and not meet)
    assert meet or all(a.isdisjoint(b) for a, b in combinations(sets, 2))


@any_names(STORED)
def aggregated_locally(n):
    layout, columns = Layout(by=(n("user"),), buckets=3, column=n.declared("bucket")), "user STRING, page STRING"
    table = n.table(columns, more=layout.declared, by=["bucket"], checks=layout.checks)
    rows = n.frame(columns, *[(f"u{m % 4}", f"/{m}") for m in range(9)], (None, "/"))
    lay_out(rows, table.target(a_run()), layout=layout)
    pages = {n("pages"): f"array_sort(collect_list({n.q('page')}))"}
    yield aggregate_locally(table, keys=n.all("user"), measures=pages, layout=layout)
    yield [judge_placement(table, keys=n.all("page")).figures | {"keys": None}]


@known_calls
def calls_that_work(known):
    layout = Layout(by=("user",), buckets=2)
    placed = {"user": Column("STRING"), "page": Column("STRING"), **layout.declared}
    laid = known.table("gold/laid", placed, by=("bucket",), checks=layout.checks)
    whole = {"table": laid, "keys": ["user"], "partitions": [], "version": 0}
    return {
        "aggregate_locally": {**whole, "measures": {"pages": "collect_list(page)"}, "layout": layout, "placed": None},
        "judge_placement": whole,
    }
