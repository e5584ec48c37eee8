import time, threading
from datetime import timedelta
from tests.patterns.quality.test_schema_migrator import *
import pytest
pytestmark = pytest.mark.spark
for _n in [n for n in dir() if n.startswith("test_")]: del globals()[_n]

@pytest.mark.parametrize("tracking", [True, False])
def test_x(spark, tmp_path, tracking):
    orders = stored_table(spark, tmp_path / "orders", [{"id": 0, "from_page": "/0"}])
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    def stream():
        t = time.process_time()
        r = spark.readStream.format("delta").option("skipChangeCommits", "true")
        if tracking:
            r = r.option("schemaTrackingLocation", str(checkpoint / "_schema"))
        rows = as_version(r.load(str(orders.location)), migration=RENAME, version="old").select("id", "from_page")
        w = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        w.trigger(availableNow=True).start(str(out)).awaitTermination()
    def go(what):
        for n in range(5):
            t = time.time()
            try:
                stream(); print("OK", tracking, what, n, time.time()-t, flush=True); return
            except Exception as e:
                print("STOP", tracking, what, n, time.time()-t, str(e)[:700].replace("\n", " "), flush=True)
    go("begin")
    migrate(spark, orders, RENAME, "both")
    append(orders, [{"id": 1, "from_page": "/1", "referral": "/1"}])
    go("both")
    if not tracking:
        append(orders, [{"id": 3, "from_page": "/3", "referral": "/3"}])
        go("both2")
    migrate(spark, orders, RENAME, "removed", now=OVER)
    append(orders, [{"id": 2, "referral": "/2"}])
    go("removed")
    print("ROWS", tracking, values(spark.read.parquet(str(out)), "id", "from_page"))
