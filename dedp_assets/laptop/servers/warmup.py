"""A short program over the platform's Spark features, to record the class-data archive.

Submitted by :func:`dedp_assets.laptop.servers.engine.prepare`, with the folder for a throw-away table as its argument;
the Java runtime writes the archive when the program ends.
"""

from __future__ import annotations

import shutil
import sys

from pyspark.sql import SparkSession


def main(folder: str) -> None:
    """Create, write, read and merge a small Delta table."""
    shutil.rmtree(folder, ignore_errors=True)
    spark = SparkSession.builder.getOrCreate()
    table = f"delta.`{folder}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, day DATE, text STRING) USING DELTA PARTITIONED BY (day)")
    rows = spark.range(10).selectExpr("id", "DATE '2026-01-01' AS day", "get_json_object('{\"a\":1}', '$.a') AS text")
    rows.write.format("delta").mode("append").save(folder)
    spark.sql(f"MERGE INTO {table} t USING {{s}} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", s=rows)
    spark.read.format("delta").load(folder).groupBy("day").count().collect()
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
