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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from dedp_assets.patterns.connectors.postgres import Incoming
from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import RowCounts, Split, WriteResult
from dedp_assets.patterns.delta import Table, Target, publish_together, same_run, versions_together
from dedp_assets.patterns.idempotency._transactions import DatabaseTarget, RowSet, Written, texts_of, write_sets

__all__ = ["write_transaction", "publish_group", "read_group", "DatabaseTarget", "RowSet", "TableRows"]


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows that replace a partition of a Delta table.

    Attributes:
        rows: everything that the partition shall hold.
        into: target with the partition; every partition column of the table has a value.
        allow_empty: whether no rows may replace the partition, with a warning; a source that delivers nothing is
            usually broken.
    """

    rows: DataFrame | Split
    into: Target
    allow_empty: bool = False

    def __post_init__(self) -> None:
        require_types(self)


@typed
def write_transaction(sets: Iterable[RowSet], into: DatabaseTarget) -> WriteResult:
    """Write rows by key into several tables of a PostgreSQL database, in one transaction.

    The rows pass through this process partition by partition, and wait in temporary tables until the transaction. What
    was written is noted beside the first table (``dedp_transactions``).

    Args:
        sets: the rows of each table.
        into: the database, the name of what is written, and the run, with its upstream version (``sequence``).

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
        >>> into = DatabaseTarget("users", database.connect, replace(run, sequence=1))
        >>> write_transaction([ada], into).figures
        {'public.users inserted': 1, 'public.users updated': 0, 'public.users deleted': 0}
        >>> write_transaction([ada], into).changed
        False
        >>> with database.connect() as connection:
        ...     found = connection.execute("SELECT * FROM users").fetchall()
        >>> found
        [(1, 'Ada')]
    """
    incoming = [
        Incoming(s.table, s.rows.columns, s.keys, texts_of(s.table, s.rows), s.partition, s.allow_empty) for s in sets
    ]
    run, part = into.run, dict(into.partition)
    require_distinct(f"{into.name}: sets=", [each.table for each in incoming])
    if not incoming or run.sequence is None:
        raise ConfigError(
            f"{into.name}: sets must hold rows to write, and provenance.sequence their upstream version, by which a "
            "retry is known"
        )
    content = json.dumps([run.code_version, run.inputs], sort_keys=True, default=str)
    write = Written(into.name, slice_name(part), into.generation, run.sequence, content, run.run_id)
    done = write_sets(incoming, write, connect=into.connect, again=run.replay)
    if done is None:
        reason = f"version {write.sequence} was written before: nothing to do"
        return WriteResult(into.name, write.sequence, applied=False, changed=False, reason=reason, partition=part)
    figures = {
        f"{each.table} {name}": getattr(what, name)
        for each, what in zip(incoming, done, strict=True)
        for name in ("inserted", "updated", "deleted")
    }
    changed = sum(figures.values())
    result = WriteResult(into.name, write.sequence, applied=True, changed=changed > 0, reason=f"{changed} rows changed")
    return replace(result, rows=RowCounts(written=changed), partition=part, figures=figures)


@typed
def publish_group(sets: Iterable[TableRows]) -> WriteResult:
    """Replace a partition in each of several Delta tables, in all tables or in no table.

    If an audit fails, no table changes; a publication that a crash interrupted is completed later.

    The first table is the main one and is published last. The tables are written by this function only.

    Args:
        sets: the rows and the target of each table, always the same tables in the same order, all of one run.

    Returns:
        What became of the first table, and beside it of the others.

    Raises:
        AuditFailed: if a rule refuses rows of one of the tables, or there are none; nothing is published.
        ConfigError: for tables that only Spark can publish to, or one that is named twice.
        Conflict: if a newer upstream version was applied, or somebody else wrote one of the tables.
    """
    if not (wanted := list(sets)):
        raise ConfigError("sets must hold a table of the group, not none")
    targets = [each.into.by("idempotency.transactional_writer", "partition", "audits", "rows_read") for each in wanted]
    same_run(*targets)
    staged = (
        into.with_audits(not_empty(allow_empty=each.allow_empty)).stage(each.rows)
        for each, into in zip(wanted, targets, strict=True)
    )
    return publish_together([into.table for into in targets], staged)


@typed
def read_group(tables: Iterable[Table]) -> Mapping[str, DataFrame]:
    """Read all tables of a group at the versions of the last complete publication; lazy.

    Args:
        tables: those of :func:`publish_group`, in its order.

    Returns:
        The rows of each table, by its name.

    Raises:
        ConfigError: for a table that is not of the group, or named twice.
        NotReady: if they were not published together yet.
    """
    wanted = list(tables)
    versions = versions_together(wanted)
    return {table.name: table.read(version=versions[table.name]) for table in wanted}
