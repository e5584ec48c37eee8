"""The files of a table's log, held against what they have to be: whole, readable, without a gap.

Delta refuses a damaged log with an error that names no file, and takes a commit that was emptied for one that did
nothing. Here every file is looked at by itself, without a JVM.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Fault", "log_faults", "stated_figures"]

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.[\w-]+)*\.(parquet|json)")
_MAGIC = b"crc\0"
_CHECKSUM_BYTES = 4
_BACKUP = "put it back from a backup"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a table as it is stored.

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


def log_faults(location: Path) -> list[Fault]:
    """List what is wrong with the log of the table in ``location``, in the order of its versions."""
    log = location / _LOG
    names = sorted(path.name for path in log.iterdir()) if log.is_dir() else []
    versions = [int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))]
    checkpoints = {name: int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))}
    broken = {name: what for name in checkpoints if (what := _checkpoint_damage(log / name))}
    sound = [version for name, version in checkpoints.items() if name not in broken]
    damaged = {version: what for version in versions if (what := _commit_damage(log / f"{version:020d}.json"))}
    damaged |= dict.fromkeys(_gaps(versions, sound), "is missing")
    head = max(versions, default=-1)
    return [
        *_checkpoint_faults(broken, checkpoints, whole=not damaged and versions[:1] == [0]),
        *_hint_faults(log, {*checkpoints.values()} - {checkpoints[name] for name in broken}),
        *[_commit_fault(version, damaged[version], head, sound) for version in sorted(damaged)],
    ]


def stated_figures(location: Path) -> tuple[int, Mapping[str, int]] | None:
    """Find the newest version with a Delta checksum file (``<version>.crc``), and the figures it states."""
    for path in sorted((location / _LOG).glob("[0-9]*.crc"), reverse=True):
        try:
            stated = json.loads(path.read_bytes())
            return int(path.stem), {name: int(stated[name]) for name in ("numFiles", "tableSizeBytes")}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def _gaps(versions: list[int], checkpoints: list[int]) -> Iterator[int]:
    """List the versions that have no commit and that no sound checkpoint makes up for."""
    start = max(checkpoints, default=-1) + 1
    yield from sorted(set(range(start, max(versions, default=-1))) - set(versions))


def _commit_damage(path: Path) -> str:
    """Say what is wrong with a commit; empty if it is sound."""
    raw = path.read_bytes()
    if not raw.strip():
        return "is empty"
    try:
        if not all(isinstance(json.loads(line), dict) for line in raw.splitlines() if line.strip()):
            return "is damaged (a line of it is no action)"
    except ValueError as error:
        return f"is damaged ({error})"
    return _checksum_damage(path, raw)


def _checkpoint_damage(path: Path) -> str:
    if path.suffix == ".json":
        return _commit_damage(path)
    try:
        pq.read_table(path, use_threads=False)
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"cannot be read ({str(error).splitlines()[0]})"
    return _checksum_damage(path, path.read_bytes())


def _checksum_damage(path: Path, raw: bytes) -> str:
    """Hold a file against the checksums that Hadoop keeps beside it, if there are any."""
    try:
        sidecar = path.with_name(f".{path.name}.crc").read_bytes()
    except OSError:
        return ""
    chunk = int.from_bytes(sidecar[4:8], "big")
    if not sidecar.startswith(_MAGIC) or not chunk:
        return ""
    sums = [zlib.crc32(raw[at : at + chunk]) for at in range(0, len(raw), chunk)]
    stated = sidecar[8:]
    found = b"".join(value.to_bytes(_CHECKSUM_BYTES, "big") for value in sums)
    return "" if found == stated else f"is not what was written (its checksums in .{path.name}.crc differ)"


def _hint_faults(log: Path, checkpoints: set[int]) -> Iterator[Fault]:
    path, remedy = log / "_last_checkpoint", f"rm {_LOG}/_last_checkpoint (readers then find the checkpoints by name)"
    if not path.exists():
        return
    try:
        stated: Any = json.loads(path.read_bytes())
        version = stated["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Fault(f"{_LOG}/{path.name}", f"is damaged ({error})", remedy)
        return
    if version not in checkpoints:
        yield Fault(f"{_LOG}/{path.name}", f"names a checkpoint of version {version} that is not there", remedy)
        return
    there = [p for p in log.glob(f"{version:020d}.checkpoint*") if _CHECKPOINT.fullmatch(p.name)]
    if len(there) < (stated.get("parts") or 1):
        yield Fault(f"{_LOG}/{path.name}", f"names {stated['parts']} parts, of which {len(there)} are there", remedy)


def _checkpoint_faults(broken: Mapping[str, str], versions: Mapping[str, int], *, whole: bool) -> Iterator[Fault]:
    for name, what in broken.items():
        path = f"{_LOG}/{name}"
        away = f"mv {path} {path}.damaged && rm -f {_LOG}/_last_checkpoint (the commits hold everything it held)"
        older = any(version < versions[name] for other, version in versions.items() if other not in broken)
        yield Fault(path, what, away if whole or older else _BACKUP)


def _commit_fault(version: int, what: str, head: int, checkpoints: list[int]) -> Fault:
    path = f"{_LOG}/{version:020d}.json"
    if any(checkpoint >= version for checkpoint in checkpoints):
        remedy = f"{_BACKUP}; the rows are safe, a later checkpoint holds them"
    elif version == head:
        remedy = f"{_BACKUP}, or mv {path} {path}.damaged and run again what it wrote"
    else:
        remedy = f"{_BACKUP}; without one, move the table's folder away and compute the table anew"
    return Fault(path, what, remedy)
