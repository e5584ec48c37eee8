"""One embedded Spark engine for all test processes of a run: a JVM compiles and loads once what all of them need."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from dedp_assets.graph.resources import engine
from dedp_assets.graph.resources.environments import Settings

__all__ = ["attach", "heap_left", "open_gateway", "start"]

_AS_IF_ALONE = {
    "spark.default.parallelism": "2",  # as many partitions as with local[2]
    "spark.ui.retainedJobs": "10000",  # of all processes together, so that a test finds its own
    "spark.ui.retainedStages": "4000",  # a step without its stages has no cost, and 80 calls of the JVM more
    # What ended tests broadcast, a megabyte for each join, goes after a full collection; by default two in an hour.
    "spark.cleaner.periodicGC.interval": "3min",
}

_FOR_HOURS = (
    " -XX:+UseTransparentHugePages"  # 3 % less CPU; a machine without them has a line about it in the log
    " -Ddelta.log.cacheSize=30"  # of tables of ended tests; each keeps plans of megabytes, for an hour by default
    " -Xms3g -Xmn1200m -XX:MetaspaceSize=1g"  # 11 % of its time for collecting, 13 % without
)


def start(chosen: Settings, log: Path) -> Any:
    """Start the engine and return the gateway into its JVM, which ends with this process; its words go to ``log``."""
    engine.use_java(chosen)
    settings = {**engine.spark_conf(chosen), **_AS_IF_ALONE}
    settings["spark.driver.extraJavaOptions"] += _FOR_HOURS
    conf = SparkConf(loadDefaults=False).setAll([*settings.items()])
    with log.open("wb") as words:
        gateway = launch_gateway(conf, {"stdout": words, "stderr": subprocess.STDOUT})
    SparkSession(SparkContext(conf=conf, gateway=gateway))
    return gateway


def heap_left(gateway: Any) -> str:
    """Return the memory that the engine's last full collection left in use, and the time of all collections.

    Ended tests leave little: where this comes near the whole, the engine does nothing but collect.
    """
    beans = gateway.jvm.java.lang.management.ManagementFactory
    (old,) = [pool.getCollectionUsage() for pool in beans.getMemoryPoolMXBeans() if pool.getName() == "Tenured Gen"]
    collected = sum(each.getCollectionTime() for each in beans.getGarbageCollectorMXBeans()) / 1000
    used, most = old.getUsed() / 2**30, old.getMax() / 2**30
    return f"{used:.1f} of {most:.1f} GB of the engine's heap, {collected:.0f} s of collections"


def open_gateway(gateway: Any) -> tuple[int, str]:
    """Open one more gateway into the JVM and return its port and secret.

    A gateway calls back into one process (``foreachBatch``), so each test process needs its own.
    """
    secret = secrets.token_hex(32)
    builder = gateway.jvm.py4j.ClientServer.ClientServerBuilder().authToken(secret)
    server = builder.javaPort(0).javaAddress(gateway.jvm.java.net.InetAddress.getByName("127.0.0.1")).build()
    server.startServer()
    return server.getJavaServer().getListeningPort(), secret


def attach(port: int, secret: str) -> None:
    """Make a new session of the shared engine this process's session, which ``SparkSession.builder`` then finds."""
    with pytest.MonkeyPatch.context() as patch:  # not seen by the processes that tests start
        patch.setenv("PYSPARK_GATEWAY_PORT", str(port))
        patch.setenv("PYSPARK_GATEWAY_SECRET", secret)
        gateway = launch_gateway()
    jvm = gateway.jvm
    running = jvm.JavaSparkContext.fromSparkContext(jvm.SparkSession.getDefaultSession().get().sparkContext())
    SparkContext._ensure_initialized(gateway=gateway)
    context = SparkContext(gateway=gateway, jsc=running, conf=SparkConf(_jconf=running.getConf()))
    SparkSession(context, jvm.SparkSession.getDefaultSession().get().newSession())
