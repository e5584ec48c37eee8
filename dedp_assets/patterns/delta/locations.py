"""Locations: the folder that a table lies in, the same for Python, Spark and deltalake.

Each of them reads a path in its own way: relative to its own working directory, as a pattern, as an address, with
characters decoded. A location that they would not all take for the same folder is refused.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["literal_path", "local_folder", "require_vacant"]

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_READ_OTHERWISE = re.compile(r"[%*?\[\]{}\\`:\x00-\x1f\x7f]")
_PATTERN = re.compile(r"[\\{}\[\]*?]")
_OURS = ("_delta_log", "staged-", ".")


def local_folder(location: str | os.PathLike[str]) -> Path:
    """Give the absolute path of a table's folder.

    A link that is the folder itself stays one: a replica is exchanged by exchanging the link.

    Raises:
        ConfigError: if it is an address, or has characters that one of the engines reads in another way.
    """
    text = os.fspath(location)
    if _ADDRESS.match(text):
        raise ConfigError(f"{text} is an address: tables lie in folders of this machine, name one by its path")
    path = Path(text).absolute()
    odd = sorted(set(_READ_OTHERWISE.findall(str(path))))
    folder = path if odd else path.resolve() if ".." in path.parts else path.parent.resolve() / path.name
    if odd := odd or sorted(set(_READ_OTHERWISE.findall(str(folder)))):
        raise ConfigError(
            f"{str(folder)!r} has {' '.join(map(repr, odd))} in it, which engines read as something else: name "
            "another folder"
        )
    if folder == folder.parent:
        raise ConfigError(f"{text!r} is no folder of its own: name one for the table")
    return folder


def literal_path(path: Path | str) -> str:
    """Escape a path for Spark's readers, which take brackets and stars in it for a pattern."""
    return _PATTERN.sub(r"\\\g<0>", str(path))


def require_vacant(table: str, folder: Path) -> None:
    """Refuse to create a table where something else lies already.

    Raises:
        ConfigError: if ``folder`` is a file, or holds files that no table of the library left there.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{table}: {folder} is a file and no folder: name another location")
    found = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    strange = [name for name in found if not name.startswith(_OURS)]
    if strange and "_delta_log" not in found:
        raise ConfigError(
            f"{table}: {folder} holds {strange[0]!r} and no Delta log: name an empty folder, and write what is there "
            "into the table from elsewhere"
        )
