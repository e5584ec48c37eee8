"""A platform of processes by `dedp up`, as tests start one, look at it and end it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.processes import command, descendants, kill, wait_until

DEDP = str(Path(sys.executable).parent / "dedp")
"""The command; of a wheel, if `PYTHONPATH` names the wheel's folder."""
COMMANDS = """
import contextlib, io, json, sys
from dedp_assets.cli import main
answers = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words)
    answers.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(answers))
"""
"""Calls commands, and prints the exit code and both outputs of each."""


@dataclass(frozen=True)
class Up:
    """A platform that runs: its process, where it works, what it says, and every process that was seen of it."""

    process: subprocess.Popen[bytes]
    tree: psutil.Process
    home: Path
    ports: Mapping[str, int]
    said: Callable[[], str]
    everything: set[psutil.Process]

    def says(self, words: str, *, times: int = 1, seconds: float = 300) -> bool:
        """Whether it said something, so many times."""

        def found() -> bool:
            self.see()
            return self.process.poll() is not None or self.said().count(words) >= times

        return wait_until(found, seconds=seconds) and self.said().count(words) >= times

    def comes(self, condition: Callable[[], object], *, seconds: float = 600, every: float = 0.2) -> bool:
        """Whether a condition came true while the platform ran."""

        def ended() -> bool:
            return self.process.poll() is not None

        return wait_until(lambda: ended() or condition(), seconds=seconds, every=every) and not ended()

    def see(self) -> None:
        """Add the processes that run now to every process that was seen."""
        self.everything.update({self.tree, *descendants(self.tree)})

    def find(self, words: str) -> psutil.Process:
        """The server whose command line has these words, once it has begun its program."""

        def found() -> list[psutil.Process]:
            return [each for each in descendants(self.tree) if words in command(each)]

        assert wait_until(found, seconds=60), words
        return min(found(), key=lambda each: each.pid)


@contextmanager
def platform_up(
    home: Path, ports: Mapping[str, int], environment: Mapping[str, str], *, said: Path, cwd: Path | None = None
) -> Iterator[Up]:
    """`dedp up` in a session of its own, with its output in the file ``said``; leaves no process.

    Args:
        home: where it works by its environment or its folder.
        ports: option -> port of each server.
        environment: all of its variables.
        said: file of what it says.
        cwd: its working directory; by default that of the tests.
    """
    words = [str(word) for pair in ports.items() for word in pair]
    with said.open("wb") as output:
        up = subprocess.Popen(
            [DEDP, "up", *words], env=environment, cwd=cwd, stdout=output, stderr=output, start_new_session=True
        )
    made = Up(up, psutil.Process(up.pid), home, ports, said.read_text, set())
    try:
        yield made
    finally:
        kill({*made.everything, *descendants(made.tree), made.tree})
        up.wait(timeout=60)
