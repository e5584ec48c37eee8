"""Manifest of a replica: the copied files with checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dedp_assets.patterns.connectors.landing.editions import MANIFEST, current
from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import Finding, RowCounts
from dedp_assets.patterns.delta import LocalStore, Store
from dedp_assets.patterns.ingestion._replica_contents import Contents, FileState

__all__ = ["Manifest", "manifest_in", "manifest_of", "Held", "files_held", "new_manifest", "require_successor"]


Held = Mapping[str, tuple[FileState, str]]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of a replica: source, version, record and files; stored with the replica.

    Attributes:
        source: name of what it is a replica of.
        version: the table's version, or how often the folder was copied before.
        table_id: identity of the table.
        record: who copied, from what, and what was checked.
        files: path -> state of the source's file and SHA-256 of its bytes.
    """

    source: str
    version: int
    table_id: str
    record: CommitRecord
    files: Held = field(repr=False)

    def to_json(self) -> str:
        """Serialise the manifest to JSON."""
        files = {path: [f.size_bytes, f.modified_ns, f.changed_ns, sha] for path, (f, sha) in self.files.items()}
        head = {"source": self.source, "version": self.version, "table_id": self.table_id}
        return json.dumps({**head, "record": self.record.to_json(), "files": files})

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read the manifest in ``text``."""
        stored = json.loads(text)
        files = {path: (FileState(*state), sha) for path, (*state, sha) in stored["files"].items()}
        record = CommitRecord.from_json(stored["record"])
        if record is None:
            raise ValueError("the record was not written by the library")
        return cls(stored["source"], stored["version"], stored["table_id"], record, files)


def manifest_of(target: LocalStore) -> Manifest | None:
    """Read the manifest of the replica at ``target``; ``None`` if missing or unreadable."""
    shown = current(target)
    return manifest_in(shown.home, MANIFEST) if shown else None


def manifest_in(store: Store, path: str) -> Manifest | None:
    """Read the manifest in a file; ``None`` if missing or unreadable."""
    try:
        return Manifest.from_json(store.read(path).decode())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def require_successor(contents: Contents, former: Manifest, name: str) -> None:
    """Refuse to copy over the replica of another source."""
    if former.source != contents.name:
        raise ConfigError(f"{name} is a replica of {former.source}, not of {contents.name}: name another target")
    if contents.version is not None and contents.table_id == former.table_id and contents.version < former.version:
        raise Conflict(
            f"{name} shows version {former.version} of {former.source} already, this run read version "
            f"{contents.version} and is stale: run it on version {former.version} or a newer one"
        )


def files_held(target: LocalStore, former: Manifest | None) -> Held:
    """List the replica's files that are unchanged since the copy, with state and SHA-256."""

    def same(path: str, state: FileState) -> bool:
        try:
            now = FileState.of(target, path, rewritable=False)
        except Conflict:
            return False
        return (now.size_bytes, now.modified_ns) == (state.size_bytes, state.modified_ns)

    return {path: (state, sha) for path, (state, sha) in (former.files if former else {}).items() if same(path, state)}


def new_manifest(
    contents: Contents,
    former: Manifest | None,
    digests: Mapping[str, str],
    provenance: Provenance,
    findings: tuple[Finding, ...],
    figures: Mapping[str, int],
) -> Manifest:
    """Make the manifest of a copy."""
    identity = hashlib.sha256("".join(f"{p} {sha}\n" for p, sha in sorted(digests.items())).encode()).hexdigest()[:16]
    version = contents.version if contents.version is not None else former.version + 1 if former else 0
    inputs = {contents.name: identity if contents.version is None else version, **provenance.inputs}
    record = CommitRecord.of(
        replace(provenance, inputs=inputs, sequence=version),
        content=f"{len(digests)} files {identity}",
        counts=RowCounts(read=contents.rows, written=contents.rows),
        findings=findings,
        verdict="passed",
        figures=figures,
    )
    files = {path: (state, digests[path]) for path, state in contents.files.items()}
    return Manifest(contents.name, version, contents.table_id, record, files)
