"""Logs of tables over time, written by hand: commits at any time, rewrites, maintenance; no data files and no JVM."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta import Store, transaction_id
from tests.helpers import a_record

_FILE_BYTES = 100


@dataclass
class LogOverTime:
    """The log of one table, partitioned by one column of text, with an event time.

    Attributes:
        location: folder of the table.
        name: name of the table.
        column: the partition column.
    """

    location: Path
    name: str
    column: str = "day"
    version: int = -1
    files: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def create(self, at: datetime) -> None:
        """The first commit: the table without rows."""
        named = {"id": "long", self.column: "string", "happened_at": "timestamp"}
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in named.items()]
        meta = {
            "id": f"00000000-0000-0000-0000-{zlib.crc32(self.name.encode()):012d}",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [self.column],
            "configuration": {},
        }
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        self.actions(at, "CREATE TABLE", [{"protocol": protocol}, {"metaData": meta}])

    def write(
        self,
        at: datetime,
        key: str,
        rows: int,
        *,
        newest: datetime | None = None,
        append: bool = False,
        upstream: int | None = None,
        **record: Any,
    ) -> int:
        """Replace a partition by one file of so many rows, or append the file; return the version."""
        removed = [] if append else self._removed(key)
        path = f"{self.column}={key}/part-{self.version + 1}.parquet"
        stats: dict[str, Any] = {"numRecords": rows}
        if newest is not None:
            stats["maxValues"] = stats["minValues"] = {"happened_at": _text(newest)}
        add = {
            "path": path,
            "partitionValues": {self.column: key},
            "size": _FILE_BYTES * max(rows, 1),
            "modificationTime": _millis(at),
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        self.files.setdefault(key, {})[path] = add
        sequence = self.version + 1 if upstream is None else upstream
        counts = {"read": rows, "written": rows, "dead": 0, "duplicates": 0, "filtered": 0}
        stated = a_record(self.name, {self.column: key}, rows=counts, sequence=sequence, **record)
        txn = {"appId": transaction_id(self.name, {self.column: key}, 0), "version": sequence}
        return self.actions(at, "WRITE", [*removed, *([{"add": add}] if rows else []), {"txn": txn}], stated)

    def delete(self, at: datetime, key: str) -> int:
        """Remove a partition's files, as DELETE does."""
        return self.actions(at, "DELETE", self._removed(key))

    def optimize(self, at: datetime) -> int:
        """Merge the files of each partition into one, without a change of data."""
        actions: list[dict[str, Any]] = []
        for key, files in self.files.items():
            if len(files) < 2:
                continue
            rows = sum(json.loads(each["stats"])["numRecords"] for each in files.values())
            actions += [{"remove": {**_removal(each), "dataChange": False}} for each in files.values()]
            path = f"{self.column}={key}/merged-{self.version + 1}.parquet"
            add = {
                **next(iter(files.values())),
                "path": path,
                "dataChange": False,
                "stats": json.dumps({"numRecords": rows}),
            }
            self.files[key] = {path: add}
            actions.append({"add": add})
        return self.actions(at, "OPTIMIZE", actions)

    def vacuum(self, at: datetime) -> int:
        """Start and end of a vacuum."""
        self.actions(at, "VACUUM START", [])
        return self.actions(at, "VACUUM END", [])

    def alter(self, at: datetime, **configuration: str) -> int:
        """Change the table's properties."""
        first = json.loads((self._log / f"{0:020d}.json").read_text().splitlines()[-1])
        meta = {**first["metaData"], "configuration": configuration}
        return self.actions(at, "SET TBLPROPERTIES", [{"metaData": meta}])

    def empty(self, at: datetime) -> int:
        """A commit of a writer that had nothing to write."""
        return self.actions(at, "WRITE", [])

    def actions(
        self, at: datetime, operation: str, actions: list[dict[str, Any]], record: CommitRecord | None = None
    ) -> int:
        """Write a commit with these actions; return the version."""
        self.version += 1
        info = {"timestamp": _millis(at), "operation": operation}
        info |= {"userMetadata": record.to_json()} if record else {}
        self._log.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(each) for each in ({"commitInfo": info}, *actions)]
        # A create has its metadata last, where `alter` finds it.
        (self._log / f"{self.version:020d}.json").write_text("\n".join(lines) + "\n")
        return self.version

    @property
    def _log(self) -> Path:
        return self.location / "_delta_log"

    def _removed(self, key: str) -> list[dict[str, Any]]:
        return [{"remove": {**_removal(each), "dataChange": True}} for each in self.files.pop(key, {}).values()]


def upload(log: LogOverTime, store: Store, *, since: int = 0) -> None:
    """Put the commits of a log from version ``since`` into another store of the table."""
    names = [f"_delta_log/{version:020d}.json" for version in range(since, log.version + 1)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.put(name, (log.location / name).read_bytes()), names))


def _removal(add: Mapping[str, Any]) -> dict[str, Any]:
    return {"path": add["path"], "partitionValues": add["partitionValues"], "deletionTimestamp": 0}


def _millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
