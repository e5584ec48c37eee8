import json, time
import pytest
from pyspark.sql import functions as F
from dedp_assets.patterns.core.field_counting import CENSUS_MEASURES, count_fields
from dedp_assets.patterns.core.conversion import convert_json
from dedp_assets.patterns.core.rows import tally
pytestmark = [pytest.mark.spark, pytest.mark.budget(300, "x")]
S={n:"STRING" for n in "visit_id user_id page referrer user_agent ip device_type device_version".split()}|{"event_time":"TIMESTAMP","status":"INT","bytes":"BIGINT"}
def test_cost(spark, tmp_path):
    f=tmp_path/"x.json"
    with f.open("w") as o:
        for i in range(200000):
            o.write(json.dumps({"visit_id":f"v{i}","event_time":"2026-01-05T10:00:00Z","user_id":f"u{i%99}","page":"/a/b","referrer":None if i%3 else "https://x.org","user_agent":"Mozilla/5.0 (X11; Linux x86_64)","ip":"10.0.0.1","device_type":"phone","device_version":"1.2","status":200,"bytes":i})+"\n")
    rows=spark.read.text(str(f)).withColumnRenamed("value","raw").withColumn("n",F.monotonically_increasing_id())
    def timed(frame, n=3):
        best=9e9
        for _ in range(n):
            t=time.perf_counter(); frame().write.format("parquet").mode("overwrite").save(str(tmp_path/"o")); best=min(best,time.perf_counter()-t)
        return best
    parse=lambda r: convert_json(r,"raw",S).drop("raw")
    def plain():
        r,s=tally(rows,identity=["n"]); return parse(r)
    def census():
        r,s=tally(count_fields(rows,"raw",S),identity=["n"],measures=CENSUS_MEASURES); return parse(r)
    a=timed(plain); b=timed(census); a2=timed(plain,2)
    t=time.perf_counter()
    rows.selectExpr("try_parse_json(raw) v").selectExpr("v").createOrReplaceTempView("vv")
    spark.sql("SELECT key, schema_of_variant(value) k, count(*) c FROM vv, LATERAL variant_explode(v) GROUP BY 1,2").collect()
    v=time.perf_counter()-t
    t=time.perf_counter()
    spark.sql("SELECT key, schema_of_variant(value) k, count(*) c FROM vv, LATERAL variant_explode(v) GROUP BY 1,2").collect()
    v=min(v,time.perf_counter()-t)
    t=time.perf_counter()
    rows.selectExpr("explode(from_json(raw,'MAP<STRING,STRING>')) as (k,v)").groupBy("k").count().collect()
    m=time.perf_counter()-t
    print("COST", a,a2,b,"variant",v,"map",m, flush=True)
