"""Generations: a folder that is replaced whole, in one rename.

The folder that readers know is a link to a generation beside it: ``devices -> .devices.generation-1a2b/files``. The
next generation is built where nobody looks, and the link is pointed to it once it is complete. Whatever happens before
that leaves the former one in place; what a killed process left beside it is removed by the next one.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta.locks import table_lock

__all__ = ["Generation", "current", "next_generation", "replacing"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One complete state of a replaced folder.

    Attributes:
        home: the generation's own folder.
    """

    home: Path

    @property
    def files(self) -> Path:
        """The folder that readers see."""
        return self.home / "files"

    @property
    def manifest(self) -> Path:
        """The file with what is known about the files, kept apart from them and replaced together with them."""
        return self.home / "manifest.json"


def current(target: Path) -> Generation | None:
    """Find the generation that ``target`` shows; ``None`` if there is none yet.

    Raises:
        ConfigError: if ``target`` is something else, which a replacement would destroy.
    """
    if not target.is_symlink():
        if target.exists():
            raise ConfigError(f"{target} holds data of its own and is no replica: name another target, or move it away")
        return None
    home = (target.parent / target.readlink()).parent
    if home.parent != target.parent or not home.name.startswith(_prefix(target)):
        raise ConfigError(f"{target} is a link to {target.readlink()} and no replica: name another target")
    return Generation(home) if (home / "files").is_dir() else None


@contextmanager
def replacing(target: Path) -> Iterator[None]:
    """Hold the right to replace ``target``, which only one process has at a time.

    Raises:
        Conflict: if another process keeps it.
    """
    with table_lock(target.with_name(f"{target.name}.generations")):
        yield


@contextmanager
def next_generation(target: Path, *, keep_former: bool = True) -> Iterator[Generation]:
    """Make a new generation to fill, which ``target`` shows when the block ends without an error.

    Args:
        target: the folder that readers know; the caller is :func:`replacing` it.
        keep_former: leave the former generation to those who are reading it, until the next replacement. Otherwise it
            is removed at once.
    """
    former = current(target)
    _sweep(target, former)
    made = Generation(target.parent / f"{_prefix(target)}{uuid.uuid4().hex[:16]}")
    made.files.mkdir(parents=True)
    try:
        yield made
    except BaseException:
        shutil.rmtree(made.home, ignore_errors=True)
        raise
    link = made.home / "link"
    link.symlink_to(made.files.relative_to(target.parent))
    link.replace(target)
    if not keep_former:
        _sweep(target, made)


def _prefix(target: Path) -> str:
    return f".{target.name}.generation-"


def _sweep(target: Path, keep: Generation | None) -> None:
    """Remove every generation but one."""
    for home in target.parent.glob("*") if target.parent.exists() else ():
        if home.name.startswith(_prefix(target)) and (keep is None or home != keep.home):
            shutil.rmtree(home, ignore_errors=True)
