"""Moves of partitions between a table and storage tiers, in commits that change no row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.delta.commit import commits, file_exchange
from dedp_assets.patterns.delta.log.holds import apart_from_held
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.moments import milestones
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.maintenance.exports import copy_checked, export_version, files_of, paths_of
from dedp_assets.patterns.delta.snapshots.definition import require_open
from dedp_assets.patterns.delta.snapshots.lost_files import require_files
from dedp_assets.patterns.delta.snapshots.tiers import FORMER, TIERED, Placed, stated, tiered
from dedp_assets.patterns.delta.storage.coordination import in_turn
from dedp_assets.patterns.delta.storage.locations import store_at
from dedp_assets.patterns.delta.storage.store import Store
from dedp_assets.patterns.delta.tables import Table

__all__ = ["Moved", "bring_in", "files_in", "move_out", "require_movable", "to_tier"]

_OPERATION = "MOVE PARTITIONS"


class Moved(NamedTuple):
    """Result of a move: version, partitions that moved, former copies removed, whether a commit was made."""

    version: int
    parts: Sequence[Placed] = ()
    removed: int = 0
    applied: bool = False


def require_movable(name: str, state: TableState) -> None:
    """Refuse a table whose files only Spark's writer exchanges.

    Raises:
        ConfigError: names the features.
    """
    require_open(name, state)
    if lacking := file_exchange.unserved(state):
        raise ConfigError(
            f"{name} has features that only Spark writes ({', '.join(lacking)}): its partitions cannot move"
        )


def files_in(state: TableState, partition: Mapping[str, str | None]) -> list[KeyedFile]:
    """List the active files of a partition."""
    return [(file, key) for file, key in state.keyed_files() if partition.items() <= dict(key).items()]


def to_tier(
    ledger: Ledger, version: int, partition: Mapping[str, str], tier: str, root: Store, *, online: bool
) -> Placed:
    """Copy a partition by DATE columns to a tier, from a version or an export, without a commit.

    The place follows from the files, so that a run after a crash finds what an earlier one copied.
    """
    paths = sorted(map("".join, ledger.state(version).file_identities(partition)))
    content = hashlib.sha256("\n".join(paths).encode()).hexdigest()[:16]
    target = root.within("/".join([ledger.name, *partition.values(), content]))
    made = export_version(ledger, version, target, partition=partition, content=content)
    return Placed(dict(partition), tier, made.store.uri, made.size_bytes, online)


def move_out(
    table: Table, base: TableState, moved: Sequence[Placed], run: Provenance, *, now: datetime, keep_hours: float
) -> Moved:
    """Take the files of copied partitions out of the table, in one commit.

    A partition that another writer changed or held since ``base`` stays in the table. Copies that no partition has
    needed for ``keep_hours`` are removed: until then, readers of earlier versions have them.
    """

    def write() -> Moved:
        state = table.ledger.state()
        known, former = {_key(part): part for part in tiered(state)}, _former(state)
        free, _ = apart_from_held(table.ledger, map(_key, moved))
        same = [p for p in moved if _key(p) in free and _is_unchanged(p, base, state, known.get(_key(p)))]
        used = {part.place for part in [*known.values(), *same]}
        limit = (now - timedelta(hours=keep_hours)).isoformat()
        old = {place for place, since in former.items() if since <= limit and place not in used}
        old -= _of_milestones(table.ledger) if old else set()
        left = {part.place for part in moved} - used - {*former}
        if not (same or old or left):
            return Moved(state.version)
        for part in same:  # under the lock, as another run may have removed them
            exported = store_at(part.place)
            require_files(exported, [(unquote(add["path"]), add["size"]) for add in files_of(exported)])
        for place in old:
            store_at(place).delete_folder("")
        gone = [pair for part in same for pair in files_in(state, part.partition)]
        left |= {known[_key(part)].place for part in same if _key(part) in known}
        sizes = {"files_removed": len(gone), "bytes_removed": sum(file["size_bytes"] for file, _ in gone)}
        now_known = known | {_key(part): part for part in same}
        kept = {place: since for place, since in former.items() if place not in old}
        actions = file_exchange.file_actions([], gone, data_change=False)
        kept |= dict.fromkeys(left, now.isoformat())
        version = _commit(table, state, [*now_known.values()], kept, actions, run, sizes)
        return Moved(version, same, removed=len(old), applied=True)

    return in_turn(table.store, write)


def bring_in(table: Table, part: Placed, run: Provenance, *, now: datetime) -> int:
    """Copy the files of a partition back into the table, in one commit; return the version.

    Raises:
        ContractError: if a file of the tier is damaged or missing; nothing is committed.
    """
    source = store_at(part.place)
    adds = files_of(source)
    for path, sha256 in ((path, add["tags"][tag]) for add in adds for path, tag in paths_of(add)):
        copy_checked(source, table.store, path, sha256)

    def write() -> int:
        state = table.ledger.state()
        known = tiered(state)
        if part not in known:
            return state.version
        # Under the table's lock, for a vacuum may have removed files that were there already.
        require_files(table.store, [(unquote(add["path"]), add["size"]) for add in adds])
        rest = [each for each in known if each != part]
        actions = [{"add": {**{k: v for k, v in add.items() if k != "tags"}, "dataChange": False}} for add in adds]
        sizes = {"files_added": len(adds), "bytes_added": sum(add["size"] for add in adds)}
        return _commit(table, state, rest, {**_former(state), part.place: now.isoformat()}, actions, run, sizes)

    return in_turn(table.store, write)


def _commit(
    table: Table,
    state: TableState,
    parts: Sequence[Placed],
    former: Mapping[str, str],
    actions: Sequence[Mapping[str, Any]],
    run: Provenance,
    figures: Mapping[str, int],
) -> int:
    used = {part.place for part in parts}
    unused = {place: since for place, since in sorted(former.items()) if place not in used}
    properties = {TIERED: stated(parts), FORMER: json.dumps(unused) if unused else None}
    marked = commits.with_properties(table.ledger, state, properties)
    record = CommitRecord.of(run, content=f"partitions on tiers after version {state.version}", figures=figures)
    return commits.commit_actions(
        table.store, state, [marked, *actions], record=record, operation=commits.Operation(_OPERATION)
    )


def _former(state: TableState) -> dict[str, str]:
    """Return the places that a partition has left, each with the time."""
    return dict(json.loads(state.properties.get(FORMER, "{}")))


def _is_unchanged(part: Placed, base: TableState, state: TableState, known: Placed | None) -> bool:
    """Return whether a copied partition has the same files as before the copy, and did not move since."""
    files = state.file_identities(part.partition)
    return known != part and files == base.file_identities(part.partition) and not (known and files)


def _of_milestones(ledger: Ledger) -> set[str]:
    """Return the places of the copies that milestones need."""
    found = set[str]()
    for version in {*milestones(ledger).values()}:
        with suppress(ContractError, NotReady):
            found |= {part.place for part in tiered(ledger.state(version))}
    return found


def _key(part: Placed) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(part.partition.items()))
