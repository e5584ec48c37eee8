"""Comparison of a PostgreSQL table and a captured copy, without interruption of either.

Both sides are read as of one position of the log, less the keys that changed between the copy's position and that one.
Each side counts its rows and sums up their hashes by range of hashed keys, so that a range is the same one on both
sides whatever the key's type and its order. Only of ranges that differ are the rows compared.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors import postgres
from dedp_assets.patterns.connectors.postgres import RESNAPSHOT, PostgresTable
from dedp_assets.patterns.connectors.postgres.pgoutput import Row, position_text
from dedp_assets.patterns.connectors.web.parts import one_row
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta import Table

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["compare_copy"]

_NAME = "copy_equals_its_source"
_DIGITS = 3  # of a key's hash that make a range: 4,096 of them
_LOOKED_INTO = 4  # ranges that differ of which the rows are compared
_SHOWN = 5
_MOST_CHANGED = 10_000
# Type -> the canonical text of a value: in PostgreSQL of the text that it logs, and in Spark of the value made of it.
_TEXTS: Mapping[str, tuple[str, str]] = {
    "STRING": ("{}", "{}"),
    "BOOLEAN": ("{}", "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END"),
    "BINARY": ("substr({}, 3)", "lower(hex({}))"),
    "DATE": ("(({})::date)::text", "ltrim('+', CAST({} AS STRING))"),
    "TIMESTAMP": (
        "trim_scale(extract(epoch FROM ({})::timestamptz) * 1000000)::text",
        "CAST(unix_micros({}) AS STRING)",
    ),
    "TIMESTAMP_NTZ": (
        "trim_scale(extract(epoch FROM ({})::timestamp) * 1000000)::text",
        "CAST(timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {}) AS STRING)",
    ),
    "DECIMAL": (
        "trim_scale(({})::numeric)::text",
        "if(locate('.', CAST({0} AS STRING)) > 0, regexp_replace(CAST({0} AS STRING), '[.]?0+$', ''), "
        "CAST({0} AS STRING))",
    ),
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INT", "BIGINT"), ("trim_scale(({})::numeric)::text", "CAST({} AS STRING)")
    ),
}
_LOGGED = "CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%%s', {0}) END"
_HASH_OF_COPY = "CAST(sum(CAST(conv(left(md5(r), 15), 16, 10) AS DECIMAL(38,0))) AS STRING)"

Ranges = Mapping[str, tuple[int, int]]
"""Range of hashed keys -> its rows, and the sum of their hashes."""
Key = tuple[str | None, ...]


def compare_copy(source: PostgresTable, copy: Table, history: Table, *, keys: Sequence[str]) -> Finding:
    """Judge whether a captured copy holds the rows of the source table.

    Costs a pass over each side, and another one if they differ; no lock that a writer waits for, and two replication
    slots for as long as it takes.

    Args:
        source: the table and its slot.
        copy: the rows as of the position to which changes were applied.
        history: the changes that were captured.
        keys: the source's primary key.

    Returns:
        Rows, ranges, seconds and bytes read, and of what differs a few keys; no personal value.

    Raises:
        NotReady: if there is no copy yet, or it is too far behind.
        ConfigError: if its key is of a type that has no canonical text.
        ContractError: if the source's values are of other types than the copy declares.
    """
    began = time.monotonic()
    done = copy.ledger.transactions().applied(copy.name, {}) if copy.ledger.exists() else None
    if done is None:
        raise NotReady(f"{copy.name} holds nothing yet: capture {source.name} first")
    if strange := [key for key in keys if _kind(copy.spec, key) not in _TEXTS]:
        raise ConfigError(f"{copy.name}: rows cannot be told apart by {strange[0]}, a {_kind(copy.spec, strange[0])}")
    # In this order the copy's rows are never newer than the position at which the source is read.
    state = copy.ledger.state()
    with postgres.reading_at(source, keys=keys) as (reader, position, table):
        known = tuple(c for c in copy.spec.columns if c in table.columns and _kind(copy.spec, c) in _TEXTS)
        sides = _Sides(reader, copy.read(version=state.version), source, copy.spec, known, tuple(keys))
        changed = sides.hashed(_changed(source, history, keys, since=done, until=position, oid=table.oid))
        of_source, of_copy = sides.of_source(changed), sides.of_copy(changed)
        parts = sorted(part for part in {*of_source, *of_copy} if of_source.get(part) != of_copy.get(part))
        faults = [f"column {c} is not in the source" for c in copy.spec.columns if c not in table.columns]
        faults += [sides.describe(parts[:_LOOKED_INTO], changed)] if parts else []
        asked = reader.execute("SELECT pg_table_size(%s::oid)", (table.oid,)).fetchall()
        (size,) = one_row(asked, (int,), asked=f"{source.name}: its size")
    passes = 2 if parts else 1
    figures = {
        "rows": sum(rows for rows, _ in of_copy.values()),
        "rows_of_the_source": sum(rows for rows, _ in of_source.values()),
        "keys_left_out": len(changed),
        "ranges": len({*of_source, *of_copy}),
        "differing_ranges": len(parts),
        "columns_not_compared": ", ".join(sorted({*copy.spec.columns} - {*known})),
        "position": position_text(position),
        "bytes_read": passes * (size + sum(file["size_bytes"] for file in state.files())),
        "seconds": round(time.monotonic() - began, 3),
    }
    note = f"{copy.name} differs from {source.name} as of {position_text(position)}: {'; '.join(faults)}; {RESNAPSHOT}"
    return Finding(_NAME, passed=not faults, figures=figures, note=note if faults else "")


def _changed(
    source: PostgresTable, history: Table, keys: Sequence[str], *, since: int, until: int, oid: int
) -> set[Key]:
    """Find the keys that changed between two positions, in the uncaptured log and in the history."""
    images: list[Row] = []
    with postgres.connected(source) as connection:
        slot = postgres.slot_state(connection, source)
        # Of a lost slot nothing can be read: what was not captured then counts as a difference, as it is one.
        if slot is not None and slot.status != "lost":
            copied = f"{source.slot}_behind"  # reading a copy stops no capture
            connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s, true)", (source.slot, copied))
            read = postgres.peek(connection, source, until=until, limit=_MOST_CHANGED, oid=oid, slot=copied)
            changes = [change for found in read for change in found.changes if change.operation != "schema"]
            _require_near(source, len(changes), any(change.operation == "truncate" for change in changes))
            images += [image for change in changes for image in (change.before, change.after) if image is not None]
    # Read behind the log: what a capture took from there meanwhile is found here.
    if (history.ledger.transactions().applied(history.name, {}) or 0) > since:
        rows = history.read().filter(f"commit_lsn > {since}").select("key", "before", "after")
        captured = rows.limit(_MOST_CHANGED).collect()
        _require_near(source, len(captured), any(row["key"] is None for row in captured))
        images += [json.loads(row[image]) for row in captured for image in ("before", "after") if row[image]]
    images = [image for image in images if image.keys() >= {*keys}]
    return {tuple(image[key] for key in keys) for image in images}


def _require_near(source: PostgresTable, changes: int, emptied: bool) -> None:  # noqa: FBT001 - what was found
    if emptied or changes >= _MOST_CHANGED:
        what = "was emptied" if emptied else f"had {changes} changes"
        raise NotReady(f"{source.name} {what} since its copy was brought up to it: capture it, then compare")


@dataclass(frozen=True, slots=True)
class _Side:
    """A row of either side: key, and text of each column."""

    key: Key
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both sides, read by the same columns."""

    reader: psycopg.Connection[Any]
    rows: DataFrame
    source: PostgresTable
    spec: TableSpec
    columns: tuple[str, ...]
    keys: tuple[str, ...]

    def hashed(self, keys: set[Key]) -> list[str]:
        """Return the hashes of keys that are texts of the log."""
        if not keys:
            return []
        names = [sql.Identifier(f"k{number}") for number in range(len(self.keys))]
        texts = [
            sql.SQL(_text(self._canonical(key)[0], "{0}")).format(n) for key, n in zip(self.keys, names, strict=True)
        ]
        query = sql.SQL("SELECT DISTINCT md5({}) FROM unnest({}) AS t({})").format(
            sql.SQL(" || ").join(texts),
            sql.SQL(", ").join([sql.SQL("%s::text[]")] * len(names)),
            sql.SQL(", ").join(names),
        )
        return [found for (found,) in self._asked(1, query, *[list(column) for column in zip(*keys, strict=True)])]

    def of_source(self, changed: Sequence[str]) -> Ranges:
        """Return row count and hash sum of the source, by range of hashed keys."""
        key, row = (sql.SQL(" || ").join(self._of_source(names)) for names in (self.keys, self.columns))
        query = sql.SQL(
            "SELECT left(k, {}), count(*), sum(('x' || left(md5(r), 15))::bit(60)::bigint) FROM "
            "(SELECT md5({}) AS k, {} AS r FROM ONLY {}) AS a WHERE NOT k = ANY(%s) GROUP BY 1"
        ).format(_DIGITS, key, row, self.source.identifier)
        return {part: (rows, int(hashed)) for part, rows, hashed in self._asked(3, query, list(changed))}

    def of_copy(self, changed: Sequence[str]) -> Ranges:
        """Return row count and hash sum of the copy, by range of hashed keys."""
        kept = self._of_copy(changed, f"{' || '.join(self._texts(self.columns))} AS r")
        found = kept.groupBy(F.expr(f"left(k, {_DIGITS})").alias("part"))
        summed = found.agg(F.count("*").alias("rows"), F.expr(_HASH_OF_COPY).alias("hash")).collect()
        return {row["part"]: (row["rows"], int(row["hash"])) for row in summed}

    def describe(self, parts: Sequence[str], changed: Sequence[str]) -> str:
        """Describe the differences between source and copy in some ranges, with a few keys."""
        keys, columns = (sql.SQL(", ").join(self._of_source(names)) for names in (self.keys, self.columns))
        query = sql.SQL(
            "SELECT * FROM (SELECT md5(concat({0})) AS k, ARRAY[{0}], ARRAY[{1}] FROM ONLY {2}) AS a "
            "WHERE left(k, {3}) = ANY(%s) AND NOT k = ANY(%s)"
        ).format(keys, columns, self.source.identifier, _DIGITS)
        source_rows = _by_key(self._asked(3, query, list(parts), list(changed)))
        arrays = [f"array({', '.join(self._texts(names))})" for names in (self.keys, self.columns)]
        wanted = f"left(k, {_DIGITS}) IN ({', '.join(map(quoted, parts))})"
        copy_rows = _by_key(self._of_copy(changed, *arrays).filter(wanted).collect())
        kinds: dict[str, list[str]] = defaultdict(list)
        for k in sorted({*source_rows, *copy_rows}):
            for ours, theirs in zip_longest(copy_rows[k], source_rows[k]):
                if ours != theirs:
                    kinds[self._difference(ours, theirs)].append(self._shown(k, ours or theirs))
        examples = [f"{len(found)} rows {kind}, e.g. {', '.join(found[:_SHOWN])}" for kind, found in kinds.items()]
        return "; ".join(examples) + (
            f" (of {len(parts)} ranges, and there may be more)" if parts[_LOOKED_INTO - 1 :] else ""
        )

    def _difference(self, ours: _Side | None, theirs: _Side | None) -> str:
        if ours is None or theirs is None:
            return "are missing in the copy" if ours is None else "are not in the source"
        pairs = zip(self.columns, ours.columns, theirs.columns, strict=True)
        return f"differ in {', '.join(c for c, one, other in pairs if one != other)}"

    def _shown(self, hashed: str, row: _Side) -> str:
        """Return a row's key for display; a prefix of the hash if the key is of a withheld class."""
        if {*self.keys} & {*self.spec.withheld("sample")}:
            return f"a key with md5 {hashed[:8]}..."
        values = [text.split(":", 1)[-1] if text else "NULL" for text in row.key]
        return ", ".join(f"{name}={value}" for name, value in zip(self.keys, values, strict=True))

    def _of_source(self, columns: Sequence[str]) -> list[sql.Composed]:
        return [sql.SQL(_text(self._canonical(c)[0], _LOGGED)).format(sql.Identifier(c)) for c in columns]

    def _of_copy(self, changed: Sequence[str], *more: str) -> DataFrame:
        rows = self.rows.selectExpr(f"md5({' || '.join(self._texts(self.keys))}) AS k", *more)
        return rows.filter(f"k NOT IN ({', '.join(map(quoted, changed))})") if changed else rows

    def _texts(self, columns: Sequence[str]) -> list[str]:
        return [_text(self._canonical(c)[1], identifier(c)) for c in columns]

    def _canonical(self, column: str) -> tuple[str, str]:
        return _TEXTS[_kind(self.spec, column)]

    def _asked(self, width: int, query: sql.Composed, *given: object) -> list[tuple[Any, ...]]:
        try:
            found = self.reader.execute(query, given).fetchall()
        except psycopg.DataError:  # its text holds a value
            raise ContractError(
                f"{self.source.name} holds values of other types than {self.spec.name} declares; {RESNAPSHOT}"
            ) from None
        return [one_row([row], (object,) * width, asked=f"{self.source.name}: a range of it") for row in found]


def _by_key(rows: Iterable[Sequence[Any]]) -> dict[str, list[_Side]]:
    found: dict[str, list[_Side]] = defaultdict(list)
    for hashed, key, columns in rows:
        found[hashed].append(_Side(tuple(key), tuple(columns)))
    for sides in found.values():
        sides.sort(key=lambda side: side.columns)
    return found


def _kind(spec: TableSpec, column: str) -> str:
    """Return a column's declared type without the length."""
    return spec.columns[column].type.split("(")[0].strip().upper()


def _text(canonical: str, value: str) -> Any:  # noqa: ANN401 - SQL of literals, for two readers
    """Return SQL for a value as length-prefixed text, so that concatenations stay unambiguous."""
    text = canonical.format(value)
    return f"coalesce(length({text}) || ':' || ({text}), '-')"
