"""Metadata Decorator: what operators know of a row, and no user meets."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer

from dedp_assets.graph.systems.kafka import client
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.value._loads import loads_of
from dedp_assets.patterns.value.metadata_decorator import CONTEXT, contexts_of, decorate, view_for_users
from tests.contracts.known_calls import known_calls
from tests.faults.failpoints import dying
from tests.helpers import NOW, a_run
from tests.renaming import STORED, any_names

VISITS = {
    "visit_id": Column("STRING", required=True),
    "page`s": Column("STRING"),
    "day": Column("STRING", required=True),
}
HIDDEN = Column("MAP<STRING, STRING>", technical=True)
RELEASE = {"job_version": "1.0.3", "run_id": "it's \\ a run"}


def day_of(spark, day, *pages):
    """One visit of a day for each page."""
    return spark.createDataFrame([(f"{day}-{n}", page, day) for n, page in enumerate(pages)], list(VISITS))


def load(rows, table, day, version):
    """What a release loads for a day."""
    run = a_run(table.name, run_id=f"run of {version}", code_version=version, inputs={"rows": version})
    return overwrite_partition(rows, table.target(run, partition={"day": day}))


@pytest.mark.slow
def test_headers_reach_the_topic_and_the_value_stays_as_it_was(spark, kafka):
    """Read back by another client and by Spark: the payload has no word of the context, the headers have all of it."""
    kafka.create(partitions=1)
    payload = json.dumps({"visit_id": "v1", "page": "/"})
    rows = spark.createDataFrame([("u1", payload), ("u2", None)], "key STRING, value STRING")
    topic = {"kafka.bootstrap.servers": kafka.bootstrap}
    decorated = decorate(rows, context=RELEASE, storage="headers")
    decorated.write.format("kafka").options(**topic, topic=kafka.topic, includeHeaders="true").save()

    consumer = Consumer({**client(kafka.bootstrap), "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([kafka.topic])
    records = sorted(consumer.consume(2, timeout=60), key=lambda record: record.key())
    consumer.close()
    assert [record.value() for record in records] == [payload.encode(), None]
    expected = {key: value.encode() for key, value in RELEASE.items()}
    assert [dict(record.headers()) for record in records] == [expected, expected]
    read = spark.read.format("kafka").options(**topic, subscribe=kafka.topic, includeHeaders="true").load()
    by_version = "filter(headers, h -> h.key = 'job_version' AND CAST(h.value AS STRING) = '1.0.3')"
    assert read.filter(f"size({by_version}) = 1").count() == 2


@pytest.mark.both
def test_a_release_is_known_by_row_and_users_see_no_difference(spark, tmp_path):
    """Two releases, two days: operators split rows by release; the view has the same columns before and after both."""
    hidden = TableSpec("silver/visits", {**VISITS, CONTEXT: HIDDEN}, ("day",))
    table = Table(hidden, tmp_path / "a lake" / hidden.name, spark)
    for day, version in (("mon", "1"), ("tue", "2")):
        rows = decorate(day_of(spark, day, "/", None), context={"job_version": version}, storage="column")
        load(rows, table, day, version)
    spark.sql(view_for_users(table, view="users' visits"))
    view = "SELECT * FROM `users' visits`"
    assert spark.sql(view).columns == list(VISITS)
    found = sorted(map(tuple, spark.sql(view).collect()), key=str)
    assert found == [("mon-0", "/", "mon"), ("mon-1", None, "mon"), ("tue-0", "/", "tue"), ("tue-1", None, "tue")]
    by_release = table.read().groupBy("day", f"{CONTEXT}.job_version").count().collect()
    assert sorted(map(tuple, by_release)) == [("mon", "1", 2), ("tue", "2", 2)]

    same = decorate(day_of(spark, "mon", "/", None), context={"job_version": "3"}, storage="column")
    assert not load(same, table, "mon", "3").changed
    fixed = decorate(day_of(spark, "mon", "/", "/b"), context={"job_version": "4"}, storage="column")
    assert load(fixed, table, "mon", "4").changed
    by_release = table.read().groupBy("day", f"{CONTEXT}.job_version").count().collect()
    assert sorted(map(tuple, by_release)) == [("mon", "4", 2), ("tue", "2", 2)]
    assert spark.sql(view).columns == list(VISITS)


def test_each_row_has_one_context_by_its_partition_whatever_happens_to_a_load(spark, make_table):
    """Without a column in the data: a load that died left no context and no rows; a backfill replaces both of its day.

    A restore brings the former context back with the rows.
    """
    table = make_table(TableSpec("silver/visits", VISITS, ("day",)))
    table.ensure()
    monday, tuesday = {"day": "mon"}, {"day": "tue"}

    def told(day):
        return [(load.loading_attempt, load.run_id, load.is_current) for load in loads_of(table.ledger, day)]

    with dying("before") as failpoint, pytest.raises(Exception, match="killed"):
        load(day_of(spark, "mon", "/"), table, "mon", "1")
    assert failpoint.reached
    assert told(monday) == []
    load(day_of(spark, "mon", "/"), table, "mon", "1")
    load(day_of(spark, "mon", "/"), table, "mon", "1")
    load(day_of(spark, "tue", "/", "/a"), table, "tue", "1")
    assert (told(monday), told(tuesday)) == ([(1, "run of 1", True)], [(1, "run of 1", True)])
    before = table.ledger.version()
    load(day_of(spark, "mon", "/b"), table, "mon", "2")
    assert told(monday) == [(1, "run of 1", False), (2, "run of 2", True)]
    assert told(tuesday) == [(1, "run of 1", True)]
    table.restore(before, provenance=a_run(table.name))
    assert told(monday) == [(1, "run of 1", True), (2, "run of 2", False)]
    current = contexts_of(table, {"DAY": "mon"}).filter("is_current").selectExpr("'mon' AS day", "*")
    joined = table.read(monday).join(current, "day").select("visit_id", "`page``s`", "code_version", "loading_time")
    assert [tuple(row) for row in joined.collect()] == [("mon-0", "/", "1", NOW.replace(tzinfo=None))]


@pytest.mark.parametrize(
    ("columns", "context", "storage", "said"),
    [
        ("id INT", {"shipment_address": "x"}, "column", "shipment_address is no technical context"),
        ("id INT, code_version INT", {"code_version": "1"}, "column", "code_version is no technical context"),
        ("id INT, Run_ID INT", {"run_id": "1", "amount": "2"}, "headers", "run_id, amount is no technical context"),
        ("id INT", {"RUN_ID": "1"}, "column", "RUN_ID is no technical context"),
        ("id INT", {}, "column", "nothing is no technical context"),
        ("id INT", RELEASE, "headers", "headers are Kafka's"),
        ("value INT, Headers INT", RELEASE, "headers", "Headers"),
        ("id INT, processing_context INT", RELEASE, "column", "processing_context"),
        ("id INT", RELEASE, "tags", "storage must be headers or column, not 'tags'"),
    ],
)
def test_what_is_no_context_or_has_no_place_for_one_is_refused(spark, columns, context, storage, said):
    """By name: business keys, keys that are columns of the data, a sink without headers, a column that is there."""
    with pytest.raises(ConfigError, match=said):
        decorate(spark.createDataFrame([], columns), context=context, storage=storage)


def test_a_view_needs_columns_that_are_declared_for_users(tmp_path):
    """A table that is opened as it is stored declares none, and a column that is not there cannot be hidden."""

    def view(columns, **more):
        return view_for_users(Table(TableSpec("silver/visits", columns), tmp_path, lambda: None), view="v", **more)

    assert view({**VISITS, CONTEXT: HIDDEN}, hidden=["visit_id", "day"]).startswith(
        "CREATE OR REPLACE TEMPORARY VIEW `v` AS SELECT `page``s` FROM delta."
    )
    with pytest.raises(ConfigError, match="silver/visits declares no column for users"):
        view({CONTEXT: HIDDEN})
    with pytest.raises(ConfigError, match="silver/visits has no column pages to hide"):
        view(VISITS, hidden=["pages"])


@any_names(STORED, handed_on=("id", "page"))
def decorated(n):
    table = n.table("id INT, page STRING", more={CONTEXT: Column("MAP<STRING, STRING>", technical=True)})
    rows = decorate(n.frame("id INT, page STRING", (1, "/")), context={"run_id": "it's"}, storage="column")
    table.overwrite(rows, provenance=a_run())
    n.spark.sql(view_for_users(table, view=n("view"), hidden=n.all("page")))
    yield n.spark.sql(f"SELECT * FROM {n.q('view')}")


@known_calls
def calls_that_work(known):
    return {
        "contexts_of": {"table": known.daily, "partition": {"day": "mon"}, "until": 1},
        "view_for_users": {"table": known.daily, "view": "shown", "hidden": ["user"]},
    }
