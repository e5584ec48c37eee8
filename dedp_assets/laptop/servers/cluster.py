"""A standalone Spark cluster of the installed pyspark: a master and workers of one core, on loopback.

The secret by which master, workers and drivers know each other stands in a file that only the owner may read. The
master's knowledge of workers and drivers is in a folder, and survives the master's death.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from dedp_assets.graph.resources.announced import listens
from dedp_assets.graph.resources.engine import LOG_SETTINGS, java_variables
from dedp_assets.graph.resources.environments import Settings, apply, child_path
from dedp_assets.laptop.servers import ports
from dedp_assets.laptop.servers.attached import attached, await_answer
from dedp_assets.project import project

__all__ = ["FOLDER", "Cluster", "command_folder", "driving"]

FOLDER = "cluster"
"""Folder of the home with the cluster's configuration and the workers' files."""

_HOST = "127.0.0.1"
_DAEMON = "org.apache.spark.deploy"
_DAEMON_MEMORY, _WORKER_MEMORY = "128m", "1g"
_DAEMON_JAVA = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={LOG_SETTINGS}"
_DAY_SECONDS = 86_400
_OF_A_COMMAND = "of-a-command-"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master and workers.

    Attributes:
        settings: settings of the home.
        folder: configuration, the master's knowledge, files of the workers.
        port: the master's port on loopback.
        workers: number of workers.
    """

    settings: Settings
    folder: Path
    port: int
    workers: int

    @property
    def url(self) -> str:
        """The master's URL, for drivers."""
        return f"spark://{_HOST}:{self.port}"

    @property
    def properties(self) -> Path:
        """File with the settings of the cluster's processes and drivers, and with the secret."""
        return self.folder / "cluster.properties"

    @property
    def variables(self) -> dict[str, str]:
        """The variables of master and workers, which executors and their Python processes inherit."""
        return {
            **java_variables(self.settings),
            "PYTHONPATH": child_path(project().paths),
            "SPARK_DAEMON_JAVA_OPTS": _DAEMON_JAVA,
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            "SPARK_WORKER_DIR": str(self.folder / "work"),
        }

    def prepare(self) -> None:
        """Write the cluster's settings with a new secret, and forget former workers and drivers."""
        for name in ("known", "work"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".properties.{os.getpid()}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as made:
            made.writelines(f"{name} {value}\n" for name, value in self._stated().items())
        draft.replace(self.properties)

    def master(self) -> list[str]:
        """Return the command of the master."""
        return self._daemon("master.Master", "--port", str(self.port))

    def worker(self) -> list[str]:
        """Return the command of a worker."""
        return self._daemon("worker.Worker", "--cores", "1", "--memory", _WORKER_MEMORY, self.url)

    def answers(self) -> bool:
        """Return whether the master takes connections."""
        return listens(self.port)

    def _daemon(self, name: str, *words: str) -> list[str]:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        place = ["--host", _HOST, "--webui-port", "0", "--properties-file", str(self.properties)]
        return [str(program), f"{_DAEMON}.{name}", *place, *words]

    def _stated(self) -> dict[str, str]:
        return {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(32),
            "spark.master.rest.enabled": "false",
            "spark.ui.killEnabled": "false",
            # A master that starts again goes on with the drivers and workers that the former one knew.
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self.folder / "known"),
            # By default, a driver is given up after ten executors that die, however far apart.
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.worker.cleanup.enabled": "true",
            "spark.worker.cleanup.appDataTtl": str(_DAY_SECONDS),
            "spark.executor.cores": "1",
            "spark.executor.memory": _WORKER_MEMORY,
            "spark.cores.max": str(self.workers),
        }


@contextmanager
def driving(chosen: Settings) -> Iterator[None]:
    """Run a cluster for a block, in which an embedded engine of this process is the cluster's driver.

    Raises:
        EngineError: if the master does not start.
    """
    with ExitStack() as running:
        folder = running.enter_context(command_folder(chosen.home / FOLDER))
        made = Cluster(chosen, folder, ports.free(), chosen.cluster)
        made.prepare()
        log = made.folder / "master.log"
        master = running.enter_context(attached(made.master(), log=log, variables=made.variables))
        await_answer("the Spark master", master, made.answers, log=log)
        for number in range(made.workers):
            log = made.folder / f"worker_{number + 1}.log"
            running.enter_context(attached(made.worker(), log=log, variables=made.variables))
        # By its file, since everybody may read a command line.
        submitted = f"--properties-file {made.properties} pyspark-shell"
        apply({"DEDP_SPARK_MASTER": made.url, "PYSPARK_SUBMIT_ARGS": submitted})
        try:
            yield
        finally:
            # Otherwise the driver would miss its executors, aloud. An engine that died needs no end.
            with suppress(OSError, Py4JError):
                if (session := SparkSession.getActiveSession()) is not None:
                    session.stop()


@contextmanager
def command_folder(place: Path) -> Iterator[Path]:
    """Make a folder for a block of this process, and remove the folders of processes that were killed."""
    place.mkdir(parents=True, exist_ok=True)
    for folder in place.glob(f"{_OF_A_COMMAND}*"):
        process, _, _ = folder.name.removeprefix(_OF_A_COMMAND).partition("-")
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            shutil.rmtree(folder, ignore_errors=True)
    prefix = f"{_OF_A_COMMAND}{os.getpid()}-"
    with tempfile.TemporaryDirectory(dir=place, prefix=prefix, ignore_cleanup_errors=True) as made:
        yield Path(made)
