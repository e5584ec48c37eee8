"""Progress of a long command on the error output: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dedp_assets.commands._output import console, note
from dedp_assets.patterns.core.measuring.quantities import quantity

__all__ = ["Count", "counted", "counting"]

Item = TypeVar("Item")

_LINE_SECONDS = 10.0
"""Shortest time between two lines where no terminal shows a bar: a quick command has none."""


class Count:
    """Number of finished things among the expected things, with an estimate of the seconds to go.

    Args:
        what: plural of the things.
        expected: number of things that are known of so far.
        show: function that is called after each change.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        what: str,
        expected: int,
        show: Callable[[Count], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.expected, self.done = what, expected, 0
        self._show, self._clock, self._began = show, clock, clock()

    def expect(self, more: int) -> None:
        """Raise the number of expected things."""
        self.expected += more
        self._show(self)

    def step(self) -> None:
        """Count a thing as done."""
        self.done += 1
        self.expected = max(self.expected, self.done)
        self._show(self)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    @property
    def left_seconds(self) -> float | None:
        """Remaining seconds by the mean time of the finished things; ``None`` before the first finished thing."""
        return self.seconds / self.done * (self.expected - self.done) if self.done else None

    def __str__(self) -> str:
        left = self.left_seconds
        about = (
            "" if left is None or self.done == self.expected else f", about {quantity(round(left), 's', digits=2)} left"
        )
        return f"{self.done} of {self.expected} {self.what}{about}"


@contextmanager
def counting(what: str, expected: int = 0) -> Iterator[Count]:
    """Show the progress of a block on the error output.

    Args:
        what: plural of the things that are counted.
        expected: number of things; more can be expected later.
    """
    if not sys.stderr.isatty():
        yield Count(what, expected, _lines())
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Lines to a terminal go above the bar, lines into a file stay where they belong.
    above, terminal = sys.stdout.isatty(), console(errors=True)
    with Progress(*columns, console=terminal, transient=True, refresh_per_second=4, redirect_stdout=above) as bar:
        task = bar.add_task(what, total=expected or None)
        yield Count(what, expected, lambda count: bar.update(task, total=count.expected, completed=count.done))


def counted(things: Sequence[Item], what: str) -> Iterator[Item]:
    """Yield things one after the other, and show how many are done."""
    with counting(what, len(things)) as count:
        for each in things:
            yield each
            count.step()


def _lines() -> Callable[[Count], None]:
    """Return a function that prints a count as a line, at most one in a while."""
    last = 0.0

    def show(count: Count) -> None:
        nonlocal last
        if count.seconds - last >= _LINE_SECONDS:
            last = count.seconds
            note(str(count))

    return show
