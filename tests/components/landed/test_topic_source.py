"""Mistakes in the declaration of a topic as a landing, and the tables of a right one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from dedp_assets.components.checking import checked, files_below
from dedp_assets.components.inference.inferring import infer
from dedp_assets.components.landed.landings import LandingSpec
from dedp_assets.components.landed.topic_source import TopicSource
from dedp_assets.components.yaml.model import model_of
from dedp_assets.graph.declare import Polls, sensors_of
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.patterns.connectors.kafka.schema_registry import SchemaRegistry
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from tests.components.declarations import faults_in
from tests.components.test_checking import edited_texts, require_faults_or_a_table

GOOD = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/orders
  topic: {name: shop.orders-1, brokers: ORDERS_BROKERS}
  columns:
    id: {type: STRING}
    at: {type: TIMESTAMP}
  partitions: {daily: {start: 2026-01-05}}
  event_time: at
  keys: [id]
  about: {owner: "team:data"}
"""
WORDS = [
    ("brokers: ORDERS_BROKERS", "brokers: 'localhost:9092'", "brokers must be the name of an environment variable"),
    ("brokers: ORDERS_BROKERS", "broker: ORDERS_BROKERS", "unknown option broker: did you mean brokers?"),
    ("brokers: ORDERS_BROKERS", "brokers: 9092", "brokers must be"),
    (", brokers: ORDERS_BROKERS", "", "brokers is missing"),
    ("brokers: ORDERS_BROKERS", "brokers: B, registry: 'http://r'", "registry must be the name of an environment var"),
    (
        "shop.orders-1",
        "shop orders",
        "name must be that of a topic (letters, digits, '.', '_', '-'), not 'shop orders'",
    ),
    ("shop.orders-1", "..", "name must be that of a topic"),
    ("name: shop.orders-1, ", "", "name is missing"),
    ("topic: {name: shop.orders-1, brokers: ORDERS_BROKERS}", "topic: orders", "topic must be"),
    ("topic: {name", "topics: {name", "unknown option topics: did you mean topic?"),
    (
        "  keys",
        "  folder: orders\n  format: {json_lines: {}}\n  keys",
        "topic must be left out of a landing with folder",
    ),
    ("  keys", "  format: {json_lines: {}}\n  keys", "format must be left out of a landing with topic"),
    ("  keys", "  marker: _DONE\n  keys", "marker must be left out of a landing with topic"),
    ("  keys", "  settled_minutes: 5\n  keys", "settled_minutes must be left out of a landing with topic"),
    ("daily: {start: 2026-01-05}", "hourly: {start: 2026-01-05}", "partitions must be daily of a landing with topic"),
    ("  event_time: at\n", "", "event_time is missing: a landing with topic has one"),
    ("  partitions: {daily: {start: 2026-01-05}}\n", "", "partitions must be daily of a landing with topic"),
]


def test_the_declaration_is_valid():
    """Before it is changed."""
    assert faults_in(GOOD) == []


@pytest.mark.parametrize(("right", "wrong", "said"), WORDS, ids=[wrong.strip() or right for right, wrong, _ in WORDS])
def test_a_wrong_name_or_value_is_one_fault(right, wrong, said):
    """With what is right, at its line."""
    assert right in GOOD
    (fault,) = faults_in(GOOD.replace(right, wrong, 1))
    assert said in fault.message, fault
    assert fault.line > 1


@given(edited_texts(GOOD.strip("\n").split("\n")))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_an_edited_text_is_faults_or_tables(text):
    """Whatever was cut, repeated or moved."""
    require_faults_or_a_table(text)


@pytest.mark.parametrize("name", ["orders", "a.b_c-D9", "x" * 249])
def test_a_name_of_a_topic_is_taken(name):
    """As brokers take it."""
    assert TopicSource(name, "BROKERS").name == name


@pytest.mark.parametrize(
    ("name", "brokers"), [("", "B"), (".", "B"), ("x" * 250, "B"), ("é", "B"), ("a", ""), ("a", "9B")]
)
def test_a_name_that_nothing_can_have_is_refused(name, brokers):
    """Of a topic, and of a variable."""
    with pytest.raises(ConfigError, match="must be"):
        TopicSource(name, brokers)


def test_the_tables_have_a_sensor_that_reads_the_topic_and_partitions_after_it(tmp_path, monkeypatch):
    """The landed records are appended as a whole, by runs of their own; silver has a replay and follows by date."""
    (tmp_path / "defs.yaml").write_text(GOOD)
    found = checked(files_below(tmp_path))
    assert found.faults == []
    bronze, silver = found.tables
    assert (bronze.spec.name, bronze.spec.partition_by) == ("bronze/orders", ("landed_on", "event_date"))
    assert {audit.name for audit in bronze.gates.audits} == {"every_offset_is_read_once", "most_records_are_on_time"}
    assert bronze.runs.partitions is None
    (start,) = bronze.runs.of(Polls)
    (sensor,) = sensors_of(bronze)
    assert (sensor.name, start.running) == ("silver_orders_streamed", True)
    assert sensor.required_resource_keys == {"lake"}
    assert silver.runs.replay
    assert silver.spec.partition_by == ("event_date",)
    monkeypatch.setenv("ORDERS_BROKERS", "host:1")
    kafka = TopicSource("shop.orders-1", "ORDERS_BROKERS").kafka()
    assert kafka == Kafka(bootstrap="host:1", topic="shop.orders-1", variable="ORDERS_BROKERS")


def test_columns_that_are_not_written_down_are_seen_in_the_topic(tmp_path, monkeypatch):
    """Names, types and what some records lack; a record that is no object counts for nothing."""
    records = [
        b'{"id": "a", "at": "2026-01-05T10:00:00Z", "amount": 1}',
        b"\xff",
        b'{"id": "b", "at": "2026-01-05T10:00:00Z"}',
    ]
    monkeypatch.setattr(Kafka, "sample", lambda *_: records)
    text = GOOD[: GOOD.index("  columns")] + GOOD[GOOD.index("  partitions") :]
    (tmp_path / "defs.yaml").write_text(text)
    (fault,) = checked(files_below(tmp_path)).faults
    assert "run `dedp infer" in fault.message
    assert infer(tmp_path) == 0
    written = (tmp_path / "columns.yaml").read_text()
    assert "topic shop.orders-1, as dedp infer saw them in the 2 oldest records, besides 1 malformed lines" in written
    assert "amount: {type: BIGINT, may_lack: true}" in written
    assert checked(files_below(tmp_path)).faults == []


def test_a_topic_without_an_object_has_no_columns(tmp_path, monkeypatch):
    """The sentence says what to do."""
    monkeypatch.setattr(Kafka, "sample", lambda *_: [b"no JSON"])
    (tmp_path / "defs.yaml").write_text(GOOD[: GOOD.index("  columns")] + GOOD[GOOD.index("  partitions") :])
    with pytest.raises(ContractError, match="let a producer send one"):
        infer(tmp_path)


def test_the_schema_names_the_options_of_a_topic():
    """For an editor, with their help."""
    schema = model_of(LandingSpec).model_json_schema()
    assert "topic" in schema["properties"]
    options = {"name", "brokers", "registry"}
    (topic,) = [each for each in schema["$defs"].values() if options == set(each.get("properties", ()))]
    assert set(topic["required"]) == {"name", "brokers"}


def test_a_topic_has_the_registry_that_its_variable_names(monkeypatch):
    """None without the option; a variable that holds no URL is an error, so that Avro is not taken for JSON."""
    assert TopicSource("orders", "B").schemas() is None
    monkeypatch.setenv("ORDERS_REGISTRY", "http://registry.example")
    assert TopicSource("orders", "B", "ORDERS_REGISTRY").schemas() == SchemaRegistry("http://registry.example")
    monkeypatch.delenv("ORDERS_REGISTRY")
    with pytest.raises(ConfigError, match="no address of a schema registry"):
        TopicSource("orders", "B", "ORDERS_REGISTRY").schemas()
    with pytest.raises(ConfigError, match="registry must be the name of an environment variable"):
        TopicSource("orders", "B", "http://registry.example")
