"""Reload of a running platform's code after a change of the project's files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dedp_assets.graph.resources.engine import last_lines
from dedp_assets.graph.resources.environments import child_environment, child_path
from dedp_assets.graph.systems.orchestrator import Orchestrator
from dedp_assets.laptop.orchestration.code_server import left_out
from dedp_assets.laptop.telling import Say
from dedp_assets.project import Project

__all__ = ["Reloading"]


class Reloading:
    """Follower of a project's files: code that loads takes the place of the code that runs.

    Changed files are loaded in a process of their own first. While they do not load, the platform goes on with the code
    that it has, and the reason is printed once.

    Args:
        code: the project.
        web: Dagster's webserver, which reloads the code locations.
        restart: restarts the other servers that hold the declarations.
        say: prints a word and a sentence.
        log: file for the output of the process that loads changed files.
        trial: the command that loads the code, and fails where it cannot.
    """

    def __init__(
        self,
        code: Project,
        web: Orchestrator,
        restart: Callable[[], None],
        say: Say,
        log: Path,
        *,
        trial: Sequence[str] = (sys.executable, "-m", "dedp_assets.laptop.orchestration.preloaded"),
    ) -> None:
        self._code, self._web, self._restart, self._say, self._log = code, web, restart, say, log
        self._trial = trial
        self._loaded = self._seen = code.stamp()
        self._loading: subprocess.Popen[bytes] | None = None

    def poll(self) -> None:
        """Take the next step: wait until files stop changing, load the code in a process, then reload servers."""
        if self._loading:
            self._end(self._loading)
            return
        before, self._seen = self._seen, self._code.stamp()
        if before == self._seen != self._loaded:
            self._loaded = self._seen
            environment = child_environment({"PYTHONPATH": child_path(self._code.paths)})
            with self._log.open("wb") as output:
                self._loading = subprocess.Popen(
                    self._trial, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=self._code.root
                )

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Reload the platform if the code loaded in the process, or print why the code does not load."""
        if process.poll() is None:
            return
        self._loading = None
        output = self._log.read_text(errors="replace")
        if process.returncode:
            reason = last_lines(output, 1)
            self._say("notice", f"the changed code does not load, so the code before goes on: {reason} (`dedp check`)")
            return
        faults = [reason for each in self._code.locations if (reason := self._reload(each.name))]
        self._restart()
        self._say("reloaded", f"{'; '.join(faults) or 'the changed declarations are in force'}{left_out(output)}")

    def _reload(self, location: str) -> str:
        """Reload a code location; return the fault, empty without one."""
        try:
            return self._web.reload(location)
        except Exception as error:  # whatever the client raises: the next change is another attempt
            return f"{location} is not reloaded: {type(error).__name__}"
