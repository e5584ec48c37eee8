"""Python workers of one engine: jobs that fail take no worker from jobs that run beside them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import pytest
from pyspark.errors import PySparkException


@pytest.mark.both
def test_a_job_that_fails_ends_no_python_worker_of_another_job(spark):
    """One of its tasks fails while the other one waits for a worker to start; a job beside it computes its rows."""

    def slowly(value):
        time.sleep(0.2)
        return value

    spark.udf.register("slowly", slowly, "bigint")
    ended = Event()

    def fail():
        failed = 0
        while not ended.is_set():
            rows = spark.range(0, 2, 1, 2).selectExpr("if(id = 0, raise_error('no'), id) AS id")
            with suppress(PySparkException):
                rows.selectExpr("slowly(id)").collect()
            failed += 1
        return failed

    with ThreadPoolExecutor(1) as pool:
        failing = pool.submit(fail)
        try:
            for _ in range(12):
                found = spark.range(0, 4, 1, 2).selectExpr("slowly(id) AS id").collect()
                assert sorted(row["id"] for row in found) == [0, 1, 2, 3]
        finally:
            ended.set()
        assert failing.result() > 3
