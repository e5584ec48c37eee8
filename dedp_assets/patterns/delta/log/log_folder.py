"""The folder of a table's log: commits and checkpoints by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

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

    def last_checkpoint(self) -> Mapping[str, Any]:
        """Read ``_last_checkpoint``; empty if missing or unreadable."""
        log = self._log
        try:
            content = json.loads(log.read("_last_checkpoint"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def checkpoint_files(self, checkpoint: Mapping[str, Any]) -> list[str]:
        """List the Parquet files of the last checkpoint; empty if incomplete or not Parquet."""
        version, parts = checkpoint.get("version"), checkpoint.get("parts") or 1
        if not isinstance(version, int):
            return []
        named = (checkpoint.get("v2Checkpoint") or {}).get("path") or f"{version:020d}.checkpoint.parquet"
        if parts == 1 and self._log.exists(named):
            return [named] if named.endswith(".parquet") else []
        found = [name for name in self._log.list() if name.startswith(f"{version:020d}.checkpoint")]
        found = [name for name in found if name.endswith(".parquet") and self._log.exists(name)]
        return found if len(found) == parts else []


def versions_in(names: Sequence[str]) -> list[int]:
    """Return the versions of the commits among names of files."""
    return [int(name[:20]) for name in names if _COMMIT_FILE.fullmatch(name)]
