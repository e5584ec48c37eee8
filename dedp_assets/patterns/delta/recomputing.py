"""Rows of some keys, computed anew: all that a table holds of them make place for what they and a source add up to.

Unlike a merge it is about several rows of a key at once. The present rows are read at the version that the change is
published on: if another writer changes them meanwhile, everything is computed again from what is there then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import digest, evaluated_once, require_columns, row_hash
from dedp_assets.patterns.delta.definition import conform
from dedp_assets.patterns.delta.log import KeyedFile, TableState
from dedp_assets.patterns.delta.merging import is_small, touched
from dedp_assets.patterns.delta.pruning import Bounds, candidates
from dedp_assets.patterns.delta.reading import read_files
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
    bounds = [F.expr(f"struct(min({name}), max({name}))").alias(f"b{n}") for n, name in enumerate(names)]
    found = source.agg(
        F.expr("count(1)").alias("rows"),
        F.expr(digest(row_hash(source.schema.fields))).alias("digest"),
        F.expr(f"count_if({' OR '.join(f'{name} IS NULL' for name in names)})").alias("nulls"),
        *bounds,
    ).collect()[0]
    if found["nulls"]:
        raise AmbiguousKeys(
            f"{table}: {found['nulls']} of {found['rows']} rows have NULL in {', '.join(keys)}, so nobody knows what "
            "they are about; nothing was changed"
        )
    by_key = {key: Bounds(*found[f"b{n}"]) for n, key in enumerate(keys)}
    return Looked(found["rows"], found["digest"] or "", by_key)


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
        small = is_small(files, self.looked.rows) or not files
        # In one partition nothing is shuffled, and each shuffle costs a job of its own.
        source = self.rows.coalesce(1) if small else self.rows
        named = source.select(*map(identifier, self.keys)).distinct().withColumn(_NAMED, F.lit(True))  # noqa: FBT003
        if files and not small:
            rows = read_files(self._session, self.store, state, files, named=True)
            files = touched(self.store, files, rows.join(named, list(self.keys), "left_semi"))
        rows = read_files(self._session, self.store, state, files)
        columns = [*map(identifier, rows.columns)]
        rows = rows.coalesce(1) if small else rows
        marked = rows.join(named.hint("shuffle_hash") if small else named, list(self.keys), "left")
        found = marked.filter(_NAMED).select(*columns)
        with nullcontext(found) if small else evaluated_once(found) as present:
            computed = self.compute(present, source)
            conform(self.store.name, Split.of(computed), "valid", state)
            new = self._outcomes(present, computed)
            others = marked.filter(f"{_NAMED} IS NULL").select(*columns, F.lit("kept").alias(OUTCOME))
            both = new.unionByName(others) if files else new
            yield Rewrite(files, both.coalesce(1) if small else both)

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
