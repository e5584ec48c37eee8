"""The laptop's Spark engine: preparation, and the command of the shared engine."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyspark
from filelock import FileLock

from dedp_assets.graph.resources.engine import (
    EngineError,
    class_archive,
    engine_jars,
    java_variables,
    last_lines,
    spark_conf,
)
from dedp_assets.graph.resources.environments import Settings, child_environment

__all__ = ["connect_command", "prepare", "preparing"]


_LOG = logging.getLogger(__name__)
_LOCAL = re.compile(r"^local\[([^,\]]+)\]$")
"""Local master with one attempt at each task."""
_LAST_IN_LINE = ("nice", "-n", "10")
"""What lets a run that starts meanwhile have the cores."""


def prepare(settings: Settings) -> None:
    """Fetch missing jars and record the class-data archive, once; concurrent processes wait for the lock."""
    engine_jars(settings)
    archive = class_archive(settings)
    if archive is None or archive.exists():
        return
    _LOG.warning("the Spark engine's classes are archived, once: each later start is faster")
    with FileLock(archive.with_suffix(".lock")):
        if not archive.exists():
            _record(settings, archive)


@contextmanager
def preparing(settings: Settings) -> Iterator[None]:
    """Fetch missing jars, and record the class-data archive while the block runs.

    The first engine starts without an archive.

    Raises:
        EngineError: if the jars cannot be fetched, or, at the end of the block, the archive cannot be recorded.
    """
    engine_jars(settings)
    with ThreadPoolExecutor(1) as beside:
        recorded = beside.submit(prepare, settings)
        yield
        recorded.result()


def _record(settings: Settings, archive: Path) -> None:
    draft = archive.with_suffix(".draft")
    conf = spark_conf(replace(settings, master="local[2]"), record_classes=draft)
    command = [
        *_LAST_IN_LINE,
        _submit(),
        *_as_arguments(conf),
        str(Path(__file__).with_name("warmup.py")),
        str(archive.with_suffix(".warmup")),  # checkouts may share the cache, each with an archive of its own
    ]
    environment = child_environment(java_variables(settings))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"the Spark engine does not start:\n{last_lines(done.stdout + done.stderr)}")
    if draft.exists():
        draft.replace(archive)


def connect_command(settings: Settings, port: int, *, properties: Path | None = None) -> list[str]:
    """Write the command that runs the shared engine, a Spark Connect server on the loopback interface.

    Runs share the server. Spark Connect interrupts the tasks of a failed query whatever the configuration says, which
    may end the Python workers of others (see :func:`spark_conf`); a task is tried again, as on a cluster.

    Args:
        settings: settings of the home.
        port: port on loopback.
        properties: file with further settings, such as the secret of a cluster; the command line shows none of them.
    """
    conf = {
        **spark_conf(settings),
        "spark.master": _LOCAL.sub(r"local[\1,4]", settings.master),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.artifact.isolation.enabled": "false",
    }
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    more = ["--properties-file", str(properties)] if properties else []
    return [_submit(), "--class", server, *more, *_as_arguments(conf), "spark-internal"]


def _submit() -> str:
    return str(Path(pyspark.__file__).parent / "bin" / "spark-submit")


def _as_arguments(conf: Mapping[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
