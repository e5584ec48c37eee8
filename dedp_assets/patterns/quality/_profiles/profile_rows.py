"""Stored profiles: a row for each observation, partition and column, and the write of an observation.

A table of profiles is partitioned by table and observation. What was observed before is in the log of that table: no
state beside it can disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.profiles import Profile
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, require_holds
from dedp_assets.patterns.delta import Table, Target

__all__ = [
    "PROFILE",
    "PROFILED_BY",
    "Status",
    "ahead",
    "last_offline",
    "offline",
    "online",
    "require_profiles",
    "rows_of",
    "write_profiles",
]

Status = Literal["final", "provisional", "differs"]

PROFILED_BY = ("table_name", "observation")
"""Partition columns of a table of profiles."""

PROFILE: Mapping[str, Column] = {
    "table_name": Column("STRING", "observed table", required=True),
    "observation": Column("STRING", "offline or online with the version, ahead with the run", required=True),
    "table_version": Column("BIGINT", "version of the table that was observed; none before its commit"),
    "data_partition": Column("STRING", "partition that was observed, such as day=2026-01-05", required=True),
    "data_version": Column("BIGINT", "version in which rows of the partition changed last"),
    "status": Column("STRING", "final, provisional (rows before their commit), differs (from what was committed)"),
    "run_id": Column("STRING", "run that observed", technical=True),
    "observed_at": Column("TIMESTAMP", "when that run started", technical=True),
    "column": Column("STRING", "column, or field within a column", required=True),
    "type": Column("STRING", "type of the column", required=True),
    "rows": Column("BIGINT", "all rows", required=True),
    "nulls": Column("BIGINT", "rows without a value", required=True),
    "nans": Column("BIGINT", "NaN values", required=True),
    "infinities": Column("BIGINT", "infinite values", required=True),
    "empties": Column("BIGINT", "empty texts, binaries, arrays and maps", required=True),
    "minimum": Column("STRING", "least value, of a text the first 64 characters"),
    "maximum": Column("STRING", "greatest value, likewise"),
    "shortest": Column("BIGINT", "least length: characters, bytes or elements"),
    "longest": Column("BIGINT", "greatest length"),
    "sampled": Column("BIGINT", "rows that the sketches saw", required=True),
    # Two sketches of the same rows may differ in their bytes, so these tell no other rows apart.
    "distinct": Column("BINARY", "sketch of distinct values (HLL)", technical=True),
    "quantiles": Column("BINARY", "sketch of quantiles (KLL of DOUBLE)", technical=True),
    "values": Column("BINARY", "sketch of frequent values", technical=True),
    "shapes": Column("BINARY", "sketch of frequent shapes of texts", technical=True),
}
"""Columns of a table of profiles: ``TableSpec("quality/profiles", PROFILE, PROFILED_BY)``."""

_OFFLINE = "offline "


def offline(table: str, version: int) -> dict[str, str]:
    """Return the partition of the observation of stored rows at a version."""
    return {"table_name": table, "observation": f"{_OFFLINE}{version}"}


def online(table: str, version: int) -> dict[str, str]:
    """Return the partition of a write's own observation of a version."""
    return {"table_name": table, "observation": f"online {version}"}


def ahead(table: str, run_id: str) -> dict[str, str]:
    """Return the partition of a provisional observation of a run."""
    return {"table_name": table, "observation": f"ahead {run_id}"}


def last_offline(profiles: Table, table: str) -> int:
    """Return the newest version of ``table`` observed offline, by the log of the profiles; -1 if none."""
    known = (dict(key) for key in profiles.ledger.state().statistics())
    names = [key["observation"] or "" for key in known if key["table_name"] == table]
    return max((int(name.removeprefix(_OFFLINE)) for name in names if name.startswith(_OFFLINE)), default=-1)


def rows_of(
    profile: Profile, partition: str, *, data_version: int | None, status: Status = "final"
) -> list[dict[str, Any]]:
    """Return the stored rows of one partition's profile, without the columns of the observation."""
    about = {"data_partition": partition, "data_version": data_version, "status": status}
    return [{**about, **row} for row in profile.as_rows()]


def require_profiles(into: Target) -> None:
    """Create the table of profiles, or refuse another table's declaration.

    Raises:
        ConfigError: if the table is not partitioned by table and observation.
        SchemaMismatch: if columns are missing, or of another type.
    """
    spec = into.table.spec
    require_holds(spec, PROFILE)
    if tuple(spec.partition_by) != PROFILED_BY:
        raise ConfigError(f"{spec.name} must be partitioned by {list(PROFILED_BY)}, not by {list(spec.partition_by)}")
    into.table.ensure()


def write_profiles(
    into: Target,
    rows: Iterable[Mapping[str, Any]],
    owned: Mapping[str, str],
    *,
    version: int | None,
    since: int | None = None,
) -> WriteResult:
    """Write the rows of one observation in one commit; a repeated observation changes nothing.

    Args:
        into: target of the profiles, without a partition.
        rows: rows of :func:`rows_of`.
        owned: partition of the profiles: the observation of a table, such as :func:`offline`.
        version: observed version; ``None`` for rows before their commit.
        since: version of the profiles after which nobody may have written about the table.
    """
    table = owned["table_name"]
    seen = {} if version is None else {table: version}
    run = replace(into.run, inputs={**into.run.inputs, **seen}, sequence=None)
    about = {**owned, "table_version": version, "run_id": run.run_id, "observed_at": run.at}
    held = [tuple({**row, **about}[name] for name in PROFILE) for row in rows]
    schema = ", ".join(f"{identifier(name)} {column.type}" for name, column in PROFILE.items())
    frame = into.table.session.createDataFrame(held, schema)
    staged = replace(into, partition=owned, run=run).stage(frame)
    return staged.publish(since=since, held={"table_name": table})
