"""Checkpoints of a table's log: the last checkpoint, with files and actions."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pyarrow.parquet as pq

from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["CheckpointFiles"]


class CheckpointFiles(ABC):
    """The checkpoints in the folder of a log."""

    @property
    @abstractmethod
    def _log(self) -> Store:
        """The store of the log, if the block may read the table."""

    @abstractmethod
    def readable(self) -> AbstractContextManager[None]:
        """Turn errors of Delta or Parquet into a ContractError with the damaged file and the remedy."""

    def checkpointed(self, file: str, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Read the actions of the given kinds from a checkpoint file."""
        with self.readable(), self._log.open(file) as opened:
            read = pq.ParquetFile(opened).read(columns=list(kinds), use_threads=False)
        # A checkpoint has no column for a kind of action that its table has none of.
        for kind in (each for each in kinds if each in read.column_names):
            held = read[kind].combine_chunks().drop_null()
            # As in a commit, maps are objects: whoever writes an action back would write lists otherwise.
            yield from ((kind, action) for action in held.to_pylist(maps_as_pydicts="strict"))

    def checkpointed_transactions(self, file: str) -> Iterable[tuple[str, int]]:
        """Read transaction ids and their versions from a checkpoint file."""
        with self.readable(), self._log.open(file) as opened:
            read = pq.ParquetFile(opened).read(columns=["txn.appId", "txn.version"], use_threads=False)
        moved = read["txn"].combine_chunks().drop_null()
        return zip(moved.field("appId").to_pylist(), moved.field("version").to_pylist(), strict=True)

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
