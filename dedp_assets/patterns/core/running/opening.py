"""Notes on the tables that a block of code opens for reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["Opened", "note_opened", "noting_opened"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A table that was opened for reading.

    Attributes:
        spec: declaration by which the table was opened.
        location: URI of the table.
        version: version that was opened; ``None`` for a stream of changes.
        partitions: partitions that were asked for; none for all rows.
    """

    spec: TableSpec
    location: str
    version: int | None
    partitions: Sequence[Mapping[str, str | None]] = ()


_NOTED: ContextVar[list[Opened] | None] = ContextVar("opened tables", default=None)


@contextmanager
def noting_opened() -> Iterator[list[Opened]]:
    """Note the tables that this thread opens in the block.

    Yields:
        The tables so far, in order.
    """
    noted: list[Opened] = []
    before = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(before)


def note_opened(
    spec: TableSpec, location: str, version: int | None, partitions: Sequence[Mapping[str, str | None]] = ()
) -> None:
    """Note a table that is opened, if anybody wants to know."""
    if (noted := _NOTED.get()) is not None:
        noted.append(Opened(spec, location, version, partitions))
