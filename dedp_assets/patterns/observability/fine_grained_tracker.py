"""Fine-Grained Tracker: the origin of each column and the writer of each row are known.

Problem: nobody can say which upstream columns a column of a wide table comes from, or which run made a row.
Solution: of columns, read the query plan that Spark analysed: the inputs in each value, and apart from them what only
    chooses rows. Of rows, write job, run, code version and time with each, in columns that users do not see.
Consequences: code of a Python function is in no plan: its columns are marked opaque, with their inputs. A plan is as
    old as its code: a renamed column breaks a reference until it is traced again. A stamp costs some bytes a row.
Choose instead: Dataset Tracker, if tables are enough; Metadata Decorator, for other context of a release or attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import require_free, require_rows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage
from dedp_assets.patterns.delta import Target
from dedp_assets.patterns.observability._plans import lineage_of

__all__ = ["stamp_rows", "without_stamps", "trace_columns", "ROW_STAMP", "PARENT_STAMPS", "STAMPS"]

ROW_STAMP = "row_stamp"
"""Column with who wrote a row, and when."""
PARENT_STAMPS = "parent_stamps"
"""Column with the stamps of the row that a row was made of: of the first writer first."""
_STAMP = "STRUCT<job: STRING, run_id: STRING, code_version: STRING, written_at: TIMESTAMP>"
STAMPS: Mapping[str, Column] = MappingProxyType(
    {
        ROW_STAMP: Column(_STAMP, "who wrote the row, and when", technical=True),
        PARENT_STAMPS: Column(f"ARRAY<{_STAMP}>", "stamps of the row it was made of, the first first", technical=True),
    }
)
"""Declaration of the stamp columns, as technical columns: a new stamp on unchanged rows is no change."""


@typed
def stamp_rows(rows: DataFrame, into: Target, *, keep_parents: bool = False) -> DataFrame:
    """Add job, run, code version and time of the write to each row; lazy.

    All rows that a run wrote are those with its id in ``row_stamp.run_id``. Patterns that merge rewrite a row, and
    with it the stamp, only if other columns differ; a partition that is replaced has the stamp of the new run.

    Args:
        rows: the rows to write; with ``keep_parents``, their own stamps are those of the table they were read from.
        into: target of the write. Its run names the job, the run and the code version, and says when it started, which
            is the time of the stamp.
        keep_parents: whether to keep the stamps that the rows have as their parents'. A row without one has none.

    Returns:
        The rows with :data:`ROW_STAMP`, and with ``keep_parents`` also :data:`PARENT_STAMPS`.

    Raises:
        ConfigError: if the run does not say when it started, the rows have stamps that are not to be kept, or no
            stamps that are to be.

    Example:
        >>> visits = table("visits", {"page": Column("STRING"), ROW_STAMP: STAMPS[ROW_STAMP]})
        >>> stamped = stamp_rows(frame("page STRING", ("/a",)), visits.target(run))
        >>> stamped.select("page", "row_stamp.job", "row_stamp.run_id").show()
        +----+-------+------+
        |page|    job|run_id|
        +----+-------+------+
        |  /a|example| run-1|
        +----+-------+------+
        <BLANKLINE>
    """
    run = into.run
    if run.at is None:
        raise ConfigError("at must be the time at which the run started, not None: it is the time of the stamps")
    require_rows("a stamp", rows)
    if not keep_parents:
        return require_free(rows, ROW_STAMP, PARENT_STAMPS).withColumn(ROW_STAMP, F.expr(_stamp(into)))
    known = {name.lower() for name in rows.columns}
    if ROW_STAMP not in known:
        raise ConfigError(f"keep_parents must be False for rows without {ROW_STAMP}, not True: no parent stamped them")
    before = F.col(identifier(ROW_STAMP))
    own = F.when(before.isNull(), F.expr(f"CAST(array() AS ARRAY<{_STAMP}>)")).otherwise(F.array(before))
    earlier = [F.expr(f"coalesce({identifier(PARENT_STAMPS)}, array())")] if PARENT_STAMPS in known else []
    chain = F.concat(*earlier, own)
    return rows.withColumn(PARENT_STAMPS, chain).withColumn(ROW_STAMP, F.expr(_stamp(into)))


@typed
def without_stamps(rows: DataFrame) -> DataFrame:
    """Select the columns of rows without stamps, for users; lazy.

    Args:
        rows: rows with or without stamps.

    Example:
        >>> stamped = frame("page STRING", ("/a",)).withColumn(ROW_STAMP, F.lit("run-1"))
        >>> without_stamps(stamped).columns
        ['page']
    """
    hidden = {name.lower() for name in STAMPS}
    return rows.select(*(identifier(name) for name in rows.columns if name.lower() not in hidden))


@typed
def trace_columns(rows: DataFrame, *, tables: Mapping[str, str] = MappingProxyType({})) -> ColumnLineage:
    """Trace the columns of rows to upstream columns, by Spark's analysed plan.

    No row is read. Spark plans the whole query, which takes seconds where it is large: once for each version of the
    code and of the inputs' columns is enough. Tables read by ``Table.read`` are known by their names; temporary views
    are inputs under theirs, the lowest of several.

    Args:
        rows: the rows, as they would be written. The session has ``spark.sql.debug.maxToStringFields`` above the number
            of columns of each table, as this project's engines have; otherwise all columns are opaque.
        tables: name of a view or an alias in the query -> the table that it stands for.

    Returns:
        Inputs of each column, and the influences on the dataset. Columns made by code without a plan, or by what of a
        plan is not understood, are opaque, with the reason.

    Raises:
        ConfigError: for a stream.

    Example:
        >>> frame("first STRING, last STRING, age INT", ("Ada", "L", 36)).createOrReplaceTempView("people")
        >>> adults = spark.sql("SELECT concat(first, last) AS name FROM people WHERE age > 17")
        >>> lineage = trace_columns(adults)
        >>> [str(each) for each in lineage.columns["name"].inputs]
        ['people.first', 'people.last']
        >>> [f"{each.effect} {each}" for each in lineage.influences]
        ['FILTER people.age']
    """
    require_rows("a trace of columns", rows)
    explained = rows.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {traced}", traced=rows).collect()
    return lineage_of(str(explained[0][0]), rows.columns, tables)


def _stamp(into: Target) -> str:
    """Write SQL for the stamp of a run."""
    run = into.run
    at = run.at.isoformat(sep=" ", timespec="microseconds") if run.at else ""
    texts = {"job": run.asset, "run_id": run.run_id, "code_version": run.code_version}
    named = ", ".join(f"'{name}', {quoted(text)}" for name, text in texts.items())
    return f"CAST(named_struct({named}, 'written_at', TIMESTAMP {quoted(at)}) AS {_STAMP})"
