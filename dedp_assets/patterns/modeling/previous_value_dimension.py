"""Previous Value Dimension: one row per key, with the current and the previous value (SCD type 3).

Problem: who moved from one segment to another is asked every day, and answering it takes a join over the history.
Solution: of the versions of each key the newest one, with the former value of chosen columns beside the present one.
    It is derived from a versioned dimension: a change that comes late may make any former value the previous one.
Consequences: one step back and no further. A value that came back counts: its previous one is what was between.
    Deleted keys have no row.
Choose instead: Versioned Dimension with ``previous_<name>`` columns (type 6), to know it of each version.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.columns import COMPARED, require_columns, require_free
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.modeling._changes import by
from dedp_assets.patterns.modeling._versions import VERSION, with_previous

__all__ = ["show_previous_values"]


@typed
def show_previous_values(versions: DataFrame, *, keys: Sequence[str], previous: Sequence[str]) -> DataFrame:
    """Reduce versions to the current row of each living key, with columns ``previous_<name>``; lazy.

    Args:
        versions: as :func:`~dedp_assets.patterns.modeling.versioned_dimension.keep_versions` keeps them.
        keys: the key columns.
        previous: columns whose value before the present one is shown; NULL if there was none.

    Returns:
        Keys, values and ``previous_<name>`` columns, and ``valid_from``: since when the row is as it is.

    Raises:
        ConfigError: if no column is named, one is not there, or its ``previous_`` name is taken.

    Example:
        >>> from dedp_assets.patterns.modeling.versioned_dimension import ChangeStream, keep_versions
        >>> from dedp_assets.patterns.core.schema import Column
        >>> columns = {"id": Column("INT", required=True), "segment": Column("STRING"), **VERSION}
        >>> customers, stream = table("customers", columns), ChangeStream(keys=["id"], event_time="at")
        >>> moves = frame("id INT, segment STRING, day STRING", (1, "gold", "2026-01-02"), (1, "tin", "2026-01-05"))
        >>> moves = moves.selectExpr("id", "segment", "timestamp(day) AS at")
        >>> _ = keep_versions(moves, customers.target(run), stream=stream)
        >>> shown = show_previous_values(customers.read(), keys=["id"], previous=["segment"])
        >>> rows(shown.select("id", "segment", "previous_segment"))
        [(1, 'tin', 'gold')]
    """
    if not previous:
        raise ConfigError("name the columns (previous=) whose former value shall be shown")
    require_distinct("keys=", keys)
    require_distinct("previous=", previous)
    require_columns(versions, [*VERSION, *previous])
    require_columns(versions, keys, COMPARED)
    rows = require_free(versions, *[f"previous_{column}" for column in previous])
    for column in previous:
        rows = with_previous(rows, keys, column, f"previous_{column}")
    kept = [c for c in rows.columns if c == "valid_from" or c not in VERSION]
    return rows.filter("is_current").select(*by(kept))
