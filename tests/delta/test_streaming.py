"""Streams of a table whose columns change while a query reads."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from dedp_assets.patterns.delta import Table

pytestmark = pytest.mark.spark


def test_a_renamed_and_dropped_column_stops_a_stream_once_if_a_schema_log_is_named(spark, tmp_path):
    """Each row arrives once, by the columns of its time; a query without the log is refused however often it starts."""
    path, out = tmp_path / "visits", str(tmp_path / "out")
    named = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {named} (id INT, page STRING, legacy STRING) USING DELTA "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {named} VALUES (1, '/a', 'x')")

    def read(checkpoint, **options):
        source = Table.at(path, lambda: spark).stream(**options)
        given = next(name for name in ("page", "path") if name in source.columns)
        writer = source.selectExpr("id", f"{given} AS page").writeStream.option("checkpointLocation", checkpoint)
        try:
            writer.format("parquet").trigger(availableNow=True).start(
                out if options else f"{out}-plain"
            ).awaitTermination()
        except PySparkException:
            return "stopped"
        return "done"

    tracked, plain = str(tmp_path / "tracked"), str(tmp_path / "plain")
    log = {"schema_log": f"{tracked}/_schema"}
    assert (read(tracked, **log), read(plain)) == ("done", "done")
    spark.sql(f"ALTER TABLE {named} RENAME COLUMN page TO path")
    spark.sql(f"INSERT INTO {named} VALUES (2, '/b', 'y')")
    assert [read(tracked, **log), read(tracked, **log)] == ["stopped", "done"]
    spark.sql(f"ALTER TABLE {named} DROP COLUMN legacy")
    spark.sql(f"INSERT INTO {named} VALUES (3, '/c')")
    assert [read(tracked, **log), read(tracked, **log)] == ["stopped", "done"]
    assert sorted((r["id"], r["page"]) for r in spark.read.parquet(out).collect()) == [(1, "/a"), (2, "/b"), (3, "/c")]
    assert [read(plain), read(plain)] == ["stopped", "stopped"]
