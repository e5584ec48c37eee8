"""Vertical Partitioner: often-read columns and context lie in tables of their own, published together.

Problem: rows mix small columns that every query reads with wide context that few read, repeated in each row and kept as
    long as the rows.
Solution: a primary table with the hot columns, and tables of context by a key that the primary has, too: its own, or a
    hash of the context, which is then stored once. One read of the source; the tables are published as a group.
Consequences: the full picture is a join (`join_parts`). Context expires on its own; its columns are then NULL. The
    tables are written by this pattern only, in whole partitions.
Choose instead: Vertical Partitioner of the security chapter, if columns are apart to be deleted by person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.columns import require_free, require_parts, require_rows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import key_of, require_distinct
from dedp_assets.patterns.core.names import identifier, select_list
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import evaluated_once
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import (
    StagedWrite,
    Table,
    Target,
    apart_from_held,
    group_of,
    publish_together,
    require_partition,
    same_run,
    stage_nothing,
    versions_together,
)

__all__ = ["write_parts", "join_parts", "expire_part"]

_Part = TypeVar("_Part", Table, Target)
_WHOLE = ("byte", "short", "integer", "long")


@typed
def write_parts(
    rows: DataFrame, into: Target, context: Target, other: Target | None = None, *, allow_empty: bool = False
) -> WriteResult:
    """Replace a partition in the primary table and in one or two tables of context, as a group.

    If a table refuses the rows, no table is written. A table takes the columns that it declares. A table of context
    declares the primary's key as its own, and has a row for each row of the primary; or its key is one other column of
    the primary beside those of the partition, and it has a row for each distinct context: the column, of type STRING,
    is filled with the :func:`~dedp_assets.patterns.core.keys.key_of` the context.

    Args:
        rows: all rows of the partition, late ones among them; read once.
        into: target of the primary table, which declares a key that holds its partition columns.
        context: target of a table of context, of the same partition and run.
        other: target of a second table of context, if there is one; the same in every write.
        allow_empty: whether no rows may replace those of the partition, with a warning.

    Returns:
        The write of the primary table, and beside it the others.

    Raises:
        AuditFailed: if there are no rows, an audit refuses them, or a key is NULL or there twice; no table changes.
        ConfigError: for tables that do not declare parts of one row, rows without a declared column or with a column of
            no part, and context under a hash that is of a type without one text for each value.
        Conflict: if somebody else wrote one of the tables.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> of = lambda *names: {name: Column("STRING", required=name != "browser") for name in names}
        >>> visits = table(TableSpec("visits", of("day", "id", "context"), ("day",), key=("day", "id")))
        >>> browsers = table(TableSpec("browsers", of("day", "context", "browser"), ("day",), key=("day", "context")))
        >>> landed = frame("day STRING, id STRING, browser STRING", ("mon", "a", "Lynx"), ("mon", "b", "Lynx"))
        >>> into, context = [each.target(run, partition={"day": "mon"}) for each in (visits, browsers)]
        >>> done = write_parts(landed, into, context)
        >>> rows(browsers.read().select("day", "browser"))
        [('mon', 'Lynx')]
        >>> rows(join_parts(visits, browsers).select("day", "id", "browser"))
        [('mon', 'a', 'Lynx'), ('mon', 'b', 'Lynx')]
    """
    targets = [each.by("storage.vertical_partitioner", "partition", "audits") for each in _given(into, context, other)]
    same_run(*targets)
    specs = [each.table.spec for each in targets]
    hashes = _require_parts(*specs)
    if wrong := [each.name for each in targets if dict(each.partition) != dict(into.partition)]:
        raise ConfigError(f"{wrong[0]} must own the partition of {into.name}, {dict(into.partition)}, not another one")
    _require_columns(rows, specs, hashes.values())
    filled = {
        hashes[spec.name]: key_of(rows, [*map(identifier, _context(spec))]) for spec in specs if spec.name in hashes
    }

    def staged(kept: DataFrame) -> Iterator[StagedWrite]:
        for target in targets:
            spec = target.table.spec
            part = kept.select(*map(identifier, spec.columns))
            part = part.dropDuplicates([*spec.key]) if spec.name in hashes else part
            yield target.with_audits(not_empty(allow_empty=allow_empty)).stage(part)

    listed = {**{column: identifier(column) for column in rows.columns}, **filled}
    with evaluated_once(rows.selectExpr(*select_list(listed))) as kept:
        return publish_together([each.table for each in targets], staged(kept))


@typed
def join_parts(primary: Table, context: Table, other: Table | None = None) -> DataFrame:
    """Join parts back to rows; expired context is NULL; lazy.

    The tables are read at the versions that were published together.

    Args:
        primary: the primary table.
        context: the table of context.
        other: the second table of context, if the parts have one.

    Returns:
        The columns of the primary without those of hashes, then the context.

    Raises:
        ConfigError: for tables that do not declare parts of one row, or were not written together.
        NotReady: if the tables were not published together yet.
    """
    tables = _given(primary, context, other)
    specs = [each.spec for each in tables]
    hashes = _require_parts(*specs)
    versions = versions_together(tables)
    rows = primary.read(version=versions[primary.name])
    for each in tables[1:]:
        rows = rows.join(each.read(version=versions[each.name]), [*each.spec.key], "left")
    shown = dict.fromkeys(column for spec in specs for column in spec.columns if column not in hashes.values())
    return rows.select(*map(identifier, shown))


@typed
def expire_part(into: Target, primary: Table, other: Table | None = None, *, before: str) -> WriteResult:
    """Remove the old partitions of a table of context, without reading a row.

    The other tables stay as they are. A partition that is written again has its context again, until the next time.
    Files stay until a vacuum. Partitions on legal hold stay.

    Args:
        into: target of the table of context, without a partition.
        primary: the primary table.
        other: the other table of context, if the parts have one.
        before: first value of the first partition column that stays, in the spelling of the log, as ``2026-01-01``.

    Returns:
        The last write; ``figures`` say how many partitions expired, and how many are held.

    Raises:
        ConfigError: for tables that do not declare parts of one row, or are not partitioned.
        Conflict: if somebody else wrote one of the tables.
    """
    into, table = into.by("storage.vertical_partitioner"), into.table
    tables = _given(primary, table, other)
    _require_parts(*(each.spec for each in tables))
    if not table.spec.partition_by:
        raise ConfigError(f"{table.name} must be partitioned, to expire by partition, not a table without partitions")
    group_of(tables, {}).go_on()
    state = table.ledger.state()
    column = state.partition_columns[0]
    place: Callable[[Any], Any] = int if state.kinds[column] in _WHOLE else str
    limit = place(require_partition(table.name, state, {column: before})[column])
    values = {key: dict(key)[column] for key in state.statistics()}
    old = [key for key, value in sorted(values.items(), key=str) if value is not None and place(value) < limit]
    free, held = apart_from_held(table.ledger, old)
    reason = held or f"no partition of {table.name} is older than {before}"
    result = WriteResult(table.name, state.version, applied=False, changed=False, reason=reason)
    for key in free:
        owned = require_partition(table.name, state, dict(key))
        result = publish_together(tables, [stage_nothing(table, owned, into.run)])
    figures = {"partitions expired": len(free), "partitions held": len(old) - len(free)}
    return replace(result, figures={**result.figures, **figures})


def _given(*parts: _Part | None) -> list[_Part]:
    return [each for each in parts if each is not None]


def _require_parts(main: TableSpec, *contexts: TableSpec) -> dict[str, str]:
    """Return the hash column of each table that stores a context once, by the table's name."""
    require_distinct("context", [main.name, *(spec.name for spec in contexts)])
    hashes: dict[str, str] = {}
    by, key, taken = {*main.partition_by}, {*main.key}, {*main.columns}
    if not by < key:
        raise ConfigError(f"the key of {main.name} must be its partition columns and more, not {list(main.key)}")
    for spec in contexts:
        own = {*spec.key} - by
        is_hashed = len(own) == 1 and own <= taken - key
        if spec.partition_by != main.partition_by or not by <= {*spec.key} or not (is_hashed or own == key - by):
            raise ConfigError(
                f"{spec.name} must be partitioned as {main.name}, by {list(main.partition_by)}, and have the key "
                f"{list(main.key)}, or one other column of {main.name} in the key beside those of the partition: not "
                f"the partition {list(spec.partition_by)} with the key {list(spec.key)}"
            )
        if twice := [column for column in spec.columns if column not in spec.key and column in taken]:
            raise ConfigError(f"{twice[0]} must be a column of one part, not of {spec.name} and of another one")
        taken |= {*_context(spec)}
        if is_hashed:
            hashes[spec.name] = own.pop()
            _require_text(hashes[spec.name], main, spec)
    return hashes


def _require_text(column: str, *specs: TableSpec) -> None:
    for spec in specs:
        if (kind := spec.columns[column].type).upper() != "STRING":
            raise ConfigError(f"{column} of {spec.name} must be a STRING, to hold a hash, not a {kind}")


def _context(spec: TableSpec) -> list[str]:
    return [column for column in spec.columns if column not in spec.key]


def _require_columns(rows: DataFrame, specs: Sequence[TableSpec], hashes: Iterable[str]) -> None:
    filled = {*hashes}
    wanted = {column for spec in specs for column in spec.columns} - filled
    require_parts(require_free(require_rows("write_parts", rows), *filled), wanted)
