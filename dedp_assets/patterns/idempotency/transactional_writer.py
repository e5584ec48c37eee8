"""Transactional Writer: rows for several tables become visible together, or not at all.

Problem: a job that writes several tables dies between two of them, and readers see what fits no other table.
Solution: in PostgreSQL, one transaction over all tables, which also notes what was written: a retry changes nothing.
    Delta has no transaction over tables: all are staged and audited, a file says what shall be published, then each is.
Consequences: on Delta each table is atomic; the group is atomic for readers of :func:`read_group` only, others may see
    one table before another. A crash rolls forward. Two SELECTs need REPEATABLE READ to see one state of PostgreSQL.
Choose instead: Data Overwrite or Keyed Idempotency, for one table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg import Connection
from pyspark.sql import DataFrame

from dedp_assets.patterns.connectors.postgres import Incoming
from dedp_assets.patterns.core.audits import Audit, not_empty
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.records import Provenance, slice_name
from dedp_assets.patterns.core.results import RowCounts, Split, WriteResult
from dedp_assets.patterns.core.rows import RowsRead
from dedp_assets.patterns.delta.tables import Table
from dedp_assets.patterns.delta.writes import StagedWrite
from dedp_assets.patterns.idempotency._groups import group_of
from dedp_assets.patterns.idempotency._transactions import RowSet, Written, texts_of, write_sets

__all__ = ["write_transaction", "publish_group", "read_group", "RowSet", "TableRows"]


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows that replace a partition of a Delta table.

    Attributes:
        table: the table.
        rows: everything that the partition shall hold.
        partition: column -> value; every partition column of the table has one.
        audits: rules over the rows.
        rows_read: what is known about the rows read, to account for them.
        allow_empty: whether no rows may replace the partition, with a warning; a source that delivers nothing is
            usually broken.
    """

    table: Table
    rows: DataFrame | Split
    partition: Mapping[str, str]
    audits: Sequence[Audit] = ()
    rows_read: RowsRead = RowsRead()  # noqa: RUF009 - frozen
    allow_empty: bool = False

    def __post_init__(self) -> None:
        require_types(self)


@typed
def write_transaction(
    sets: Iterable[RowSet],
    *,
    connect: Callable[..., Connection[Any]],
    target: str,
    partition: Mapping[str, str] | None = None,
    provenance: Provenance,
    generation: int = 0,
) -> WriteResult:
    """Write rows into several tables of a PostgreSQL database by their keys, in one transaction.

    The rows pass through this process partition by partition, and wait in temporary tables until the transaction. What
    was written is noted beside the first table (``dedp_transactions``).

    Args:
        sets: the rows of each table.
        connect: opens a connection; takes psycopg's settings.
        target: name of what is written, for all tables together.
        partition: the part of it that this write is about.
        provenance: who writes, from what upstream version (``sequence``), and why. The same inputs and code at the same
            version are written once, unless somebody asks for a replay.
        generation: how often the target was begun anew; what was noted in an earlier generation does not count.

    Returns:
        The result; ``version`` is the upstream version, ``figures`` say what became of the rows of each table.

    Raises:
        AmbiguousKeys: if a key is NULL or comes twice.
        AuditFailed: if there are no rows for a partition.
        ConfigError: without an upstream version, for two sets of rows of one table, or tables and keys that are not
            there.
        Conflict: if a newer upstream version was written, or another transaction is in the way.
        ContractError: if the database refuses a value; the text names its column.
        NotReady: if the database does not answer.

    Example:
        >>> from dataclasses import replace
        >>> with database.connect() as connection:
        ...     _ = connection.execute("CREATE TABLE users (id int PRIMARY KEY, name text)")
        >>> ada = RowSet("public.users", frame("id INT, name STRING", (1, "Ada")), keys=["id"])
        >>> first = replace(run, sequence=1)
        >>> write_transaction([ada], connect=database.connect, target="users", provenance=first).figures
        {'public.users inserted': 1, 'public.users updated': 0, 'public.users deleted': 0}
        >>> write_transaction([ada], connect=database.connect, target="users", provenance=first).changed
        False
        >>> with database.connect() as connection:
        ...     found = connection.execute("SELECT * FROM users").fetchall()
        >>> found
        [(1, 'Ada')]
    """
    incoming = [
        Incoming(s.table, s.rows.columns, s.keys, texts_of(s.table, s.rows), s.partition, s.allow_empty) for s in sets
    ]
    require_distinct(f"{target}: sets=", [each.table for each in incoming])
    if not incoming or provenance.sequence is None:
        raise ConfigError(
            f"{target}: sets must hold rows to write, and provenance.sequence their upstream version, by which a retry "
            "is known"
        )
    content = json.dumps([provenance.code_version, provenance.inputs], sort_keys=True, default=str)
    part = dict(partition or {})
    write = Written(target, slice_name(part), generation, provenance.sequence, content, provenance.run_id)
    done = write_sets(incoming, write, connect=connect, again=provenance.replay)
    if done is None:
        reason = f"version {write.sequence} was written before: nothing to do"
        return WriteResult(target, write.sequence, applied=False, changed=False, reason=reason, partition=part)
    figures = {
        f"{each.table} {name}": getattr(what, name)
        for each, what in zip(incoming, done, strict=True)
        for name in ("inserted", "updated", "deleted")
    }
    changed = sum(figures.values())
    result = WriteResult(target, write.sequence, applied=True, changed=changed > 0, reason=f"{changed} rows changed")
    return replace(result, rows=RowCounts(written=changed), partition=part, figures=figures)


@typed
def publish_group(sets: Iterable[TableRows], *, provenance: Provenance) -> WriteResult:
    """Replace a partition in each of several Delta tables: none if an audit refuses one, all after a crash.

    The first table is the main one and is published last. The tables are written by this function only.

    Args:
        sets: the tables, always the same in the same order, and what their partitions shall hold.
        provenance: who writes, from what, and why.

    Returns:
        What became of the first table, and beside it of the others.

    Raises:
        AuditFailed: if a rule refuses rows of one of the tables, or there are none; nothing is published.
        ConfigError: for tables that only Spark can publish to, or one that is named twice.
        Conflict: if a newer upstream version was applied, or somebody else wrote one of the tables.
    """
    wanted, staged, results = list(sets), list[StagedWrite](), dict[str, WriteResult]()
    group, run = group_of([each.table for each in wanted], results), provenance.by("idempotency.transactional_writer")
    group.go_on()

    def asked() -> bool:
        # Each of them, because one that is stale refuses them all.
        return False in [write.is_applied() for write in staged]

    try:
        for each in wanted:
            staged.append(
                each.table.stage(
                    each.rows,
                    partition=each.partition,
                    provenance=run,
                    audits=(not_empty(allow_empty=each.allow_empty), *each.audits),
                    rows_read=each.rows_read,
                )
            )
        notes = {write.table.name: write.note() for write in reversed(staged)}
        asked()
    except PatternError:
        for write in staged:
            write.stage.discard()
        raise
    part = "; ".join(slice_name(write.record.partition) for write in staged)
    is_new = group.publish_all(part, notes, is_new=asked)
    found = [replace(results[w.table.name], findings=w.findings) if is_new else w.publish() for w in staged]
    return replace(found[0], beside=tuple(found[1:]))


@typed
def read_group(tables: Iterable[Table]) -> Mapping[str, DataFrame]:
    """Read all tables of a group as they were published together last; lazy.

    Args:
        tables: those of :func:`publish_group`, in its order.

    Returns:
        The rows of each table, by its name.

    Raises:
        ConfigError: for a table that is not of the group, or named twice.
        NotReady: if they were not published together yet.
    """
    wanted = list(tables)
    versions = group_of(wanted, {}).visible()
    if strange := [table.name for table in wanted if table.name not in versions]:
        raise ConfigError(
            f"{', '.join(strange)} is not of the group of {wanted[0].name}: it holds {', '.join(versions)}"
        )
    return {table.name: table.read(version=versions[table.name]) for table in wanted}
