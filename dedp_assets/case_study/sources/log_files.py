"""Files of web server logs: selection of files, and lines, compressed or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path

from dedp_assets.patterns.connectors.landing.files import LONGEST_LINE, content_kind, unpacked
from dedp_assets.patterns.core.errors import ContractError

__all__ = ["files_of", "lines_of"]

_COMPRESSED = ("", "gzip", "bzip2", "zstd")


def files_of(places: Sequence[Path]) -> Iterator[Path]:
    """List the log files of paths, folders and patterns, each once; existing names are no patterns.

    Raises:
        ValueError: if a folder or a pattern holds no file.
        FileNotFoundError: if there is nothing of a name.
    """
    found: dict[Path, None] = {}
    for place in places:
        files = [place]
        if place.is_dir():
            files = sorted(each for each in place.iterdir() if each.is_file() and not each.name.startswith("."))
        elif not place.exists() and any(sign in str(place) for sign in "*?["):
            files = sorted(each for each in map(Path, glob(str(place))) if each.is_file())  # noqa: PTH207 - absolute ones, too
        if not files:
            raise ValueError(f"{place} holds no file: name a log, a folder of logs, or a pattern of their names")
        found |= dict.fromkeys(files)
    return iter(found)


def lines_of(path: Path) -> Iterator[bytes]:
    """Read the lines of a log, compressed or not, with line ends.

    Raises:
        ValueError: if it holds something else than text.
    """
    with path.open("rb") as file:
        kind = content_kind(file.read(264))
    if kind not in _COMPRESSED:
        raise ValueError(f"{path} holds {kind} data: give it as text in UTF-8, or compressed as .gz, .bz2 or .zst")
    return _unpacked_lines(path, kind)


def _unpacked_lines(path: Path, kind: str) -> Iterator[bytes]:
    left = b""
    with path.open("rb") as file:
        for piece in unpacked(file, str(path), kind=kind):
            *lines, left = (left + piece).split(b"\n")
            yield from (line + b"\n" for line in lines)
            if len(left) > LONGEST_LINE:
                raise ContractError(f"{path} has a line of more than {LONGEST_LINE >> 20} MiB, which no log has")
    if left:
        yield left
