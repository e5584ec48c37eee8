"""Files of JSON lines: an object a line, appended whole and read without damaged lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["append_lines", "stored_lines"]


def append_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Append records as lines in one write, and flush the lines to the disk.

    Args:
        path: the file, which need not be there.
        records: JSON values.

    Raises:
        OSError: if the file cannot be written.
    """
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in records)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            # After a line that a process left torn when it died, the next one begins anew: readers skip an empty line.
            lines = lines if file.read(1) == b"\n" else b"\n" + lines
        file.write(lines)
        os.fsync(file.fileno())


def stored_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, without damaged lines; nothing for a missing file."""
    with suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                if isinstance(stored := json.loads(line), dict):
                    yield stored
