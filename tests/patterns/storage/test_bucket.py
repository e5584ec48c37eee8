"""Bucket."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import product

import pytest

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.ingestion.compactor import compact
from dedp_assets.patterns.storage.bucket import Bucketed, Layout, join_buckets, lay_out, read_keys
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, files_of, read_back
from tests.renaming import STORED, any_names
from tests.scans import files_read
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

FOUR = Layout(by=("user-id",), buckets=4)
COLUMNS = {"user-id": Column("STRING", "who"), "page": Column("STRING", "path"), "day": Column("STRING", "when")}
VISITS = TableSpec("visits", {**COLUMNS, **FOUR.declared}, partition_by=("day", "bucket"), checks=FOUR.checks)
USERS = TableSpec(
    "users",
    {"user-id": Column("STRING", "who"), "plan": Column("STRING", "paid"), **FOUR.declared},
    partition_by=("bucket",),
    checks=FOUR.checks,
)
MON, TUE = {"day": "mon"}, {"day": "tue"}
NAMES = [None, "", "a", "A", "é/x", "a b", "it's", "${env:HOME}", "x" * 100, *map(str, range(20))]
VISITED = [(user, f"/{n}", day) for day in ("mon", "tue") for n in range(3) for user in NAMES]
PAYING = [(user, f"plan-{n}") for n, user in enumerate([*NAMES[:15], "nobody"])]
SCHEMA = "`user-id` STRING, page STRING, day STRING"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def visits(spark, place):
    """Two days of visits in four buckets; nobody writes it."""
    table = Table(VISITS, place / "visits", spark)
    for day in (MON, TUE):
        rows = spark.createDataFrame([row for row in VISITED if row[2] == day["day"]], SCHEMA).repartition(3)
        lay_out(rows, table.target(a_run(), partition=day), layout=FOUR)
    return table


@pytest.fixture(scope="module")
def users(spark, place):
    """Some of the visitors, and one who never came, in four buckets; nobody writes it."""
    table = Table(USERS, place / "users", spark)
    lay_out(spark.createDataFrame(PAYING, "`user-id` STRING, plan STRING"), table.target(a_run()), layout=FOUR)
    return table


@pytest.fixture
def own_visits(spark, make_table):
    """Monday's visits in four buckets, to be changed."""
    table = make_table(VISITS)
    lay_out(
        spark.createDataFrame(VISITED[: len(VISITED) // 2], SCHEMA), table.target(a_run(), partition=MON), layout=FOUR
    )
    return table


def plan(frame):
    with redirect_stdout(io.StringIO()) as shown:
        frame.explain("extended")
    return shown.getvalue().partition("== Physical Plan ==")[2]


def rows_of(frame):
    return Counter(map(tuple, frame.collect()))


def joined(how, left=VISITED, right=PAYING):
    """The join by plain Python: NULL in a key meets nothing."""
    plans = {user: plan for user, plan in right if user is not None}
    inner = [(u, p, d, plans[u]) for u, p, d in left if u in plans]
    only_left = [(u, p, d) for u, p, d in left if u not in plans]
    visitors = {u for u, *_ in left if u is not None}
    only_right = [(u, None, None, plan) for u, plan in right if u not in visitors]
    return Counter(
        {
            "inner": inner,
            "left": inner + [(*row, None) for row in only_left],
            "right": inner + only_right,
            "full": inner + [(*row, None) for row in only_left] + only_right,
        }[how]
    )


def test_a_write_of_n_buckets_makes_n_files_and_a_key_lies_in_one(spark, make_table, visits):
    """Whatever the tasks that made the rows; the same rows as three tasks write them are thrice as many."""
    for day in (MON, TUE):
        assert len(files_of(visits, **day)) == 4
    plain = make_table(replace(VISITS, name="plain"))
    plain.overwrite(
        spark.createDataFrame(VISITED, SCHEMA).repartition(3).selectExpr("*", f"{FOUR.bucket} AS bucket"),
        provenance=a_run(),
    )
    assert len(files_of(plain, **MON)) > 2 * 4
    places = {}
    for row in read_back(visits):
        places.setdefault(row["user-id"], set()).add(row["bucket"])
    assert {*places} == {*NAMES}
    assert all(len(buckets) == 1 for buckets in places.values())
    assert {bucket for buckets in places.values() for bucket in buckets} == {f"{n} of 4" for n in range(4)}
    assert [{k: v for k, v in row.items() if k != "bucket"} for row in read_back(visits)] == [
        {k: v for k, v in row.items() if k != "bucket"} for row in read_back(plain)
    ]


def test_a_point_filter_reads_one_bucket_of_n(visits):
    """Two files of eight, one of each day; a plain filter on the key reads all of them for the same rows."""
    plain = visits.read().filter("`user-id` = '7'").select("user-id", "page", "day")
    found = read_keys(Bucketed(visits, FOUR), keys=[{"user-id": "7"}])
    assert rows_of(found) == rows_of(plain) == Counter(row for row in VISITED if row[0] == "7")
    assert (files_read(found), files_read(plain)) == (2, 8)
    monday = read_keys(Bucketed(visits, FOUR, columns=["page"], partitions=[MON]), keys=[{"USER-ID": "7"}])
    assert (monday.columns, files_read(monday)) == (["user-id", "page"], 1)


@pytest.mark.both
def test_every_key_is_found_in_its_bucket(visits):
    """NULL, the empty text and odd ones too; a key that is not there finds nothing."""
    for user in (None, "", "it's", "${env:HOME}", "x" * 100):
        found = read_keys(Bucketed(visits, FOUR), keys=[{"user-id": user}])
        assert rows_of(found) == Counter(row for row in VISITED if row[0] == user)
    several = read_keys(Bucketed(visits, FOUR, partitions=[TUE]), keys=[{"user-id": None}, {"user-id": "a"}])
    assert rows_of(several) == Counter(row for row in VISITED if row[0] in (None, "a") and row[2] == "tue")
    assert read_keys(Bucketed(visits, FOUR), keys=[{"user-id": "nobody"}]).collect() == []


@pytest.mark.both
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_tables_of_the_same_buckets_are_joined_without_an_exchange(visits, users, how):
    """Each kind of join gives the rows of a plain join, which has an exchange of both sides."""
    local = join_buckets(Bucketed(visits, FOUR), Bucketed(users, FOUR), how=how)
    assert "Exchange" not in plan(local)
    assert plan(local).count("SortMergeJoin") == 4
    assert rows_of(local) == joined(how)
    assert "Exchange" not in plan(local)  # nor in the plan that adaptive execution ended with
    control = visits.read().repartition(2).join(users.read().repartition(2).hint("merge"), ["user-id"], how)
    assert plan(control).count("Exchange hashpartitioning") == 2


@pytest.mark.both
def test_partitions_versions_and_columns_of_a_side_are_chosen(visits, users):
    """A day of visits with the plans of its visitors, at a version before there were any others."""
    monday = Bucketed(visits, FOUR, columns=["page"], partitions=[MON], version=visits.ledger.version() - 1)
    found = join_buckets(monday, Bucketed(users, FOUR))
    assert found.columns == ["user-id", "page", "plan"]
    assert rows_of(found) == Counter((u, p, plan) for (u, p, d, plan), n in joined("inner").items() if d == "mon")
    nothing = join_buckets(Bucketed(visits, FOUR, partitions=[{"day": "never"}]), Bucketed(users, FOUR))
    assert nothing.collect() == []


def test_more_buckets_than_sixteen_share_sides(spark, make_table):
    """Eighteen buckets are sixteen joins, without an exchange, and all rows are there."""
    many = replace(FOUR, buckets=18)
    columns = {"user-id": Column("STRING"), "n": Column("INT"), **many.declared}
    table = make_table(TableSpec("many", columns, partition_by=("bucket",), checks=many.checks))
    rows = [(str(n), n) for n in range(200)]
    lay_out(spark.createDataFrame(rows, "`user-id` STRING, n INT"), table.target(a_run()), layout=many)
    assert len(active_files(table)) == 18
    found = join_buckets(Bucketed(table, many), Bucketed(table, many, columns=["user-id"]))
    assert (plan(found).count("SortMergeJoin"), "Exchange" in plan(found)) == (16, False)
    assert rows_of(found) == Counter(rows)


def test_other_buckets_and_other_types_are_refused_or_joined_by_a_shuffle(spark, make_table, visits, users):
    """The refusal names both tables and the way out; with a shuffle the rows are the same."""
    eight = replace(FOUR, buckets=8)
    other = make_table(replace(USERS, name="other", checks=eight.checks))
    lay_out(spark.createDataFrame(PAYING, "`user-id` STRING, plan STRING"), other.target(a_run()), layout=eight)
    mine, theirs = Bucketed(visits, FOUR), Bucketed(other, eight)
    with pytest.raises(ConfigError, match=r"visits in 4 buckets of user-id and other in 8 buckets.*shuffle=True"):
        join_buckets(mine, theirs)
    found = join_buckets(mine, theirs, shuffle=True)
    assert rows_of(found) == rows_of(join_buckets(mine, Bucketed(users, FOUR)))
    assert "Exchange" in plan(found)
    ids = {}
    for kind in ("INT", "BIGINT"):
        by_id = Layout(by=("id",), buckets=2)
        spec = TableSpec(kind, {"id": Column(kind), **by_id.declared}, partition_by=("bucket",), checks=by_id.checks)
        table = make_table(spec)
        # Rows of another whole number are cast before they are hashed.
        lay_out(spark.sql("SELECT CAST(id AS INT) AS id FROM range(9)"), table.target(a_run()), layout=by_id)
        ids[kind] = Bucketed(table, by_id)
        assert rows_of(read_keys(ids[kind], keys=[{"id": 7}])) == Counter([(7,)])
    with pytest.raises(ConfigError, match="hash equal keys differently, as id is integer and long"):
        join_buckets(ids["INT"], ids["BIGINT"])
    assert rows_of(join_buckets(ids["INT"], ids["BIGINT"], shuffle=True)) == Counter((n,) for n in range(9))


def test_another_number_of_buckets_is_a_rewrite_and_never_a_change_in_place(spark, own_visits):
    """An overwrite and an append in eight buckets are refused before anything is written; a rewrite has equal rows."""
    eight, rows = replace(FOUR, buckets=8), spark.createDataFrame(VISITED, SCHEMA)
    before, version = read_back(own_visits), own_visits.ledger.version()
    for options in ({"partition": MON}, {"partition": TUE}, {}):
        with pytest.raises(ConfigError, match="visits lies in 4 buckets, not in 8: a change is a rewrite"):
            lay_out(rows, own_visits.target(a_run(run_id="run-2"), **options), layout=eight)
    with pytest.raises(ConfigError, match="lies in 4 buckets"):
        lay_out(rows, own_visits.target(a_run(sequence=1)), layout=eight, append=True)
    assert (own_visits.ledger.version(), read_back(own_visits)) == (version, before)
    lay_out(own_visits.read(), own_visits.target(a_run(run_id="run-3")), layout=eight, rewrite=True)
    assert len(active_files(own_visits)) == 8
    plain = [{**row, "bucket": ""} for row in before]
    assert [{**row, "bucket": ""} for row in read_back(own_visits)] == plain
    with pytest.raises(ContractError, match="other buckets than 4"):
        read_keys(Bucketed(own_visits, FOUR), keys=[{"user-id": "a"}])
    with pytest.raises(ConfigError, match="lies in 8 buckets, not in 4"):
        lay_out(rows, own_visits.target(a_run(run_id="run-4"), partition=TUE), layout=FOUR)


def test_appends_reach_their_buckets_once_and_are_compacted_there(spark, own_visits):
    """Each append adds a file to a bucket, its retry none; compaction leaves one per bucket, of the same rows."""
    for _ in range(2):
        more = spark.createDataFrame([(user, "/more", "mon") for user in NAMES], SCHEMA)
        lay_out(more, own_visits.target(a_run(run_id="more", sequence=1)), layout=FOUR, append=True)
    assert len(files_of(own_visits, **MON)) == 8
    before, version = read_back(own_visits), own_visits.ledger.version()
    assert [row["page"] for row in before if row["user-id"] == "7"] == ["/0", "/1", "/2", "/more"]
    assert compact(own_visits.target(a_run()), min_small_files=2).applied
    assert len(files_of(own_visits, **MON)) == 4
    assert read_back(own_visits) == before
    assert own_visits.ledger.changes(since=version)[1] == {}
    found = read_keys(Bucketed(own_visits, FOUR), keys=[{"user-id": "7"}])
    assert (len(found.inputFiles()), found.count()) == (1, 4)


def test_a_rerun_and_a_refused_write_change_nothing(spark, own_visits):
    """The same rows again make no other file; rows that a constraint refuses, or none, leave the table as it was."""
    files = active_files(own_visits)
    monday = spark.createDataFrame(VISITED[: len(VISITED) // 2], SCHEMA)
    lay_out(monday, own_visits.target(a_run(run_id="again"), partition=MON), layout=FOUR)
    assert active_files(own_visits) == files
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        lay_out(monday.limit(0), own_visits.target(a_run(run_id="none"), partition=MON), layout=FOUR)
    with pytest.raises(AuditFailed):
        lay_out(monday, own_visits.target(a_run(run_id="tue"), partition=TUE), layout=FOUR)
    assert active_files(own_visits) == files
    assert own_visits.ledger.commit(own_visits.ledger.version()).record.pattern == "storage.bucket"


def test_what_cannot_be_is_refused_before_anything_is_written(spark, make_table):
    """By the option's name, with what there is instead."""
    bare = make_table(TableSpec("bare", COLUMNS, partition_by=("day",)))
    rows = spark.createDataFrame(VISITED, SCHEMA)
    with pytest.raises(ConfigError, match="bare does not declare its layout"):
        lay_out(rows, bare.target(a_run()), layout=FOUR)
    assert not bare.ledger.exists()
    new = make_table(replace(VISITS, name="new"))
    with pytest.raises(ConfigError, match="needs a run with a sequence"):
        lay_out(rows, new.target(a_run()), layout=FOUR, append=True)
    with pytest.raises(ConfigError, match="rewrite must be False for an append"):
        lay_out(rows, new.target(a_run(sequence=1)), layout=FOUR, append=True, rewrite=True)
    with pytest.raises(ConfigError, match="must have no partition"):
        lay_out(rows, new.target(a_run(sequence=1), partition=MON), layout=FOUR, append=True)
    collated = rows.selectExpr("`user-id` COLLATE UTF8_LCASE AS `user-id`", "page", "day")
    with pytest.raises(ConfigError, match="only by a collation"):
        lay_out(collated, new.target(a_run()), layout=FOUR)
    assert not new.ledger.exists()


def test_readers_that_cannot_be_right_are_refused(visits, users):
    """By the option's name, with what there is instead, before a row is read."""
    for keys, why in (([], "at least one"), ([{"page": "/"}], "columns user-id"), ([{"user-id": 5}], "type string")):
        with pytest.raises(ConfigError, match=why):
            read_keys(Bucketed(visits, FOUR), keys=keys)
    with pytest.raises(ConfigError, match="visits has no column x"):
        read_keys(Bucketed(visits, FOUR, columns=["x"]), keys=[{"user-id": "a"}])
    with pytest.raises(ConfigError, match="partitioned by shard"):
        read_keys(Bucketed(visits, replace(FOUR, column="shard")), keys=[{"user-id": "a"}])
    with pytest.raises(ConfigError, match="laid out by the same key"):
        join_buckets(Bucketed(visits, FOUR), Bucketed(users, replace(FOUR, by=("plan",))))
    with pytest.raises(ConfigError, match=r"both have page, day: name the columns"):
        join_buckets(Bucketed(visits, FOUR), Bucketed(visits, FOUR))
    with pytest.raises(ContractError, match="no constraint that keeps each row"):
        read_keys(Bucketed(visits, replace(FOUR, by=("page",))), keys=[{"page": "/0"}])


def test_a_bucket_is_computed_alike_without_spark(spark):
    """Several columns, of which one's hash is the seed of the next, and NULL: the bucket of Spark's SQL."""
    pairs = list(product(["a", None, "é"], [1, None, -7]))
    layout = Layout(by=("a", "b"), buckets=7)
    ours = [layout.bucket_of({"A": a, "b": b}, {"a": "string", "b": "long"}) for a, b in pairs]
    frame = spark.createDataFrame(pairs, "a STRING, b BIGINT")
    assert [row[0] for row in frame.selectExpr(layout.bucket).collect()] == ours


@any_names(STORED, handed_on=["page", "plan"])
def rows_in_buckets(n):
    layout = Layout(by=(n("user"),), buckets=3, column=n.declared("bucket"))
    tables = []
    for value in ("page", "plan"):
        columns = f"user STRING, {value} STRING"
        table = n.table(columns, more=layout.declared, by=["bucket"], checks=layout.checks)
        rows = n.frame(columns, *[(f"u{m % 4}", f"/{m}") for m in range(9)], (None, "/"))
        lay_out(rows, table.target(a_run()), layout=layout)
        tables.append(table)
    visits, users = (Bucketed(table, layout) for table in tables)
    yield read_keys(replace(visits, columns=n.all("page")), keys=[{n("user"): "u1"}, {n("user"): None}])
    yield join_buckets(visits, users, how="left")


@known_calls
def calls_that_work(known):
    layout = Layout(by=("user",), buckets=2)
    laid = [
        known.table(
            name, {"user": Column("STRING"), **columns, **layout.declared}, by=("bucket",), checks=layout.checks
        )
        for name, columns in (("gold/bucketed", {"page": Column("STRING")}), ("gold/bucketed_too", {}))
    ]
    one, other = (Bucketed(table, layout) for table in laid)
    return {
        "lay_out": {
            "rows": known.visits.select("user", "page"),
            "into": laid[0].target(known.run),
            "layout": layout,
            "allow_empty": False,
            "append": False,
            "rewrite": True,
        },
        "read_keys": {"bucketed": one, "keys": [{"user": "Ada"}]},
        "join_buckets": {"left": one, "right": other, "how": "left", "shuffle": False},
    }


@two_runs(append=False)
@two_runs(append=True)
def laid_out_at_once(world, append):
    layout = Layout(by=("user",), buckets=2)
    columns = "user STRING, n INT"
    world.table("laid", columns, more=layout.declared, by=["bucket"], checks=layout.checks)

    def write(w, number, users):
        rows = w.frame(columns, *[(user, number) for user in users])
        into = w["laid"].target(replace(w.run(str(number)), sequence=number if append else None))
        lay_out(rows, into, layout=layout, append=append)

    write(world, 1, "ab")
    yield lambda w: write(w, 2, "bc")
    yield lambda w: write(w, 3, "cd")
