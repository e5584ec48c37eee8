"""Replicas of tables in a bucket: version by version, where no folder is exchanged as a whole.

A table's files are never rewritten, so a copy needs no exchange as long as the history goes on: data files come first,
then the log from its oldest version on. At each moment a reader sees a version that the source has had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.permissions import inheriting
from dedp_assets.patterns.delta import Store, table_lock
from dedp_assets.patterns.ingestion._replica_contents import HINT, Contents, FileState, readable, some, version_of
from dedp_assets.patterns.ingestion._replica_files import CopyRate, checks_of, figures_of, result_of, unchanged
from dedp_assets.patterns.ingestion._replica_manifest import Manifest, manifest_in, new_manifest, require_successor

__all__ = ["copy_to_bucket"]


def copy_to_bucket(
    contents: Contents,
    target: Store,
    *,
    name: str,
    provenance: Provenance,
    limit: CopyRate | None = None,
) -> WriteResult:
    """Make the table at ``target`` an exact replica of ``contents``, copying only missing files.

    Args:
        contents: files of a table, pinned.
        target: the replica's prefix.
        name: what the replica is called.
        provenance: who copies, and why.
        limit: of the copy; one file at a time as fast as possible, if ``None``. Each file is in memory as a whole.

    Raises:
        AuditFailed: if the copied table is not the source's.
        Conflict: if the source changed meanwhile, or the replica shows a newer version of it.
        ConfigError: if the target is a replica of something else, or has another history than the source.
    """
    limit = limit or CopyRate()
    with table_lock(target) as held:
        there = {entry.path: entry.size_bytes for entry in target.files()}
        former = manifest_in(target.above(), _beside(target))
        if former is not None:
            require_successor(contents, former, name)
        known = _known(contents, former, there)
        if former is not None and known.keys() == contents.files.keys() == there.keys():
            return unchanged(former, name)
        _require_same_history(contents, target, there, known, name)
        # Of a copy that did not come to its end: what the last manifest names, and another state has, is copied again.
        left = {path: size for path, size in there.items() if former is None or path not in former.files}
        copied = _copy(contents, target, left, known, limit)
        findings = checks_of(contents, target)
        held.confirm()
        gone = there.keys() - contents.files.keys()
        target.delete(*gone)
        figures = figures_of(contents, copied, len(gone))
        manifest = new_manifest(contents, former, {**known, **copied}, provenance, findings, figures)
        target.above().put(_beside(target), manifest.to_json().encode())
    return result_of(name, manifest, findings, figures)


def _beside(target: Store) -> str:
    """Return the name of a replica's manifest, beside the replica."""
    return f".{target.name}.replica.json"


def _known(contents: Contents, former: Manifest | None, there: Mapping[str, int]) -> dict[str, str]:
    """Return the SHA-256 by path of the files that are unchanged since the last copy."""
    return {
        path: sha
        for path, (state, sha) in (former.files if former else {}).items()
        if contents.files.get(path) == state and there.get(path) == state.size_bytes
    }


def _require_same_history(
    contents: Contents, target: Store, there: Mapping[str, int], known: Mapping[str, str], name: str
) -> None:
    """Refuse a target with another history than the source."""
    commits = {path for path in there if version_of(path) is not None and path.endswith(".json")} - known.keys()
    # Of commits that the source has cleaned up, what is left of both logs decides.
    oldest = min((version for path in contents.files if (version := version_of(path)) is not None), default=0)
    strange = [
        path
        for path in commits
        if (version_of(path) or 0) >= oldest
        and (path not in contents.files or target.read(path) != contents.root.read(path))
    ]
    if strange:
        raise ConfigError(
            f"{name} at {target.uri} has another history than {contents.name} ({some(strange)}), as after the source "
            "was made again, and a bucket exchanges no table as a whole: remove what is there, and run it again"
        )


def _copy(
    contents: Contents, target: Store, left: Mapping[str, int], known: Mapping[str, str], limit: CopyRate
) -> dict[str, str]:
    """Copy missing files, data before the log and the log by version; return the SHA-256 by path."""
    missing = [path for path in contents.files if path not in known]
    log = sorted((path for path in missing if version_of(path) is not None), key=_in_log)
    last = [path for path in missing if path == HINT]
    data = [path for path in missing if path not in {*log, *last}]

    def copy(path: str) -> str:
        done = path != HINT and left.get(path) == contents.files[path].size_bytes
        return _copy_file(contents, path, None if done else target, limit)

    with ThreadPoolExecutor(limit.files_at_once) as pool:
        digests = dict(zip(data, pool.map(inheriting(copy), data), strict=True))
    return digests | {path: copy(path) for path in [*log, *last]}


def _in_log(path: str) -> tuple[int, bool, str]:
    """Sort a file of the log by version, a commit before checkpoint and checksum."""
    return version_of(path) or 0, not path.endswith(".json"), path


def _copy_file(contents: Contents, path: str, target: Store | None, limit: CopyRate) -> str:
    """Copy a file to a target, if any; return the SHA-256."""
    source, state = contents.root, contents.files[path]
    try:
        with readable(contents.name, source):
            content = source.read(path)
        still = FileState.of(source, path, rewritable=False).size_bytes == state.size_bytes == len(content)
    except (FileNotFoundError, Conflict):
        still = False
    if not still:
        raise Conflict(f"{contents.name}: {path} changed while it was being copied: run it again")
    if target is not None:
        target.put(path, content)
        limit.count(len(content))
    return hashlib.sha256(content).hexdigest()
