"""Avro files as a landing in YAML: bronze, silver and letters as a model in Python says."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import dagster as dg
import fastavro
import pytest

from dedp_assets.components.inference.inferring import infer
from tests.components.landed_project import Project

pytestmark = pytest.mark.spark

DEFS = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/orders
  folder: orders
  format: {avro: {}}
  partitions: {daily: {start: 2026-01-05}}
  keys: [id]
  rules: {total is negative: total >= 0}
  about: {owner: "team:data"}
"""
FIELDS = {
    "id": "long", "placed": {"type": "long", "logicalType": "timestamp-micros"},
    "total": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "due": ["null", {"type": "int", "logicalType": "date"}], "weight": "double", "photo": "bytes",
    "kind": {"type": "enum", "name": "Kind", "symbols": ["web", "shop"]},
    "who": {"type": "record", "name": "Who", "fields": [
        {"name": "city", "type": "string"}, {"name": "seen", "type": {"type": "array", "items": "int"}},
    ]},
}  # fmt: skip
MONDAY = datetime(2026, 1, 5, 9, 0, 0, 123456, tzinfo=timezone.utc)


def order(number):
    return {
        "id": number, "placed": MONDAY + timedelta(minutes=number), "total": Decimal(number * 25) / 100,
        "due": date(2026, 2, 1 + number % 20) if number % 3 else None, "weight": number / 7, "photo": bytes([number]),
        "kind": ("web", "shop")[number % 2], "who": {"city": "Köln \n\"x\"", "seen": [number, -1]},
    }  # fmt: skip


ORDERS = [order(number) for number in range(40)]
PLACES = [("a.avro", n + 1) for n in range(38)] + [("b 1.avro", 1), ("b 1.avro", 2), ("c.avro", 1)]
LETTERS = {("b 1.avro", 1): "total is negative", ("c.avro", 1): "id is not a BIGINT"}


def write(file, records, **fields):
    schema = {"type": "record", "name": "Order", "fields": [{"name": k, "type": v} for k, v in fields.items()]}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        fastavro.writer(out, schema, records, "deflate", sync_interval=400)


@pytest.fixture(scope="module")
def landed(spark, tmp_path_factory):
    """Two files, by which the columns are inferred, and one of another schema."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("avro")
        patch.setenv("DEDP_HOME", str(root))
        project = Project(root, {"orders/defs.yaml": DEFS})
        project.day = root / "landing" / "orders" / "2026-01-05"
        write(project.day / "a.avro", ORDERS[:38], **FIELDS)
        write(project.day / "b 1.avro", [{**ORDERS[38], "total": Decimal("-0.01")}, ORDERS[39]], **FIELDS)
        assert infer(root / "defs" / "orders") == 0
        write(project.day / "c.avro", [{**ORDERS[0], "id": "x"}], **{**FIELDS, "id": "string"})
        project.land("orders/2026-01-05", {})
        assert project.react() == [("bronze/orders", "2026-01-05"), ("silver/orders", "2026-01-05")]
        yield project


def test_every_record_is_a_text_with_its_number(landed):
    """Of each file, from 1."""
    bronze = landed.rows("bronze/orders", "source_file", "line_number", "raw", "raw_bytes")
    assert sorted(row[:2] for row in bronze) == PLACES
    assert {row[3] for row in bronze} == {None}
    first = next(json.loads(row[2], parse_float=Decimal) for row in bronze if row[:2] == ("a.avro", 2))
    assert first == {
        "id": 1, "placed": "2026-01-05T09:01:00.123456Z", "total": Decimal("0.25"), "due": "2026-02-02",
        "weight": Decimal(repr(1 / 7)), "photo": "AQ==", "kind": "shop", "who": {"city": 'Köln \n"x"', "seen": [1, -1]},
    }  # fmt: skip


def test_valid_records_are_the_model_and_the_others_are_letters(landed):
    """One broke a rule, one has an id of another type."""
    silver = landed.rows("silver/orders")
    found = {(row["source_file"], row["line_number"]): {name: row[name] for name in FIELDS} for row in silver}
    assert len(silver) == len(found)
    valid = [place for place in PLACES if place not in LETTERS]
    assert found == dict(zip(valid, [*ORDERS[:38], ORDERS[39]], strict=True))
    letters = landed.rows("silver/orders_dead_letter", "source_file", "line_number", "reason")
    assert {row[:2]: row[2] for row in letters} == LETTERS


def test_a_damaged_block_publishes_nothing(landed):
    """A byte within the last block, whose frame stays as it was."""
    data = bytearray((landed.day / "a.avro").read_bytes())
    data[-40] ^= 0xFF
    (landed.day / "a.avro").write_bytes(data)
    (landed.day / "_SUCCESS").touch()
    with pytest.raises(dg.Failure, match=r"a\.avro is damaged: the block after record \d+ is not as written"):
        landed.run("bronze/orders", "2026-01-05")
    assert len(landed.rows("bronze/orders", "line_number")) == 41
