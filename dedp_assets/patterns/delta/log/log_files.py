"""Files of a table's log: commits and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

import pyarrow as pa
from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.delta.log.checkpoint_files import CheckpointFiles
from dedp_assets.patterns.delta.log.faults import log_faults, missing_commits
from dedp_assets.patterns.delta.log.kept_commits import KeptCommits
from dedp_assets.patterns.delta.log.log_folder import LogFolder, versions_in
from dedp_assets.patterns.delta.log.redacted import RedactedFile
from dedp_assets.patterns.delta.storage.locations import Location, require_folder

__all__ = ["DAMAGE", "LogFiles"]


DAMAGE = (ValueError, TypeError, KeyError, AttributeError)
"""Errors that reading a commit raises, if it is not as the protocol says."""

T = TypeVar("T")


class LogFiles(LogFolder, CheckpointFiles):
    """The files of a Delta table's log: commits and checkpoints, read as bytes and as actions.

    Args:
        location: where the table lies.
        name: what messages call the table; the location's last part if empty.
    """

    def __init__(self, location: Location, *, name: str = "") -> None:
        super().__init__(location)
        self.name = name or self.store.name
        self.past = RedactedFile(self._folder)
        self._newest: tuple[int, object] = (-1, None)
        self.restarts = 0
        """Number of times that the newest known commit was gone, as another table lay in the folder."""
        self._read_last: tuple[int, object] = (-1, None)
        self._kept: KeptCommits | None = None
        self.unchanged: int | None = None
        """Version verified by the reader of the moment; :meth:`raws` after this version reads later commits only.

        So a look costs one request, and one for each new commit. A gap is found where the newest version is asked for.
        """

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the location; the other process looks for the newest version itself."""
        return {**self.__dict__, "_newest": (-1, None), "_kept": None, "past": RedactedFile(self._folder)}

    def exists(self) -> bool:
        """Return whether the table exists.

        Raises:
            ConfigError: if a file lies in the place of the table's folder.
        """
        if self.holds(0) or self.versions():
            return True
        require_folder(self.name, self.store)
        return False

    def version(self) -> int:
        """Return the newest version."""
        return self.newest()[0]

    def newest(self) -> tuple[int, object]:
        """Return the newest version with the identity of the commit.

        Looked for from the last answer on, as long as the commit of the last answer is unchanged.

        Raises:
            ConfigError: if a file lies in the place of the table's folder.
            ContractError: if a commit is missing that no checkpoint makes up for.
            NotReady: if there is no table yet.
        """
        seen, tag = self._newest
        known = tag is not None and self.identity(seen) == tag
        found = self._last_from(seen) if known else self._find_newest()
        self.restarts += tag is not None and not known
        if not known or found != seen:
            self._newest = (found, self.identity(found))
        return self._newest

    def _last_from(self, version: int) -> int:
        """Follow the log from a version to the newest version; refuse a log with a gap."""
        while self.holds(version + 1):
            version += 1
        self._require_end(version + 1)
        return version

    def _find_newest(self) -> int:
        """Find the newest version from the last checkpoint on, or by a listing of the folder."""
        hint = self.last_checkpoint().get("version")
        if isinstance(hint, int) and self.holds(hint):
            return self._last_from(hint)
        names = self._log.list()
        versions = versions_in(names)
        if not versions:
            require_folder(self.name, self.store)
            raise NotReady(f"{self.name} does not exist yet: nothing was ever written to {self.store.address}")
        # While others commit, a listing may show the later of two commits alone.
        if not all(self.holds(version) for version in missing_commits(names)):
            raise ContractError(f"{self.name}: its log cannot be read{self._damage('')}")
        return versions[-1]

    def resume(self, since: int) -> int:
        """Return ``since``, or -1 if the log ends before: the table was removed and created again."""
        return since if since < 0 or self.holds(since) or any(v > since for v in self.versions()) else -1

    def raw(self, version: int) -> bytes:
        """Read the bytes of a commit, or the redacted bytes of a purged commit."""
        try:
            return self._log.read(f"{version:020d}.json")
        except FileNotFoundError:
            if (kept := self.past.history().commits.get(version)) is not None:
                return kept
            raise NotReady(f"{self.name} has no version {version} in its log") from None

    def read(self, version: int, parse: Callable[[], T]) -> T:
        """Parse a commit; damage is a ContractError that names the file and the remedy."""
        try:
            return parse()
        except DAMAGE as error:
            raise self.damaged(version, error) from error

    def damaged(self, version: int, error: Exception) -> ContractError:
        """Build the error of a damaged commit."""
        file = f"{version:020d}.json"
        damage = self._damage(file) or f"; put _delta_log/{file} back from a backup"
        return ContractError(f"{self.name}: version {version} of its log is damaged ({error}){damage}")

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Turn errors of Delta or Parquet into a ContractError with the damaged file and the remedy."""
        try:
            yield
        except (DeltaError, pa.ArrowException) as error:
            damage = self._damage("") or f": {str(error).splitlines()[0]}"
            raise ContractError(f"{self.name}: its log cannot be read{damage}") from error

    def _damage(self, file: str) -> str:
        """Format the log's faults (of ``file`` only, unless empty), to append to an error message."""
        return "".join(f"; {fault}" for fault in log_faults(self.store) if fault.file.endswith(file))

    def since(self, since: int) -> Iterator[int]:
        """List the versions after ``since``, without listing the folder unless the log was cleaned up.

        Raises:
            ContractError: at a commit that is missing between others.
        """
        version = since + 1
        if not self.holds(version) and not self.holds(since):
            yield from (v for v in self.versions() if v > since)
            return
        while self.holds(version):
            yield version
            version += 1
        self._require_end(version)

    def _require_end(self, version: int) -> None:
        """Refuse a log with a commit after the missing commit of ``version``.

        Looked for in this order: a commit that appears between the two looks is no gap.
        """
        if self.holds(version + 1) and not self.holds(version):
            raise ContractError(f"{self.name}: its log cannot be read{self._damage('')}")

    def raws(self, since: int) -> Iterator[tuple[int, bytes, bool]]:
        """Yield the commits after ``since``: version, bytes, and whether the previous version came before.

        Raises:
            ContractError: at a commit that is missing between others.
        """
        with self.reading_once():
            version = since
            for version, raw in self._read_from(since + 1):
                yield version, raw, True
            if since == self.unchanged:
                return
            if (version == since or version in self.past.known) and not (version >= 0 and self.holds(version)):
                first = min((v for v in self.versions() if v > version), default=version + 1)
                past = [*self.past.history().between(version, first)]
                yield from past
                follows = past or version > since
                for version, raw in self._read_from(first):
                    yield version, raw, bool(follows) or version > first
            self._require_end(version + 1)

    @contextmanager
    def reading_once(self) -> Iterator[None]:
        """Open a block in which commits read by :meth:`look_ahead` are kept for the next reader."""
        before = self._kept
        self._kept = before or KeptCommits()
        try:
            yield
        finally:
            self._kept = before

    def look_ahead(self, since: int) -> Iterator[tuple[int, bytes]]:
        """Yield the commits after ``since``, kept for the next reader of :meth:`reading_once`."""
        kept = self._kept
        for version, raw, _ in self.raws(since):
            if kept is not None:
                kept.keep(version, raw, self._read_last[1])
            yield version, raw

    def _read_from(self, version: int) -> Iterator[tuple[int, bytes]]:
        kept = self._kept or KeptCommits()
        while True:
            while (found := kept.take(version)) is not None:
                raw, tag = found
                self._read_last = version, tag
                yield version, raw
                version += 1
            for raw, tag in self._log.read_on(f"{each:020d}.json" for each in count(version)):
                self._read_last = version, tag
                yield version, raw
                version += 1
                if version in kept.commits:
                    break
            else:
                return

    def back(self, until: int | None = None) -> Iterator[int]:
        """List the versions from the newest (up to ``until``) back to the oldest, without listing the folder."""
        version = until
        if version is None or not self.holds(version):
            newest = self.version() if self.exists() else -1
            if version is None or version > newest:
                version = newest
            elif version not in self.past.history().commits:
                return  # cleaned up
        while version >= 0:
            yield version
            before = version and (self.holds(version - 1) or version - 1 in self.past.history().commits)
            version = version - 1 if before else -1

    def identity(self, version: int) -> object:
        """Return the identity of a commit file: version and file tag; ``None`` if missing."""
        try:
            return version, self._log.entry(f"{version:020d}.json").tag
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_identity(self, version: int) -> object:
        """Return the identity of the commit that was read last; of another version, the present identity."""
        return self._read_last if self._read_last[0] == version else self.identity(version)

    def tells_from(self) -> int:
        """Return the version of the oldest known commit, a purged one or not; 0 without a table."""
        first = min(self.versions(), default=0)
        known = self.past.history().between(-1, first) if first else ()
        return next((version for version, *_ in known), first)
