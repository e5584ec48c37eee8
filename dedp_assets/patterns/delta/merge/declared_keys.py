"""Declared key of a table (``TableSpec.key``): presence and uniqueness, checked at every write.

A merge goes by exactly this key. Rows that replace a partition or the table are counted by it in the pass that stages
them, and a partition may be replaced only if the key says which one a row is of. What somebody else writes to the table
is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta.merge.clauses import Clause, Delete, Insert, Merge

__all__ = ["REPEATED", "repeated", "require_free", "require_merge_by_key", "require_own_key", "require_whole"]

REPEATED = f"{RESERVED}repeated"
"""Column that says of a row that is staged whether its key is missing, or that of another one, too."""
_SAMPLES = 3


def require_merge_by_key(spec: TableSpec, merge: Merge) -> None:
    """Refuse a merge that could bring twice the key that a table declares.

    Raises:
        ConfigError: for other keys, a further condition for rows to meet, or a clause that gives a key another value.
    """
    if not spec.key or merge.only_deletes:
        return
    by, table = ", ".join(spec.key), spec.name
    if _lower(merge.keys) != _lower(spec.key):
        raise ConfigError(f"{table} is keyed by {by}, which a merge by {', '.join(merge.keys)} could bring twice")
    if merge.on and merge.inserts:
        raise ConfigError(f"{table} is keyed by {by}, which rows that do not meet by {merge.on} could bring twice")
    for clause in merge.clauses:
        _require_own_key(spec, clause)


def _require_own_key(spec: TableSpec, clause: Clause) -> None:
    if isinstance(clause, Delete) or clause.values is None:
        return
    given, by = {column.lower(): sql for column, sql in clause.values.items()}, ", ".join(spec.key)
    for key in spec.key:
        of_source = {f"s.{key}".lower(), f"s.{identifier(key)}".lower()}
        sql = given.get(key.lower(), "" if isinstance(clause, Insert) else f"s.{key}")
        if sql.strip().lower() not in of_source:
            raise ConfigError(
                f"{spec.name} is keyed by {by}, and {key} would become {sql or 'NULL'}: it has to be s.{key}"
            )


def require_own_key(spec: TableSpec, identity: Iterable[str]) -> None:
    """Refuse a recomputation by an identity other than the declared key of the table.

    Raises:
        ConfigError: names both.
    """
    if spec.key and _lower(identity) != _lower(spec.key):
        raise ConfigError(f"{spec.name} is keyed by {', '.join(spec.key)}, not by {', '.join(identity)}")


def require_whole(spec: TableSpec, owned: Mapping[str, object], *, append: bool) -> None:
    """Refuse an append to a keyed table, and a partition overwrite that could repeat a key elsewhere.

    Raises:
        ConfigError: says what to do instead.
    """
    by = ", ".join(spec.key)
    if spec.key and append:
        raise ConfigError(f"{spec.name} is keyed by {by}, which an append could bring twice: merge")
    if spec.key and not _lower(owned) <= _lower(spec.key):
        part = ", ".join(f"{column}={value}" for column, value in owned.items())
        raise ConfigError(
            f"{spec.name} is keyed by {by}, which may stand outside of {part}, too: write the partition "
            "by keyed_idempotency.upsert_keyed, or declare its column as part of the key"
        )


def repeated(spec: TableSpec, kept: str) -> dict[str, str]:
    """Map :data:`REPEATED` to SQL for missing or repeated keys of ``kept`` rows; empty without a key."""
    if not spec.key:
        return {}
    keys = [identifier(key) for key in spec.key]
    missing = " OR ".join(f"{key} IS NULL" for key in keys)
    same = f"count(CASE WHEN {kept} THEN 1 END) OVER (PARTITION BY {', '.join(keys)})"
    return {REPEATED: f"{missing} OR {same} > 1"}


def require_free(spec: TableSpec, merge: Merge, elsewhere: DataFrame, source: DataFrame) -> None:
    """Refuse keys of a source that rows outside of the owned partition have; runs a job.

    Raises:
        AmbiguousKeys: names keys, and where they stand.
    """
    same = " AND ".join(f"t.{identifier(key)} <=> s.{identifier(key)}" for key in merge.keys)
    met = elsewhere.alias("t").join(source.alias("s"), F.expr(same), "left_semi")
    shown = [c for c in dict.fromkeys([*spec.key, *spec.partition_by]) if spec.columns[c].shows("sample")]
    found = [row.asDict() for row in met.select(*map(identifier, shown)).limit(_SAMPLES).collect()]
    if found:
        raise AmbiguousKeys(
            f"{spec.name}: rows outside of {slice_name(merge.owned)} have keys of the source already, which would be "
            f"there twice; nothing was changed. For example {found}: remove them there, or write without partition="
        )


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
