"""Metadata Decorator: technical context is stored with the data, out of sight of the data's users.

Problem: operators have to know which release, run and attempt made a row; users must not see it, nor lean on it.
Solution: write context to the metadata of the storage: headers of a Kafka record; a column that the users' view leaves
    out; or a table of its own, with a row for each load, from what the commits of the data say already.
Consequences: only technical keys are taken, as nobody looks for business attributes there. Headers are Kafka's. A view
    keeps a column out of sight; whoever may read the files can read it, so what must stay secret goes into a table of
    its own, whose folder has other permissions.
Choose instead: Wrapper, if what is added is for consumers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import require_columns, require_free, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.value._loads import LOAD, loads_of

__all__ = ["decorate", "contexts_of", "view_for_users", "CONTEXT", "TECHNICAL_KEYS"]

CONTEXT = "processing_context"
"""Column with the context of a row, where the storage has no metadata of its own for it."""
TECHNICAL_KEYS = (
    "attempt",
    "batch_version",
    "cause",
    "code_version",
    "job_version",
    "loading_time",
    "pattern",
    "processing_time",
    "run_id",
)
"""The keys that a context may have; anything else belongs into the data."""


@typed
def decorate(rows: DataFrame, *, context: Mapping[str, str], storage: Literal["headers", "column"]) -> DataFrame:
    """Add technical context to rows as Kafka headers or as a column; lazy, for batches and streams.

    Args:
        rows: the rows; for Kafka they have the columns that its writer takes, ``value`` among them.
        context: key -> value; the keys are among :data:`TECHNICAL_KEYS` and none is a column of the rows.
        storage: ``headers`` of a Kafka record, to be written and read with the option ``includeHeaders``; or a
            ``column`` of a table, to be declared as ``technical`` and left out by :func:`view_for_users`.

    Returns:
        The rows with ``headers``, or with :data:`CONTEXT`, a MAP of texts.

    Raises:
        ConfigError: for a key that is not technical, for headers where rows do not go to Kafka, or if the rows have
            the column that is added.

    Example:
        >>> visits = frame("visit_id STRING, page STRING", ("v1", "/"))
        >>> release = {"job_version": "1.0.3", "run_id": "run-1"}
        >>> decorate(visits, context=release, storage="column").show(truncate=False)
        +--------+----+---------------------------------------+
        |visit_id|page|processing_context                     |
        +--------+----+---------------------------------------+
        |v1      |/   |{job_version -> 1.0.3, run_id -> run-1}|
        +--------+----+---------------------------------------+
        <BLANKLINE>
    """
    _require_technical(context, rows)
    if storage == "column":
        pairs = [text for key, value in context.items() for text in (quoted(key), quoted(value))]
        return require_free(rows, CONTEXT).withColumn(CONTEXT, F.expr(f"map({', '.join(pairs)})"))
    if "value" not in rows.columns:
        raise ConfigError(f"headers are Kafka's, and its records have a value: {rows.columns} go with storage='column'")
    headers = [
        f"struct({quoted(key)} AS key, CAST({quoted(value)} AS BINARY) AS value)" for key, value in context.items()
    ]
    return require_free(rows, "headers").withColumn("headers", F.expr(f"array({', '.join(headers)})"))


@typed
def contexts_of(table: Table, partition: Mapping[str, str], *, until: int | None = None) -> DataFrame:
    """List the loads of a partition with the context from the commits, without reading rows.

    A load is a commit that changed rows there; one that found the same rows is none. The partition is the key that
    joins rows to it, with no column for it in the data.

    Args:
        table: the table that was loaded.
        partition: column -> value; ``{}`` for a table that is loaded as a whole.
        until: version of the table up to which to look; the newest, if ``None``.

    Returns:
        ``loading_attempt`` from 1 (as far back as the log reaches), ``version`` of the table, ``run_id``,
        ``code_version``, ``pattern``, ``cause``, ``loading_time``, and ``is_current``: whether the present rows are
        those of this load, after a restore not the last one. What another writer loaded has no run.
    """
    rows = [load.row for load in loads_of(table.ledger, partition, until=until)]
    return table.session.createDataFrame(rows, LOAD)


@typed
def view_for_users(table: Table, *, view: str, hidden: Collection[str] = ()) -> str:
    """Return the SQL of a temporary view of a table without technical columns.

    The columns are those that the table declares and does not call ``technical``: what a release adds for operators
    changes no query. Each session registers it anew: a lake of files has no catalogue that could keep it.

    Args:
        table: the table, declared.
        view: name of the view.
        hidden: further columns that are not for users.

    Raises:
        ConfigError: if no declared column is left, or a hidden one is not there.
    """
    hidden = spelled_as(table.spec.columns, hidden)
    if strange := sorted({*hidden} - {*table.spec.columns}):
        raise ConfigError(f"{table.name} has no column {', '.join(strange)} to hide: it has {[*table.spec.columns]}")
    if not (shown := [name for name in table.spec.content if name != CONTEXT and name not in hidden]):
        raise ConfigError(f"{table.name} declares no column for users: declare those that it has")
    columns = ", ".join(map(identifier, shown))
    stored = f"SELECT {columns} FROM delta.{identifier(table.store.address)}"  # noqa: S608 - names, each quoted
    return f"CREATE OR REPLACE TEMPORARY VIEW {identifier(view)} AS {stored}"


def _require_technical(context: Mapping[str, str], rows: DataFrame) -> None:
    require_columns(rows, [])
    data = {name.lower() for name in rows.columns}
    business = [key for key in context if key.lower() in data or key not in TECHNICAL_KEYS]
    if business or not context:
        raise ConfigError(
            f"{', '.join(business) or 'nothing'} is no technical context: what describes the data is a column of it, "
            f"where users look; the context takes {', '.join(TECHNICAL_KEYS)}"
        )
