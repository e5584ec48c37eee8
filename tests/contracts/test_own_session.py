"""The library on a session that somebody else configured, in an environment with nothing but the core."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dedp_assets.graph.resources import engine
from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings
from tests.contracts.test_wheel import EXTRAS
from tests.wheel import HIDING

THEIRS = """
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.extraClassPath", sys.argv[2])
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.session.timeZone", "America/New_York")
    .config("spark.sql.caseSensitive", "true")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
from dedp_assets.patterns import Audit, Table, merge_changes, overwrite_partition

where = sys.argv[1]
rows = spark.sql("SELECT id, DATE '2026-01-05' AS day, TIMESTAMP '2026-01-05 23:30:00' AS at FROM range(3)")
rows.write.format("delta").partitionBy("day").save(where)
before = dict(spark.conf.getAll)  # Delta sets some at its first write
table = Table.at(where, spark, name="silver/orders")
audits = [Audit(name="some", of="written", fail_below=1)]
into = table.target(partition={"day": "2026-01-05"}, run="nightly-1", audits=audits)
assert overwrite_partition(rows.filter("id < 2"), into).applied
more = spark.sql("SELECT 1L AS id, DATE '2026-01-05' AS day, TIMESTAMP '2026-01-06 00:30:00' AS at")
assert merge_changes(more, table.target(run="nightly-2"), keys=["id"], order_by=["at"]).applied
found = spark.read.format("delta").load(where).orderBy("id").collect()
print([(row["id"], str(row["day"]), str(row["at"])) for row in found])
assert dict(spark.conf.getAll) == before
assert not [name for name in sys.modules if name.partition(".")[0] in HIDDEN]
"""


@pytest.mark.slow
@pytest.mark.spark
def test_patterns_work_on_a_session_of_ones_own(tmp_path):
    """In another time zone, without the platform's settings: rows are right, and the session stays as it was."""
    chosen = settings()
    jars = ":".join(map(str, engine.class_path(chosen)))
    environment = child_environment(
        {**engine.java_variables(chosen), "TZ": "America/New_York"}, without=("SPARK_REMOTE",)
    )
    command = [sys.executable, "-c", HIDING.format(hidden=EXTRAS) + THEIRS, str(tmp_path / "orders"), jars]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == (
        "[(0, '2026-01-05', '2026-01-05 23:30:00'), (1, '2026-01-05', '2026-01-06 00:30:00')]"
    )
