"""Change Data Capture: every committed change of a database table, in order, from the database's log.

Problem: queries on a schedule are too slow for some consumers, burden the database, and never see a deleted row.
Solution: take a snapshot, then read the log from exactly there through a replication slot. Each change is appended
    once to a history; a second table, merged from it, equals the source as of a position of its log.
Consequences: the database has to be set up for it and keeps its log for a reader that is away: watch the slot. A
    transaction passes through memory whole. DDL that the log does not tell of is refused. A match that one copy lacks
    may still come until that copy's cursor has passed the commit of the other row.
Choose instead: Incremental Loader, if deletes do not matter and minutes are fast enough. Of a Delta table as source,
    read its own change feed: it needs no slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dedp_assets.patterns.connectors import postgres
from dedp_assets.patterns.connectors.postgres import RESNAPSHOT, PostgresTable
from dedp_assets.patterns.connectors.postgres.pgoutput import position_text
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, RowCounts, WriteResult
from dedp_assets.patterns.core.rows import evaluated_once
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import Delete, Insert, Merge, Table, Target, Update, same_run
from dedp_assets.patterns.ingestion import _capturing as capturing
from dedp_assets.patterns.ingestion import _history
from dedp_assets.patterns.ingestion._current_rows import require_columns, require_fit
from dedp_assets.patterns.ingestion._history import CHANGES, GONE, cursor, noted

__all__ = ["capture_changes", "apply_changes", "judge_slot", "CHANGES"]

_PATTERN = "ingestion.change_data_capture"
_CLAUSES = (Delete(when=f"s.{GONE}"), Update(), Insert(when=f"NOT s.{GONE}"))


@demanding(replaces="table")
@typed
def capture_changes(
    source: PostgresTable,
    into: Target,
    latest: Target,
    *,
    keys: Sequence[str],
    resnapshot: bool = False,
    max_messages: int = 50_000,
    max_latency_seconds: float = 30,
) -> WriteResult:
    """Append the changes of ``source`` since the last capture to a history, and update ``latest``.

    The first capture takes a snapshot. A batch is one commit whose transaction id is the position in the source's log;
    only then is the slot moved. So whatever is interrupted, the next capture goes on behind the last commit.

    Args:
        source: the table and its slot.
        into: target of the history: a table of :data:`CHANGES`, partitioned by ``committed_on``.
        latest: target of the copy, of the same run: a table of the source's columns that shall be held, of whatever
            type their texts convert to.
        keys: the source's primary key.
        resnapshot: take a snapshot though there is one: a person's answer to a gap. The history keeps what it has.
        max_messages: how much log to hold in memory at once; a single transaction may exceed it.
        max_latency_seconds: when changes are too late, from commit in the source to commit in ``latest``.

    Returns:
        What was appended to the history; the slowest change's ``latency_seconds`` to it and ``copy_latency_seconds``
        to ``latest``; ``retained_bytes`` of log that the slot kept; findings on lateness and the source's columns.

    Raises:
        NotReady: if the source does not answer.
        Conflict: if another capture of the same source is at work.
        ConfigError: if the source cannot be captured as it is.
        ContractError: if changes may be missing (slot lost or moved by others; table, publication, key or type of a
            column made anew or altered): a new snapshot is needed.
        SchemaMismatch: if columns of ``latest`` were dropped, added, retyped or rewritten at the source; the history
            goes on.

    Example:
        >>> created = "CREATE TABLE users (id INT PRIMARY KEY, name TEXT); ALTER TABLE users REPLICA IDENTITY FULL"
        >>> with database.connect() as applications:
        ...     _ = applications.execute(f"{created}; INSERT INTO users VALUES (1, 'Ada'), (2, 'Bob')")
        >>> users = PostgresTable("public.users", "example", connect=database.connect)
        >>> history, latest = table("log", CHANGES, partition_by=["committed_on"]), table("now", "id INT, name STRING")
        >>> _ = capture_changes(users, history.target(run), latest.target(run), keys=["id"])
        >>> rows(latest)
        [(1, 'Ada'), (2, 'Bob')]
    """
    if max_messages < 1 or not keys:
        raise ConfigError(f"max_messages={max_messages} must be at least 1, and keys={list(keys)} name a column")
    into, latest = into.by(_PATTERN), latest.by(_PATTERN)
    same_run(into, latest)
    history, copy = into.table, latest.table
    history.ensure()
    began = resnapshot or cursor(history) is None
    capture = capturing.Capture(source, history, tuple(keys), into.run)
    written = [capture.begin(replace_slot=resnapshot)] if began else []
    with postgres.connected(source) as connection:
        slot, definition = capture.resume(connection)
        written += capture.follow(connection, definition, until=slot.newest, max_messages=max_messages)
    done = cursor(copy) if copy.ledger.exists() else None
    copied = apply_changes(history, latest, keys=keys)
    lags = {
        "latency_seconds": max((result.figures.get("latency_seconds", 0.0) for result in written), default=0.0),
        "copy_latency_seconds": _history.lag_seconds(history, copy, since=done) if copied.applied else 0.0,
    }
    rows = sum(result.rows.written for result in written)
    differing = noted(history)["changed"]
    return WriteResult(
        table=history.name,
        version=history.ledger.version(),
        applied=any(result.applied for result in written),
        changed=any(result.changed for result in written),
        reason=f"{rows} changes captured up to {position_text(cursor(history) or 0)}",
        rows=RowCounts(read=rows, written=rows),
        findings=(
            _punctual(lags, max_latency_seconds),
            Finding("source_columns_are_as_in_the_snapshot", not differing, "warn", differing),
        ),
        figures={**lags, "retained_bytes": slot.retained_bytes, "snapshot": began},
        beside=(replace(copied, figures={**copied.figures, "latency_seconds": lags["copy_latency_seconds"]}),),
    )


@demanding(replaces="table")
@typed
def apply_changes(history: Table, into: Target, *, keys: Sequence[str]) -> WriteResult:
    """Merge the unapplied changes of ``history`` into a table, or rebuild the table from all changes.

    Args:
        history: as :func:`capture_changes` fills it.
        into: target of the write: the table to bring up to it.
        keys: the source's primary key.

    Raises:
        NotReady: if nothing was captured yet.
        ConfigError: if the table lacks a key.
        ContractError: if the history holds changes without a snapshot.
        SchemaMismatch: if it holds something else than the table declares.
    """
    into = into.by(_PATTERN)
    latest = into.table
    state = history.ledger.state()
    head, note = state.applied(history.name, {}), noted(history, until=state.version)
    if head is None:
        raise NotReady(f"{history.name} holds no snapshot yet: capture the source first")
    if not note:
        raise ContractError(f"{history.name} holds changes without the snapshot they belong to: {RESNAPSHOT}")
    require_columns(latest, keys, note, history)
    latest.ensure()
    columns = {"columns": sorted(latest.spec.columns)}
    done = cursor(latest) if noted(latest) == columns else None
    days = _history.touched(history, since=done)
    if not days:
        return WriteResult(latest.name, latest.ledger.version(), applied=False, changed=False, reason="nothing new")
    rows = history.read(*days, version=state.version).filter(f"commit_lsn > {done or 0}")
    with evaluated_once(_history.latest_rows(rows, keys=keys, after=note["reset"])) as found:
        require_fit(found, latest)
        values = _history.typed(found, latest.spec, keys=keys)
        notes = {**into.run.notes, "source": columns}
        inputs = {history.name: state.version, **columns}
        run = replace(into.run, sequence=head, inputs=inputs, notes=notes)
        if done is None or done < note["reset"][0]:
            return latest.overwrite(values.filter(f"NOT {GONE}").drop(GONE), provenance=run)
        return latest.merge(values, Merge(keys, _CLAUSES), provenance=run)


@typed
def judge_slot(source: PostgresTable, *, warn_above_bytes: int = 1 << 30, fail_above_bytes: int = 8 << 30) -> Finding:
    """Judge whether the log retained for the replication slot stays within bounds.

    Worth a check also while no capture runs.

    A slot whose reader is away keeps the log of all tables until the disk is full, or until the server gives it up.
    """
    with postgres.connected(source) as connection:
        state = postgres.slot_state(connection, source)
    name = "replication_slot_is_bounded"
    if state is None or state.status == "lost":
        return Finding(name, passed=False, note=f"the slot {source.slot} is lost: {RESNAPSHOT}")
    figures = {"retained_bytes": state.retained_bytes, "behind_bytes": state.behind_bytes, "status": state.status}
    if state.retained_bytes > fail_above_bytes:
        note = f"more than {fail_above_bytes} bytes: capture, or drop the slot if nobody will"
        return Finding(name, passed=False, figures=figures, note=note)
    if state.retained_bytes > warn_above_bytes or state.status == "unreserved":
        note = f"more than {warn_above_bytes} bytes, or about to be given up: capture soon"
        return Finding(name, passed=False, severity="warn", figures=figures, note=note)
    return Finding(name, passed=True, figures=figures)


def _punctual(lags: Mapping[str, float], limit: float) -> Finding:
    """Judge whether the changes arrived within the latency limit.

    Late rows are right all the same: the finding informs consumers that rely on the latency.
    """
    late = [name for name, seconds in lags.items() if seconds > limit]
    note = f"{', '.join(late)} above the {limit:g} s that are allowed" if late else ""
    return Finding("changes_arrive_in_time", passed=not late, figures=lags, note=note)
