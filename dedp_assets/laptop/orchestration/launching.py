"""Run launcher that forks a process with the code already loaded, instead of a new Python per run.

Half of what a person waits for after a late file is Python importing Dagster, PySpark and this project, once per run.
The process that is forked is multiprocessing's fork server: no Python thread runs in it, and no connection is open.
The threads it has are those of jemalloc and OpenBLAS, which prepare for a fork themselves. A run whose code has changed
is launched as Dagster does it.
"""

from __future__ import annotations

import runpy
import signal
import sys
from collections.abc import Sequence
from datetime import date
from multiprocessing import get_context
from typing import Any

import dagster as dg
import psutil

# What launchers hand to `dagster api execute_run`; those for Docker and Kubernetes take it from there, too.
from dagster._core.launcher import LaunchRunContext  # noqa: TID251
from dagster._grpc.types import ExecuteRunArgs

from dedp_assets.graph.outcomes.run_tags import process_of, ran_by, running_process_of
from dedp_assets.graph.resources.environments import settings
from dedp_assets.project import project

__all__ = ["ForkingRunLauncher"]


class ForkingRunLauncher(dg.DefaultRunLauncher):
    """Launch each run in a fork of a process with the code of the location loaded.

    Once a file of the code has changed, runs are launched by Dagster's code server, which a reload in the UI brings up
    to date, until the daemon starts again.
    """

    def __init__(self, inst_data: Any = None) -> None:  # noqa: ANN401 - Dagster's serialized configuration
        super().__init__(inst_data)
        self._loaded = _stamp()
        self._forking = get_context("forkserver")
        self._forking.set_forkserver_preload([f"{__package__}.preloaded"])

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start a process for the run."""
        origin, run_id = context.job_code_origin, context.dagster_run.run_id
        if origin is None or _stamp() != self._loaded:
            super().launch_run(context)
            return
        arguments = ExecuteRunArgs(job_origin=origin, run_id=run_id, instance_ref=self._instance.get_ref())
        process = self._forking.Process(target=_execute, args=[arguments.get_command_args()], name=f"run {run_id}")
        process.start()
        self._instance.add_run_tags(run_id, ran_by(process.pid or 0, run_id))

    def terminate(self, run_id: str) -> bool:
        """Interrupt the process of a run; return whether a process was interrupted."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished or process_of(run) is None:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        self._instance.report_run_canceling(run)
        return _interrupt(run)


def _execute(command: Sequence[str]) -> None:
    """Execute ``dagster api execute_run ARGUMENTS`` in this process."""
    sys.argv = ["dagster", *command[-3:]]
    runpy.run_module("dagster", run_name="__main__")


def _interrupt(run: dg.DagsterRun) -> bool:
    """Interrupt the forked process of a run; return whether a process was interrupted."""
    process = running_process_of(run)
    try:
        if process is None or "multiprocessing.forkserver" not in " ".join(process.cmdline()):
            return False
        process.send_signal(signal.SIGINT)
    except psutil.NoSuchProcess:
        return False
    return True


def _stamp() -> tuple[int, int, date]:
    """Return a stamp of the definitions: number of files, newest change (ns since 1970), first partition."""
    return *project().stamp(), settings().first_day
