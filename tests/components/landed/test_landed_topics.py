"""A topic as a landing: each record once, valid ones on their own date, and the others with a reason."""

from __future__ import annotations

import io
import json
from datetime import datetime, time, timedelta, timezone
from functools import cache

import dagster as dg
import fastavro
import pytest

from dedp_assets.case_study.sources.visits_topic import publish
from dedp_assets.components.inference.inferring import infer
from dedp_assets.graph.declare import sensors_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.patterns.connectors.kafka.framed_values import UNREAD
from dedp_assets.patterns.connectors.kafka.schema_registry import framed, register_schema
from tests.components.landed_project import Project
from tests.helpers import within_one_day
from tests.registry import schemas_in_memory

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "runs over the topic of a broker")]
ORDERS = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/orders
  topic: {name: TOPIC, brokers: ORDERS_BROKERS, registry: ORDERS_REGISTRY}
  partitions: {daily: {start: START}}
  event_time: at
  keys: [id]
  order_by: [version]
  keep: last
  gates: {audits: [{name: dead_letters_are_few, of: dead, per: read, fail_above: 0.9, approvable: true}]}
  about: {owner: "team:data"}
  columns:
    id: {type: STRING}
    at: {type: TIMESTAMP, called: placed, format: epoch_millis}
    version: {type: INT}
    items: {type: "ARRAY<STRING>"}
"""


@cache
def midnight():
    """The begin of the day of the first use: the tests may be collected on the day before."""
    return datetime.combine(Clock().now().date(), time(), timezone.utc)


def today():
    """That day."""
    return midnight().date()


def order(name, at, version=1, **more):
    """A record as a producer writes it, placed some hours after the begin of today."""
    placed = int((midnight() + timedelta(hours=at)).timestamp() * 1000)
    return json.dumps({"id": name, "placed": placed, "version": version, "items": [name], **more})


def first():
    """Return the records of the first batch."""
    return [
        order("a", 0.1), order("b", 0.2), order("b", 0.2, version=2), None, "{torn",
        order("text", 0.1, version="one"), order("new", 0.1, url="/"), order("far", 24 * 9),
    ]  # fmt: skip


def then():
    """Return the records of the second batch."""
    return [order("late", -1), order("c", 0.3)]


SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "placed", "type": "long"},
        {"name": "version", "type": ["null", "int"]},
        {"name": "items", "type": {"type": "array", "items": "string"}},
    ],
}
STRANGE, CUT = framed(99, b"{}"), b"\0\0"


def in_avro(name, at):
    """A record in Avro, by the first schema of the registry."""
    held, placed = io.BytesIO(), int((midnight() + timedelta(hours=at)).timestamp() * 1000)
    row = {"id": name, "placed": placed, "version": 1, "items": [name]}
    fastavro.schemaless_writer(held, fastavro.parse_schema(SCHEMA), row)
    return framed(1, held.getvalue())


@pytest.fixture(scope="module")
def orders(spark, broker, tmp_path_factory):
    """Two batches of a topic, each read by one run, and the runs that follow."""
    within_one_day(timedelta(minutes=3))
    topic = Kafka(bootstrap=broker.address, topic="orders-of-a-landing")
    with pytest.MonkeyPatch.context() as patch, schemas_in_memory() as schemas:
        text = ORDERS.replace("TOPIC", topic.topic).replace("START", str(today() - timedelta(days=9)))
        project = Project(tmp_path_factory.mktemp("orders"), {"orders/defs.yaml": text})
        project.unset = look(project)
        patch.setenv("ORDERS_BROKERS", broker.address)
        patch.setenv("ORDERS_REGISTRY", schemas.url)
        register_schema(schemas, "orders-value", json.dumps(SCHEMA))
        register_schema(schemas, "orders-as-json", "{}", dialect="JSON")
        publish(topic, first(), key="id")
        (project.root / "sampled").mkdir()
        (project.root / "sampled/defs.yaml").write_text(text.partition("  columns:")[0])
        project.inferred = infer(project.root / "sampled")
        project.asked = look(project)
        project.checks = project.run("bronze/orders")
        project.react()
        project.quiet = look(project)
        framed_ones = [in_avro("avro", 0.2), framed(2, order("json", 0.2).encode()), STRANGE, CUT]
        publish(topic, [*then(), *framed_ones], key="id")
        project.run("bronze/orders")
        project.ran = project.react()
        yield project


def look(project):
    """What the sensor of the topic answers."""
    (sensor,) = sensors_of(project.tables["bronze/orders"])
    assert sensor.name == "silver_orders_streamed"
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance=instance, resources={"lake": project.lake}) as context,
    ):
        return sensor(context)


def test_each_record_is_in_bronze_once_with_its_partition_and_offset(orders):
    """The tombstone has none; what no longer fits is kept as well."""
    rows = orders.rows("bronze/orders")
    plain = [row["raw"] for row in rows if row["schema_id"] is None and row["raw"] != CUT.decode()]
    assert sorted(plain) == sorted(line for line in [*first(), *then()] if line)
    headed = {row["schema_id"]: row["raw"] for row in rows if row["schema_id"] is not None}
    assert json.loads(headed[1])["id"] == "avro"
    assert (headed[2], headed[99]) == (order("json", 0.2), "\0\0\0\0c{}")
    places = {(row["source_file"], row["line_number"]) for row in rows}
    assert len(places) == len(rows)
    assert {name for name, _ in places} <= {"orders-of-a-landing-0", "orders-of-a-landing-1"}
    assert min(number for _, number in places) >= 1
    assert {row["landed_on"] for row in rows} == {today()}
    assert orders.checks["every_offset_is_read_once"]


def test_valid_records_are_on_their_own_date_once(orders):
    """The newest version of each; one that came late made its date stale."""
    found = {row["id"]: (row["event_date"], row["version"], row["items"]) for row in orders.rows("silver/orders")}
    assert found == {
        "a": (today(), 1, ["a"]),
        "b": (today(), 2, ["b"]),
        "c": (today(), 1, ["c"]),
        "late": (today() - timedelta(days=1), 1, ["late"]),
        "avro": (today(), 1, ["avro"]),
        "json": (today(), 1, ["json"]),
    }
    assert len(orders.rows("silver/orders")) == len(found)
    assert sorted(orders.ran) == [("silver/orders", str(today() - timedelta(days=1))), ("silver/orders", str(today()))]
    found = orders.rows("bronze/orders", "raw", "timeliness")
    timely = {json.loads(raw)["id"]: how for raw, how in found if raw != "{torn" and not raw.startswith("\0")}
    assert (timely["late"], timely["c"], timely["far"]) == ("late", "on_time", "undated")


def test_the_others_are_letters_with_a_reason(orders):
    """Of the landing day, where the event has no date."""
    found = {(row["reason"], row["filed_under"]) for row in orders.rows("silver/orders_dead_letter")}
    assert found == {
        ("malformed JSON", today()),
        ("version is not a INT", today()),
        ("no declared column is called url", today()),
        ("at is in the future of its landing", today()),
        *((reason, today()) for reason in UNREAD),
    }


def test_columns_are_inferred_from_the_oldest_records(orders):
    """Written down beside the declaration, as those of files are."""
    assert orders.inferred == 0
    text = (orders.root / "sampled/columns.yaml").read_text()
    assert "the 6 oldest records, besides 1 malformed lines" in text
    assert "placed: {type: BIGINT}" in text
    assert "url: {type: STRING, may_lack: true}" in text


def test_the_sensor_asks_for_unread_records_alone(orders):
    """Without a broker it says which variable to set; with nothing new it says so, and a run appends nothing."""
    assert "no Kafka is set: name a broker by ORDERS_BROKERS=host:port" in orders.unset.skip_message
    assert [request.tags for request in orders.asked.run_requests]
    assert "everything of topic orders-of-a-landing was read" in orders.quiet.skip_message
    before = orders.lake.ledger("bronze/orders").version()
    orders.run("bronze/orders")
    assert orders.lake.ledger("bronze/orders").version() == before
