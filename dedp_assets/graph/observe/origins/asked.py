"""Questions about a partition: partition, row and version that a person named, or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dedp_assets.graph.observe.origins.differences import Differences, Keys, differences_of
from dedp_assets.graph.observe.origins.stored_rows import Row, StoredRows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta import Ledger, TableState, require_partition, version_at

__all__ = ["REFUSED", "Asked", "compared", "row_wanted"]

REFUSED = "refused"
"""Names the refused rows of a partition in place of a version."""

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """A partition of a table at the newest version.

    Attributes:
        key: the partition key; empty for a table without partitions.
        values: the partition, or execution, in the log's spelling.
    """

    table: str
    key: str
    values: Mapping[str, str]
    version: int

    @classmethod
    def of(cls, stored: StoredRows, table: str, key: str) -> Asked:
        """Find the partition with a key.

        Raises:
            ConfigError: without a key where one is needed, and for a key that no commit wrote.
        """
        ledger = stored.origins.lake.ledger(table)
        state, executed = ledger.state(), stored.spec(table).executed_by
        column = executed or next(iter(state.partition_columns), "")
        if not column and key:
            raise ConfigError(f"{table} has no partitions, so leave {key} out: `dedp explain {table}`")
        if not column:
            return cls(table, "", {}, state.version)
        known = _known(ledger, state, column)
        values = _values(table, state, column, key, executed=bool(executed))
        is_written = bool(values) and (state.holds(values) or ledger.latest(values) is not None)
        if not (is_written or (values and stored.origins.refused(table, key))):
            shown = f"such as {', '.join(known[:_EXAMPLES])}" if known else "which has none yet"
            call = f"`dedp explain {table} {known[0]}`" if known else f"`dedp plan {table}`"
            raise ConfigError(f"partition must be one of {table}, {shown}, not {key or 'an empty text'}: {call}")
        return cls(table, key, values, state.version)

    @property
    def name(self) -> str:
        """The table with the partition."""
        return f"{self.table} {slice_name(self.values)}" if self.values else self.table

    def as_dict(self) -> dict[str, Any]:
        """Return the partition as JSON values."""
        return {"table": self.table, "partition": dict(self.values), "version": self.version}


def row_wanted(stored: StoredRows, asked: Asked, texts: Sequence[str]) -> dict[str, str]:
    """Return the column values that name a row.

    Args:
        stored: rows of the lake.
        asked: the partition.
        texts: ``column=value``, or a value alone, of the declared key.

    Raises:
        ConfigError: for a column that is not there, a value alone without a declared key of one column, or a table
            without rows.
    """
    _require_rows(stored, asked)
    columns = {name.lower(): name for name in stored.columns(asked.table)}
    free = [column for column in stored.key(asked.table) if column not in asked.values]
    found = dict[str, str]()
    for text in texts:
        name, stated, value = text.partition("=")
        if stated and name.strip().lower() in columns:
            found[columns[name.strip().lower()]] = value
        elif len(free) == 1 and not stated:
            found[free[0]] = text
        else:
            raise ConfigError(_refusal(stored, asked, text, [*columns.values()], free))
    return found


def compared(stored: StoredRows, asked: Asked, against: str) -> dict[str, Any]:
    """Compare the partition's rows at an earlier version with the present rows, by the declared key.

    Refused rows are compared as the later ones, in whose place they would come.

    Args:
        stored: rows of the lake.
        asked: the partition.
        against: version, instant, milestone, or :data:`REFUSED`.

    Returns:
        ``against``, the version or :data:`REFUSED`, and ``differences``, with keys as the classes of their columns show
        values.

    Raises:
        ConfigError: for a version whose log or files are gone, a table without rows, or missing refused rows.
        NotReady: if there is no such version or milestone.
    """
    table, columns = asked.table, [*stored.columns(asked.table)]
    now = stored.scan(table, [asked.values], asked.version).rows().to_pylist()
    if against == REFUSED:
        # A technical column says of a write when it was, which two writes differ in.
        content = {name.lower() for name in (stored.spec(table).content or columns)}
        before, after = ([_only(row, content) for row in rows] for rows in (now, stored.refused(table, asked.key)))
    else:
        version = version_at(stored.origins.lake.ledger(table), against)
        _require_rows(stored, asked, version)
        before, after = stored.scan(table, [asked.values], version).rows().to_pylist(), now
    found = differences_of(before, after, key=stored.key(table))
    shown = REFUSED if against == REFUSED else version
    return {"against": shown, "differences": _shown(stored, table, found, columns)}


def _only(row: Row, columns: Collection[str]) -> Row:
    return {name: value for name, value in row.items() if name.lower() in columns}


def _shown(stored: StoredRows, table: str, found: Differences, columns: Sequence[str]) -> Differences:
    """Return differences with the keys as texts that the classes of the columns show."""
    names = found.key or tuple(columns)

    def texts(keys: Keys) -> Keys:
        rows = [dict(zip(names, each, strict=False)) for each in keys.keys]
        return Keys(keys.count, tuple(tuple(stored.shown(table, row).values()) for row in rows))

    return replace(
        found,
        came=texts(found.came),
        went=texts(found.went),
        changed=texts(found.changed),
        columns={column: texts(keys) for column, keys in found.columns.items()},
    )


def _require_rows(stored: StoredRows, asked: Asked, *versions: int) -> None:
    """Refuse a table that is empty at the present version and at the further versions."""
    ledger = stored.origins.lake.ledger(asked.table)
    if not any(ledger.state(version).statistics() for version in (asked.version, *versions)):
        raise ConfigError(
            f"{asked.table} has no rows, of which one could be explained: `dedp run {asked.table} {asked.key}`"
        )


def _values(table: str, state: TableState, column: str, key: str, *, executed: bool) -> dict[str, str]:
    """Return the partition of a key; empty for a text that is no value of the column."""
    if executed or not key:
        return {column: key} if key else {}
    with suppress(ConfigError):
        return require_partition(table, state, {column: key})
    return {}


def _known(ledger: Ledger, state: TableState, column: str) -> list[str]:
    """List the newest partition keys."""
    held = {dict(key).get(column) for key in state.statistics()}
    if held - {None}:
        return sorted(filter(None, held), reverse=True)
    written = (commit.record.partition.get(column) for commit in ledger.newest_first() if commit.record)
    return sorted(set(filter(None, written)), reverse=True)


def _refusal(stored: StoredRows, asked: Asked, text: str, columns: Sequence[str], free: Sequence[str]) -> str:
    """Return the sentence that refuses a row, with an example, and the upstream table that has the column."""
    name = text.partition("=")[0]
    example = next(iter([*free, *(c for c in columns if c not in asked.values)]), "")
    call = f"`dedp explain {asked.table} {asked.key} --row {example}=...`".replace("  ", " ")
    if "=" not in text:
        why = f"declares the key {', '.join(free)}" if free else "declares no key"
        return f"row must be COLUMN=VALUE, as {asked.table} {why}, not {text}: {call}"
    table = stored.origins.table(asked.table)
    above = [spec.name for spec in table.reads.upstream if name in spec.columns] if table else []
    where = f"; {above[0]} has it: `dedp explain {above[0]} {asked.key} --row {text}`" if above else f": {call}"
    return f"row must name a column of {asked.table} ({', '.join(columns)}), not {name}{where}"
