"""Fine-Grained Tracker: origins of columns against readings by hand, and stamps of rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.sql.column_lineage import broken_references, propagate
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from dedp_assets.patterns.idempotency.merger import merge_changes
from dedp_assets.patterns.observability._plans import CUT
from dedp_assets.patterns.observability.fine_grained_tracker import (
    PARENT_STAMPS,
    ROW_STAMP,
    STAMPS,
    stamp_rows,
    trace_columns,
    without_stamps,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run

pytestmark = pytest.mark.spark

VIEWS = {
    "users": (
        "id BIGINT, first_name STRING, last_name STRING, country STRING, address_id BIGINT, tags ARRAY<STRING>, "
        "device STRUCT<os: STRING, hw: STRUCT<cpu: STRING, `a b`: INT>>, at TIMESTAMP"
    ),
    "addresses": "id BIGINT, address STRING, city STRING",
    "orders": "order_id BIGINT, user_id BIGINT, amount DOUBLE, status STRING, items ARRAY<STRUCT<sku: STRING, n: INT>>",
    "odd": "`a b` STRING, `x#1` STRING, `c,d` STRING, `e[f]` STRING, `g(h` STRING, `i AS j` STRING",
}

# Query -> by hand: inputs of each column (= the same value, ~ computed, + of several rows), then the influences.
READINGS = {
    "SELECT concat(first_name, address) AS user_with_address FROM users u JOIN addresses a ON u.address_id = a.id": (
        "user_with_address: ~users.first_name ~addresses.address",
        "JOIN users.address_id, JOIN addresses.id",
    ),
    "SELECT user_id, max_by(order_id, amount) AS dearest FROM orders GROUP BY user_id": (
        "user_id: =orders.user_id; dearest: +orders.order_id",
        "SORT orders.amount, GROUP_BY orders.user_id",
    ),
    "SELECT p.o, p.s FROM (SELECT min_by(struct(order_id AS o, concat(status, '!') AS s), struct(amount, order_id)) p "
    "FROM orders GROUP BY user_id)": (
        "o: +orders.order_id; s: +orders.status",
        "SORT orders.amount, SORT orders.order_id, GROUP_BY orders.user_id",
    ),
    "SELECT user_id, max_by(order_id, amount, 3) AS dear FROM orders GROUP BY user_id": (
        "user_id: =orders.user_id; dear: +orders.amount +orders.order_id",
        "GROUP_BY orders.user_id",
    ),
    "SELECT * FROM addresses": ("id: =addresses.id; address: =addresses.address; city: =addresses.city", ""),
    "SELECT * EXCEPT (id, city) FROM addresses": ("address: =addresses.address", ""),
    "SELECT a.id AS n, a.city c FROM addresses AS a": ("n: =addresses.id; c: =addresses.city", ""),
    "WITH a AS (SELECT id, upper(city) AS c FROM addresses), b AS (SELECT c, id FROM a WHERE id > 1) "
    "SELECT b.c, a.c AS again FROM b JOIN a ON b.id = a.id": (
        "c: ~addresses.city; again: ~addresses.city",
        "FILTER addresses.id, JOIN addresses.id",
    ),
    "SELECT first_name AS n, id FROM users UNION ALL SELECT city, id FROM addresses": (
        "n: =users.first_name =addresses.city; id: =users.id =addresses.id",
        "",
    ),
    "SELECT id FROM users EXCEPT SELECT id FROM addresses": ("id: =users.id", "FILTER users.id, FILTER addresses.id"),
    "SELECT status, count(*) AS n, sum(amount) AS total, max(amount) || status AS m FROM orders WHERE user_id > 3 "
    "GROUP BY status HAVING count(DISTINCT order_id) > 1": (
        "status: =orders.status; n: ; total: +orders.amount; m: +orders.amount ~orders.status",
        "FILTER orders.user_id, GROUP_BY orders.status, FILTER orders.order_id",
    ),
    "SELECT sum(amount) FILTER (WHERE status = 'paid') AS total FROM orders": (
        "total: +orders.amount",
        "CONDITIONAL orders.status",
    ),
    "SELECT id, row_number() OVER (PARTITION BY country ORDER BY at) AS n, rank() OVER (ORDER BY id) AS r, "
    "lag(first_name) OVER (PARTITION BY country ORDER BY at) AS before FROM users": (
        "id: =users.id; n: ; r: ; before: ~users.first_name",
        "WINDOW users.country, WINDOW users.at, WINDOW users.id",
    ),
    "SELECT device.os, device.hw.cpu AS cpu, upper(device.os) AS up FROM users": (
        "os: =users.device.os; cpu: =users.device.hw.cpu; up: ~users.device.os",
        "",
    ),
    "SELECT device.* FROM users": ("os: =users.device.os; hw: =users.device.hw", ""),
    "SELECT device.hw.`a b` AS n FROM users": ("n: =users.device.hw.a b", ""),
    "SELECT s.n, s FROM (SELECT named_struct('n', first_name, 'c', country) AS s FROM users)": (
        "n: =users.first_name; s: ~users.first_name ~users.country",
        "",
    ),
    "SELECT s.os AS os FROM (SELECT device AS s FROM (SELECT device FROM users))": ("os: =users.device.os", ""),
    "SELECT m FROM (SELECT upper(n) AS m FROM (SELECT concat(first_name, last_name) AS n FROM users))": (
        "m: ~users.first_name ~users.last_name",
        "",
    ),
    "SELECT id, explode(tags) AS tag FROM users": ("id: =users.id; tag: ~users.tags", ""),
    "SELECT order_id, item.sku, pos FROM orders LATERAL VIEW OUTER posexplode(items) AS pos, item": (
        "order_id: =orders.order_id; sku: ~orders.items.sku; pos: ~orders.items",
        "",
    ),
    "SELECT item.sku FROM orders LATERAL VIEW explode(items) AS item": ("sku: ~orders.items.sku", ""),
    "SELECT k, v FROM users LATERAL VIEW stack(2, 'a', first_name, 'b', last_name) AS k, v": (
        "k: ; v: =users.first_name =users.last_name",
        "",
    ),
    "SELECT * FROM (SELECT user_id, status, amount FROM orders) PIVOT (sum(amount) FOR status IN ('paid', 'open'))": (
        "user_id: =orders.user_id; paid: +orders.amount; open: +orders.amount",
        "CONDITIONAL orders.status, GROUP_BY orders.status, GROUP_BY orders.user_id",
    ),
    "SELECT * FROM (SELECT id, first_name, last_name FROM users) UNPIVOT INCLUDE NULLS "
    "(v FOR k IN (first_name, last_name))": (
        "id: =users.id; k: ; v: =users.first_name =users.last_name",
        "",
    ),
    "SELECT CASE WHEN country = 'de' THEN first_name ELSE CASE WHEN id > 1 THEN last_name END END AS n, "
    "if(at IS NULL, 0, address_id) AS a, nvl2(tags, id, 1) AS i FROM users": (
        "n: ~users.first_name ~users.last_name; a: ~users.address_id; i: ~users.id",
        "CONDITIONAL users.country, CONDITIONAL users.id, CONDITIONAL users.at, CONDITIONAL users.tags",
    ),
    "SELECT id + 1 AS a, a * address_id AS b FROM users": ("a: ~users.id; b: ~users.id ~users.address_id", ""),
    "SELECT country, city, sum(u.id) AS s, grouping(country) AS g FROM users u, addresses "
    "GROUP BY ROLLUP (country, city)": (
        "country: =users.country; city: =addresses.city; s: +users.id; g: ",
        "GROUP_BY users.country, GROUP_BY addresses.city",
    ),
    "SELECT id, (SELECT max(amount) FROM orders o WHERE o.user_id = u.id) AS top FROM users u": (
        "id: =users.id; top: +orders.amount",
        "FILTER orders.user_id, FILTER users.id",
    ),
    "SELECT id FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id)": (
        "id: =users.id",
        "FILTER orders.user_id, FILTER users.id",
    ),
    "SELECT u.id, l.amount FROM users u, LATERAL (SELECT amount FROM orders o WHERE o.user_id = u.id) l": (
        "id: =users.id; amount: =orders.amount",
        "FILTER orders.user_id, FILTER users.id",
    ),
    "SELECT transform(tags, t -> concat(t, country)) AS tags FROM users": ("tags: ~users.tags ~users.country", ""),
    "SELECT `a b`, `x#1`, `c,d`, `e[f]`, `g(h`, `i AS j`, `a b` AS `b AS c`, upper(`c,d`) AS `z, y` FROM odd": (
        "a b: =odd.a b; x#1: =odd.x#1; c,d: =odd.c,d; e[f]: =odd.e[f]; g(h: =odd.g(h; i AS j: =odd.i AS j; "
        "b AS c: =odd.a b; z, y: ~odd.c,d",
        "",
    ),
    "SELECT city FROM addresses ORDER BY address, id LIMIT 3": (
        "city: =addresses.city",
        "SORT addresses.address, SORT addresses.id",
    ),
    "SELECT DISTINCT city FROM addresses TABLESAMPLE (50 PERCENT)": (
        "city: =addresses.city",
        "GROUP_BY addresses.city",
    ),
    "SELECT 1 AS one, current_date() AS d, 'it''s' AS text FROM users": ("one: ; d: ; text: ", ""),
    "SELECT id FROM users LEFT ANTI JOIN orders ON id = user_id": (
        "id: =users.id",
        "JOIN users.id, JOIN orders.user_id",
    ),
    "SELECT coalesce(u.id, a.id) AS id FROM users u FULL JOIN addresses a ON u.id = a.id": (
        "id: ~users.id ~addresses.id",
        "JOIN users.id, JOIN addresses.id",
    ),
}  # fmt: skip
ON_BOTH = tuple([*READINGS][place] for place in (0, 7, 13))
_SIGNS = {"IDENTITY": "=", "TRANSFORMATION": "~", "AGGREGATION": "+"}


@pytest.fixture(autouse=True)
def _views(spark):
    """Temporary views without rows: a plan needs none."""
    for name, columns in VIEWS.items():
        spark.createDataFrame([], columns).createOrReplaceTempView(name)


def told(lineage):
    """A lineage in the form of the readings, sorted."""
    columns = {name: {f"{_SIGNS[i.transformation]}{i}" for i in each.inputs} for name, each in lineage.columns.items()}
    return columns, {f"{each.effect} {each}" for each in lineage.influences}


def read_by_hand(columns, influences):
    """A reading, parsed."""
    inputs = dict[str, set[str]]()
    for each in columns.split("; "):
        name, _, found = each.partition(": ")
        inputs[name] = {sign + rest for sign, rest in _each_input(found)}
    return inputs, {each for each in influences.split(", ") if each}


def _each_input(text):
    """Split ``=users.a b ~users.c``: names may have blanks."""
    for part in filter(None, text.replace(" =", "\n=").replace(" ~", "\n~").replace(" +", "\n+").split("\n")):
        yield part[0], part[1:]


def require_reading(spark, query):
    """Trace a query and compare it with the reading."""
    lineage = trace_columns(spark.sql(query))
    assert told(lineage) == read_by_hand(*READINGS[query])
    assert not any(each.opaque for each in lineage.columns.values())
    assert lineage.gaps == ()


def test_each_query_has_the_lineage_that_a_person_reads_in_it(spark):
    """Alias, star, WITH, join, union, aggregation, window, nested fields, several hops, and what else SQL has."""
    for query in READINGS:
        require_reading(spark, query)


@pytest.mark.both
@pytest.mark.parametrize("query", ON_BOTH, ids=["join", "aggregation", "struct"])
def test_lineage_is_the_same_whatever_the_client(spark, query):
    """The text of the plan is the same in an embedded session and over Spark Connect."""
    require_reading(spark, query)


def test_a_python_function_is_opaque_with_its_inputs(spark):
    """Also one over whole rows, and one in an expression; columns beside it stay clear."""

    @F.udf("string")
    def joined(one, other):
        return f"{one}{other}"

    rows = spark.table("users").select(F.upper(joined("first_name", "country")).alias("n"), "id")
    lineage = trace_columns(rows)
    assert told(lineage)[0] == {"n": {"~users.first_name", "~users.country"}, "id": {"=users.id"}}
    assert lineage.columns["n"].opaque == "joined is a function whose code no plan shows"
    assert lineage.columns["id"].opaque == ""
    mapped = spark.table("addresses").mapInArrow(lambda batches: batches, "x STRING")
    assert trace_columns(mapped).columns["x"].opaque
    assert told(trace_columns(mapped))[0]["x"] == {f"~addresses.{name}" for name in ("id", "address", "city")}


def test_the_frame_api_is_read_like_sql(spark):
    """A self-join, a window, a duplicate dropped, a field replaced."""
    users = spark.table("users")
    place = F.row_number().over(Window.partitionBy("country").orderBy(F.desc("at")))
    newest = users.withColumn("place", place).filter("place = 1").drop("place")
    pairs = newest.alias("u").join(users.alias("v"), F.expr("u.id = v.address_id"))
    lineage = trace_columns(pairs.select("u.first_name", F.col("v.first_name").alias("other")))
    assert told(lineage)[0] == {"first_name": {"=users.first_name"}, "other": {"=users.first_name"}}
    changed = users.withColumn("device", F.col("device").withField("os", F.col("country")))
    fields = trace_columns(changed.select("device.os", "device.hw"))
    assert told(fields)[0] == {"os": {"=users.country"}, "hw": {"=users.device.hw"}}


def test_tables_are_known_by_their_names_though_files_have_none(spark, table):
    """Rows read from a table, joined with themselves and through a query's placeholder; several hops end to end."""
    bronze = table("bronze/visits", "id INT, user STRING", (1, "a"))
    silver = table("silver/visits", "id INT, who STRING", (1, "A"))
    step = spark.sql("SELECT id, upper(user) AS who FROM {visits}", visits=bronze.read())
    assert told(trace_columns(step))[0] == {"id": {"=bronze/visits.id"}, "who": {"~bronze/visits.user"}}
    both = silver.read().alias("a").join(silver.read().alias("b"), "id").selectExpr("a.who", "b.who AS other")
    assert told(trace_columns(both)) == (
        {"who": {"=silver/visits.who"}, "other": {"=silver/visits.who"}},
        {"JOIN silver/visits.id"},
    )
    lineages = {"silver/visits": trace_columns(step), "gold/pairs": trace_columns(both)}
    reach = propagate({"bronze/visits": {"user": ["personal"]}}, lineages)
    assert reach.tags["silver/visits"] == {"who": ("personal",)}
    assert reach.tags["gold/pairs"] == {"who": ("personal",), "other": ("personal",)}


def test_a_view_stands_for_the_table_that_it_is_given_as(spark):
    """A name in the plan is mapped to a table, also above a view of its own inputs."""
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW full_names AS SELECT concat(first_name, last_name) AS n FROM users")
    rows = spark.sql("SELECT upper(n) AS n FROM full_names")
    assert told(trace_columns(rows))[0] == {"n": {"~users.first_name", "~users.last_name"}}
    mapped = trace_columns(rows, tables={"full_names": "silver/names"})
    assert told(mapped)[0] == {"n": {"~silver/names.n"}}


def test_what_is_not_understood_is_opaque_and_what_is_stays(spark):
    """Rows without a name, a query that goes round, and a text that looks like a part of a plan."""
    made = spark.createDataFrame([(1, "a")], "id INT, page STRING").union(spark.createDataFrame([], "i INT, p STRING"))
    text = spark.table("users").select(F.lit("(x#1 AS [y, country#3").alias("t"), "id", "country")
    lineage = trace_columns(text)
    assert lineage.columns["t"].opaque
    assert told(lineage)[0] == {"t": set(), "id": {"=users.id"}, "country": {"=users.country"}}
    rounds = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n, id FROM r, users"
    lineage = trace_columns(spark.sql(rounds))
    assert lineage.columns["n"].opaque
    assert lineage.columns["id"].inputs
    assert lineage.gaps
    assert not any(each.inputs for each in trace_columns(made).columns.values())


def test_a_plan_that_spark_cut_says_so(spark):
    """Instead of the columns that happen to be shown."""
    wide = spark.range(1).selectExpr(*[f"id AS c{n}" for n in range(40)])
    assert not trace_columns(wide).gaps
    before = spark.conf.get("spark.sql.debug.maxToStringFields")
    spark.conf.set("spark.sql.debug.maxToStringFields", "25")
    try:
        assert trace_columns(wide).gaps == (CUT,)
    finally:
        spark.conf.set("spark.sql.debug.maxToStringFields", before)


def test_a_renamed_upstream_column_is_a_broken_reference(spark):
    """It is named with the columns that come from it, until the query is traced again."""
    lineage = trace_columns(spark.sql("SELECT concat(first_name, last_name) AS n FROM users WHERE country = 'de'"))
    fits = {"users": ["first_name", "last_name", "country"]}
    assert broken_references(lineage, fits).passed
    finding = broken_references(lineage, {"users": ["given_name", "last_name", "land"]})
    assert finding.refuses
    assert finding.figures == {"broken": 2}
    assert "users.first_name is gone, which n comes from" in finding.note
    assert "users.country is gone, which FILTER comes from" in finding.note


VISITS = TableSpec(
    "silver/visits",
    {"id": Column("INT", required=True), "page": Column("STRING"), "day": Column("STRING", required=True), **STAMPS},
    partition_by=("day",),
)


def writing(table, run_id, hours=0, code_version="1", **more):
    """A run that writes a table, some hours after the first one."""
    at = NOW + timedelta(hours=hours)
    return table.target(replace(a_run(table.name, run_id=run_id, code_version=code_version, **more), at=at))


def by_run(table):
    """Run -> ids of the rows that it wrote."""
    found = dict[str, set[int]]()
    for row in table.read().select("id", f"{ROW_STAMP}.*").collect():
        found.setdefault(row.run_id, set()).add(row.id)
    return found


def load(table, rows, run_id, hours=0, **more):
    """Overwrite Monday by a run."""
    into = replace(writing(table, run_id, hours, **more), partition={"day": "mon"})
    kept = stamp_rows(rows, into).withColumn(PARENT_STAMPS, F.expr(f"CAST(NULL AS {STAMPS[PARENT_STAMPS].type})"))
    return overwrite_partition(kept, into)


@pytest.mark.both
def test_every_row_says_who_wrote_it_and_a_rerun_with_other_rows_is_the_new_writer(spark, tmp_path):
    """Job, run, code version and time; all rows of a run are found exactly; a retry of the same inputs is no writer."""
    visits = Table(VISITS, tmp_path / "silver/visits", spark)
    columns = "id INT, page STRING, day STRING"
    first = spark.createDataFrame([(1, "/a", "mon"), (2, "it's", "mon")], columns)
    load(visits, first, "run-1", inputs={"rows": 1})
    stamp = visits.read().select(f"{ROW_STAMP}.*").first()
    assert (stamp.job, stamp.run_id, stamp.code_version) == ("silver/visits", "run-1", "1")
    assert visits.read().filter(f"{ROW_STAMP}.written_at = TIMESTAMP '2026-01-20 12:00:00+00:00'").count() == 2
    assert not load(visits, first, "run-2", 1, inputs={"rows": 1}).applied
    assert by_run(visits) == {"run-1": {1, 2}}
    more = spark.createDataFrame([(1, "/a", "mon"), (3, "/c", "mon")], columns)
    load(visits, more, "run-3", 2, inputs={"rows": 2}, code_version="2")
    assert by_run(visits) == {"run-3": {1, 3}}


def test_a_merge_stamps_changed_rows_only(spark, tmp_path):
    """A row that the merge brings again, unchanged, keeps the stamp of the run that wrote it."""
    columns = {"id": Column("INT", required=True), "name": Column("STRING"), ROW_STAMP: STAMPS[ROW_STAMP]}
    users = Table(TableSpec("silver/users", columns, key=("id",)), tmp_path / "users", spark)
    of = lambda *rows: spark.createDataFrame(list(rows), "id INT, name STRING")  # noqa: E731
    first, second, third = (writing(users, f"run-{n}", n, sequence=n) for n in (1, 2, 3))
    merge_changes(stamp_rows(of((1, "Ada"), (2, "Bob"), (3, "Cy")), first), first, keys=["id"])
    merge_changes(stamp_rows(of((1, "Ada"), (2, "Bea"), (4, "Dan")), second), second, keys=["id"])
    assert by_run(users) == {"run-1": {1, 3}, "run-2": {2, 4}}
    upsert_keyed(stamp_rows(of((1, "Ada L."), (2, "Bea")), third), third)
    assert by_run(users) == {"run-1": {3}, "run-2": {2, 4}, "run-3": {1}}


def test_a_row_keeps_the_stamps_of_its_parents_and_users_see_none(spark, table):
    """Through two jobs: the first writer is the first of the chain; a row without a stamp has no parent."""
    raw = spark.createDataFrame([(1,), (2,)], "id INT")
    bronze, silver, gold = (table(f"{layer}/visits", "id INT") for layer in ("bronze", "silver", "gold"))
    one = stamp_rows(raw, writing(bronze, "b-1"))
    two = stamp_rows(one, writing(silver, "s-1"), keep_parents=True)
    three = stamp_rows(two, writing(gold, "g-1"), keep_parents=True)
    found = three.select(f"{PARENT_STAMPS}.run_id", f"{ROW_STAMP}.job").first()
    assert tuple(found) == (["b-1", "s-1"], "gold/visits")
    assert without_stamps(three).columns == ["id"]
    nothing = raw.withColumn(ROW_STAMP, F.expr(f"CAST(NULL AS {STAMPS[ROW_STAMP].type})"))
    orphan = stamp_rows(nothing, writing(silver, "s-2"), keep_parents=True)
    assert orphan.select(PARENT_STAMPS).first()[0] == []


def test_stamps_are_refused_that_would_be_wrong(spark, table):
    """A run without a time, stamps that would be lost, parents that are not there."""
    visits, rows = table("silver/visits", "id INT"), spark.range(1)
    with pytest.raises(ConfigError, match="at must be the time at which the run started"):
        stamp_rows(rows, visits.target("run-1"))
    into = writing(visits, "run-1")
    with pytest.raises(ConfigError, match="row_stamp"):
        stamp_rows(stamp_rows(rows, into), into)
    with pytest.raises(ConfigError, match="keep_parents must be False for rows without row_stamp"):
        stamp_rows(rows, into, keep_parents=True)


@known_calls
def calls_that_work(known):
    return {
        "trace_columns": {"rows": known.visits, "tables": {"users": "silver/users"}},
        "without_stamps": {"rows": known.visits},
    }
