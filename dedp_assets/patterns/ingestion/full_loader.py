"""Full Loader: replace the whole dataset in one commit, unless the volume is implausible.

Problem: a small, slowly changing dataset carries no attribute by which changed rows could be found.
Solution: load all of it each time and swap it in atomically: readers see the old rows or the new ones, never none.
Consequences: cost grows with the dataset, and a truncated delivery would replace a full table: a volume guard refuses
    it before the swap. The replaced version stays readable by time travel, and can be restored, until a vacuum. With
    `keep_versions` each load fills a table of its own that is kept, and the name readers know moves to it.
Choose instead: Incremental Loader, once the dataset grows and has a delta column.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import counted
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.delta.versions import exposure

__all__ = ["load_full", "volume_guard"]


@demanding(replaces="table", as_is=True)
@typed
def load_full(
    snapshot: DataFrame | Split,
    into: Target,
    *,
    keep_versions: bool = False,
    min_rows: int = 1,
    max_shrink: float = 0.5,
    max_growth: float = 2.0,
) -> WriteResult:
    """Replace every row of a table by ``snapshot``, in one commit.

    A load that fails leaves the present rows where they are.

    Args:
        snapshot: the complete dataset; of a split, its ``valid`` part.
        into: target of the write.
        keep_versions: load into a table of its own that is never written again, and let the table show it once the
            load has passed; Proxy's ``switch_version`` is the way back.
        min_rows: fewest rows a delivery may have, in rows.
        max_shrink: largest share of the present rows that may be missing (0.5: half of them).
        max_growth: largest factor by which the rows may grow (2.0: double).

    Raises:
        AuditFailed: if the volume guard or an audit refuses the delivery; the present rows stay.
        Conflict: if another run wrote the table meanwhile, whose rows the guard did not see.
        ConfigError: for bounds that would refuse every delivery, or if the table keeps versions and is loaded
            without, or the other way round.

    Example:
        >>> devices = table("devices", "id INT, name STRING", (1, "phone"), (2, "tablet"))
        >>> delivery = frame("id INT, name STRING", (2, "tablet"), (3, "watch"), (4, "reader"))
        >>> load_full(delivery, devices.target(run)).reason
        '3 rows published'
        >>> rows(devices)
        [(2, 'tablet'), (3, 'watch'), (4, 'reader')]
    """
    guard = volume_guard(min_rows=min_rows, max_shrink=max_shrink, max_growth=max_growth)
    into = into.by("ingestion.full_loader", "audits", "rows_read")
    target = into.table
    since = target.ledger.version() if target.ledger.exists() else None
    rows_read = replace(into.rows_read, figures={**into.rows_read.figures, "present": _present(target, since)})
    into = replace(into.with_audits(*guard), rows_read=rows_read)
    if keep_versions:
        return exposure.load(snapshot, target, provenance=into.run, audits=into.audits, rows_read=into.rows_read)
    return into.stage(snapshot).publish(since=since)


@typed
def volume_guard(*, min_rows: int = 1, max_shrink: float = 0.5, max_growth: float = 2.0) -> tuple[Audit, ...]:
    """List the audits that bound the row count of a load; an unusual volume can be approved.

    Raises:
        ConfigError: for bounds that would refuse every delivery, or none.
    """
    if not 0 <= max_shrink <= 1 or max_growth < 1 or min_rows < 0:
        raise ConfigError(
            f"max_shrink={max_shrink} must lie in 0..1, max_growth={max_growth} must be at least 1, and "
            f"min_rows={min_rows} at least 0"
        )
    return (
        Audit(name="delivery_is_not_empty", of="written", fail_below=min_rows, approvable=True),
        Audit(
            name="volume_is_plausible",
            of="written",
            per="present",
            fail_below=round(1 - max_shrink, 9),
            fail_above=max_growth,
            approvable=True,
        ),
    )


def _present(target: Table, version: int | None) -> int:
    """Count the rows of a version from the log, or by a Spark job where the log is inexact."""
    if version is None:
        return 0
    found = target.ledger.state(version).statistics().values()
    exact = all(each.exact for each in found)
    return sum(each.rows for each in found) if exact else counted(target.read(version=version))
