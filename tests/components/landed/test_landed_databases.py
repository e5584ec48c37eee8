"""Tables of a PostgreSQL as landings: windows of a column, a whole table, and mistakes in the declaration."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from dedp_assets.components.checking import checked
from dedp_assets.components.inference.inferring import infer
from dedp_assets.graph.declare import Every
from dedp_assets.graph.systems.databases import Database
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import transaction_id
from tests.components.declarations import faults_in
from tests.components.landed_project import Project
from tests.helpers import a_record, write_log

pytestmark = pytest.mark.budget(40, "a PostgreSQL, and two lakes, of which one has six runs")
SECRET = "sesame-4711"  # noqa: S105 - of no server
ORDERS = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/orders
  database: {table: public.orders, url: ORDERS_URL, column: created_at, delay_minutes: 5}
  columns:
    order_id: {type: BIGINT}
    placed_at: {type: TIMESTAMP}
    price: {type: "DECIMAL(10,2)"}
    created_at: {type: TIMESTAMP}
  partitions: {daily: {start: 2026-01-05}}
  event_time: placed_at
  keys: [order_id]
  rules: {price is negative: price IS NULL OR price >= 0}
  gates: {audits: [{name: dead_letters_are_few, of: dead, per: read, fail_above: 0.9}]}
  about: {owner: "team:shop"}
"""
DEVICES = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/devices
  database: {table: public.devices, url: ORDERS_URL}
  keys: [id]
  about: {owner: "team:shop"}
"""
MISTAKES = [
    ("column: created_at, ", "", "column is missing: with partitions"),
    ("column: created_at", "colum: created_at", "unknown option colum: did you mean column?"),
    ("table: public.orders", "table: orders", "table must be schema.table, not 'orders'"),
    (
        "url: ORDERS_URL",
        f"url: 'postgresql://me:{SECRET}@there/shop'",
        "url must be the name of an environment variable",
    ),
    ("delay_minutes: 5", "delay_minutes: -5", "delay_minutes must be a number from 0 to 100000, not -5"),
    ("  partitions: {daily: {start: 2026-01-05}}\n  event_time: placed_at\n", "", "column must be left out without"),
    ("  partitions:", "  folder: orders\n  format: {csv: {}}\n  partitions:", "database must be left out of a landing"),
    ("  partitions:", "  marker: _DONE\n  partitions:", "marker must be left out of a landing with database"),
    ("  partitions:", "  format: {csv: {}}\n  partitions:", "format must be left out of a landing with database"),
    ("placed_at: {type: TIMESTAMP}", "placed_at: {type: TIMESTAMP, format: yyyy}", "left out of a column of a table"),
]


@pytest.mark.parametrize(("right", "wrong", "reason"), MISTAKES, ids=[reason for _, _, reason in MISTAKES])
def test_a_mistake_is_one_fault_without_the_database(right, wrong, reason):
    """With what is right, at its line; a URL in the place of a variable's name is not repeated."""
    assert right in ORDERS
    (fault,) = faults_in(ORDERS.replace(right, wrong, 1))
    assert reason in fault.message
    assert fault.line > 1
    assert SECRET not in str(fault)


def test_the_declaration_is_a_source_a_schedule_and_a_job(tmp_path):
    """The variable is named, and does not have to be set."""
    (tmp_path / "defs.yaml").write_text(ORDERS)
    found = checked([tmp_path / "defs.yaml"])
    assert found.faults == []
    (made,) = found.definitions.values()
    assert [each.name for each in made.schedules or ()] == ["silver_orders_from_its_database"]
    assert [each.name for each in made.jobs or ()] == ["land_silver_orders"]
    bronze, _ = found.tables
    (source,) = bronze.reads.sources
    assert source.description == "Table public.orders of the PostgreSQL database whose URL is in ORDERS_URL."


@pytest.fixture
def shop(database, monkeypatch):
    """The connection of a database with orders and devices, whose URL is in a variable."""
    password = f":{database.password}" if database.password else ""
    url = f"postgresql://{database.user}{password}@{database.host}:{database.port}/{database.database}"
    monkeypatch.setenv("ORDERS_URL", url)
    with database.connect(autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE orders (order_id bigint, placed_at timestamp(3) with time zone, price numeric(10,2), "
            "created_at timestamp(6) with time zone);"
            'CREATE TABLE devices (id int NOT NULL, "the name" varchar(20), weight numeric, data bytea, more jsonb)'
        )
        yield connection


def order(connection, number, placed, price, created):
    connection.execute("INSERT INTO orders VALUES (%s, %s, %s, %s)", (number, placed, price, created))


def due(project):
    """Partitions that the schedule asks for on the eighth of January."""
    (start,) = project.tables["bronze/orders"].runs.of(Every)
    now = datetime(2026, 1, 8, 0, 20, tzinfo=timezone.utc)
    asked = start.ask(dg.build_schedule_context(scheduled_execution_time=now), project.lake)
    return [request.partition_key for request in asked]


@pytest.mark.slow
def test_types_are_those_of_the_database_and_unknown_names_are_sentences(shop, tmp_path):
    """Written beside the declaration, with the names and remarks; then the declaration is valid."""
    (tmp_path / "defs.yaml").write_text(DEVICES)
    assert infer(tmp_path) == 0
    written = (tmp_path / "columns.yaml").read_text()
    assert "  id: {type: INT}\n" in written
    assert '  the_name: {type: STRING, called: "the name"}' in written
    assert "  weight: {type: STRING}  # text of numeric\n" in written
    assert "  data: {type: BINARY}\n" in written
    with pytest.raises(ConfigError, match=r"has no table public\.device: correct table"):
        Database("public.device", "ORDERS_URL").columns()
    with pytest.raises(ConfigError, match=r"orders has no column created: did you mean created_at\?"):
        Database("public.orders", "ORDERS_URL", column="created").columns()
    with pytest.raises(ConfigError, match=r"column must be a timestamp of public\.orders, not price, a numeric"):
        Database("public.orders", "ORDERS_URL", column="price").columns()


def test_windows_of_a_table_become_valid_records_and_dead_letters(spark, shop, database, tmp_path):
    """Half-open days; a row that comes late is there after another load, and a refused price is a letter."""
    midnight = datetime(2026, 1, 6, tzinfo=timezone.utc)
    assert database.password
    order(shop, 1, midnight - timedelta(hours=3), "12.50", midnight - timedelta(hours=2))
    order(shop, 2, midnight - timedelta(hours=1), "-1.00", midnight - timedelta(microseconds=1))
    order(shop, 3, midnight - timedelta(hours=1), "7.10", midnight)
    project = Project(tmp_path, {"orders/defs.yaml": ORDERS})
    project.run("bronze/orders", "2026-01-05")
    project.run("silver/orders", "2026-01-05")
    assert [(row["order_id"], str(row["price"])) for row in project.rows("silver/orders")] == [(1, "12.50")]
    (letter,) = project.rows("silver/orders_dead_letter")
    assert letter["reason"] == "price is negative"
    assert '"price":-1.00' in letter["raw"]
    assert letter["source_file"] == "public.orders"
    order(shop, 4, midnight - timedelta(hours=2), "1.00", midnight - timedelta(hours=2))
    project.run("bronze/orders", "2026-01-05")
    project.run("bronze/orders", "2026-01-06")
    project.run("silver/orders", "2026-01-05")
    assert project.rows("silver/orders", "order_id") == [(1,), (3,), (4,)]
    order(shop, 5, None, None, None)
    assert not project.run("bronze/orders", "2026-01-05", refuses=True)["every_row_has_its_time"]
    assert due(project) == ["2026-01-06", "2026-01-07"]
    stored = [file.read_text() for file in (tmp_path / "lake").rglob("*.json")]
    assert stored
    assert not [text for text in stored if database.password in text]


def test_windows_that_another_declaration_loaded_are_read_again(tmp_path, monkeypatch):
    """The log says which declaration read a window."""
    monkeypatch.setattr(Database, "lacks", lambda _: "")
    project = Project(tmp_path, {"orders/defs.yaml": ORDERS})
    code = project.tables["bronze/orders"].code_version
    commits = [
        {
            "record": a_record("bronze/orders", {"landed_on": day}, code_version=code if day[-1] == "5" else "1"),
            "txn": {transaction_id("bronze/orders", {"landed_on": day}, 0, "runs"): 1},
        }
        for day in ("2026-01-05", "2026-01-06", "2026-01-07")
    ]
    write_log(tmp_path / "lake/bronze/orders", {"landed_on": "date"}, ["landed_on"], commits)
    assert due(project) == ["2026-01-06", "2026-01-07"]


def test_a_table_without_partitions_is_loaded_as_a_whole(spark, shop, tmp_path):
    """Each load replaces all records, and half of them gone is refused."""
    for number in range(4):
        shop.execute("INSERT INTO devices VALUES (%s, 'it''s', 1.5, '\\x00ff', '{\"a\": [1]}')", (number,))
    project = Project(tmp_path, {"devices/defs.yaml": DEVICES})
    assert infer(tmp_path / "defs" / "devices") == 0
    project.run("bronze/devices")
    project.run("silver/devices")
    first = min(project.rows("silver/devices"), key=lambda row: row["id"])
    assert (first["the_name"], first["weight"], first["data"]) == ("it's", "1.5", b"\x00\xff")
    assert first["more"] == '{"a": [1]}'
    shop.execute("DELETE FROM devices WHERE id > 0")
    assert not project.run("bronze/devices", refuses=True)["volume_is_plausible"]
