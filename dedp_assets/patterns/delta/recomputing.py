"""Rows of some keys, computed anew: all that a table holds of them make place for what they and a source add up to.

Unlike a merge it is about several rows of a key at once. The present rows are read at the version that the change is
published on: if another writer changes them meanwhile, everything is computed again from what is there then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import digest, evaluated_once, measured, require_columns, row_hash
from dedp_assets.patterns.delta.definition import conform
from dedp_assets.patterns.delta.log import KeyedFile, TableState
from dedp_assets.patterns.delta.merging import SMALL_ROWS, files_at, is_small
from dedp_assets.patterns.delta.pruning import Bounds, candidates
from dedp_assets.patterns.delta.reading import FILE, read_files
from dedp_assets.patterns.delta.rewriting import Rewrite
from dedp_assets.patterns.delta.store import Store

__all__ = ["Compute", "Recomputing", "look"]

Compute = Callable[[DataFrame, DataFrame], DataFrame]
"""The present rows of some keys, and the source's -> all rows that these keys shall have."""

_HASH, _NAMED = f"{RESERVED}row_hash", f"{RESERVED}is_named"


@dataclass(frozen=True, slots=True)
class Looked:
    """The facts that one look at a source tells.

    Attributes:
        rows: how many rows it has.
        digest: an order-free digest of them.
        keys: the bounds of the key columns.
    """

    rows: int
    digest: str
    keys: Mapping[str, Bounds]


def look(table: str, source: DataFrame, keys: Sequence[str]) -> Looked:
    """Look at a source once, in one job.

    Raises:
        ConfigError: without keys, or for a key that is no column of the source.
        AmbiguousKeys: if a key is NULL in a row of it.
    """
    if not keys:
        raise ConfigError(f"{table}: name the columns (keys=) that say which rows belong together")
    require_columns(source, keys)
    names = [identifier(key) for key in keys]
    found = measured(
        source,
        {
            "rows": "count(1)",
            "digest": digest(row_hash(source.schema.fields)),
            "nulls": f"count_if({' OR '.join(f'{name} IS NULL' for name in names)})",
            **{f"b{n}": f"struct(min({name}), max({name}))" for n, name in enumerate(names)},
        },
    )
    if found["nulls"]:
        raise AmbiguousKeys(
            f"{table}: {found['nulls']} of {found['rows']} rows have NULL in {', '.join(keys)}, so nobody knows what "
            "they are about; nothing was changed"
        )
    by_key = {key: Bounds(*found[f"b{n}"]) for n, key in enumerate(keys)}
    return Looked(found["rows"], found["digest"] or "", by_key)


@dataclass(frozen=True, slots=True)
class _Found:
    """The rows that a recomputation starts from.

    Attributes:
        files: the table's files that hold a key of the source.
        source: the rows of the source.
        present: the table's rows of these keys.
        others: the other rows of these files.
    """

    files: Sequence[KeyedFile]
    source: DataFrame
    present: DataFrame
    others: DataFrame


@dataclass(frozen=True)
class Recomputing:
    """A change of all rows of the keys that a source names.

    Attributes:
        keys: columns of both sides that say which rows belong together.
        identity: columns by which a row is the same one before and after, keys among them.
        rows: the source, computed once.
        compute: makes the new rows of these keys.
        looked: what a look at the source told.
        store: the table's.
    """

    keys: Sequence[str]
    identity: Sequence[str]
    rows: DataFrame
    compute: Compute
    looked: Looked
    store: Store
    operation: str = field(default="MERGE", init=False)
    source: int | None = field(default=None, init=False)

    @property
    def content(self) -> str:
        """The keys and the source."""
        return f"rows of {', '.join(self.keys)} from {self.looked.rows} rows {self.looked.digest}"

    def candidates(self, state: TableState) -> list[KeyedFile]:
        """List the files that may hold a key of the source."""
        return candidates(state, {}, self.looked.keys) if self.looked.rows else []

    @contextmanager
    def plan(self, state: TableState, files: Sequence[KeyedFile]) -> Iterator[Rewrite]:
        """Rewrite small files as they are; of many or large ones, those with a key of the source."""
        few = is_small(files, self.looked.rows) if files else self.looked.rows <= SMALL_ROWS
        find = self._find_in_one_task if few else self._find_in_touched_files
        with find(state, files) as found:
            computed = self.compute(found.present, found.source)
            conform(self.store.name, Split.of(computed), "valid", state)
            new = self._outcomes(found.present, computed)
            rows = new.unionByName(found.others.withColumn(OUTCOME, F.lit("kept"))) if found.files else new
            yield Rewrite(found.files, rows.coalesce(1) if few else rows)

    @contextmanager
    def _find_in_one_task(self, state: TableState, files: Sequence[KeyedFile]) -> Iterator[_Found]:
        """Read small files once and in one task, so that no join of them has to shuffle."""
        source = self.rows.coalesce(1)
        named = source.select(*self._keys).distinct().withColumn(_NAMED, F.lit(True))  # noqa: FBT003
        rows = read_files(self._session, self.store, state, files)
        columns = [*map(identifier, rows.columns)]
        marked = rows.coalesce(1).join(named.hint("shuffle_hash"), list(self.keys), "left")
        with evaluated_once(marked) as known:
            present, others = (known.filter(f"{_NAMED} IS {which}").select(*columns) for which in ("NOT NULL", "NULL"))
            yield _Found(files, source, present, others)

    @contextmanager
    def _find_in_touched_files(self, state: TableState, files: Sequence[KeyedFile]) -> Iterator[_Found]:
        """Read the rows of the source's keys, and from the files that these lie in the other rows."""
        keys, named = list(self.keys), self.rows.select(*self._keys)
        rows = read_files(self._session, self.store, state, files, named=True)
        columns = [*map(identifier, rows.columns)]
        with evaluated_once(rows.join(named, keys, "left_semi").select(*columns)) as found:
            there = measured(found, {"files": f"collect_set({FILE})", "rows": "count(1)"})
            files = files_at(self.store, files, there["files"])
            others = read_files(self._session, self.store, state, files).select(*columns[:-1])
            others = others.join(named, keys, "left_anti").select(*columns[:-1])
            few = self.looked.rows + there["rows"] <= SMALL_ROWS
            source, present = (each.coalesce(1) if few else each for each in (self.rows, found.drop(FILE)))
            yield _Found(files, source, present, others)

    @property
    def _keys(self) -> list[str]:
        return [*map(identifier, self.keys)]

    @property
    def _session(self) -> SparkSession:
        return self.rows.sparkSession

    def _outcomes(self, present: DataFrame, new: DataFrame) -> DataFrame:
        """Give all rows of either side, each with its outcome."""
        row = F.expr(row_hash(present.schema.fields)).alias(_HASH)
        names = present.columns
        before, after = present.select("*", row).alias("t"), new.select(*map(identifier, names)).select("*", row)
        same = " AND ".join(f"t.{identifier(c)} = s.{identifier(c)}" for c in self.identity)
        joined = before.join(after.alias("s").hint("shuffle_hash"), F.expr(same), "full")
        gone = F.col(f"s.{_HASH}").isNull()
        values: list[Any] = [
            F.when(gone, F.col(f"t.{identifier(c)}")).otherwise(F.col(f"s.{identifier(c)}")).alias(c) for c in names
        ]
        outcome = (
            f"CASE WHEN t.{_HASH} IS NULL THEN 'inserted' WHEN s.{_HASH} IS NULL THEN 'deleted' "
            f"WHEN s.{_HASH} = t.{_HASH} THEN 'kept' ELSE 'updated' END"
        )
        return joined.select(*values, F.expr(outcome).alias(OUTCOME))
