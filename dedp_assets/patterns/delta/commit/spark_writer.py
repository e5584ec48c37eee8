"""Commits by Spark's own writer, and the errors of a commit."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.observing import SPARK_ERRORS
from dedp_assets.patterns.core.partitions import equals
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.commit.idempotency import Decision
from dedp_assets.patterns.delta.snapshots.lost_files import FilesGone

__all__ = ["commit_by_spark", "is_conflict", "sql_settings", "violation"]

_CONFLICT = re.compile(
    r"DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)"
    r"|(Concurrent\w+|MetadataChanged|ProtocolChanged|FileAlreadyExists)Exception"
)


_VIOLATION = re.compile(r"(CHECK constraint|NOT NULL constraint)[^\n]*")


def commit_by_spark(
    rows: DataFrame,
    record: CommitRecord,
    decision: Decision,
    *,
    location: str,
    kinds: Mapping[str, str],
    append: bool = False,
) -> None:
    """Commit rows by Spark's own writer, for tables that the metadata-only transaction cannot serve."""
    if decision.same_rows:
        rows, append = rows.limit(0), True
    writer = rows.write.format("delta").mode("append" if append else "overwrite")
    if record.partition and not append:
        predicate = " AND ".join(equals(c, value, kinds[c]) for c, value in record.partition.items())
        writer = writer.option("replaceWhere", predicate)
    writer = writer.option("txnAppId", decision.app_id).option("txnVersion", decision.sequence)
    writer.option("userMetadata", record.to_json()).save(location)


def sql_settings(record: CommitRecord, decision: Decision) -> dict[str, str]:
    """Return the session settings for transaction id and record in the commit of an SQL statement."""
    return {
        "spark.databricks.delta.write.txnAppId": decision.app_id,
        "spark.databricks.delta.write.txnVersion": str(decision.sequence),
        "spark.databricks.delta.commitInfo.userMetadata": record.to_json(),
    }


def is_conflict(error: Exception) -> bool:
    """Tell whether an error is a commit conflict with another writer.

    Spark's errors are recognised by their text, which is the same over Spark Connect.
    """
    if isinstance(error, FilesGone):
        return False
    return isinstance(error, Conflict) or (isinstance(error, SPARK_ERRORS) and bool(_CONFLICT.search(str(error))))


def violation(error: Exception) -> str:
    """Return Delta's message about the violated constraint from a statement's error; empty if none."""
    found = _VIOLATION.search(str(error))
    return found[0].strip() if found else ""
