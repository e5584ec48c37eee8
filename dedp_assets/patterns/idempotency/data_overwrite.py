"""Data Overwrite: a run replaces exactly the owned partition, so a rerun changes nothing.

Problem: a daily job duplicates its rows at each retry or backfill.
Solution: each run names the partition it replaces and replaces all of it in one commit: rows that vanished from the
    input vanish from the output, rows outside the partition refuse the write.
Consequences: the partition is rewritten whole. Replaced files stay for time travel until VACUUM.
Choose instead: Merger, if a run sees only changes; Fast Metadata Cleaner, for whole units of a very large table.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import Target

__all__ = ["overwrite_partition"]


@demanding(replaces="partition", as_is=True)
@typed
def overwrite_partition(
    rows: DataFrame | Split,
    into: Target,
    *,
    allow_empty: bool = False,
) -> WriteResult:
    """Replace one partition of a table by ``rows``, in one commit.

    Args:
        rows: everything the partition shall hold; of a split, its ``valid`` part.
        into: target that names the partition to replace: never the whole table by accident.
        allow_empty: whether no rows may replace a partition, with a warning; a source that delivers nothing is usually
            broken.

    Raises:
        AuditFailed: if a row lies outside the partition, an audit refuses the rows, or there are no rows.
        ConfigError: if no partition is named.

    Example:
        >>> visits = table("visits", "id INT, day STRING", (1, "mon"), (2, "mon"), (9, "tue"), partition_by=["day"])
        >>> monday = frame("id INT, day STRING", (2, "mon"), (3, "mon"))
        >>> overwrite_partition(monday, visits.target(run, partition={"day": "mon"})).reason
        '2 rows published'
        >>> rows(visits)
        [(2, 'mon'), (3, 'mon'), (9, 'tue')]
    """
    into = into.by("idempotency.data_overwrite", "partition", "audits", "rows_read")
    if not into.partition:
        raise ConfigError(
            f"name the partition of {into.name} to replace; for the whole table use full_loader.load_full"
        )
    return into.with_audits(not_empty(allow_empty=allow_empty)).stage(rows).publish()
