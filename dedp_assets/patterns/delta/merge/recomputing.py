"""Recomputing: replacement of all rows of some keys by rows computed from old and new rows.

Unlike a merge it is about several rows of a key at once. The present rows are read at the version that the change is
published on: if another writer changes them meanwhile, everything is computed again from what is there then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, require_columns
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import without_key
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier
from dedp_assets.patterns.core.rows import digest, evaluated_once, row_hash
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.rows.row_change import Rewrite
from dedp_assets.patterns.delta.rows.touched_files import SMALL_ROWS, files_at, is_small
from dedp_assets.patterns.delta.snapshots.definition import conformed
from dedp_assets.patterns.delta.snapshots.places import FILE, PLACES
from dedp_assets.patterns.delta.snapshots.pruning import Bounds, candidates
from dedp_assets.patterns.delta.snapshots.reading import read_files
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["Compute", "Recomputing", "profile_keys"]

Compute = Callable[[DataFrame, DataFrame], DataFrame]
"""The present rows of some keys, and the source's -> all rows that these keys shall have."""

_HASH, _BODY, _READ = f"{RESERVED}row_hash", f"{RESERVED}body", f"{RESERVED}read"


@dataclass(frozen=True, slots=True)
class KeyProfile:
    """Facts about a source from one job: row count, digest, key bounds.

    Attributes:
        rows: how many rows it has.
        digest: an order-free digest of them.
        keys: the bounds of the key columns.
    """

    rows: int
    digest: str
    keys: Mapping[str, Bounds]


def profile_keys(table: str, source: DataFrame, keys: Sequence[str]) -> KeyProfile:
    """Compute row count, digest and key bounds of a source in one job.

    Raises:
        ConfigError: without keys, or for a key that is no column of the source.
        AmbiguousKeys: if a key is NULL in a row of it.
    """
    if not keys:
        raise ConfigError(f"{table}: name the columns (keys=) that say which rows belong together")
    require_columns(source, keys, COMPARED)
    names = [identifier(key) for key in keys]
    # These decide which files are read, so they are rows of a result: observed figures may be lost.
    found = source.agg(
        F.expr("count(1)").alias("rows"),
        F.expr(digest(row_hash(source.schema.fields))).alias("digest"),
        F.expr(f"count_if({' OR '.join(f'{name} IS NULL' for name in names)})").alias("nulls"),
        *[F.expr(f"struct(min({name}), max({name}))").alias(f"b{n}") for n, name in enumerate(names)],
    ).collect()[0]
    if found["nulls"]:
        raise without_key(table, keys, found["nulls"], found["rows"])
    by_key = {key: Bounds(*found[f"b{n}"]) for n, key in enumerate(keys)}
    return KeyProfile(found["rows"], found["digest"] or "", by_key)


@dataclass(frozen=True, slots=True)
class _RecomputeInput:
    """Input of a recomputation: source rows, present rows, files to rewrite.

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
        profile: row count, digest and key bounds of the source.
        store: the table's.
        aside: columns in which a row may differ and say the same to who reads it.
    """

    keys: Sequence[str]
    identity: Sequence[str]
    rows: DataFrame
    compute: Compute
    profile: KeyProfile
    store: Store
    aside: Sequence[str] = ()
    operation: str = field(default="MERGE", init=False)
    source: int | None = field(default=None, init=False)

    @property
    def content(self) -> str:
        """The keys and the source."""
        return f"rows of {', '.join(self.keys)} from {self.profile.rows} rows {self.profile.digest}"

    def candidates(self, state: TableState) -> list[KeyedFile]:
        """List the files that may hold a key of the source."""
        return candidates(state, {}, self.profile.keys) if self.profile.rows else []

    @contextmanager
    def plan(self, state: TableState, files: Sequence[KeyedFile], *, placed: bool) -> Iterator[Rewrite]:
        """Plan the rewrite: small files whole, in one task, otherwise the files with a key of the source."""
        small = is_small(files, self.profile.rows) if files else self.profile.rows <= SMALL_ROWS
        with (self._of_small if small else self._of_touched)(state, files, placed=placed) as found:
            computed = self.compute(found.present.drop(*PLACES), found.source)
            computed = conformed(self.store.name, computed, state)
            others = found.others if found.files and not placed else None
            outcomes = self._outcomes(found.present, computed)
            yield Rewrite(found.files, outcomes, others, in_one_task=small, placed=placed)

    @contextmanager
    def _of_small(self, state: TableState, files: Sequence[KeyedFile], *, placed: bool) -> Iterator[_RecomputeInput]:
        """Read small files in one task, without a shuffle.

        Reading small files again costs less than keeping the rows.
        """
        rows = read_files(self._session, self.store, state, files, placed=placed)
        source = self.rows.coalesce(1)
        # Spark would move the joins below the one task, and shuffle for them. Below what is observed it moves nothing.
        rows = rows.coalesce(1).observe(_READ, F.expr("count(1)"))
        yield self._found(files, source, rows, source.select(*self._keys).hint("shuffle_hash"))

    @contextmanager
    def _of_touched(self, state: TableState, files: Sequence[KeyedFile], *, placed: bool) -> Iterator[_RecomputeInput]:
        """Find the files with a key of the source, and keep the rows of the source's keys."""
        few = self.profile.rows <= SMALL_ROWS
        named = self.rows.select(*self._keys)
        named = named.hint("broadcast") if few else named
        hits: Mapping[str, Any] | Row = {"files": (), "rows": 0}
        if files:
            held = read_files(self._session, self.store, state, files, named=True).select(FILE, *self._keys)
            held = held.join(named, list(self.keys), "left_semi")
            hits = held.agg(F.expr(f"collect_set({FILE})").alias("files"), F.expr("count(1)").alias("rows")).collect()[
                0
            ]
        files = files_at(self.store, files, hits["files"])
        rows = read_files(self._session, self.store, state, files, placed=placed)
        found = self._found(files, self.rows, rows, named)
        if self.profile.rows + hits["rows"] <= SMALL_ROWS:
            found = replace(found, source=found.source.coalesce(1), present=found.present.coalesce(1))
        with evaluated_once(found.present) as present:
            yield replace(found, present=present)

    def _found(
        self, files: Sequence[KeyedFile], source: DataFrame, rows: DataFrame, named: DataFrame
    ) -> _RecomputeInput:
        present, others = (rows.join(named, list(self.keys), how) for how in ("left_semi", "left_anti"))
        return _RecomputeInput(files, source, present, others)

    @property
    def _keys(self) -> list[str]:
        return [*map(identifier, self.keys)]

    @property
    def _session(self) -> SparkSession:
        return self.rows.sparkSession

    def _outcomes(self, present: DataFrame, new: DataFrame) -> DataFrame:
        """Return the rows of both sides with outcomes."""
        fields = [field for field in present.schema.fields if field.name not in PLACES]
        columns = [identifier(field.name) for field in fields]
        places = [name for name in PLACES if name in present.columns]
        tracked = row_hash([field for field in fields if field.name not in self.aside]) if self.aside else "NULL"
        hashed = [*columns, f"{row_hash(fields)} AS {_HASH}", f"{tracked} AS {_BODY}"]
        before = present.selectExpr(*hashed, *places).alias("t")
        after = new.selectExpr(*hashed).hint("shuffle_hash").alias("s")
        same = " AND ".join(f"t.{c} = s.{c}" for c in map(identifier, self.identity))
        outcome = (
            f"CASE WHEN t.{_HASH} IS NULL THEN 'inserted' WHEN s.{_HASH} IS NULL THEN 'deleted' "
            f"WHEN s.{_HASH} = t.{_HASH} THEN 'kept' WHEN s.{_BODY} = t.{_BODY} THEN 'confirmed' ELSE 'updated' END "
            f"AS {OUTCOME}"
        )
        values = [f"if(s.{_HASH} IS NULL, t.{c}, s.{c}) AS {c}" for c in columns]
        return before.join(after, F.expr(same), "full").selectExpr(*values, outcome, *places)
