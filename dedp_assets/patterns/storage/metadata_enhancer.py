"""Metadata Enhancer: statistics beside the data by which readers skip files, chosen and kept true.

Problem: a filter on one column opens every file, because nothing beside the data says what each file holds.
Solution: declare the columns with statistics in the log, and Bloom filters for single keys (`TableLayout`); describe
    the files of other writers again, from their footers, where statistics are missing or wrong. No row is written.
Consequences: the log grows with columns and files. A Bloom filter answers whether a value is there, and skips parts of
    files for equality alone. A database's own statistics go stale until they are refreshed.
Choose instead: Sorter, if every file holds every value; Horizontal Partitioner, if filters name few whole values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dedp_assets.patterns.connectors.postgres import naming_read_errors, opened, table_identifier
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.delta import Target, require_partition
from dedp_assets.patterns.delta.maintenance import describe_files

__all__ = ["enhance_statistics", "refresh_planner_statistics"]

sql = optional("psycopg.sql")


@typed
def enhance_statistics(into: Target) -> WriteResult:
    """Describe files again whose statistics are missing, wrong, or of personal columns; no row changes.

    Found are files without statistics, files in which another writer passed over NaN, so that a filter would lose rows,
    and files with bounds of columns that shall have none. Footers are read, and the values of floating-point columns
    once for each file of another writer. A file whose footer passes over NaN is written again by Spark, which skips by
    footers, too. If all statistics are true, nothing is committed; Spark is not started.

    Args:
        into: target of the write; with a partition, only files there are looked at.

    Returns:
        Files opened and described again by reason, and the version that was analyzed, in ``figures``.

    Raises:
        ConfigError: for a table whose log only Spark writes.
        ContractError: if a file cannot be read.
        Conflict: if other writers do not yield.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> uncounted = {"delta.dataSkippingNumIndexedCols": "0"}
        >>> ages = table(TableSpec("ages", {"age": Column("INT")}, properties=uncounted))
        >>> _ = ages.ensure()
        >>> frame("age INT", (7,), (81,)).coalesce(1).write.format("delta").mode("append").save(str(ages.location))
        >>> enhance_statistics(ages.target(run)).reason
        '1 of 1 files described again'
        >>> rows(ages)
        [(7,), (81,)]
    """
    into = into.by("storage.metadata_enhancer", "partition")
    require_partition(into.name, into.table.ledger.state(), into.partition)
    return describe_files(into.table, into.partition, provenance=into.run)


@typed
def refresh_planner_statistics(connect: Callable[..., Any], *, table: str, version: int | None = None) -> Finding:
    """Refresh PostgreSQL's statistics of a table, as the last step of a write to the table.

    The planner estimates by them, and autovacuum refreshes them late after a large load.

    Args:
        connect: opens a connection; takes further libpq settings as keywords.
        table: ``schema.table``.
        version: version of the lake's table that was loaded, for whoever asks which one was analyzed last.

    Returns:
        Rows as the planner took them before and after, and the analyzed version; passed if they differ by a tenth at
        most.

    Raises:
        NotReady: if the server does not answer.
        PatternError: what else PostgreSQL refuses, with the remedy.
    """
    name = table_identifier(table)
    asked = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass(%s)"
    with naming_read_errors(table), opened(connect, table) as connection:
        before = connection.execute(asked, [name.as_string(connection)]).fetchone()
        connection.execute(sql.SQL("ANALYZE {}").format(name))
        after = connection.execute(asked, [name.as_string(connection)]).fetchone()
    figures = {"rows_before": before[0] if before else 0, "rows_after": after[0] if after else 0}
    figures |= {} if version is None else {"analyzed_version": version}
    passed = abs(figures["rows_after"] - figures["rows_before"]) * 10 <= max(figures["rows_after"], 1)
    note = "" if passed else f"{table}: plans were made for {figures['rows_before']} rows of {figures['rows_after']}"
    return Finding("the_planner_knew_the_rows", passed=passed, severity="warn", figures=figures, note=note)
