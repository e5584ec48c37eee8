"""Editions: a folder that is replaced whole, in one rename.

The folder that readers know is a link to an edition beside it: ``devices -> .devices.edition-1a2b/files``. The
next edition is built where nobody looks, and the link is pointed to it once it is complete. Whatever happens before
that leaves the former one in place; what a killed process left beside it is removed by the next one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.running.permissions import extended_to, require_allowed
from dedp_assets.patterns.delta import LocalStore, as_folder, table_lock

__all__ = ["MANIFEST", "FolderContent", "FolderEdition", "current", "next_content", "next_edition", "replacing"]

MANIFEST = "manifest.json"
_FILES = "files"
_NEXT, _READY, _FORMER = "next", "ready", "former"


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


@dataclass(slots=True)
class FolderContent:
    """New content of a plain folder, to be filled.

    Attributes:
        files: the folder to fill.
        ready: whether the content is to take the place of the former content.
    """

    files: LocalStore
    ready: bool = False


@contextmanager
def next_content(target: LocalStore) -> Iterator[FolderContent]:
    """Make new content of a plain folder, shown once the block ends ready and without an error.

    Two renames: the former content moves away, the new one moves in. A process that dies between the two leaves a
    folder beside ``target`` from which the next call completes the exchange.

    Raises:
        ConfigError: if ``target`` is no folder, or a link.
        Conflict: if files came, went or changed meanwhile; whoever wrote them has them. Or if the lock is kept.
    """
    with replacing(target):
        work = target.above().within(f".{target.name}.content")
        _complete(target, work)
        if target.above().shown(target.name) is not None or not target.is_folder():
            raise ConfigError(f"{target.address} must be a folder of its own, no link and no edition of another one")
        before = _listed(target)
        made = FolderContent(work.within(_NEXT))
        work.make_folder(_NEXT)
        work.put(MANIFEST, json.dumps(before).encode())
        try:
            yield made
            _require_same(target, before if made.ready else _listed(target))
        except BaseException:
            work.delete_folder("")
            raise
        if made.ready:
            work.move(_NEXT, work, _READY)
            target.above().move(target.name, work, _FORMER)
        _complete(target, work)


def _complete(target: LocalStore, work: LocalStore) -> None:
    """Complete an exchange of another call, or take the exchange back if somebody wrote meanwhile."""
    if {_READY, _FORMER} <= {*work.list()} and not _is_exchanged(target, work):
        for entry in target.files():
            target.move(entry.path, work.within(_FORMER), entry.path)
        target.delete_folder("")
        work.move(_FORMER, target.above(), target.name)
        work.delete_folder("")
        raise Conflict(f"{target.address} was written to while its content was exchanged: run it again")
    work.delete_folder("")


def _is_exchanged(target: LocalStore, work: LocalStore) -> bool:
    """Move the new content in; ``False`` if somebody wrote to the former one, or made the folder again."""
    if _listed(work.within(_FORMER)) != json.loads(work.read(MANIFEST)):
        return False
    with suppress(OSError):  # the folder is there again, and not empty
        work.move(_READY, target.above(), target.name)
    return _READY not in work.list()


def _require_same(target: LocalStore, before: Mapping[str, list[int]]) -> None:
    if _listed(target) != before:
        raise Conflict(f"{target.address} changed while its next content was made: run it again")


def _listed(folder: LocalStore) -> dict[str, list[int]]:
    """Return size and time of each file; a hard link to a file changes neither."""
    return {entry.path: [entry.size_bytes, entry.modified_ns] for entry in folder.files()}
