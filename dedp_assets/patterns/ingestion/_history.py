"""Change history of a source table as rows, and the current rows derived from the changes.

A change carries the row before it and the row after it, as JSON objects of texts: whatever the source's columns become,
the history can hold them, and a column that is NULL differs from one that was not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.postgres import Snapshot
from dedp_assets.patterns.connectors.postgres.definitions import Definition
from dedp_assets.patterns.connectors.postgres.pgoutput import Row, Transaction, position_text
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.exact import exact
from dedp_assets.patterns.delta import Partition, Table, transaction_id

__all__ = [
    "CHANGES",
    "GONE",
    "OLDEST",
    "cursor",
    "frame",
    "lag_seconds",
    "latest_rows",
    "misfits",
    "noted",
    "noting",
    "noting_definition",
    "noting_snapshot",
    "of_snapshot",
    "of_transactions",
    "touched",
    "typed",
]

CHANGES: Mapping[str, Column] = {
    "commit_lsn": Column("BIGINT", "position of the source's log right behind the commit", required=True),
    "position": Column("INT", "order within the transaction, from 0", required=True),
    "operation": Column(
        "STRING", "snapshot, read (a row of the snapshot), insert, update, delete, or truncate", required=True
    ),
    "key": Column("STRING", "primary key, JSON; NULL where the whole table is meant", classification="personal"),
    "before": Column("STRING", "the row before an update or delete, JSON", classification="personal"),
    "after": Column(
        "STRING", "the row after an insert or update, JSON; a snapshot's column types", classification="personal"
    ),
    "committed_at": Column("TIMESTAMP", "when it was committed, by the source's clock", required=True),
    "committed_on": Column("DATE", "day of committed_at, UTC", required=True),
}
"""The columns of a history; partition it by ``committed_on``."""

GONE = f"{RESERVED}is_gone"
"""Column of :func:`latest_rows`: whether the last change of the key removed its row."""

OLDEST = "oldest_change"
"""Note of a history's commit: when the first of its changes was committed in the source, by the source's clock."""

_ROW = "MAP<STRING, STRING>"
_ARROW = pa.schema(
    [
        ("commit_lsn", pa.int64()),
        ("position", pa.int32()),
        *[(name, pa.string()) for name in ("operation", "key", "before", "after")],
        ("committed_at", pa.timestamp("us", tz="UTC")),
        ("committed_on", pa.date32()),
    ]
)


def of_snapshot(snapshot: Snapshot, keys: Sequence[str]) -> Iterator[dict[str, object]]:
    """Describe a snapshot as changes, headed by the change that invalidates all earlier changes."""
    moment = {"commit_lsn": snapshot.position, "committed_at": snapshot.taken_at}
    yield {**moment, "position": 0, "operation": "snapshot", "after": json.dumps(dict(snapshot.table.columns))}
    for number, row in enumerate(snapshot.rows, start=1):
        yield {**moment, "position": number, "operation": "read", "key": _key(row, keys), "after": _json(row)}


def of_transactions(transactions: Iterable[Transaction], keys: Sequence[str]) -> Iterator[dict[str, object]]:
    """List the changes of transactions in the order of the source's log."""
    for transaction in transactions:
        moment = {"commit_lsn": transaction.ends_at, "committed_at": transaction.committed_at}
        changes = (change for change in transaction.changes if change.operation != "schema")
        for number, change in enumerate(changes):
            yield {
                **moment,
                "position": number,
                "operation": change.operation,
                "key": _key(change.after or change.before, keys),
                "before": _json(change.before),
                "after": _json(change.after),
            }


def frame(session: SparkSession, changes: Iterable[Mapping[str, object]]) -> DataFrame:
    """Make a frame of changes, with the columns of :data:`CHANGES`."""
    days = ((change, change["committed_at"].astimezone(timezone.utc).date()) for change in changes)  # type: ignore[attr-defined]
    dated = [{**change, "committed_on": day} for change, day in days]
    return session.createDataFrame(pa.Table.from_pylist(dated, schema=_ARROW))


def latest_rows(changes: DataFrame, *, keys: Sequence[str], after: Sequence[int]) -> DataFrame:
    """Return the last row image of each key (column ``row``), with :data:`GONE` true for deleted keys.

    ``row`` maps column names to texts.

    An update takes the row of its former key away and then puts the new one down, so a change of the key is no special
    case.

    Args:
        changes: rows of :data:`CHANGES`.
        keys: the source's primary key.
        after: commit and position from which the table started anew.
    """
    commit_lsn, position = after
    counted = changes.filter(f"commit_lsn > {commit_lsn} OR (commit_lsn = {commit_lsn} AND position > {position})")
    before, new = (f"from_json({image}, '{_ROW}')" for image in ("before", "after"))
    steps = f"array(named_struct('of', {before}, 'step', 0), named_struct('of', {new}, 'step', 1))"
    flat = counted.filter("key IS NOT NULL").selectExpr("commit_lsn", "position", f"inline({steps})")
    image = f"max_by(if(step = 1, of, CAST(NULL AS {_ROW})), struct(commit_lsn, position, step))"
    names = [f"of[{quoted(key)}]" for key in keys]
    found = flat.filter("of IS NOT NULL").groupBy(*[F.expr(name).alias(f"key {n}") for n, name in enumerate(names)])
    return found.agg(F.expr(image).alias("row")).withColumn(GONE, F.expr("row IS NULL"))


def typed(latest: DataFrame, spec: TableSpec, *, keys: Sequence[str]) -> DataFrame:
    """Convert the texts of :func:`latest_rows` to the columns of ``spec``, and keep :data:`GONE`."""
    texts = {c: f"`key {keys.index(c)}`" if c in keys else f"row[{quoted(c)}]" for c in spec.columns}
    values = [F.expr(_converted(texts[name], column.type)).alias(name) for name, column in spec.columns.items()]
    return latest.select(*values, GONE)


def misfits(latest: DataFrame, spec: TableSpec) -> dict[str, int]:
    """Count, by column, the texts that cannot be converted to the declared type."""
    texts = {name: f"row[{quoted(name)}]" for name in spec.columns}
    lost = {c: f"{text} IS NOT NULL AND {_converted(text, spec.columns[c].type)} IS NULL" for c, text in texts.items()}
    found = latest.agg(*[F.expr(f"count_if({where})").alias(name) for name, where in lost.items()]).collect()[0]
    return {name: found[name] for name in lost if found[name]}


def cursor(table: Table) -> int | None:
    """Return the source log position up to which ``table`` is written; ``None`` before the first write."""
    return table.ledger.transactions().applied(table.name, {})


def noted(table: Table, *, until: int | None = None) -> dict[str, Any]:
    """Return the newest note on the source up to version ``until``; empty without a note."""
    last = table.ledger.last(lambda commit: commit.record and "source" in commit.record.notes, until=until)
    return dict(last.record.notes["source"]) if last and last.record else {}


def noting_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return the first note on a source: table id, columns, definition and reset position.

    ``oid`` and ``columns`` say what the source is, ``changed`` what became of its columns since the snapshot, and
    ``reset`` the commit and position from which the table starts anew: earlier changes no longer count. ``defined`` is
    its definition when it was looked at last.
    """
    table = snapshot.table
    note = {"oid": table.oid, "columns": dict(table.columns), "changed": {}, "reset": [snapshot.position, 0]}
    return {**note, "defined": table.definition.plain()}


def noting_definition(note: Mapping[str, Any], now: Definition, *, after: int) -> dict[str, Any]:
    """Add the column changes of the table's definition since position ``after`` to ``note``.

    PostgreSQL does not log changes of a definition.
    """
    then = Definition.of(note["defined"]) if "defined" in note else now
    differing = {c: f"{happened} after {position_text(after)}" for c, happened in then.differing(now).items()}
    # What the log said of a column says from when on; it is kept where both know of it.
    return {**note, "changed": {**differing, **note["changed"]}, "defined": now.plain()}


def noting(note: Mapping[str, Any], batch: Iterable[Transaction]) -> dict[str, Any]:
    """Return ``note`` with the column changes and truncations of a batch."""
    columns, changed, reset = dict(note["columns"]), dict(note["changed"]), note["reset"]
    for transaction in batch:
        at = f"before {position_text(transaction.ends_at)}"
        operations = [change.operation for change in transaction.changes if change.operation != "schema"]
        truncated = [number for number, operation in enumerate(operations) if operation == "truncate"]
        reset = [transaction.ends_at, truncated[-1]] if truncated else reset
        for now in (dict(change.after or {}) for change in transaction.changes if change.operation == "schema"):
            changed |= {c: f"was dropped {at}" for c in columns if c not in now}
            changed |= {c: f"was added {at}" for c in now if c not in columns}
            changed |= {
                c: f"was {kind}, is {now[c]} since {at}" for c, kind in columns.items() if now.get(c, kind) != kind
            }
            before, after = [c for c in columns if c in now], [c for c in now if c in columns]
            changed |= {c: f"was another column {at}" for c, was in zip(after, before, strict=True) if c != was}
            columns = now
    return {**note, "columns": columns, "changed": changed, "reset": reset}


def touched(history: Table, *, since: int | None) -> list[dict[str, str | None]]:
    """List the history partitions with rows after ``since``; all partitions if the log lacks ``since``.

    Compaction changes no row, so it touches nothing.
    """
    app_id = _appended(history)
    found: set[Partition] = set()
    if since is not None:
        for commit in history.ledger.newest_first():
            if commit.transactions.get(app_id, since + 1) <= since:
                return [dict(day) for day in found]
            found |= commit.changed
    return [dict(day) for day in history.ledger.state().statistics()]


def lag_seconds(history: Table, table: Table, *, since: int | None) -> float:
    """Return the seconds from source commit to ``table`` for the oldest change after ``since``.

    The history's commits say when their oldest change was committed, so a capture that finishes what another one left
    counts from there. 0 for a table that is built anew: a snapshot is late for nobody.
    """
    app_id = _appended(history)
    waiting: list[datetime] = []
    for commit in history.ledger.newest_first() if since is not None else ():
        if commit.transactions.get(app_id, since + 1) <= since:  # type: ignore[operator]
            break
        oldest = commit.record.notes.get(OLDEST) if commit.record else None
        waiting += [datetime.fromisoformat(oldest)] if oldest else []
    arrived = table.ledger.commit(table.ledger.version()).timestamp
    return max((arrived - min(waiting)).total_seconds(), 0.0) if waiting else 0.0


def _appended(history: Table) -> str:
    """Return the transaction id of a history's appends, versioned by position in the source's log."""
    return transaction_id(history.name, {}, history.ledger.transactions().generation(history.name), "appends")


def _converted(text: str, kind: str) -> str:
    """Return SQL that converts a text in PostgreSQL's notation to a value of type ``kind``."""
    if kind.upper() == "BINARY":
        return f"unhex(substring({text}, 3))"
    if kind.upper() == "BOOLEAN":
        return f"CASE {text} WHEN 't' THEN true WHEN 'f' THEN false END"
    if kind.upper() in ("DOUBLE", "FLOAT"):
        return f"if({text} IN ('NaN', 'Infinity', '-Infinity'), CAST({text} AS {kind}), {exact(text, kind)})"
    return exact(text, kind)


def _key(row: Row | None, keys: Sequence[str]) -> str | None:
    return _json({key: row[key] for key in keys}) if row is not None else None


def _json(row: Row | None) -> str | None:
    return None if row is None else json.dumps(dict(row), ensure_ascii=False, separators=(",", ":"))
