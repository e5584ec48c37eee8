"""Editions: a folder that is replaced whole, in one rename.

The folder that readers know is a link to an edition beside it: ``devices -> .devices.edition-1a2b/files``. The
next edition is built where nobody looks, and the link is pointed to it once it is complete. Whatever happens before
that leaves the former one in place; what a killed process left beside it is removed by the next one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.permissions import extended_to, require_allowed
from dedp_assets.patterns.delta import LocalStore, as_folder, table_lock

__all__ = ["MANIFEST", "FolderEdition", "current", "next_edition", "replacing"]

MANIFEST = "manifest.json"
_FILES = "files"


@dataclass(frozen=True, slots=True)
class FolderEdition:
    """One complete state of a replaced folder.

    Attributes:
        home: the edition's own folder; its file :data:`MANIFEST` says what is known about the files, is kept apart
            from them and replaced together with them.
    """

    home: LocalStore

    @property
    def files(self) -> LocalStore:
        """The folder that readers see."""
        return self.home.within(_FILES)


def current(target: LocalStore) -> FolderEdition | None:
    """Return the edition that ``target`` shows; ``None`` before the first edition.

    Raises:
        ConfigError: if ``target`` is something else, which a replacement would destroy.
    """
    beside = target.above()
    link = beside.shown(target.name)
    if link is None:
        if target.name in beside.list():
            raise ConfigError(
                f"{target.address} holds data of its own and is no edition: name another target, or move it away"
            )
        return None
    home = PurePosixPath(link).parent
    if len(home.parts) != 1 or not home.name.startswith(_prefix(target)):
        raise ConfigError(f"{target.address} is a link to {link} and no edition: name another target")
    made = FolderEdition(beside.within(home.name))
    return made if _FILES in made.home.list() else None


@contextmanager
def replacing(target: LocalStore) -> Iterator[None]:
    """Hold the lock for a replacement of ``target``.

    Raises:
        Conflict: if another process keeps it.
        ConfigError: if the store cannot exchange folders.
    """
    with table_lock(as_folder(target).above().within(f"{target.name}.editions")):
        yield


@contextmanager
def next_edition(target: LocalStore, *, keep_former: bool = True) -> Iterator[FolderEdition]:
    """Make a new edition to fill; ``target`` shows the edition when the block ends without an error.

    Args:
        target: the folder that readers know; the caller is :func:`replacing` it.
        keep_former: leave the former edition to those who are reading it, until the next replacement. Otherwise it
            is removed at once.
    """
    require_allowed("write", target.address)
    former = current(target)
    _sweep(target, former)
    made = FolderEdition(target.above().within(f"{_prefix(target)}{uuid.uuid4().hex[:16]}"))
    with extended_to(made.home.address):
        made.home.make_folder(_FILES)
        try:
            yield made
        except BaseException:
            made.home.delete_folder("")
            raise
        target.above().show(target.name, f"{made.home.name}/{_FILES}")
    if not keep_former:
        _sweep(target, made)


def _prefix(target: LocalStore) -> str:
    return f".{target.name}.edition-"


def _sweep(target: LocalStore, keep: FolderEdition | None) -> None:
    """Remove every edition except ``keep``."""
    beside = target.above()
    for name in beside.list():
        if name.startswith(_prefix(target)) and (keep is None or name != keep.home.name):
            with extended_to(beside.within(name).address):
                beside.delete_folder(name)
