"""Replicas: the files of a table or a folder, copied byte for byte and swapped in whole.

A replica holds the same files under the same names, with the same times, so a replicated table has the versions,
schema, properties and history of its source. What did not change since the last copy is shared with it by hard link.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Lock

from dedp_assets.patterns.connectors.landing.editions import MANIFEST, FolderEdition, next_edition, replacing
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Finding, RowCounts, WriteResult
from dedp_assets.patterns.core.running.permissions import inheriting
from dedp_assets.patterns.delta import Ledger, LocalStore, Store, as_folder, sha256_of
from dedp_assets.patterns.ingestion._replica_contents import Contents, FileState, folder_contents, readable, some
from dedp_assets.patterns.ingestion._replica_manifest import (
    Held,
    Manifest,
    files_held,
    manifest_of,
    new_manifest,
    require_successor,
)

__all__ = ["CopyRate", "checks_of", "copy_replica", "figures_of", "result_of", "unchanged", "verify"]

_CHUNK = 1 << 20


def copy_replica(
    contents: Contents,
    target: LocalStore,
    *,
    name: str,
    provenance: Provenance,
    limit: CopyRate | None = None,
) -> WriteResult:
    """Make ``target`` an exact replica of ``contents``, copying only missing or changed files.

    Args:
        contents: what to copy, pinned.
        target: the replica's folder.
        name: what the replica is called.
        provenance: who copies, and why.
        limit: of the copy; one file at a time as fast as possible, if ``None``.

    Raises:
        AuditFailed: if a file did not arrive as it was read, or the copied table is not the source's.
        Conflict: if the source changed meanwhile, or the replica shows a newer version of it.
        ConfigError: if the target is no replica or one of something else, or a file of the source may not be read.
    """
    limit = limit or CopyRate()
    if isinstance(contents.root, LocalStore) and target.overlaps(contents.root):
        raise ConfigError(f"{name} and {contents.name} lie in one another: name another target")
    with replacing(target):
        former = manifest_of(target)
        if former is not None:
            require_successor(contents, former, name)
        held = files_held(target, former)
        if former is not None and _is_replica(target, held, contents):
            return unchanged(former, name)
        with next_edition(target) as made:
            digests, copied = _fill(made, contents, target, held, limit)
            findings = checks_of(contents, made.files)
            gone = len(set(former.files if former else ()) - set(contents.files))
            figures = figures_of(contents, copied, gone)
            manifest = new_manifest(contents, former, digests, provenance, findings, figures)
            made.home.put(MANIFEST, manifest.to_json().encode())
    return result_of(name, manifest, findings, figures)


def figures_of(contents: Contents, copied: Collection[str], gone: int) -> dict[str, int]:
    """Return the figures of a copy: files and bytes in all, copied, and removed."""
    return {
        "files": len(contents.files),
        "bytes": sum(f.size_bytes for f in contents.files.values()),
        "copied_files": len(copied),
        "copied_bytes": sum(contents.files[path].size_bytes for path in copied),
        "removed_files": gone,
    }


def result_of(name: str, manifest: Manifest, findings: tuple[Finding, ...], figures: Mapping[str, int]) -> WriteResult:
    """Return the result of a copy that changed the replica."""
    return WriteResult(
        table=name,
        version=manifest.version,
        applied=True,
        changed=True,
        reason=f"{figures['copied_files']} of {figures['files']} files copied, {figures['removed_files']} removed",
        rows=RowCounts(**manifest.record.rows),
        findings=findings,
        figures=dict(figures),
    )


def verify(contents: Contents, target: Store) -> Finding:
    """Compare a copy with the source: names, sizes, SHA-256 of every byte, and times of a folder."""
    beside: set[str] = set()
    if isinstance(target, LocalStore):
        target = target.resolved()
        tree = target.tree()
        beside = {*tree.empty, *tree.others}
    files = {entry.path for entry in target.files()}
    expected, there = {*contents.files, *contents.folders}, files | beside
    named = {
        "missing": expected - there,
        "unexpected": there - expected,
        "differing": {p for p in files if p in contents.files and not _equal(p, contents.root, target)},
    }
    note = "; ".join(f"{what}: {some(paths)}" for what, paths in named.items() if paths)
    figures = {what: len(paths) for what, paths in named.items()}
    return Finding("replica_equals_its_source", passed=not note, figures=figures, note=note)


def _is_replica(target: LocalStore, held: Held, contents: Contents) -> bool:
    """Return whether the replica holds exactly the contents."""
    if {path: state for path, (state, _) in held.items()} != contents.files:
        return False
    tree = target.resolved().tree()
    return {entry.path for entry in tree.files} == set(held) and tree.empty == contents.folders and not tree.others


def _fill(
    made: FolderEdition, contents: Contents, target: LocalStore, held: Held, limit: CopyRate
) -> tuple[dict[str, str], list[str]]:
    """Copy or link every file; return the SHA-256 by path, and the paths of the copied files."""
    digests: dict[str, str] = {}
    copied = []
    for folder in contents.folders:
        made.files.make_folder(folder)
    for path, state in contents.files.items():
        if path in held and held[path][0] == state:
            made.files.share(path, target)
            digests[path] = held[path][1]
        else:
            copied.append(path)
    copy = partial(_copy, contents, into=made.files, limit=limit)
    with ThreadPoolExecutor(limit.files_at_once) as pool:
        try:
            made_of = pool.map(inheriting(copy), copied)
            digests |= dict(zip(copied, made_of, strict=True))
        except BaseException:
            # The others would be copied for nothing, and each waits its turn.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return digests, copied


def _copy(contents: Contents, path: str, into: LocalStore, limit: CopyRate) -> str:
    source, state, sha = contents.root, contents.files[path], hashlib.sha256()
    try:
        with readable(contents.name, source):
            read = source.open(path)
        with read, into.create(path) as write:
            while chunk := read.read(_CHUNK):
                write.write(chunk)
                sha.update(chunk)
                limit.count(len(chunk))
        if isinstance(source, LocalStore):
            into.copy_times(path, source)
        still = FileState.of(source, path, rewritable=bool(state.changed_ns)) == state
    except (FileNotFoundError, Conflict):
        still = False
    if not still:
        raise Conflict(f"{contents.name}: {path} changed while it was being copied: run it again")
    if sha256_of(into, path) != sha.hexdigest():
        raise _refusal(contents, Finding("copy_is_byte_for_byte", passed=False, note=f"{path} is not what was read"))
    return sha.hexdigest()


class CopyRate:
    """A limit of bytes per second and of files at once for a copy.

    Args:
        bytes_per_second: most bytes to copy per second, of all files together; as many as possible if ``None``.
        files_at_once: most files to copy at the same time.

    Raises:
        ConfigError: if nothing would ever be copied.
    """

    def __init__(self, bytes_per_second: float | None = None, files_at_once: int = 1) -> None:
        if bytes_per_second is not None and bytes_per_second <= 0:
            raise ConfigError(f"bytes_per_second={bytes_per_second} would never copy anything")
        if files_at_once < 1:
            raise ConfigError(f"files_at_once={files_at_once} would never copy anything")
        self.files_at_once, self._counting = files_at_once, Lock()
        self._rate, self._since, self._seen = bytes_per_second, time.monotonic(), 0

    def count(self, size_bytes: int) -> None:
        """Count copied bytes, and wait until the rate allows more."""
        with self._counting:
            self._seen += size_bytes
            ahead = self._seen / self._rate - (time.monotonic() - self._since) if self._rate else 0
        if ahead > 0:
            time.sleep(ahead)


def checks_of(contents: Contents, made: Store) -> tuple[Finding, ...]:
    """Check a copy; return the findings.

    Raises:
        Conflict: if files came, went or changed in the source's folder meanwhile.
        AuditFailed: if the copied log does not give the pinned version.
    """
    whole = Finding("copy_is_byte_for_byte", passed=True, figures={"files": len(contents.files)})
    if contents.version is None:
        if folder_contents(as_folder(contents.root), name=contents.name) != contents:
            raise Conflict(f"{contents.name} changed while it was being copied: run it again")
        return (whole,)
    same, version = _same_table(contents, made)
    note = "" if same else f"the copied log does not give version {contents.version}"
    finding = Finding("copy_is_the_same_table", passed=same, figures={"version": version}, note=note)
    if not same:
        raise _refusal(contents, finding)
    return whole, finding


def _same_table(contents: Contents, copy: Store) -> tuple[bool, int]:
    """Compare the copied log with the source at the pinned version; return equality and the version."""
    version = Ledger(copy).version()
    if version != contents.version:
        return False, version
    ours, theirs = (Ledger(root).state(version) for root in (copy, contents.root))
    attributes = ("columns", "properties", "partition_columns", "features")
    same = all(getattr(ours, what) == getattr(theirs, what) for what in attributes)
    return same and {file["path"] for file in ours.files()} == {file["path"] for file in theirs.files()}, version


def _refusal(contents: Contents, finding: Finding) -> AuditFailed:
    return AuditFailed(f"{contents.name}: nothing was swapped in, {finding.note}", findings=[finding])


def unchanged(former: Manifest, name: str) -> WriteResult:
    """Return the result of a copy of an unchanged source."""
    return WriteResult(
        table=name,
        version=former.version,
        applied=False,
        changed=False,
        reason=f"{former.source} did not change since run {former.record.run_id} copied it: nothing to do",
        rows=RowCounts(**former.record.rows),
        findings=tuple(Finding(**finding) for finding in former.record.findings),
        figures=former.record.figures,
    )


def _equal(path: str, one: Store, other: Store) -> bool:
    states = [FileState.of(store, path, rewritable=False) for store in (one, other)]
    if not all(isinstance(store, LocalStore) for store in (one, other)):  # a bucket keeps no time of another place
        states = [replace(state, modified_ns=0) for state in states]
    return states[0] == states[1] and sha256_of(one, path) == sha256_of(other, path)
