"""A story of one landing zone, told at a location by a process with an engine of its own: the rows of each format.

``python -m tests.connectors.landing.landing_story LOCATION...`` prints them as JSON, for each location.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns import divert_unprocessable
from dedp_assets.patterns.connectors.encoding.formats import Avro, Csv, Format, Json, JsonLines, Parquet
from dedp_assets.patterns.connectors.landing.file_columns import judge_file_columns
from dedp_assets.patterns.connectors.landing.landed_files import read_landed
from dedp_assets.patterns.delta import store_at
from dedp_assets.patterns.ingestion.readiness_marker import plan_ready
from tests.helpers import NOW

DAY = "2026-01-05"
LINES = b'{"id": 1}\n{"id": "two"}\n{"id": "\xff"}\n'
CSV = b'id,text\n1,"one\ntwo"\n2,plain\n'


def parquet() -> bytes:
    """A Parquet file of two row groups."""
    written = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2, 3], "text": ["a", None, "ü"]}), written, row_group_size=2)
    return written.getvalue()


def avro() -> bytes:
    """An Avro file of two records."""
    written = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    fastavro.writer(written, schema, [{"id": 1}, {"id": 2}])
    return written.getvalue()


FORMATS: Mapping[str, tuple[Format, Mapping[str, bytes]]] = {
    "json lines": (
        JsonLines(),
        {"a b=1.jsonl": LINES, "50%25 ü [1].jsonl.gz": gzip.compress(LINES * 2), "e.jsonl": b""},
    ),
    "csv": (Csv(), {"a b.csv": b"id,text\n1,one\n2,\n", "ü.csv": b"id\n3\n"}),
    "csv of several lines": (Csv(multiline=True), {"a b.csv": CSV, "ü.csv.gz": gzip.compress(CSV)}),
    "json": (Json(), {"a b.json": b'[{"id": 1},\n {"id": 2}]'}),
    "parquet": (Parquet(), {"a b ü%25.parquet": parquet(), "b.parquet": parquet()}),
    "avro": (Avro(), {"a b=1.avro": avro()}),
}


def tell(location: str, session: SparkSession) -> dict[str, Any]:
    """Land a delivery of each format, and read it as the platform does: rows, counts, columns and dead letters."""
    store, zone, told = store_at(location), Landing(root=location), dict[str, Any]()
    for called, (made, files) in FORMATS.items():
        for name, content in files.items():
            store.put(f"{called}/{DAY}/{name}", content)
        store.put(f"{called}/{DAY}/_SUCCESS", b"")
        delivery = zone.delivery(called, DAY).require_ready()
        paths = zone.paths(called, delivery)
        lines = read_landed(session, paths, made)
        rows = lines.rows.select("source_file", "line_number", "raw", "raw_bytes")
        told[called] = {
            "content": zone.content(called, delivery),
            "count": dict(lines.count),
            "rows": seen(rows.collect()),
            "ready": plan_ready([delivery], consumed={}, now=NOW).partitions,
        }
        if isinstance(made, Parquet | Avro):
            told[called]["columns"] = judge_file_columns(paths, columns={"id": "STRING"}).note
        if isinstance(made, JsonLines):
            identity = ["source_file", "line_number"]
            split = divert_unprocessable(lines.rows, payload="raw", identity=identity, schema={"id": "BIGINT"})
            told[called]["dead"] = seen(split["dead"].select(*identity, "raw", "reason").collect())
            told[called]["valid"] = seen(split["valid"].select(*identity, "id").collect())
    return told


def seen(rows: list[Any]) -> list[list[str]]:
    """Rows in a stable order, as texts."""
    return sorted([str(bytes(each) if isinstance(each, bytearray) else each) for each in row] for row in rows)


if __name__ == "__main__":
    engine = SparkEngine().session
    sys.stdout.write(json.dumps([tell(location, engine) for location in sys.argv[1:]]))
