"""Integrity check of a table's log files: whole, readable, without a gap.

Delta refuses a damaged log with an error that names no file, and takes a commit that was emptied for one that did
nothing. Here every file is looked at by itself, without a JVM.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["TableFault", "log_faults", "missing_commits", "stated_figures"]

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.[\w-]+)*\.(parquet|json)")
_CHECKSUM = re.compile(r"\d{20}\.crc")
_MAGIC = b"crc\0"
_CHECKSUM_BYTES = 4
_BACKUP = "put it back from a backup"


@dataclass(frozen=True, slots=True)
class TableFault:
    """One fault of a stored table.

    Attributes:
        file: path below the table's folder.
        what: what is wrong with it.
        remedy: what repairs it.
    """

    file: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file} {self.what}: {self.remedy}"


def log_faults(store: Store) -> list[TableFault]:
    """List the faults of the log in ``store``: checkpoints, ``_last_checkpoint``, commits by version."""
    log = store.within(_LOG)
    names = log.list()
    versions = [int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))]
    checkpoints = {name: int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))}
    broken = {name: what for name in checkpoints if (what := _checkpoint_damage(log, name))}
    sound = [version for name, version in checkpoints.items() if name not in broken]
    damaged = {version: what for version in versions if (what := _commit_damage(log, f"{version:020d}.json"))}
    damaged |= dict.fromkeys(_gaps(versions, sound), "is missing")
    head = max(versions, default=-1)
    return [
        *_checkpoint_faults(broken, checkpoints, whole=not damaged and versions[:1] == [0]),
        *_hint_faults(log, names, {*checkpoints.values()} - {checkpoints[name] for name in broken}),
        *[_commit_fault(version, damaged[version], head, sound) for version in sorted(damaged)],
    ]


def stated_figures(store: Store) -> tuple[int, Mapping[str, int]] | None:
    """Find the newest version with a version checksum; return version, file count and bytes."""
    log = store.within(_LOG)
    for name in reversed(log.list()):
        if not _CHECKSUM.fullmatch(name):
            continue
        try:
            checksum = json.loads(log.read(name))
            return int(name[:20]), {name: int(checksum[name]) for name in ("numFiles", "tableSizeBytes")}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def missing_commits(names: Sequence[str]) -> list[int]:
    """List the versions that have no commit among a log's files and that no checkpoint makes up for."""
    versions = [int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))]
    return _gaps(versions, [int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))])


def _gaps(versions: list[int], checkpoints: list[int]) -> list[int]:
    """List the versions that have no commit and that no sound checkpoint makes up for."""
    start = max(checkpoints, default=-1) + 1
    return sorted(set(range(start, max(versions, default=-1))) - set(versions))


def _commit_damage(log: Store, name: str) -> str:
    """Describe the damage of a commit file; empty if the file is sound."""
    raw = log.read(name)
    if not raw.strip():
        return "is empty"
    try:
        if not all(isinstance(json.loads(line), dict) for line in raw.splitlines() if line.strip()):
            return "is damaged (a line of it is no action)"
    except ValueError as error:
        return f"is damaged ({error})"
    return _checksum_damage(log, name, raw)


def _checkpoint_damage(log: Store, name: str) -> str:
    if name.endswith(".json"):
        return _commit_damage(log, name)
    try:
        with log.open(name) as file:
            pq.read_table(file, use_threads=False)
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"cannot be read ({str(error).splitlines()[0]})"
    return _checksum_damage(log, name, log.read(name))


def _checksum_damage(log: Store, name: str, raw: bytes) -> str:
    """Describe a mismatch with Hadoop's checksum file of a file; empty if none."""
    try:
        sidecar = log.read(f".{name}.crc")
    except OSError:
        return ""
    chunk = int.from_bytes(sidecar[4:8], "big")
    if not sidecar.startswith(_MAGIC) or not chunk:
        return ""
    sums = [zlib.crc32(raw[at : at + chunk]) for at in range(0, len(raw), chunk)]
    expected = sidecar[8:]
    found = b"".join(value.to_bytes(_CHECKSUM_BYTES, "big") for value in sums)
    return "" if found == expected else f"is not what was written (its checksums in .{name}.crc differ)"


def _hint_faults(log: Store, names: Sequence[str], checkpoints: set[int]) -> Iterator[TableFault]:
    hint = "_last_checkpoint"
    path, remedy = f"{_LOG}/{hint}", f"rm {_LOG}/{hint} (readers then find the checkpoints by name)"
    if hint not in names:
        return
    try:
        content: Any = json.loads(log.read(hint))
        version = content["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield TableFault(path, f"is damaged ({error})", remedy)
        return
    if version not in checkpoints:
        yield TableFault(path, f"names a checkpoint of version {version} that is not there", remedy)
        return
    present = [name for name in names if name.startswith(f"{version:020d}.") and _CHECKPOINT.fullmatch(name)]
    if len(present) < (content.get("parts") or 1):
        yield TableFault(path, f"names {content['parts']} parts, of which {len(present)} are there", remedy)


def _checkpoint_faults(broken: Mapping[str, str], versions: Mapping[str, int], *, whole: bool) -> Iterator[TableFault]:
    for name, what in broken.items():
        path = f"{_LOG}/{name}"
        away = f"mv {path} {path}.damaged && rm -f {_LOG}/_last_checkpoint (the commits hold everything it held)"
        older = any(version < versions[name] for other, version in versions.items() if other not in broken)
        yield TableFault(path, what, away if whole or older else _BACKUP)


def _commit_fault(version: int, what: str, head: int, checkpoints: list[int]) -> TableFault:
    path = f"{_LOG}/{version:020d}.json"
    if any(checkpoint >= version for checkpoint in checkpoints):
        remedy = f"{_BACKUP}; the rows are safe, a later checkpoint holds them"
    elif version == head:
        remedy = f"{_BACKUP}, or mv {path} {path}.damaged and run again what it wrote"
    else:
        remedy = f"{_BACKUP}; without one, move the table's folder away and compute the table anew"
    return TableFault(path, what, remedy)
