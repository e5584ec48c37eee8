"""Server processes that end with the starting process, however that process ends."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dedp_assets.graph.resources.engine import EngineError, last_lines
from dedp_assets.graph.resources.environments import child_environment

__all__ = ["attached", "await_answer"]

_LOOK_SECONDS = 0.1
_ATTACHED = """\
exec 3<&0
"$@" </dev/null 3<&- & server=$!
(read -r _ <&3; kill -9 $server) & reader=$!
wait $server; ended=$?
kill $reader
exit $ended
"""
"""Shell program that ends a server at the end of the input pipe, which closes with the starting process."""


@contextmanager
def attached(
    command: Sequence[str], *, log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server for a block, and kill the server at the end, or when this process is gone.

    Args:
        command: program and arguments.
        log: file for the output.
        variables: variables of the environment, beside those of this process.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _ATTACHED, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=child_environment(variables or {}),
            start_new_session=True,  # Ctrl-C is for the command, which may still need the server
        )
    try:
        yield process
    finally:
        process.communicate()  # closes the pipe


def await_answer(
    name: str, process: subprocess.Popen[bytes], answers: Callable[[], bool], *, log: Path, seconds: float = 120
) -> None:
    """Wait until a started server answers.

    Args:
        name: of the server, for people.
        process: the server's, which may end early.
        answers: whether the server answers.
        log: the server's output.
        seconds: the longest wait.

    Raises:
        EngineError: with the end of the output, if the server ends or does not answer in time.
    """
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        if answers():
            return
        time.sleep(_LOOK_SECONDS)
    text = last_lines(log.read_text(errors="replace"), 5) if log.exists() else ""
    raise EngineError(f"{name} does not start; its log, {log}, ends with:\n{text}")
