"""Merge: the files with rows to change, and the outcome of every row.

The source is computed once and looked at once (how many rows, which, their keys' bounds, no key twice). Where the files
that may hold its keys are few and small, they are rewritten without a further look; otherwise one job finds those that
really hold a row to change. A row of the table and a row of the source meet by the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.errors import AmbiguousKeys, ContractError
from dedp_assets.patterns.core.keys import without_key
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier
from dedp_assets.patterns.core.rows import digest, evaluated_once, row_hash
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.partitions import equals
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.merge.clauses import IN_SOURCE, IN_TABLE, TAKEN, Delete, Insert, Merge
from dedp_assets.patterns.delta.merge.declared_keys import require_free
from dedp_assets.patterns.delta.rows.row_change import Rewrite
from dedp_assets.patterns.delta.rows.touched_files import is_small, touched
from dedp_assets.patterns.delta.snapshots.places import FILE, PLACES
from dedp_assets.patterns.delta.snapshots.pruning import Bounds, candidates, inside
from dedp_assets.patterns.delta.snapshots.reading import read_files
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["MergeProfile", "Merging", "profile_merge"]


_SAMPLES = 3


_ALONE = -1
"""Place of what becomes of a row that meets no row of a source which is all that its partition holds."""


@dataclass(frozen=True, slots=True)
class MergeProfile:
    """Facts about a source from one job: row count, digest, key bounds, rows outside the partition.

    Attributes:
        rows: how many rows it has.
        digest: an order-free digest of them.
        keys: the bounds of the key columns.
        outside: rows that do not lie in the partition which the merge owns, where clauses take columns as they are.
    """

    rows: int
    digest: str
    keys: Mapping[str, Bounds]
    outside: int = 0


def profile_merge(spec: TableSpec, merge: Merge, source: DataFrame, state: TableState) -> MergeProfile:
    """Compute row count, digest and key bounds of a source in one job, and validate the rows.

    Raises:
        AmbiguousKeys: if two of its rows have the same key, or one has no key that the table declares.
        ContractError: if a row is unusable.
    """
    keys = [identifier(key) for key in merge.keys]
    known = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    counted = f"count(DISTINCT struct({', '.join(keys)}))" if merge.null_keys else f"count(DISTINCT {', '.join(keys)})"
    owned = merge.owned if merge.takes_columns else {}
    outside = [f"NOT ({equals(c, v, state.kinds[c])})" for c, v in owned.items()]
    found = source.agg(
        F.expr("count(1)").alias("rows"),
        F.expr(digest(row_hash(source.schema.fields))).alias("digest"),
        F.expr("count(1)" if merge.null_keys else f"count_if({known})").alias("keyed"),
        F.expr(counted).alias("keys"),
        F.expr(f"count_if({' OR '.join(outside) or 'false'})").alias("outside"),
        *[
            F.expr(f"struct(min({key}), max({key}), count_if({key} IS NULL))").alias(f"b{n}")
            for n, key in enumerate(keys)
        ],
        *[F.expr(f"count_if({fault})").alias(f"u{n}") for n, fault in enumerate(merge.unusable.values())],
    ).collect()[0]
    if faulty := {what: found[f"u{n}"] for n, what in enumerate(merge.unusable) if found[f"u{n}"]}:
        raise _unusable(spec, merge, source, faulty)
    if found["keyed"] != found["keys"]:
        raise _ambiguous(spec, merge, source)
    if merge.declared and found["keyed"] < found["rows"]:
        raise without_key(spec.name, merge.keys, found["rows"] - found["keyed"], found["rows"])
    bounds = [found[f"b{n}"] for n in range(len(keys))]
    nulls = [merge.null_keys and bool(b[2]) for b in bounds]
    by_key = {key: Bounds(b[0], b[1], null) for key, b, null in zip(merge.keys, bounds, nulls, strict=True)}
    return MergeProfile(found["rows"], found["digest"] or "", by_key, found["outside"])


@dataclass(frozen=True)
class Merging:
    """A merge of a source into a table.

    Attributes:
        merge: what is asked for.
        rows: the source, computed once.
        seen: what a look at it told.
        statement: the merge as SQL.
        store: the table's.
        spec: the table's declaration.
    """

    merge: Merge
    rows: DataFrame
    seen: MergeProfile
    statement: str
    store: Store
    spec: TableSpec
    operation: str = field(default="MERGE", init=False)

    @property
    def content(self) -> str:
        """Description of the merge, with row count and digest of the source."""
        return f"{self.statement} with {self.seen.rows} rows {self.seen.digest}"

    @property
    def source(self) -> int | None:
        """The number of rows of the source."""
        return self.seen.rows

    def candidates(self, state: TableState) -> list[KeyedFile]:
        """List the files that may hold a key of the source, and all files of a partition replaced whole."""
        owned = {} if self.merge.reaches_out else self.merge.owned
        held = candidates(state, owned, self.seen.keys) if self.seen.rows else []
        if not self.merge.whole:
            return held
        return [*inside(state, self.merge.owned), *(pair for pair in held if not self._owns(pair))]

    @contextmanager
    def plan(self, state: TableState, files: Sequence[KeyedFile], *, placed: bool) -> Iterator[Rewrite]:
        """Plan the rewrite: small files whole, otherwise the files with a row that a clause takes."""
        self._require_free([pair for pair in files if not self._owns(pair)], state)
        files = [pair for pair in files if self._owns(pair)]
        changes = bool(self.merge.matched) or self.merge.whole
        if placed:
            with evaluated_once(self._met(state, files)) as met:
                changed = met.select(*map(identifier, state.columns), OUTCOME, *PLACES)
                new = self._unmatched(state, met.filter(IN_SOURCE))
                yield Rewrite(files, changed.unionByName(new, allowMissingColumns=True), placed=True)
            return
        # A deletion leaves each file alone that holds none of the rows, whatever a look at that costs.
        if changes and not self.merge.only_deletes and is_small(files, self.seen.rows):
            yield Rewrite(files, self._together(state, files))
            return
        with evaluated_once(self._pairs(state, files)) as pairs:
            removed: Sequence[KeyedFile] = []
            if changes and files:
                removed = touched(self.store, files, pairs.filter(TAKEN))
            new = self._unmatched(state, pairs.filter(IN_SOURCE))
            yield Rewrite(removed, self._matched(state, removed).unionByName(new) if removed else new)

    def _owns(self, pair: KeyedFile) -> bool:
        return self.merge.owned.items() <= dict(pair[1]).items()

    def _require_free(self, files: Sequence[KeyedFile], state: TableState) -> None:
        """Refuse keys of the source that rows of other partitions have."""
        if files:
            require_free(self.spec, self.merge, read_files(self._session, self.store, state, files), self.rows)

    @cached_property
    def _session(self) -> SparkSession:
        return self.rows.sparkSession

    def _source(self) -> DataFrame:
        return self.rows.withColumn(IN_SOURCE, F.lit(True)).alias("s")  # noqa: FBT003

    def _target(self, state: TableState, files: Sequence[KeyedFile]) -> DataFrame:
        rows = read_files(self._session, self.store, state, files)
        return rows.withColumn(IN_TABLE, F.lit(True)).alias("t")  # noqa: FBT003

    def _pairs(self, state: TableState, files: Sequence[KeyedFile]) -> DataFrame:
        """Join table rows with matching source keys: keys, file, and whether a clause takes the row."""
        target = read_files(self._session, self.store, state, files, named=True).alias("t")
        taken = f"{self._matching} IS NOT NULL AS {TAKEN}"
        joined = target.join(self._source(), F.expr(self.merge.condition), self._meeting)
        return joined.selectExpr(*self._met_keys, f"t.{FILE}", taken)

    def _met(self, state: TableState, files: Sequence[KeyedFile]) -> DataFrame:
        """Return the table rows that meet a source row, with places, outcomes and keys of the source.

        Of a source that is all that the partition holds, the table rows that meet none, too.
        """
        target = read_files(self._session, self.store, state, files, placed=True).alias("t")
        joined = target.join(self._source(), F.expr(self.merge.condition), self._meeting)
        taken = joined.withColumn(TAKEN, F.expr(self._matching))
        also = [*self._met_keys, *[f"t.{name}" for name in PLACES]]
        return self._outcomes(state, taken, self.merge.matched, "'kept'", also=also)

    @property
    def _meeting(self) -> str:
        return "left" if self.merge.whole else "inner"

    @property
    def _met_keys(self) -> list[str]:
        """Write the select list of the source's keys, and of a flag for rows that the source has."""
        keys = [f"s.{identifier(key)} AS {_key(n)}" for n, key in enumerate(self.merge.keys)]
        return [*keys, f"coalesce({IN_SOURCE}, false) AS {IN_SOURCE}"]

    @property
    def _matching(self) -> str:
        """Write SQL for the position of the clause that takes a table row, -1 for a deletion; NULL if none."""
        alone = _ALONE if self.merge.whole else "NULL"
        return f"CASE WHEN {IN_SOURCE} IS NULL THEN {alone} ELSE {self.merge.taken(self.merge.matched)} END"

    def _together(self, state: TableState, files: Sequence[KeyedFile]) -> DataFrame:
        """Return all rows of both sides with outcomes, joined in one task."""
        source = self._source().coalesce(1).hint("shuffle_hash").alias("s")
        joined = self._target(state, files).coalesce(1).alias("t").join(source, F.expr(self.merge.condition), "full")
        taken = f"CASE WHEN {IN_TABLE} IS NULL THEN {self.merge.taken(self.merge.inserts)} ELSE {self._matching} END"
        rest = f"if({IN_TABLE} IS NULL, 'unused', 'kept')"
        return self._outcomes(state, joined.withColumn(TAKEN, F.expr(taken)), range(len(self.merge.clauses)), rest)

    def _matched(self, state: TableState, files: Sequence[KeyedFile]) -> DataFrame:
        """Return all rows of ``files`` with outcomes."""
        joined = self._target(state, files).join(self._source(), F.expr(self.merge.condition), "left")
        taken = joined.withColumn(TAKEN, F.expr(self._matching))
        return self._outcomes(state, taken, self.merge.matched, "'kept'")

    def _unmatched(self, state: TableState, pairs: DataFrame) -> DataFrame:
        """Return the source rows without a matching table row, with outcomes."""
        same = [f"s.{identifier(key)} <=> {_key(n)}" for n, key in enumerate(self.merge.keys)]
        rest = self._source().join(pairs, F.expr(" AND ".join(same)), "left_anti").alias("s")
        taken = rest.withColumn(TAKEN, F.expr(self.merge.taken(self.merge.inserts)))
        return self._outcomes(state, taken, self.merge.inserts, "'unused'", table=False)

    def _outcomes(
        self,
        state: TableState,
        rows: DataFrame,
        numbers: Sequence[int] | Mapping[int, Any],
        rest: str,
        *,
        table: bool = True,
        also: Sequence[str] = (),
    ) -> DataFrame:
        """Select the table's columns after the clauses at ``numbers``, the outcome of each row, and ``also``."""
        columns = list(state.columns)
        types = StructType.fromJson({"type": "struct", "fields": list(state.columns.values())})
        given = {number: self.merge.assigned(number, columns) for number in numbers}
        values = []
        for column in columns:
            kind = types[column].dataType
            value = F.col(f"t.{identifier(column)}") if table else F.lit(None).cast(kind)
            case: Any = F
            for number, sql in given.items():
                if column in sql:
                    case = case.when(F.col(TAKEN) == number, F.expr(sql[column]).cast(kind))
            values.append((value if case is F else case.otherwise(value)).alias(column))
        return rows.select(*values, F.expr(self._outcome(given, rest)).alias(OUTCOME), *map(F.expr, also))

    def _outcome(self, numbers: Mapping[int, Any], rest: str) -> str:
        names = {Insert: "inserted", Delete: "deleted"}
        branches = [f"WHEN {n} THEN '{names.get(type(self.merge.clauses[n]), 'updated')}'" for n in numbers]
        branches += [f"WHEN {_ALONE} THEN 'deleted'"] if self.merge.whole else []
        return f"CASE {TAKEN} {' '.join(branches)} ELSE {rest} END" if branches else rest


def _key(number: int) -> str:
    return f"{RESERVED}key_{number}"


def _unusable(spec: TableSpec, merge: Merge, source: DataFrame, faulty: Mapping[str, int]) -> ContractError:
    problems = ", ".join(f"{count} rows of the source with {what}" for what, count in faulty.items())
    at_fault = source.filter(" OR ".join(f"({merge.unusable[what]})" for what in faulty))
    quiet = spec.withheld("sample")
    shown = [identifier(c) for c in source.columns if c not in quiet]
    samples = [row.asDict() for row in at_fault.select(*shown).limit(_SAMPLES).collect()]
    return ContractError(
        f"{spec.name}: {problems}: nothing was changed. For example {samples}: mend or divert them before"
    )


def _ambiguous(spec: TableSpec, merge: Merge, source: DataFrame) -> AmbiguousKeys:
    rows = f"{RESERVED}rows"
    known = " AND ".join(f"{identifier(key)} IS NOT NULL" for key in merge.keys)
    repeated = source if merge.null_keys else source.filter(known)
    repeated = repeated.groupBy(*[F.col(identifier(key)) for key in merge.keys]).agg(F.count("*").alias(rows))
    repeated = repeated.filter(f"{rows} > 1").orderBy(F.desc(rows))
    quiet = spec.withheld("sample")
    shown = [key for key in merge.keys if key not in quiet]
    found = [row.asDict() for row in repeated.select(*map(identifier, shown), rows).limit(_SAMPLES).collect()]
    samples = [
        f"{', '.join(f'{key}={row[key]}' for key in shown) or 'a personal key'} ({row[rows]} rows)" for row in found
    ]
    return AmbiguousKeys(
        f"{spec.name}: the source has several rows for one key, and nothing says which to take; nothing was changed. "
        f"For example {'; '.join(samples)}: keep one row for each {', '.join(merge.keys)}"
    )
