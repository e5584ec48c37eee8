"""The folder of a table's log: commits by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dedp_assets.patterns.core.running.permissions import require_allowed
from dedp_assets.patterns.delta.storage.locations import Located, Location, store_at
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["LogFolder", "versions_in"]

_COMMIT_FILE = re.compile(r"\d{20}\.json")


class LogFolder(Located):
    """The folder with a table's commits and checkpoints.

    Args:
        location: where the table lies.
    """

    def __init__(self, location: Location) -> None:
        self.store = store_at(location)
        self._folder = self.store.within("_delta_log")

    @property
    def _log(self) -> Store:
        """The store of the log, if the block may read the table: every reader of log or rows takes this way."""
        require_allowed("read", self.store.address)
        return self._folder

    def holds(self, version: int) -> bool:
        """Return whether the log has the commit of a version."""
        return self._log.exists(f"{version:020d}.json")

    def versions(self) -> list[int]:
        """List the retained versions, by the names in the folder."""
        return versions_in(self._log.list())


def versions_in(names: Sequence[str]) -> list[int]:
    """Return the versions of the commits among names of files."""
    return [int(name[:20]) for name in names if _COMMIT_FILE.fullmatch(name)]
