"""Purge: removal of a table's past, of deleted rows as of the log's words about deleted rows.

A deletion takes rows out of the newest version only. Older files, change data, deletion vectors and drafts hold them
still, and the log holds their bounds, predicates and notes. A purge leaves the newest version: its files, a checkpoint,
one commit. What the graph lives on (records, transaction ids, changed partitions) stays in the redacted history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.commit.sessions import private
from dedp_assets.patterns.delta.log.holds import holds, shown_holds
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.moments import RELEASED, log_properties, milestone_id, milestones
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.redacted import REDACTED, RedactedHistory, redacted
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.maintenance.compaction import can_exchange, files_to_purge, rewrite
from dedp_assets.patterns.delta.maintenance.vacuum import claimed_stages, log_hours, unneeded
from dedp_assets.patterns.delta.snapshots.definition import require_open
from dedp_assets.patterns.delta.storage.coordination import require_lock, table_lock
from dedp_assets.patterns.delta.storage.store import Entry, Hold, Store, delta_table
from dedp_assets.patterns.delta.tables import Table

__all__ = ["PURGED", "purge_history", "require_purgeable"]

PURGED = "PURGE END"
"""Operation of the commit that ends a purge."""
_BEGUN = "PURGE START"
_AT_ONCE = 1000
_EVER = datetime(9999, 1, 1, tzinfo=timezone.utc)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LARGE = 128 << 20
_VERSION = re.compile(r"\.?(\d{20})\.")


@dataclass(frozen=True, slots=True)
class _Removable:
    """Files that the newest version does not need: of data, and of the log."""

    data: tuple[Entry, ...]
    log: tuple[Entry, ...]

    def __bool__(self) -> bool:
        """Return whether files are named."""
        return bool(self.data or self.log)

    @property
    def figures(self) -> dict[str, int]:
        """Numbers of files, and their bytes."""
        size = sum(each.size_bytes for each in (*self.data, *self.log))
        return {"files_removed": len(self.data), "log_files_removed": len(self.log), "bytes_removed": size}


def purge_history(table: Table, *, provenance: Provenance, now: datetime, give_up: Collection[str] = ()) -> WriteResult:
    """Remove all data and all log entries that the newest version does not need, for good.

    Files with rows that deletion vectors delete are written again. Then, under the table's lock: a commit, a checkpoint
    of it, the redacted history of the commits before, and the removal of everything else, log first. Time travel,
    RESTORE and streams that are behind end with it; cursors, verdicts and changed partitions do not. A purge that died
    is completed by the next one, and readers see the newest version all the time.

    Copies elsewhere are not touched: clones, replicas, exports, tiers, versions that a bucket keeps of its objects.

    Args:
        table: the table.
        provenance: who purges, and why.
        now: current time, with time zone; redacted commits older than the log's retention leave the history.
        give_up: milestones that may be lost.

    Returns:
        The purge, with numbers of removed files and bytes in ``figures``.

    Raises:
        ConfigError: if a milestone keeps a version and is not given up, or ``give_up`` names none.
        ContractError: if a legal hold stands, the table is closed, or no checkpoint of it can be written.
        NotReady: while a write is running.
        Conflict: if other writers hold the table for too long, or delete rows by vectors meanwhile.
    """
    require_purgeable(table, give_up)
    rewritten = _rewrite_marked(table, provenance)
    with table_lock(table.store) as held:
        state = require_purgeable(table, give_up)
        if running := claimed_stages(table.store):
            raise NotReady(
                f"{table.name}: {len(running)} writes are running, nothing was purged: purge once they ended"
            )
        if any("deletionVector" in file for file in state.files()):
            raise Conflict(f"{table.name}: another writer deleted rows by vectors meanwhile: purge again")
        last = table.ledger.commit(state.version).operation
        if last == PURGED and not _removable(table, state, state.version - 1):
            reason = f"nothing to purge: version {state.version} is all that there is"
            return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason)
        # A purge that died on the way is gone on with.
        start = state if last == _BEGUN else _committed(table, state, provenance, give_up, now)
        found = _removable(table, start, start.version)
        kept = _cut_log(table, start, found, now, held)
        _remove(table.store, found.data, held)
        figures = {**found.figures, "files_rewritten": rewritten, "commits_kept": kept, "purged_at": now.isoformat()}
        version = _ended(table, provenance, figures)
    reason = f"version {version} is all that there is: {len(found.data)} files and {len(found.log)} of the log "
    reason += f"({figures['bytes_removed']} bytes) were removed"
    return WriteResult(table.name, version, applied=True, changed=False, reason=reason, figures=figures)


def _ended(table: Table, provenance: Provenance, figures: Mapping[str, Any]) -> int:
    """Commit the end of a purge.

    So nobody goes on with a state of the version before, whose log was read by half when the log was cut.
    """
    record = CommitRecord.of(provenance, content=f"purge at {figures['purged_at']}", figures=figures)
    metrics = {"numDeletedFiles": figures["files_removed"]}
    # Another ledger: what this one has read of the version may name commits that are gone.
    state = Ledger(table.store, name=table.name).state()
    return commits.commit_actions(
        table.store, state, record=record, operation=commits.Operation(PURGED, metrics=metrics)
    )


def require_purgeable(table: Table, give_up: Collection[str] = ()) -> TableState:
    """Return the state of a table that may be purged.

    Raises:
        ConfigError: if a milestone keeps a version and is not given up, or ``give_up`` names none.
        ContractError: if a legal hold stands, or the table is closed.
    """
    state, kept = table.ledger.state(), milestones(table.ledger)
    require_open(table.name, state)
    require_lock(table.store)
    if standing := holds(table.ledger):
        raise ContractError(
            f"{table.name} is {shown_holds(standing)}: nothing was purged, have the hold released first"
        )
    if lasting := [f"{name} (version {version})" for name, version in kept.items() if name not in give_up]:
        raise ConfigError(
            f"give_up must name the milestones of {table.name}, whose versions a purge removes: {', '.join(lasting)}"
        )
    return state


def _rewrite_marked(table: Table, provenance: Provenance) -> int:
    """Write files with deleted rows again, without these; return the number of files."""
    state = table.ledger.state()
    files = {key: part for key, part in files_to_purge(state, 0.0).items() if part}
    count = sum(map(len, files.values()))
    if count and can_exchange(state, files):
        rewrite(table, state, files, provenance=provenance, small_bytes=_LARGE, target_bytes=_LARGE, as_they_are=True)
    elif count:
        record = CommitRecord.of(provenance, content=f"purge of version {state.version}")
        noted = {"spark.databricks.delta.commitInfo.userMetadata": record.to_json()}
        with table_lock(table.store), private(table.session, noted) as own:
            own.sql(f"REORG TABLE delta.`{table.store.address}` APPLY (PURGE)").collect()
    return count


def _committed(
    table: Table, state: TableState, provenance: Provenance, give_up: Collection[str], now: datetime
) -> TableState:
    properties = log_properties(state, kept=False) if give_up else {}
    version = commits.commit_actions(
        table.store,
        state,
        [commits.with_properties(table.ledger, state, properties)] if properties else [],
        record=CommitRecord.of(provenance, content=f"purge at {now.isoformat()}"),
        operation=commits.Operation(_BEGUN),
        transactions={milestone_id(name): RELEASED for name in milestones(table.ledger)},
    )
    return table.ledger.state(version)


def _removable(table: Table, state: TableState, version: int) -> _Removable:
    """Find the files that are not needed by a state, and not by a log from a version on."""
    needed = {table.store.address_of(unquote(file["path"])) for file in state.files()}
    data = unneeded(table.store, state, lambda path: table.store.address_of(path) in needed, _EVER, ())
    return _Removable(tuple(data), tuple(_past_entries(table.store.within("_delta_log"), version)))


def _past_entries(log: Store, version: int) -> Iterable[Entry]:
    """List the files of the log that a reader of ``version`` does not need, oldest version first."""
    for entry in log.files():
        folder, _, name = entry.path.rpartition("/")
        found = None if folder else _VERSION.match(name)
        if entry.path not in ("_last_checkpoint", REDACTED) and (found is None or int(found[1]) < version):
            yield entry


def _cut_log(table: Table, state: TableState, found: _Removable, now: datetime, held: Hold) -> int:
    """Replace the log before a version by a checkpoint and redacted commits; return their number."""
    if not found.log and table.ledger.files.last_checkpoint().get("version") == state.version:
        return len(table.ledger.files.past.history().commits)
    _write_checkpoint(table, state)
    cleaned = state.properties.get("delta.enableExpiredLogCleanup", "true").lower() == "true"
    oldest = now - timedelta(hours=log_hours(state)) if cleaned else _LONG_AGO
    history = _history(table.ledger, state, oldest)
    log = table.store.within("_delta_log")
    log.put(REDACTED, history.to_bytes())
    _remove(log, found.log, held)
    return len(history.commits)


def _write_checkpoint(table: Table, state: TableState) -> None:
    """Write a checkpoint of a version, and compare the files with the state.

    Raises:
        ContractError: if there is no such checkpoint then.
    """
    files = table.ledger.files
    try:
        delta_table(table.store, state.version).create_checkpoint()
    except (DeltaError, OSError) as error:
        raise ContractError(f"{table.name}: no checkpoint can be written, nothing was purged. {error}") from error
    stated, name = files.last_checkpoint(), f"{state.version:020d}.checkpoint.parquet"
    if stated.get("version") != state.version or files.checkpoint_files(stated) != [name]:
        raise ContractError(f"{table.name}: the checkpoint of version {state.version} is not there: nothing was purged")
    _forget_removals(table.store.within("_delta_log"), name, stated)
    if {action["path"] for _, action in files.checkpointed(name, "add")} != {file["path"] for file in state.files()}:
        raise ContractError(
            f"{table.name}: the checkpoint of version {state.version} has other files: nothing was purged"
        )


def _forget_removals(log: Store, name: str, stated: Mapping[str, Any]) -> None:
    """Write a checkpoint again without removed files, of which other engines state bounds and tags."""
    with log.open(name) as opened:
        held = pq.ParquetFile(opened).read(use_threads=False)
    kept, sink = held.filter(pc.is_null(held["remove"])), pa.BufferOutputStream()
    pq.write_table(kept, sink)
    content = sink.getvalue().to_pybytes()
    log.put(name, content)
    hint = {**stated, "size": kept.num_rows, "sizeInBytes": len(content)}
    log.put("_last_checkpoint", json.dumps(hint).encode())


def _history(ledger: Ledger, state: TableState, oldest: datetime) -> RedactedHistory:
    """Redact the commits before a version, and sum up commits before an instant by partition."""
    metadata = ledger.actions("metaData", until=state.version)[-1]
    past, first = ledger.files.past.history(), ledger.files.tells_from()
    known = past.before if first == past.first else {}
    before: dict[Partition, int] = {key: known.get(key, first) for key in state.statistics()} if first else {}
    past_commits = [commit for commit in ledger.commits() if commit.version < state.version]
    # Another engine's commit may state no time. The newest is kept whatever its age: what was before has to be told.
    old = (commit.version for commit in past_commits[:-1] if _LONG_AGO < commit.timestamp < oldest)
    last_old = max(old, default=-1)
    for commit in past_commits:
        before |= dict.fromkeys(commit.changed, commit.version) if commit.version <= last_old else {}
    kept = (commit.version for commit in past_commits if commit.version > last_old)
    return RedactedHistory({version: redacted(ledger.files.raw(version), metadata) for version in kept}, before)


def _remove(store: Store, files: Iterable[Entry], held: Hold) -> None:
    paths: list[str] = [file.path for file in files]
    for first in range(0, len(paths), _AT_ONCE):
        held.confirm()
        store.delete(*paths[first : first + _AT_ONCE], tidy=True)
